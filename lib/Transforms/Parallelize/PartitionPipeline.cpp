//===- PartitionPipeline.cpp - which stage each op is in ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Assigns the forward ops of a step to pipeline stages by an exact solver, and
// each backward op to the stage that has what it needs. Nothing moves yet: ops
// carry the number of their stage.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "Parallelize/StageProblem.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

namespace mpcomm {
#define GEN_PASS_DEF_PARTITIONPIPELINEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-partition-pipeline"

using namespace mlir;
using namespace mpcomm;

namespace {

struct PartitionPipeline
    : public mpcomm::impl::PartitionPipelinePassBase<PartitionPipeline> {
  using PartitionPipelinePassBase::PartitionPipelinePassBase;

  void runOnOperation() override {
    func::FuncOp step = getTrainStep(getOperation());
    if (!step)
      return signalPassFailure();
    if (failed(checkOptions()) || failed(partition(step)))
      signalPassFailure();
  }

private:
  LogicalResult checkOptions();
  LogicalResult partition(func::FuncOp step);
  LogicalResult constrain(const StageGraph &graph,
                          StagePartitionProblem &problem);
  LogicalResult constrainByName(const StageGraph &graph, StringRef rule,
                                StagePartitionProblem &problem);
  void setLink(func::FuncOp step, const CostModel &model,
               StagePartitionProblem &problem);
  FailureOr<StagePartition> solve(const StageGraph &graph,
                                  const StagePartitionProblem &problem);
  void annotate(const StageGraph &graph, const std::vector<int> &stages);
  void explain(const StageGraph &graph, const StagePartitionProblem &problem,
               const StagePartition &found);
  void explainEachOp(const StageGraph &graph, StagePartitionProblem problem);
};

} // namespace

static std::string inMicroseconds(double seconds) {
  return llvm::formatv("{0:F1}", seconds * 1e6).str();
}

LogicalResult PartitionPipeline::checkOptions() {
  if (stages < 1 || stages > INT16_MAX)
    return getOperation().emitError()
           << "expected a number of stages in [1, " << INT16_MAX << "], got "
           << int64_t(stages);
  if (microBatches < 1 || microBatches > (1 << 20))
    return getOperation().emitError()
           << "expected a number of micro-batches in [1, " << (1 << 20)
           << "], got " << int64_t(microBatches);
  if (memoryBytes < 0)
    return getOperation().emitError() << "expected at least 0 bytes of memory";
  return success();
}

/// `pattern=stage`: ops that read a parameter whose name matches.
LogicalResult
PartitionPipeline::constrainByName(const StageGraph &graph, StringRef rule,
                                   StagePartitionProblem &problem) {
  auto [pattern, number] = rule.rsplit('=');
  int stage;
  auto glob = llvm::GlobPattern::create(pattern);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return getOperation().emitError()
           << "cannot read '" << pattern << "', expected a pattern of names";
  }
  if (pattern.empty() || number.getAsInteger(10, stage) || stage < 0 ||
      stage >= stages)
    return getOperation().emitError()
           << "cannot read '" << rule << "', expected PATTERN=STAGE with a "
           << "stage below " << int64_t(stages);
  func::FuncOp step = graph.getMicroBatch().step;
  bool isUsed = false;
  for (auto [i, op] : llvm::enumerate(graph.getForward()))
    for (Value root : graph.getOperandRoots(op)) {
      BlockArgument parameter = graph.getReadParameter(root);
      if (!parameter ||
          !glob->match(mpcomm::getArgumentName(step, parameter.getArgNumber())))
        continue;
      isUsed = true;
      problem.ops[i].stage = stage;
    }
  if (!isUsed)
    return getOperation().emitError()
           << "no op of the forward pass reads a parameter called '" << pattern
           << "', expected one to put into stage " << stage;
  return success();
}

/// Stages that the user gives, on ops or by names of parameters.
LogicalResult PartitionPipeline::constrain(const StageGraph &graph,
                                           StagePartitionProblem &problem) {
  for (StringRef rule : boundaries)
    if (failed(constrainByName(graph, rule, problem)))
      return failure();
  func::FuncOp step = graph.getMicroBatch().step;
  for (Operation &op : step.getFunctionBody().front()) {
    auto stage = op.getAttrOfType<IntegerAttr>(kStageAttr);
    if (!stage)
      continue;
    if (stage.getInt() >= stages)
      return op.emitOpError() << "has to be in stage " << stage.getInt()
                              << ", expected one below " << int64_t(stages);
    if (graph.getPass(&op) == StepPass::Forward &&
        !llvm::is_contained(graph.getAuxiliary(), &op))
      problem.ops[graph.getPosition(&op)].stage = stage.getInt();
    else if (graph.getPass(&op) == StepPass::Repeated)
      op.emitWarning() << "is made wherever it is needed: its '" << kStageAttr
                       << "' has no effect";
  }
  return success();
}

/// Neighbours in the pipeline are one rank apart on its axis.
void PartitionPipeline::setLink(func::FuncOp step, const CostModel &model,
                                StagePartitionProblem &problem) {
  int64_t ranks = std::max<int64_t>(2, stages);
  SmallVector<int64_t, 2> sizes{ranks};
  SmallVector<bool, 2> spans{true};
  if (auto meshOp = step->getParentOfType<ModuleOp>().lookupSymbol<MeshOp>(
          StringRef(mesh)))
    for (int64_t size : meshOp.getAxisSizes()) {
      sizes.push_back(size);
      spans.push_back(false);
    }
  GroupShape shape = getGroupShape(model.getCluster(), sizes, spans);
  CostCurve cost = model.getCollective(CollectiveKind::Send, shape);
  const CostLine &line = cost.pieces.back();
  problem.linkLatency = line.latency;
  problem.linkSecondsPerByte = line.secondsPerByte;
  problem.boundaryBuffers = 2;
  for (auto [s, stage] : llvm::enumerate(problem.stages)) {
    stage.inFlight = std::min<int64_t>(microBatches, stages - int64_t(s));
    if (memoryBytes > 0)
      stage.memoryBytes = memoryBytes;
  }
}

/// Whether each forward op reads a parameter.
static std::vector<bool> readsParameters(const StageGraph &graph) {
  std::vector<bool> reads;
  for (Operation *op : graph.getForward())
    reads.push_back(llvm::any_of(graph.getOperandRoots(op), [&](Value root) {
      return graph.getReadParameter(root);
    }));
  return reads;
}

/// The best partition in which each stage trains something: where the best of
/// all leaves one without, cuts are made before ops with parameters only.
FailureOr<StagePartition>
PartitionPipeline::solve(const StageGraph &graph,
                         const StagePartitionProblem &problem) {
  func::FuncOp step = graph.getMicroBatch().step;
  StagePartitionOptions options;
  options.tolerance = tolerance;
  StagePartition found = partitionStages(problem, options);
  std::vector<bool> reads = readsParameters(graph);
  auto lacks = [&](const StagePartition::Stage &stage) {
    return std::find(reads.begin() + stage.begin, reads.begin() + stage.end,
                     true) == reads.begin() + stage.end;
  };
  if (!found.error.empty())
    return step.emitOpError() << "cannot be cut into " << int64_t(stages)
                              << " stages: " << found.error;
  auto bare = llvm::find_if(found.stages, lacks);
  if (bare == found.stages.end() || stages == 1)
    return found;
  StagePartitionProblem merged = problem;
  std::vector<int> first;
  bool isConsistent = mergeRuns(merged, reads, first);
  StagePartition coarse;
  if (isConsistent)
    coarse = partitionStages(merged, options);
  if (!isConsistent || !coarse.error.empty()) {
    InFlightDiagnostic diag =
        step.emitOpError()
        << "has no parameters in stage " << (bare - found.stages.begin())
        << " of " << int64_t(stages)
        << ", expected each stage to train some: take fewer stages, or say "
           "with 'boundaries' where parameters are";
    diag.attachNote(graph.getForward()[bare->begin]->getLoc())
        << "the stage begins here";
    return diag;
  }
  first.push_back(static_cast<int>(problem.ops.size()));
  for (StagePartition::Stage &stage : coarse.stages) {
    stage.begin = first[stage.begin];
    stage.end = first[stage.end];
  }
  return coarse;
}

void PartitionPipeline::annotate(const StageGraph &graph,
                                 const std::vector<int> &stageOf) {
  Builder builder(&getContext());
  auto put = [&](ArrayRef<Operation *> ops) {
    for (Operation *op : ops)
      op->setAttr(kStageAttr,
                  builder.getI64IntegerAttr(stageOf[graph.getPosition(op)]));
  };
  put(graph.getForward());
  put(graph.getAuxiliary());
  put(graph.getBackward());
}

void PartitionPipeline::explain(const StageGraph &graph,
                                const StagePartitionProblem &problem,
                                const StagePartition &found) {
  func::FuncOp step = graph.getMicroBatch().step;
  auto named = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(step.getName());
  };
  remark::analysis(step.getLoc(), named("Partitioned"))
      << remark::metric("stages", int64_t(found.stages.size()))
      << remark::metric("ops", int64_t(problem.ops.size()))
      << remark::metric("slowestUs", inMicroseconds(found.seconds))
      << remark::metric("leastUs", inMicroseconds(found.leastSeconds))
      << remark::metric("balance", llvm::formatv("{0:F3}", found.balance).str())
      << remark::metric("binding", mpcomm::getName(found.binding))
      << remark::metric("boundaryBytes", found.boundaryBytes)
      << remark::metric("peakBytes", found.peakBytes)
      << remark::metric("tied", int64_t(found.tiedParameters.size()));
  for (auto [s, stage] : llvm::enumerate(found.stages))
    remark::analysis(graph.getForward()[stage.begin]->getLoc(), named("Stage"))
        << remark::metric("stage", int64_t(s))
        << remark::metric("ops", int64_t(stage.end - stage.begin))
        << remark::metric("us", inMicroseconds(stage.seconds))
        << remark::metric("parameterBytes", stage.parameterBytes)
        << remark::metric("activationBytes", stage.activationBytes)
        << remark::metric("sentBytes", stage.sentBytes)
        << remark::metric("returnedBytes", stage.returnedBytes);
}

/// What each op would be as a stage.
void PartitionPipeline::explainEachOp(const StageGraph &graph,
                                      StagePartitionProblem problem) {
  func::FuncOp step = graph.getMicroBatch().step;
  std::vector<bool> reads = readsParameters(graph);
  int n = static_cast<int>(problem.ops.size());
  StagePartition apart;
  for (int i = 0; i < n; ++i)
    apart.stages.push_back({.begin = i, .end = i + 1});
  problem.stages.resize(n);
  apart.evaluate(problem);
  for (auto [i, stage] : llvm::enumerate(apart.stages))
    remark::analysis(graph.getForward()[i]->getLoc(),
                     remark::RemarkOpts::name("Op")
                         .category(DEBUG_TYPE)
                         .function(step.getName()))
        << remark::metric("op", int64_t(i))
        << remark::metric("ps",
                          int64_t(std::llround(stage.computeSeconds * 1e12)))
        << remark::metric("parameters", reads[i] ? "yes" : "no")
        << remark::metric("parameterBytes", stage.parameterBytes)
        << remark::metric("activationBytes", stage.activationBytes)
        << remark::metric("sentBytes", stage.sentBytes)
        << remark::metric("returnedBytes", stage.returnedBytes);
}

LogicalResult PartitionPipeline::partition(func::FuncOp step) {
  FailureOr<MicroBatch> micro =
      MicroBatch::get(step, microBatches, /*hasStages=*/true);
  if (failed(micro))
    return failure();
  FailureOr<StageGraph> graph = StageGraph::get(*micro);
  FailureOr<CostModel> model =
      getCostModel(getOperation(), cluster, profileFile);
  if (failed(graph) || failed(model))
    return failure();
  FailureOr<StepModel> costs = StepModel::get(step, *model);
  if (failed(costs))
    return failure();
  StagePartitionProblem problem =
      buildStageProblem(*graph, *costs, static_cast<int>(stages));
  setLink(step, *model, problem);
  if (failed(constrain(*graph, problem)))
    return failure();
  if (std::string wrong = problem.check(); !wrong.empty())
    return step.emitOpError() << "cannot be cut into stages: " << wrong;
  FailureOr<StagePartition> found = solve(*graph, problem);
  if (failed(found))
    return failure();
  annotate(*graph, found->stageOfOp());
  explain(*graph, problem, *found);
  if (explainOps)
    explainEachOp(*graph, problem);
  return success();
}
