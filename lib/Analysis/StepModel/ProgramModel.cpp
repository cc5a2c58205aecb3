//===- ProgramModel.cpp - the steps of all ranks --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places are numbered row-major over the program's axes; so are the members of
// a group over the group's axes, in the order of the mesh.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/StepModel/ProgramModel.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <array>
#include <map>
#include <set>

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

FailureOr<ProgramModel> ProgramModel::get(Operation *symbol,
                                          const CostModel &model) {
  ProgramModel read;
  if (auto program = dyn_cast<ProgramOp>(symbol)) {
    if (failed(read.read(program, model)))
      return failure();
    return std::move(read);
  }
  auto function = dyn_cast<FunctionOpInterface>(symbol);
  if (!function)
    return symbol->emitOpError(
        "is neither a function nor an mpcomm.program, to model the step");
  FailureOr<StepModel> step = StepModel::get(function, model);
  if (failed(step))
    return failure();
  RankClass &all = read.classes.emplace_back();
  all.function = function;
  all.ranks = step->getNumRanks();
  std::vector<int> &own = read.communicatorOf.emplace_back();
  for (const StepCollective &collective : step->getCollectives())
    own.push_back(static_cast<int>(collective.communicator));
  read.communicators.assign(step->getCommunicators().size(), {0});
  read.steps.push_back(std::move(*step));
  return std::move(read);
}

LogicalResult ProgramModel::read(ProgramOp program, const CostModel &model) {
  mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(program,
                                                      program.getMeshAttr());
  if (!mesh)
    return program.emitOpError("expected a mesh, to model the step");
  if (auto name = program->getAttrOfType<StringAttr>(kScheduleAttr))
    schedule = name.str();
  for (Attribute axis : program.getAxes())
    axes.push_back(llvm::find(mesh.getAxisNames(), axis) -
                   mesh.getAxisNames().begin());
  ArrayRef<int64_t> sizes = mesh.getAxisSizes();
  llvm::DenseMap<Attribute, unsigned> stepOf;
  for (auto [i, name] : llvm::enumerate(program.getFunctions())) {
    auto [it, isNew] = stepOf.try_emplace(name, steps.size());
    if (isNew) {
      auto function = SymbolTable::lookupNearestSymbolFrom<FunctionOpInterface>(
          program, cast<FlatSymbolRefAttr>(name));
      FailureOr<StepModel> step = StepModel::get(function, model);
      if (failed(step))
        return failure();
      steps.push_back(std::move(*step));
    }
    RankClass &made = classes.emplace_back();
    made.step = it->second;
    made.function = steps[made.step].getFunction();
    made.ranks = mesh.getNumRanks() /
                 static_cast<int64_t>(program.getFunctions().size());
    made.place.resize(axes.size());
    int64_t rest = static_cast<int64_t>(i);
    for (size_t k = axes.size(); k-- > 0; rest /= sizes[axes[k]])
      made.place[k] = rest % sizes[axes[k]];
    for (auto [axis, coordinate] : llvm::zip(axes, made.place)) {
      int64_t stride = 1;
      for (int64_t size : sizes.drop_front(axis + 1))
        stride *= size;
      made.firstRank += coordinate * stride;
    }
  }
  std::map<Meeting, int> known;
  for (size_t i = 0; i < classes.size(); ++i) {
    std::vector<int> &own = communicatorOf.emplace_back();
    for (const StepCollective &collective : getStep(i).getCollectives()) {
      FailureOr<Meeting> meeting = getMeeting(i, collective.op);
      if (failed(meeting))
        return failure();
      auto [it, isNew] =
          known.try_emplace(*meeting, static_cast<int>(communicators.size()));
      if (isNew)
        communicators.push_back(std::get<2>(*meeting));
      own.push_back(it->second);
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Who meets
//===----------------------------------------------------------------------===//

/// The classes that differ from one along these axes of the mesh alone.
std::vector<int> ProgramModel::getGroup(size_t index,
                                        ArrayRef<unsigned> along) const {
  auto isAlong = [&](unsigned axis) { return llvm::is_contained(along, axis); };
  if (llvm::none_of(axes, isAlong))
    return {static_cast<int>(index)};
  std::vector<int> group;
  for (auto [other, made] : llvm::enumerate(classes)) {
    bool meets = true;
    for (size_t k = 0; k < axes.size(); ++k)
      meets &= isAlong(axes[k]) || made.place[k] == classes[index].place[k];
    if (meets)
      group.push_back(static_cast<int>(other));
  }
  return group;
}

/// The class of member `peer` of the group of a class along these axes.
FailureOr<int> ProgramModel::getPeer(size_t index, CollectiveOpInterface op,
                                     ArrayRef<unsigned> along, int64_t peer) {
  int64_t rest = peer;
  SmallVector<int64_t, 2> place = classes[index].place;
  for (unsigned axis : llvm::reverse(along)) {
    int64_t size = mesh.getAxisSizes()[axis];
    auto *own = llvm::find(axes, axis);
    if (own != axes.end())
      place[own - axes.begin()] = rest % size;
    rest /= size;
  }
  if (peer < 0 || rest != 0)
    return op->emitError("expected a peer of its group, to model the step, "
                         "got ")
           << peer;
  int64_t found = 0;
  for (auto [axis, coordinate] : llvm::zip(axes, place))
    found = found * mesh.getAxisSizes()[axis] + coordinate;
  return static_cast<int>(found);
}

FailureOr<ProgramModel::Meeting>
ProgramModel::getMeeting(size_t index, CollectiveOpInterface op) {
  if (SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr()) !=
      mesh)
    return op->emitError("expected the mesh of the program, @")
           << mesh.getSymName() << ", to model the step, got "
           << op.getMeshAttr();
  Meeting meeting;
  auto &[along, channel, members] = meeting;
  for (Attribute axis : op.getAxesAttr())
    along.push_back(llvm::find(mesh.getAxisNames(), axis) -
                    mesh.getAxisNames().begin());
  llvm::sort(along);
  channel = op.getChannel();
  if (!mpcomm::detail::isMessage(op.getCollectiveKind())) {
    members = getGroup(index, along);
    return meeting;
  }
  FailureOr<int> other = getPeer(index, op, along, *op.getPeer());
  if (failed(other))
    return failure();
  members = {static_cast<int>(index), *other};
  if (op.getCollectiveKind() == CollectiveKind::Recv)
    std::swap(members[0], members[1]);
  return meeting;
}

SimProblem ProgramModel::buildSimProblem(const CostModel &model) const {
  const Cluster &cluster = model.getCluster();
  SimProblem problem = makeSimProblem(cluster, /*duplex=*/true);
  for (const std::vector<int> &members : communicators) {
    SimCommunicator &made = problem.communicators.emplace_back();
    made.classes = members;
    llvm::sort(made.classes);
    made.classes.erase(llvm::unique(made.classes), made.classes.end());
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    SimProgram program = getStep(i).buildSimProgram();
    program.multiplicity = classes[i].ranks;
    for (auto [k, collective] : llvm::enumerate(program.collectives)) {
      collective.communicator = communicatorOf[i][k];
      CollectiveOpInterface op = getStep(i).getCollectives()[k].op;
      if (collective.link >= 0 &&
          op.getCollectiveKind() == CollectiveKind::Recv)
        collective.link += static_cast<int>(cluster.links.size());
    }
    problem.classes.push_back(std::move(program));
  }
  return problem;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

void mpcomm::setStageAction(Operation *call, const PipelineAction &action) {
  Builder builder(call->getContext());
  call->setAttr(kTagAttr,
                builder.getStringAttr(Twine(pipelineActionLetter(action.kind)) +
                                      Twine(action.microbatch)));
  call->setAttr(kStageAttr, builder.getI64IntegerAttr(action.stage));
}

std::optional<PipelineAction> mpcomm::getStageAction(Operation *op) {
  auto tag = op->getAttrOfType<StringAttr>(kTagAttr);
  auto stage = op->getAttrOfType<IntegerAttr>(kStageAttr);
  if (!isa<CallOpInterface>(op) || !tag || !stage)
    return std::nullopt;
  std::optional<PipelineActionKind> kind =
      llvm::StringSwitch<std::optional<PipelineActionKind>>(
          tag.getValue().take_front())
          .Case("F", PipelineActionKind::Forward)
          .Case("B", PipelineActionKind::Backward)
          .Case("I", PipelineActionKind::InputBackward)
          .Case("W", PipelineActionKind::WeightBackward)
          .Default(std::nullopt);
  unsigned microbatch; // fewer than a schedule has at most
  if (!kind || tag.getValue().drop_front().getAsInteger(10, microbatch) ||
      microbatch >= (1u << 24))
    return std::nullopt;
  return PipelineAction{*kind, static_cast<int>(microbatch),
                        static_cast<int>(stage.getInt())};
}

/// Makes B of an I or W without the other.
static void joinBackwards(std::vector<PipelineAction> &order) {
  using Kind = PipelineActionKind;
  std::set<std::tuple<Kind, int, int>> present;
  for (const PipelineAction &action : order)
    present.insert({action.kind, action.stage, action.microbatch});
  for (PipelineAction &action : order) {
    bool isInput = action.kind == Kind::InputBackward;
    Kind other = isInput ? Kind::WeightBackward : Kind::InputBackward;
    if ((isInput || action.kind == Kind::WeightBackward) &&
        !present.count({other, action.stage, action.microbatch}))
      action.kind = Kind::Backward;
  }
}

PipelineScheduleOr mpcomm::getPipelineSchedule(const ProgramModel &program) {
  PipelineScheduleOr found;
  PipelineSchedule &schedule = found.schedule;
  std::map<int, int> rankOf; // by stage
  for (size_t c = 0; c < program.getRankClasses().size(); ++c) {
    std::vector<PipelineAction> order;
    for (const StepInstruction &instruction :
         program.getStep(c).getInstructions())
      if (auto action = getStageAction(instruction.op);
          action && instruction.kind == RankInstruction::Compute)
        order.push_back(*action);
    if (order.empty() || rankOf.count(order.front().stage))
      continue;
    joinBackwards(order);
    for (const PipelineAction &action : order) {
      rankOf[action.stage] = static_cast<int>(schedule.ranks.size());
      schedule.microbatches =
          std::max(schedule.microbatches, action.microbatch + 1);
    }
    schedule.ranks.push_back(std::move(order));
  }
  schedule.stages = static_cast<int>(schedule.ranks.size());
  schedule.placement.clear();
  for (auto [stage, rank] : rankOf)
    schedule.placement.push_back(rank);
  found.error = rankOf.empty() ? "has no passes of a pipeline's stages"
                               : schedule.verify();
  return found;
}

std::optional<PipelineFigures>
mpcomm::getPipelineFigures(const ProgramModel &program,
                           const SimResult &result) {
  PipelineFigures figures;
  double busy = 0, end = 0;
  std::array<double, 4> seconds = {}; // by kind
  // Places that run the same stages are pipelines beside one another.
  std::set<std::set<int>> ranks;
  for (auto [c, seen] : llvm::enumerate(result.classes)) {
    std::set<int> stages;
    for (auto [i, instruction] :
         llvm::enumerate(program.getStep(c).getInstructions())) {
      auto action = getStageAction(instruction.op);
      if (!action || instruction.kind != RankInstruction::Compute)
        continue;
      double taken = seen.end[i] - seen.begin[i];
      busy += taken;
      stages.insert(action->stage);
      seconds[static_cast<size_t>(action->kind)] += taken;
      end = std::max(end, seen.end[i]);
      figures.stages = std::max(figures.stages, action->stage + 1);
      figures.microbatches =
          std::max(figures.microbatches, action->microbatch + 1);
    }
    if (!stages.empty())
      ranks.insert(stages);
  }
  if (busy == 0)
    return std::nullopt;
  figures.ranks = static_cast<int>(ranks.size());
  auto places = static_cast<double>(result.classes.size());
  figures.bubble = std::max(0.0, 1 - busy / (end * places));
  std::optional<PipelineKind> kind =
      parsePipelineKind(program.getSchedule().str());
  if (!kind || figures.stages % figures.ranks != 0)
    return figures;
  // Backward passes that are not split count as I alone: the formulas of the
  // schedules that do not split them know the sum only.
  double passes =
      double(figures.stages) * figures.microbatches * places / figures.ranks;
  double weight =
      seconds[static_cast<size_t>(PipelineActionKind::WeightBackward)];
  double forward = seconds[static_cast<size_t>(PipelineActionKind::Forward)];
  double input = busy - forward - weight;
  double idle = idleFormula(*kind, figures.ranks, figures.microbatches,
                            figures.stages / figures.ranks, forward / passes,
                            input / passes, weight / passes);
  figures.formula = idle / (idle + busy / places);
  return figures;
}
