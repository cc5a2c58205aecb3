//===- SchedulePipeline.cpp - programs of a pipeline's ranks --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a step whose ops say which stage they are in, and a schedule, to one
// program a rank.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "Parallelize/StageProblem.h"
#include "Parallelize/StageProgram.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineScheduling.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mpcomm {
#define GEN_PASS_DEF_SCHEDULEPIPELINEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-schedule-pipeline"

using namespace mlir;
using namespace mpcomm;

namespace {

/// A schedule, and what it is called: by PipelineKind, `searched` or `file`.
struct NamedSchedule {
  PipelineSchedule schedule;
  std::string name;
};

struct SchedulePipeline
    : public mpcomm::impl::SchedulePipelinePassBase<SchedulePipeline> {
  using SchedulePipelinePassBase::SchedulePipelinePassBase;

  void runOnOperation() override {
    func::FuncOp step = getTrainStep(getOperation());
    if (!step)
      return signalPassFailure();
    if (failed(schedulePipeline(step)))
      signalPassFailure();
  }

private:
  LogicalResult schedulePipeline(func::FuncOp step);
  FailureOr<MeshOp> extendMesh(int64_t ranks);
  FailureOr<NamedSchedule> choose(StageFunctions &stageFunctions,
                                  int64_t ranks);
  LogicalResult checkPlacement(int64_t stages);
  FailureOr<PipelineSchedule> readFile(int64_t ranks, int stages);
  FailureOr<PipelineCandidate> measure(StageFunctions &stageFunctions,
                                       const PipelineSchedule &shape);
  void explain(func::FuncOp step, StageFunctions &stageFunctions,
               const PipelineSchedule &schedule, const PipelineCandidate &costs,
               int buffers);
  ProgramOp addProgram(StringRef name, ArrayRef<func::FuncOp> functions,
                       const PipelineMesh &mesh, func::FuncOp replaced);
};

} // namespace

/// The pipeline's axis comes first: ranks of one stage are neighbours.
FailureOr<MeshOp> SchedulePipeline::extendMesh(int64_t ranks) {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Operation *symbol = SymbolTable::lookupSymbolIn(module, mesh);
  if (!symbol)
    return MeshOp::create(builder, module.getLoc(), builder.getStringAttr(mesh),
                          builder.getStrArrayAttr({StringRef(axis)}),
                          builder.getDenseI64ArrayAttr({ranks}));
  auto meshOp = dyn_cast<MeshOp>(symbol);
  if (!meshOp)
    return symbol->emitError() << "@" << mesh << " is not a mesh, expected "
                               << "'mpcomm.mesh' or no such symbol";
  if (std::optional<int64_t> present = meshOp.getAxisSize(axis)) {
    if (*present != ranks)
      return meshOp.emitError() << "has " << *present << " ranks along '"
                                << axis << "', expected " << ranks;
    return meshOp;
  }
  if (meshOp.getNumRanks() > INT32_MAX / ranks)
    return meshOp.emitError() << "would have more ranks than 32 bits count "
                              << "with " << ranks << " along '" << axis << "'";
  SmallVector<Attribute> names{builder.getStringAttr(axis)};
  SmallVector<int64_t> sizes{ranks};
  llvm::append_range(names, meshOp.getAxisNames());
  llvm::append_range(sizes, meshOp.getAxisSizes());
  meshOp.setAxisNamesAttr(builder.getArrayAttr(names));
  meshOp.setAxisSizes(sizes);
  return meshOp;
}

template <typename Range> static std::string list(const Range &numbers) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(numbers, stream, ",");
  return text;
}

FailureOr<PipelineSchedule> SchedulePipeline::readFile(int64_t ranks,
                                                       int stages) {
  auto fail = [&](const Twine &what) {
    getOperation().emitError() << scheduleFile << ": " << what;
    return failure();
  };
  auto file = llvm::MemoryBuffer::getFile(scheduleFile, /*IsText=*/true);
  if (!file)
    return fail(file.getError().message());
  PipelineScheduleOr read = parsePipelineSchedule((*file)->getBuffer().str());
  if (!read.error.empty())
    return fail(read.error);
  const PipelineSchedule &schedule = read.schedule;
  if (schedule.stages != ranks || schedule.virtualStages() != stages)
    return fail("schedules " + Twine(schedule.virtualStages()) + " stages on " +
                Twine(schedule.stages) + " ranks, expected " + Twine(stages) +
                " on " + Twine(ranks));
  if (schedule.microbatches != microBatches)
    return fail("schedules " + Twine(schedule.microbatches) +
                " micro-batches, expected " + Twine(int64_t(microBatches)));
  if (!placement.empty() &&
      !llvm::equal(schedule.placement, ArrayRef<int64_t>(placement)))
    return fail("has its stages on ranks " + list(schedule.placement) +
                ", expected placement " + list(placement));
  return schedule;
}

/// Of ranks and micro-batches that are in range.
LogicalResult SchedulePipeline::checkPlacement(int64_t stages) {
  if (placement.empty())
    return success();
  auto fail = [&](const Twine &what) {
    getOperation().emitError()
        << "placement " << list(placement) << ": " << what;
    return failure();
  };
  if (static_cast<int64_t>(placement.size()) != stages)
    return fail("expected a rank for each of " + Twine(stages) + " stages");
  PipelineSchedule shape;
  shape.stages = static_cast<int>(ranks);
  shape.placement.clear();
  for (auto [stage, rank] : llvm::enumerate(placement)) {
    if (rank < 0 || rank >= ranks)
      return fail("stage " + Twine(stage) + " is placed on rank " +
                  Twine(rank) + ", expected ranks from 0 to " +
                  Twine(ranks - 1));
    shape.placement.push_back(static_cast<int>(rank));
  }
  if (std::string wrong = shape.checkShape(); !wrong.empty())
    return fail(wrong);
  return success();
}

/// By rank, what is there all the time: state with what its update keeps, sums
/// of gradients, and of each message two buffers at either end.
static std::vector<int64_t>
countFixedBytes(const StageFunctions &stageFunctions,
                const PipelineSchedule &shape) {
  using mpcomm::detail::countBytes;
  const MicroBatch &micro = stageFunctions.getGraph().getMicroBatch();
  func::FuncOp step = micro.step;
  std::vector<int64_t> bytes(shape.stages);
  auto add = [&](ArrayRef<int> stages, int64_t more) {
    llvm::SmallDenseSet<int> ranks;
    for (int stage : stages)
      if (int rank = shape.rankOf(stage); ranks.insert(rank).second)
        bytes[rank] += more;
  };
  llvm::DenseMap<BlockArgument, int64_t> optimizer = countOptimizerBytes(step);
  for (BlockArgument argument : step.getArguments()) {
    std::optional<Role> role = getArgumentRole(step, argument.getArgNumber());
    if (role && isStateRole(*role))
      add(stageFunctions.getHolders(argument),
          countHeldBytes(step, argument) + optimizer.lookup(argument));
  }
  for (auto [i, sum] : llvm::enumerate(micro.sums))
    add(stageFunctions.getContributors(i), countHeldBytes(step, sum));
  constexpr int64_t buffers = 2;
  for (int edge = 0; edge + 1 < stageFunctions.getNumStages(); ++edge)
    for (bool isBackward : {false, true})
      for (Value value : stageFunctions.getCrossing(edge, isBackward))
        if (!shape.isLocal(edge))
          add({edge, edge + 1}, buffers * countBytes(value.getType()));
  return bytes;
}

/// What the stages' actions take and keep, by the cost model.
FailureOr<PipelineCandidate>
SchedulePipeline::measure(StageFunctions &stageFunctions,
                          const PipelineSchedule &shape) {
  FailureOr<CostModel> model =
      getCostModel(getOperation(), cluster, profileFile);
  if (failed(model))
    return failure();
  FailureOr<StepModel> step =
      StepModel::get(stageFunctions.getGraph().getMicroBatch().step, *model);
  if (failed(step))
    return failure();
  PipelineCandidate found;
  found.microbatches = shape.microbatches;
  found.placement = shape.placement;
  auto seconds = [&](int stage, PipelineActionKind kind) {
    double sum = 0;
    for (Operation *op : stageFunctions.getOps(stage, kind))
      sum += step->getSeconds(op);
    return sum;
  };
  SmallVector<int64_t, 1> sizes{std::max<int64_t>(shape.stages, 2)};
  bool spans = true;
  CostCurve cost = model->getCollective(
      CollectiveKind::Send, getGroupShape(model->getCluster(), sizes, spans));
  auto transfer = [&](int edge, bool isBackward) {
    int64_t bytes = 0;
    for (Value value : stageFunctions.getCrossing(edge, isBackward))
      bytes += mpcomm::detail::countBytes(value.getType());
    return bytes == 0 || shape.isLocal(edge) ? 0 : cost.at(bytes);
  };
  found.memory.fixed = countFixedBytes(stageFunctions, shape);
  for (int s = 0; s < stageFunctions.getNumStages(); ++s) {
    found.costs.stages.push_back(
        {seconds(s, PipelineActionKind::Forward),
         seconds(s, PipelineActionKind::InputBackward),
         seconds(s, PipelineActionKind::WeightBackward)});
    int64_t kept = 0;
    for (Value value :
         stageFunctions.getFunction(s, PipelineActionKind::Forward).outgoing)
      kept += mpcomm::detail::countBytes(value.getType());
    found.memory.activations.push_back(std::max<int64_t>(kept, 1));
    if (s + 1 < stageFunctions.getNumStages()) {
      found.costs.forwardTransfer.push_back(transfer(s, false));
      found.costs.backwardTransfer.push_back(transfer(s, true));
    }
  }
  return found;
}

FailureOr<NamedSchedule>
SchedulePipeline::choose(StageFunctions &stageFunctions, int64_t ranks) {
  int stages = stageFunctions.getNumStages();
  if (!scheduleFile.empty()) {
    FailureOr<PipelineSchedule> read = readFile(ranks, stages);
    if (failed(read))
      return failure();
    return NamedSchedule{std::move(*read), "file"};
  }
  auto fail = [&](const Twine &what) {
    getOperation().emitError() << what;
    return failure();
  };
  if (microBatches < ranks)
    return fail("expected at least as many micro-batches as ranks of the "
                "pipeline, " +
                Twine(ranks) + ", got " + Twine(int64_t(microBatches)));
  PipelineSchedule shape;
  shape.stages = static_cast<int>(ranks);
  shape.microbatches = static_cast<int>(microBatches);
  int chunks = static_cast<int>(stages / ranks);
  SmallVector<PipelinePlacement, 2> placements;
  if (!placement.empty())
    placements.emplace_back(placement.begin(), placement.end());
  else
    placements.push_back(makeLoopPlacement(shape.stages, chunks));
  if (placement.empty() && chunks == 2)
    placements.push_back(makeVPlacement(shape.stages, chunks));
  if (schedule != "auto") {
    std::optional<PipelineKind> kind = parsePipelineKind(schedule);
    if (!kind)
      return fail("cannot schedule '" + schedule +
                  "', expected auto, gpipe, 1f1b, interleaved, zb-h1 or zb-v");
    PipelineScheduleOr made =
        placement.empty()
            ? makePipelineSchedule(*kind, shape.stages, shape.microbatches,
                                   chunks)
            : makePipelineSchedule(*kind, shape.stages, shape.microbatches,
                                   placements.front());
    if (!made.error.empty())
      return fail(
          Twine("schedule ") + made.error +
          (placement.empty() ? "" : "; schedule=auto takes any placement"));
    return NamedSchedule{std::move(made.schedule), schedule};
  }
  PipelineProblem problem;
  problem.stages = static_cast<int>(ranks);
  for (PipelinePlacement &placement : placements) {
    shape.placement = std::move(placement);
    FailureOr<PipelineCandidate> candidate = measure(stageFunctions, shape);
    if (failed(candidate))
      return failure();
    if (memoryBytes > 0)
      candidate->memory.limits.assign(ranks, memoryBytes);
    problem.candidates.push_back(std::move(*candidate));
  }
  PipelineChoice choice = choosePipelineSchedule(problem);
  if (!choice.error.empty())
    return fail(choice.error);
  func::FuncOp step = stageFunctions.getGraph().getMicroBatch().step;
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("Chosen")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("schedule", choice.name)
      << remark::metric(
             "us", llvm::formatv("{0:F1}", choice.timing.seconds * 1e6).str())
      << remark::metric("boundUs",
                        llvm::formatv("{0:F1}", choice.lowerBound * 1e6).str())
      << remark::metric("proven", choice.proven ? "yes" : "no");
  return NamedSchedule{std::move(choice.schedule), std::move(choice.name)};
}

void SchedulePipeline::explain(func::FuncOp step,
                               StageFunctions &stageFunctions,
                               const PipelineSchedule &chosen,
                               const PipelineCandidate &costs, int buffers) {
  int64_t sent = 0;
  for (int edge = 0; edge + 1 < stageFunctions.getNumStages(); ++edge)
    for (bool isBackward : {false, true})
      for (Value value : stageFunctions.getCrossing(edge, isBackward))
        if (!chosen.isLocal(edge))
          sent += mpcomm::detail::countBytes(value.getType());
  PipelineTiming timing = timePipeline(chosen, costs.costs, costs.memory);
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("Pipelined")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("ranks", chosen.stages)
      << remark::metric("stages", stageFunctions.getNumStages())
      << remark::metric("microBatches", chosen.microbatches)
      << remark::metric("channels", chosen.channels())
      << remark::metric("buffers", buffers)
      << remark::metric("sentBytes", sent * chosen.microbatches)
      << remark::metric("us",
                        llvm::formatv("{0:F1}", timing.seconds * 1e6).str())
      << remark::metric("bubble",
                        llvm::formatv("{0:F3}", timing.bubbleShare).str());
}

ProgramOp SchedulePipeline::addProgram(StringRef name,
                                       ArrayRef<func::FuncOp> functions,
                                       const PipelineMesh &mesh,
                                       func::FuncOp replaced) {
  OpBuilder builder(replaced);
  Location loc = replaced.getLoc();
  SmallVector<Attribute> symbols;
  for (func::FuncOp function : functions)
    symbols.push_back(FlatSymbolRefAttr::get(function));
  std::string symbol = name.str();
  Operation *first = functions.front();
  replaced.erase();
  builder.setInsertionPoint(first);
  return ProgramOp::create(builder, loc, builder.getStringAttr(symbol),
                           mesh.mesh, mesh.axes, builder.getArrayAttr(symbols));
}

LogicalResult SchedulePipeline::schedulePipeline(func::FuncOp step) {
  ModuleOp module = getOperation();
  if (microBatches < 1 || microBatches > (1 << 20))
    return module.emitError()
           << "expected a number of micro-batches in [1, " << (1 << 20)
           << "], got " << int64_t(microBatches);
  if (ranks < 1 || ranks > INT16_MAX)
    return module.emitError() << "expected a number of ranks in [1, "
                              << INT16_MAX << "], got " << int64_t(ranks);
  if (axis.empty() || mesh.empty())
    return module.emitError("expected names of the axis and of the mesh that "
                            "are not empty");
  FailureOr<MicroBatch> micro =
      MicroBatch::get(step, microBatches, /*hasStages=*/true);
  if (failed(micro))
    return failure();
  FailureOr<StageGraph> graph = StageGraph::get(*micro);
  if (failed(graph))
    return failure();
  if (graph->hasMetrics())
    return step.emitOpError("has results of role 'loss' after the first, which "
                            "are metrics, expected none where stages are on "
                            "different ranks");
  int64_t stages = 0;
  for (Operation *op : graph->getForward())
    if (auto stage = op->getAttrOfType<IntegerAttr>(kStageAttr))
      stages = std::max(stages, stage.getInt() + 1);
  bool isPlaced = !placement.empty() || !scheduleFile.empty();
  if (stages == 0 || (!isPlaced && stages % ranks != 0))
    return step.emitOpError()
           << "has ops in " << stages << " stages, expected as many on each of "
           << int64_t(ranks) << " ranks, or a placement";
  if (failed(checkPlacement(stages)))
    return failure();
  FailureOr<StageFunctions> stageFunctions =
      StageFunctions::get(*graph, static_cast<int>(stages));
  if (failed(stageFunctions))
    return failure();
  FailureOr<NamedSchedule> named = choose(*stageFunctions, ranks);
  if (failed(named))
    return failure();
  const PipelineSchedule &chosen = named->schedule;
  FailureOr<MeshOp> meshOp = extendMesh(ranks);
  if (failed(meshOp))
    return failure();
  FailureOr<PipelineCandidate> costs = measure(*stageFunctions, chosen);
  if (failed(costs))
    return failure();
  // Two, so that a rank can make the next message while one travels.
  int buffers = std::max(2, chosen.fastBuffers(costs->costs));
  explain(step, *stageFunctions, chosen, *costs, buffers);
  Builder builder(&getContext());
  PipelineMesh pipeline{FlatSymbolRefAttr::get(*meshOp),
                        builder.getStrArrayAttr({StringRef(axis)})};
  auto programs =
      buildStagePrograms(*stageFunctions, chosen, buffers, pipeline);
  if (failed(programs))
    return failure();
  auto evaluate = module.lookupSymbol<func::FuncOp>(kEvaluate);
  if (evaluate && !evaluate.isExternal()) {
    auto evaluations =
        buildEvaluatePrograms(evaluate, *stageFunctions, chosen, pipeline);
    if (failed(evaluations))
      return failure();
    addProgram(kEvaluate, *evaluations, pipeline, evaluate);
  }
  addProgram(kTrainStep, *programs, pipeline, step)
      ->setAttr(kScheduleAttr, builder.getStringAttr(named->name));
  return success();
}
