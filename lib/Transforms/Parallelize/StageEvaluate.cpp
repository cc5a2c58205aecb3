//===- StageEvaluate.cpp - evaluation by the ranks of a pipeline ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One batch goes through the stages, each of which has its parameters only.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageClone.h"
#include "Parallelize/UpdatePhase.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpcomm;

namespace {

class Evaluation {
public:
  Evaluation(func::FuncOp evaluate, const StageFunctions &stageFunctions,
             const PipelineSchedule &schedule, const PipelineMesh &mesh)
      : evaluate(evaluate), body(evaluate.getFunctionBody().front()),
        stageFunctions(stageFunctions), schedule(schedule), mesh(mesh) {}
  LogicalResult place();
  func::FuncOp build(int rank);

private:
  const std::vector<int> &stagesOf(BlockArgument argument);
  void runStage(OpBuilder &builder, int stage, IRMapping &mapping);

  func::FuncOp evaluate;
  Block &body;
  const StageFunctions &stageFunctions;
  const PipelineSchedule &schedule;
  const PipelineMesh &mesh;
  /// Of each op, and of each value that crosses to a later stage.
  llvm::DenseMap<Operation *, int> stageOf;
  std::vector<SmallVector<Value>> crossing; // by edge
  llvm::DenseMap<Value, std::vector<int>> holders;
};

} // namespace

/// The stages that hold an argument of this name in training; none: all.
const std::vector<int> &Evaluation::stagesOf(BlockArgument argument) {
  auto [it, isNew] = holders.try_emplace(argument);
  std::optional<Role> role = getArgumentRole(evaluate, argument.getArgNumber());
  if (!isNew || !role || !isStateRole(*role))
    return it->second;
  StringRef name = mpcomm::getArgumentName(evaluate, argument.getArgNumber());
  func::FuncOp step = stageFunctions.getGraph().getMicroBatch().step;
  for (BlockArgument other : step.getArguments())
    if (mpcomm::getArgumentName(step, other.getArgNumber()) == name)
      it->second = stageFunctions.getHolders(other).vec();
  return it->second;
}

LogicalResult Evaluation::place() {
  crossing.resize(stageFunctions.getNumStages());
  llvm::SetVector<Value> sent;
  llvm::DenseMap<Value, int> last;
  for (Operation &op : body) {
    int stage = 0;
    SmallVector<BlockArgument> state;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        if (auto argument = dyn_cast<BlockArgument>(operand)) {
          if (argument.getOwner() == &body && !stagesOf(argument).empty())
            state.push_back(argument);
        } else if (operand.getParentBlock() == &body) {
          stage = std::max(stage, stageOf.lookup(operand.getDefiningOp()));
        }
      }
    });
    // The first stage from there on that has all of it.
    auto has = [&](int candidate) {
      return llvm::all_of(state, [&](BlockArgument argument) {
        return llvm::is_contained(stagesOf(argument), candidate);
      });
    };
    int first = stage;
    while (stage < stageFunctions.getNumStages() && !has(stage))
      ++stage;
    if (stage == stageFunctions.getNumStages())
      return op.emitOpError()
             << "of @" << kEvaluate << " needs "
             << describeArgument(evaluate, state.front().getArgNumber())
             << " in stage " << first
             << " or later, expected evaluation to use parameters in the order "
                "of training";
    stageOf[&op] = stage;
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *def = operand.getDefiningOp();
            def && def->getBlock() == &body && stageOf[def] < stage) {
          sent.insert(operand);
          int &at = last[operand];
          at = std::max(at, stage);
        }
    });
  }
  for (Value value : sent)
    for (int edge = stageOf[value.getDefiningOp()]; edge < last[value]; ++edge)
      crossing[edge].push_back(value);
  return success();
}

void Evaluation::runStage(OpBuilder &builder, int stage, IRMapping &mapping) {
  auto tagOf = [](int edge, size_t i) {
    return "E.e" + std::to_string(edge) + ".v" + std::to_string(i);
  };
  if (stage > 0 && !schedule.isLocal(stage - 1)) {
    SmallVector<Value> futures;
    for (auto [i, value] : llvm::enumerate(crossing[stage - 1]))
      futures.push_back(startRecv(builder, mesh, value.getLoc(),
                                  value.getType(), schedule.rankOf(stage - 1),
                                  schedule.channelOf(stage - 1, false) + 1,
                                  tagOf(stage - 1, i)));
    for (auto [value, future] : llvm::zip(crossing[stage - 1], futures))
      mapping.map(
          value,
          AwaitOp::create(builder, future.getLoc(), future)->getResult(0));
  }
  for (Operation &op : body.without_terminator())
    if (stageOf[&op] == stage)
      builder.clone(op, mapping);
  if (stage + 1 == stageFunctions.getNumStages() || schedule.isLocal(stage))
    return;
  SmallVector<Value> futures;
  for (auto [i, value] : llvm::enumerate(crossing[stage]))
    futures.push_back(startSend(
        builder, mesh, mapping.lookup(value), schedule.rankOf(stage + 1),
        schedule.channelOf(stage, false) + 1, tagOf(stage, i)));
  for (Value future : futures)
    AwaitOp::create(builder, future.getLoc(), future);
}

func::FuncOp Evaluation::build(int rank) {
  OpBuilder builder(evaluate.getContext());
  auto isOurs = [&](int stage) { return schedule.rankOf(stage) == rank; };
  llvm::DenseSet<Value> needed;
  auto exit = body.getTerminator();
  auto rankOf = [&](Value value) {
    Operation *def = value.getDefiningOp();
    return schedule.rankOf(def ? stageOf[def] : 0);
  };
  SmallVector<unsigned> results;
  for (auto [i, value] : llvm::enumerate(exit->getOperands()))
    if (getResultRole(evaluate, i) == Role::Loss || rankOf(value) == rank)
      results.push_back(i);
  for (Operation &op : body.without_terminator())
    if (isOurs(stageOf[&op]))
      op.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          needed.insert(operand);
      });
  SmallVector<Type> types, resultTypes;
  SmallVector<BlockArgument> arguments;
  for (unsigned result : results) {
    resultTypes.push_back(evaluate.getResultTypes()[result]);
    needed.insert(exit->getOperand(result));
    // The labels that an output is compared with.
    auto targets =
        evaluate.getResultAttrOfType<StringAttr>(result, kTargetsAttr);
    for (BlockArgument argument : body.getArguments())
      if (targets &&
          mpcomm::getArgumentName(evaluate, argument.getArgNumber()) ==
              targets.getValue())
        needed.insert(argument);
  }
  for (BlockArgument argument : body.getArguments())
    if (needed.contains(argument)) {
      arguments.push_back(argument);
      types.push_back(argument.getType());
    }
  auto function = func::FuncOp::create(
      evaluate.getLoc(), (evaluate.getName() + ".rank" + Twine(rank)).str(),
      builder.getFunctionType(types, resultTypes));
  SymbolTable(evaluate->getParentOfType<ModuleOp>())
      .insert(function, Block::iterator(evaluate));
  Block *block = function.addEntryBlock();
  SignatureEditor editor(function);
  IRMapping mapping;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    mapping.map(argument, block->getArgument(i));
    editor.setArgumentAttrs(i,
                            evaluate.getArgAttrDict(argument.getArgNumber()));
  }
  builder.setInsertionPointToStart(block);
  for (int stage = 0; stage < stageFunctions.getNumStages(); ++stage)
    if (isOurs(stage))
      runStage(builder, stage, mapping);
  SmallVector<Value> returned;
  for (auto [i, result] : llvm::enumerate(results)) {
    Value original = exit->getOperand(result);
    editor.setResultAttrs(i, evaluate.getResultAttrDict(result));
    Value value = mapping.lookupOrNull(original);
    if (getResultRole(evaluate, result) == Role::Loss && schedule.stages > 1) {
      if (rankOf(original) != rank)
        value = arith::ConstantOp::create(
            builder, original.getLoc(),
            cast<TypedAttr>(builder.getZeroAttr(original.getType())));
      value = broadcastFrom(builder, mesh, value, rankOf(original), "loss");
    }
    returned.push_back(value);
  }
  func::ReturnOp::create(builder, exit->getLoc(), returned);
  editor.apply();
  fixOrder(*block, mesh);
  return function;
}

FailureOr<SmallVector<func::FuncOp>> mpcomm::buildEvaluatePrograms(
    func::FuncOp evaluate, const StageFunctions &stageFunctions,
    const PipelineSchedule &schedule, const PipelineMesh &mesh) {
  Evaluation evaluation(evaluate, stageFunctions, schedule, mesh);
  if (failed(evaluation.place()))
    return failure();
  SmallVector<func::FuncOp> programs;
  for (int rank = 0; rank < schedule.stages; ++rank)
    programs.push_back(evaluation.build(rank));
  return programs;
}
