//===- StageFunctions.cpp - what a stage does with a micro-batch
//--------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageFunctions.h"
#include "Parallelize/StageClone.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Stages of ops, and what crosses them
//===----------------------------------------------------------------------===//

void StageFunctions::forEachPlacedOp(
    llvm::function_ref<void(Operation *)> callback) const {
  for (ArrayRef<Operation *> ops :
       {graph->getForward(), graph->getAuxiliary(), graph->getBackward()})
    llvm::for_each(ops, callback);
}

LogicalResult StageFunctions::readStages() {
  auto read = [&](Operation *op) -> LogicalResult {
    auto stage = op->getAttrOfType<IntegerAttr>(kStageAttr);
    if (!stage || stage.getInt() >= stages)
      return op->emitOpError()
             << "has no '" << kStageAttr << "' below " << stages
             << ", expected one of each op of the forward and backward pass: "
                "run mpcomm-partition-pipeline";
    stageOf[op] = static_cast<int>(stage.getInt());
    for (Value root : graph->getOperandRoots(op))
      if (isa<BlockArgument>(root) &&
          !llvm::is_contained(readers[root], stage.getInt()))
        readers[root].push_back(static_cast<int>(stage.getInt()));
    return success();
  };
  LogicalResult result = success();
  forEachPlacedOp([&](Operation *op) {
    if (succeeded(result))
      result = read(op);
  });
  return result;
}

/// Where a value of the sum is made: by the action that makes its last root, or
/// by that of the state that it is; of arguments alone by the backward pass of
/// the stage with that `position`.
StageFunctions::Leaf
StageFunctions::placeLeaf(unsigned sum, Value value, int position,
                          ArrayRef<std::optional<Home>> states) const {
  const MicroBatch &micro = graph->getMicroBatch();
  Leaf leaf{sum,
            value,
            {getStage(graph->getForward()[position]), /*isForward=*/false,
             /*isInput=*/true}};
  SetVector<Value> roots;
  graph->getRoots(value, roots);
  for (auto [state, home] : llvm::zip_equal(micro.states, states))
    if (roots.contains(state.before))
      leaf.home = *home;
  Operation *last = nullptr;
  for (Value root : roots)
    if (Operation *def = root.getDefiningOp())
      if (!last || last->isBeforeInBlock(def))
        last = def;
  if (last)
    leaf.home = homeOf(last);
  return leaf;
}

/// Leaves that several stages make are added up after the micro-batches; the
/// ops that did so go.
void StageFunctions::placeLeaves() {
  std::vector<std::optional<Home>> states = findHomes();
  for (unsigned i = 0; i < graph->getMicroBatch().sums.size(); ++i) {
    std::vector<Leaf> found;
    for (const GradientLeaf &leaf : graph->getLeaves(i))
      found.push_back(placeLeaf(i, leaf.value, leaf.position, states));
    const MicroBatchSum &sum = graph->getMicroBatch().sums[i];
    bool isOne = llvm::all_of(found, [&](const Leaf &leaf) {
      return leaf.home == found.front().home;
    });
    if (found.size() == 1 || !isOne) {
      llvm::append_range(leaves, found);
      if (found.size() > 1) { // the ops between the sum and its leaves
        for (Operation *user : sum.value.getUsers())
          if (graph->getPass(user) == StepPass::Backward)
            split.insert(user); // narrows it for the update phase
        SmallVector<Value> worklist{sum.value};
        while (!worklist.empty()) {
          Value value = worklist.pop_back_val();
          bool isLeaf = llvm::any_of(
              found, [&](const Leaf &leaf) { return leaf.value == value; });
          if (isLeaf)
            continue;
          split.insert(value.getDefiningOp());
          llvm::append_range(worklist, value.getDefiningOp()->getOperands());
        }
      }
      continue;
    }
    // What adds up gradients of inputs can be among those of weights.
    leaves.push_back(
        placeLeaf(i, sum.value, graph->getLeaves(i).front().position, states));
  }
}

/// The order of values at an edge is that of their definition.
LogicalResult StageFunctions::findCrossings() {
  llvm::DenseMap<Value, std::pair<int, int>> reach; // lowest, highest user
  auto visit = [&](Operation *user) -> LogicalResult {
    int at = getStage(user);
    bool isForward = graph->getPass(user) == StepPass::Forward;
    for (Value root : graph->getOperandRoots(user)) {
      Operation *def = root.getDefiningOp();
      if (!def)
        continue;
      bool isGradient = graph->getPass(def) == StepPass::Backward;
      int from = getStage(def);
      if ((isForward && at < from) || (isGradient && at > from)) {
        InFlightDiagnostic diag =
            user->emitOpError()
            << "in stage " << at << " reads what stage " << from
            << " makes, expected values of the forward pass to go up the "
               "stages and gradients down";
        diag.attachNote(def->getLoc()) << "it is made here";
        return diag;
      }
      auto [it, isNew] = reach.try_emplace(root, at, at);
      it->second.first = std::min(it->second.first, at);
      it->second.second = std::max(it->second.second, at);
    }
    return success();
  };
  LogicalResult visited = success();
  forEachPlacedOp([&](Operation *op) {
    if (succeeded(visited) && !split.contains(op))
      visited = visit(op);
  });
  forEachPlacedOp([&](Operation *op) {
    for (Value result : op->getResults()) {
      auto found = reach.find(result);
      if (found == reach.end())
        continue;
      auto [lowest, highest] = found->second;
      for (int edge = getStage(op); edge < highest; ++edge)
        ahead[edge].push_back(result);
      for (int edge = getStage(op) - 1; edge >= lowest; --edge)
        back[edge].push_back(result);
    }
  });
  return visited;
}

/// I is what lower stages wait for, and what gradients of several parameters
/// depend on: the rest, gradients of weights, can wait.
void StageFunctions::splitBackward() {
  for (Operation *op : llvm::reverse(graph->getBackward())) {
    if (graph->isInputGradient(op))
      inputOps.insert(op);
    for (Value root : graph->getOperandRoots(op)) {
      Operation *def = root.getDefiningOp();
      if (!def || graph->getPass(def) != StepPass::Backward)
        continue;
      if (getStage(def) > getStage(op) || inputOps.contains(op))
        inputOps.insert(def);
    }
  }
}

/// The action that runs an op.
StageFunctions::Home StageFunctions::homeOf(Operation *op) const {
  return {getStage(op), graph->getPass(op) == StepPass::Forward,
          inputOps.contains(op)};
}

/// The action that computes a state: that of the last op it is made of. One
/// that is made of arguments alone, a counter or a value of another state, is
/// computed where those states are, else where it is read.
std::vector<std::optional<StageFunctions::Home>>
StageFunctions::findHomes() const {
  ArrayRef<MicroBatchState> states = graph->getMicroBatch().states;
  llvm::DenseMap<Value, unsigned> stateOf; // by argument
  for (auto [i, state] : llvm::enumerate(states))
    stateOf[state.before] = i;
  std::vector<std::optional<Home>> found(states.size());
  std::vector<SmallVector<unsigned>> linked(states.size());
  for (auto [i, state] : llvm::enumerate(states)) {
    SetVector<Value> roots;
    graph->getRoots(state.after, roots);
    Operation *made = nullptr;
    for (Value root : roots) {
      Operation *def = root.getDefiningOp();
      if (def && (!made || made->isBeforeInBlock(def)))
        made = def;
      if (auto other = stateOf.find(root); other != stateOf.end()) {
        linked[i].push_back(other->second);
        linked[other->second].push_back(i);
      }
    }
    if (made)
      found[i] = homeOf(made);
  }
  SmallVector<unsigned> worklist;
  auto spread = [&]() {
    while (!worklist.empty()) {
      unsigned i = worklist.pop_back_val();
      for (unsigned other : linked[i])
        if (!found[other]) {
          found[other] = found[i];
          worklist.push_back(other);
        }
    }
  };
  auto settle = [&](unsigned i, Home home) {
    found[i] = home;
    worklist.push_back(i);
    spread();
  };
  for (unsigned i = 0; i < states.size(); ++i)
    if (found[i])
      worklist.push_back(i);
  spread();
  forEachPlacedOp([&](Operation *op) {
    for (Value root : graph->getOperandRoots(op))
      if (auto state = stateOf.find(root);
          state != stateOf.end() && !found[state->second])
        settle(state->second, homeOf(op));
  });
  for (unsigned i = 0; i < states.size(); ++i)
    if (!found[i])
      settle(i, {/*stage=*/0, /*isForward=*/true, /*isInput=*/false});
  return found;
}

/// All that reads a state is in the action that computes it: each micro-batch's
/// value of it is known there alone.
LogicalResult StageFunctions::placeStates() {
  const MicroBatch &micro = graph->getMicroBatch();
  for (const std::optional<Home> &home : findHomes())
    homes.push_back(*home);
  auto check = [&](const SetVector<Value> &roots, Home reader,
                   Location loc) -> LogicalResult {
    for (auto [state, home] : llvm::zip_equal(micro.states, homes)) {
      if (!roots.contains(state.before) || home == reader)
        continue;
      InFlightDiagnostic diag =
          emitError(loc) << "reads "
                         << describeArgument(micro.step,
                                             state.before.getArgNumber())
                         << ", which each micro-batch hands on, in another "
                            "pass than the one that computes its next value, "
                            "expected both in one";
      diag.attachNote(state.after.getLoc()) << "it is computed here";
      return diag;
    }
    return success();
  };
  LogicalResult result = success();
  forEachPlacedOp([&](Operation *op) {
    if (succeeded(result) && !split.contains(op))
      result = check(graph->getOperandRoots(op), homeOf(op), op->getLoc());
  });
  auto checkValue = [&](Value value, Home home) {
    SetVector<Value> roots;
    graph->getRoots(value, roots);
    if (succeeded(result))
      result = check(roots, home, value.getLoc());
  };
  for (const Leaf &leaf : leaves)
    checkValue(leaf.value, leaf.home);
  for (auto [state, home] : llvm::zip_equal(micro.states, homes))
    checkValue(state.after, home);
  return result;
}

FailureOr<StageFunctions> StageFunctions::get(const StageGraph &graph,
                                              int stages) {
  StageFunctions stageFunctions(graph, stages);
  if (failed(stageFunctions.readStages()))
    return failure();
  stageFunctions.splitBackward();
  stageFunctions.placeLeaves();
  if (failed(stageFunctions.findCrossings()) ||
      failed(stageFunctions.placeStates()))
    return failure();
  stageFunctions.findHolders();
  return stageFunctions;
}

std::vector<int> StageFunctions::getContributors(unsigned sum) const {
  std::vector<int> found;
  for (const Leaf &leaf : leaves)
    if (leaf.sum == sum && !llvm::is_contained(found, leaf.home.stage))
      found.push_back(leaf.home.stage);
  llvm::sort(found);
  return found;
}

ArrayRef<int> StageFunctions::getReaders(BlockArgument argument) const {
  auto found = readers.find(argument);
  return found == readers.end() ? ArrayRef<int>() : found->second;
}

void StageFunctions::findHolders() {
  func::FuncOp step = graph->getMicroBatch().step;
  for (BlockArgument argument : step.getArguments()) {
    llvm::append_range(holders[argument], getReaders(argument));
    BlockArgument parameter = graph->getReadParameter(argument);
    if (parameter && parameter != argument)
      llvm::append_range(holders[parameter], getReaders(argument));
  }
  for (unsigned i = 0; i < graph->getMicroBatch().sums.size(); ++i)
    for (BlockArgument parameter : graph->getParameters(i))
      llvm::append_range(holders[parameter], getContributors(i));
  for (auto &[argument, stages] : holders) {
    llvm::sort(stages);
    stages.erase(llvm::unique(stages), stages.end());
  }
}

ArrayRef<int> StageFunctions::getHolders(BlockArgument argument) const {
  auto found = holders.find(argument);
  return found == holders.end() ? ArrayRef<int>() : found->second;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool StageFunctions::Home::isIn(int other, PipelineActionKind kind) const {
  if (stage != other)
    return false;
  switch (kind) {
  case PipelineActionKind::Forward:
    return isForward;
  case PipelineActionKind::Backward:
    return !isForward;
  case PipelineActionKind::InputBackward:
    return !isForward && isInput;
  case PipelineActionKind::WeightBackward:
    return !isForward && !isInput;
  }
  return false;
}

bool StageFunctions::isIn(Operation *op, int stage,
                          PipelineActionKind kind) const {
  StepPass pass = graph->getPass(op);
  return (pass == StepPass::Forward || pass == StepPass::Backward) &&
         !split.contains(op) && homeOf(op).isIn(stage, kind);
}

std::vector<Operation *> StageFunctions::getOps(int stage,
                                                PipelineActionKind kind) const {
  std::vector<Operation *> ops;
  func::FuncOp step = graph->getMicroBatch().step;
  for (Operation &op : step.getFunctionBody().front())
    if (isIn(&op, stage, kind))
      ops.push_back(&op);
  return ops;
}

void StageFunctions::addSums(StageFunction &stageFunction, int stage,
                             PipelineActionKind kind) {
  const MicroBatch &micro = graph->getMicroBatch();
  for (unsigned i = 0; i < micro.sums.size(); ++i)
    for (const Leaf &leaf : leaves)
      if (leaf.sum == i && leaf.home.isIn(stage, kind)) {
        stageFunction.sums.push_back(i);
        break;
      }
  for (auto [i, home] : llvm::enumerate(homes))
    if (home.isIn(stage, kind))
      stageFunction.states.push_back(i);
}

/// What the function's ops take from outside of it, and what others take of it.
void StageFunctions::addBoundary(StageFunction &stageFunction, int stage,
                                 PipelineActionKind kind) {
  const MicroBatch &micro = graph->getMicroBatch();
  SetVector<Value> needed;
  std::vector<Operation *> ops = getOps(stage, kind);
  for (Operation *op : ops)
    needed.insert_range(graph->getOperandRoots(op));
  for (unsigned i : stageFunction.sums)
    for (const Leaf &leaf : leaves)
      if (leaf.sum == i && leaf.home.isIn(stage, kind))
        graph->getRoots(leaf.value, needed);
  for (unsigned i : stageFunction.states)
    graph->getRoots(micro.states[i].after, needed);
  for (unsigned i : stageFunction.states)
    needed.remove(micro.states[i].before);
  SmallVector<BlockArgument> arguments;
  for (Value value : needed) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument)
      arguments.push_back(argument);
    else if (!isIn(value.getDefiningOp(), stage, kind))
      stageFunction.incoming.push_back(value);
  }
  llvm::sort(arguments, [](BlockArgument a, BlockArgument b) {
    return a.getArgNumber() < b.getArgNumber();
  });
  for (BlockArgument argument : arguments) {
    if (llvm::is_contained(micro.batches, argument))
      stageFunction.batches.push_back(argument);
    else if (llvm::is_contained(micro.seeds, argument))
      stageFunction.seeds.push_back(argument);
    else
      stageFunction.captured.push_back(argument);
  }
  // Results that an op outside reads, through repeated ops or not.
  llvm::DenseSet<Value> own, taken;
  for (Operation *op : ops)
    own.insert(op->getResults().begin(), op->getResults().end());
  auto take = [&](Value root) {
    if (own.contains(root))
      taken.insert(root);
  };
  forEachPlacedOp([&](Operation *other) {
    if (!split.contains(other) && !isIn(other, stage, kind))
      llvm::for_each(graph->getOperandRoots(other), take);
  });
  for (const Leaf &leaf : leaves)
    if (!leaf.home.isIn(stage, kind)) {
      SetVector<Value> roots;
      graph->getRoots(leaf.value, roots);
      llvm::for_each(roots, take);
    }
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (taken.contains(result))
        stageFunction.outgoing.push_back(result);
}

func::FuncOp StageFunctions::outline(const StageFunction &stageFunction,
                                     int stage, PipelineActionKind kind) {
  const MicroBatch &micro = graph->getMicroBatch();
  func::FuncOp step = micro.step;
  OpBuilder builder(step.getContext());
  SmallVector<Value> values;
  llvm::append_range(values, stageFunction.captured);
  llvm::append_range(values, stageFunction.batches);
  llvm::append_range(values, stageFunction.seeds);
  llvm::append_range(values, stageFunction.incoming);
  SmallVector<Type> inputs, results;
  for (Value value : values)
    inputs.push_back(value.getType());
  for (unsigned i : stageFunction.sums)
    results.push_back(micro.sums[i].getTotalType());
  for (unsigned i : stageFunction.states)
    results.push_back(micro.states[i].before.getType());
  unsigned firstDonor = inputs.size(), numDonors = results.size();
  llvm::append_range(inputs, results);
  for (Value value : stageFunction.outgoing)
    results.push_back(value.getType());

  StringRef name = kind == PipelineActionKind::Forward    ? "forward"
                   : kind == PipelineActionKind::Backward ? "backward"
                   : kind == PipelineActionKind::InputBackward
                       ? "input_backward"
                       : "weight_backward";
  auto function = func::FuncOp::create(
      step.getLoc(),
      (step.getName() + ".stage" + Twine(stage) + "." + name).str(),
      builder.getFunctionType(inputs, results));
  function.setPrivate();
  SymbolTable(step->getParentOfType<ModuleOp>())
      .insert(function, Block::iterator(step));
  SignatureEditor editor(function);
  for (unsigned i = 0; i < numDonors; ++i)
    editor.setArgument(firstDonor + i, kDonatedAttr,
                       builder.getI64IntegerAttr(i));
  for (auto [i, value] : llvm::enumerate(values))
    copySharding(value, editor, i);
  for (auto [i, index] : llvm::enumerate(stageFunction.sums))
    if (ShardingAttr sharding = micro.sums[index].getSharding()) {
      editor.setArgument(firstDonor + i, kShardingAttr, sharding);
      editor.setResult(i, kShardingAttr, sharding);
    }
  editor.apply();
  Block *block = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(values, block->getArguments().take_front(firstDonor));
  for (auto [i, state] : llvm::enumerate(stageFunction.states))
    mapping.map(micro.states[state].before,
                block->getArgument(firstDonor + stageFunction.sums.size() + i));
  builder.setInsertionPointToStart(block);
  for (Operation *op : getOps(stage, kind))
    cloneWithOperands(builder, op, mapping)->removeAttr(kStageAttr);
  SmallVector<Value> returned;
  for (auto [i, index] : llvm::enumerate(stageFunction.sums)) {
    const MicroBatchSum &sum = micro.sums[index];
    Value total = block->getArgument(firstDonor + i);
    for (const Leaf &leaf : leaves) {
      if (leaf.sum != index || !leaf.home.isIn(stage, kind))
        continue;
      Value value = cloneValue(builder, leaf.value, mapping);
      value = castFloat(builder, value.getLoc(), value,
                        getElementTypeOrSelf(total.getType()));
      total = sum.combine(builder, total, value);
    }
    returned.push_back(total);
  }
  for (unsigned i : stageFunction.states)
    returned.push_back(cloneValue(builder, micro.states[i].after, mapping));
  for (Value value : stageFunction.outgoing)
    returned.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, step.getLoc(), returned);
  return function;
}

const StageFunction &StageFunctions::getFunction(int stage,
                                                 PipelineActionKind kind) {
  auto [it, isNew] = stageFunctions.try_emplace({stage, kind});
  StageFunction &stageFunction = it->second;
  if (isNew) {
    addSums(stageFunction, stage, kind);
    addBoundary(stageFunction, stage, kind);
    // What makes nothing need not run.
    if (stageFunction.sums.size() + stageFunction.states.size() +
            stageFunction.outgoing.size() >
        0)
      stageFunction.function = outline(stageFunction, stage, kind);
  }
  return stageFunction;
}
