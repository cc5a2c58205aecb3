//===- StageGraph.cpp - forward and backward pass of a step ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageGraph.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpcomm;

void mpcomm::forEachOperand(Operation *op,
                            function_ref<void(OpOperand &)> callback) {
  Block *block = op->getBlock();
  op->walk([&](Operation *nested) {
    for (OpOperand &operand : nested->getOpOperands())
      if (operand.get().getParentBlock() == block)
        callback(operand);
  });
}

/// Movement and widening of one value cost less than to keep or send what they
/// make: products and kernels read through them. They compute nothing, and what
/// they make is no smaller than what they take.
static bool isMovement(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         op->getNumRegions() == 0 && cost.getFlops() == 0 &&
         cost.getBytesWritten() >= cost.getBytesRead();
}

/// The result that is the operand's gradient and no other's.
static OpResult getOwnResult(OpOperand &use) {
  Operation *op = use.getOwner();
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (collective && collective.getCollectiveKind() == CollectiveKind::AllReduce)
    return op->getResult(use.getOperandNumber());
  auto scaling = dyn_cast<OptimizerOpInterface>(op);
  return scaling ? scaling.getHandedOn(use) : OpResult();
}

unsigned mpcomm::countHandedOn(Operation *op) {
  MutableArrayRef<OpOperand> operands = op->getOpOperands();
  return llvm::partition_point(
             operands, [](OpOperand &use) { return getOwnResult(use); }) -
         operands.begin();
}

bool mpcomm::isPerGradient(Operation *op) {
  return op->getNumOperands() > 0 && getOwnResult(op->getOpOperand(0));
}

Value mpcomm::getHandedOn(OpOperand &use) {
  Operation *op = use.getOwner();
  if (isPerGradient(op))
    return getOwnResult(use);
  return op->getNumResults() == 1 ? op->getResult(0) : Value();
}

//===----------------------------------------------------------------------===//
// Which pass
//===----------------------------------------------------------------------===//

void StageGraph::findCopies() {
  func::FuncOp step = micro->step;
  llvm::StringMap<BlockArgument> named;
  for (BlockArgument argument : step.getArguments())
    if (getArgumentRole(step, argument.getArgNumber()) == Role::Parameter) {
      named[mpcomm::getArgumentName(step, argument.getArgNumber())] = argument;
      read[argument] = argument;
    }
  for (BlockArgument argument : step.getArguments())
    if (auto source = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                        kCopyOfAttr))
      if (BlockArgument parameter = named.lookup(source.getValue()))
        read[argument] = parameter;
}

LogicalResult StageGraph::findLoss() {
  func::FuncOp step = micro->step;
  auto exit = step.getFunctionBody().front().getTerminator();
  bool isFirst = true;
  for (OpOperand &use : exit->getOpOperands()) {
    if (getResultRole(step, use.getOperandNumber()) != Role::Loss)
      continue;
    Value value = use.get();
    while (auto reduce = value.getDefiningOp<AllReduceOp>())
      value = reduce.getInputs()[cast<OpResult>(value).getResultNumber()];
    auto *sum = llvm::find_if(micro->sums, [&](const auto &sum) {
      return llvm::is_contained(
          llvm::map_range(sum.uses, [](OpOperand *use) { return use->get(); }),
          value);
    });
    if (sum != micro->sums.end())
      losses.insert(sum - micro->sums.begin());
    else if (isFirst)
      return step.emitOpError()
             << "computes " << describeResult(step, use.getOperandNumber())
             << " after a collective or an update, or of no batch, expected it "
                "of the micro-batch, to tell the forward pass by it";
    isFirst = false;
  }
  if (!losses.empty())
    return success();
  return step.emitOpError("has no result of role loss, expected one to tell "
                          "the forward pass by");
}

void StageGraph::classify() {
  func::FuncOp step = micro->step;
  Block &body = step.getFunctionBody().front();
  llvm::DenseSet<Value> varying(micro->batches.begin(), micro->batches.end());
  varying.insert(micro->seeds.begin(), micro->seeds.end());
  for (const MicroBatchState &state : micro->states)
    varying.insert(state.before);
  // What the loss depends on; and what a gradient depends on.
  llvm::DenseSet<Operation *> ofLoss, ofSum;
  auto mark = [&](llvm::DenseSet<Operation *> &set, Value value) {
    if (Operation *def = value.getDefiningOp())
      set.insert(def);
  };
  for (unsigned loss : losses)
    mark(ofLoss, micro->sums[loss].value);
  for (auto [i, sum] : llvm::enumerate(micro->sums))
    if (!losses.contains(i) && !sum.isMaximum)
      mark(ofSum, sum.value);
  for (Operation &op : llvm::reverse(body)) {
    if (ofLoss.contains(&op))
      forEachOperand(&op, [&](OpOperand &use) { mark(ofLoss, use.get()); });
    if (ofSum.contains(&op))
      forEachOperand(&op, [&](OpOperand &use) { mark(ofSum, use.get()); });
  }
  llvm::DenseSet<Operation *> ofState = findReadByState(ofLoss, ofSum);
  for (Operation &op : body) {
    if (micro->isInUpdatePhase(&op)) {
      passes[&op] = StepPass::Update;
      continue;
    }
    bool varies = false, below = false;
    forEachOperand(&op, [&](OpOperand &use) {
      varies |= varying.contains(use.get());
      SetVector<Value> roots;
      getRoots(use.get(), roots);
      for (Value root : roots)
        if (Operation *def = root.getDefiningOp())
          below |= passes.lookup(def) == StepPass::Backward;
    });
    if (varies)
      varying.insert(op.getResults().begin(), op.getResults().end());
    // State of a narrowed value is computed in the forward pass, which keeps
    // the value for the gradients that read it.
    bool isKept = !ofSum.contains(&op) ||
                  (isa<arith::TruncFOp>(op) && ofState.contains(&op));
    if ((!varies || isMovement(&op)) && isMemoryEffectFree(&op))
      passes[&op] = StepPass::Repeated;
    else if (ofLoss.contains(&op) || (isKept && !below))
      passes[&op] = StepPass::Forward;
    else
      passes[&op] = StepPass::Backward;
  }
  delayState(ofLoss);
  for (Operation &op : body)
    if (StepPass pass = getPass(&op); pass == StepPass::Backward)
      backward.push_back(&op);
    else if (pass == StepPass::Forward)
      (ofLoss.contains(&op) ? forward : auxiliary).push_back(&op);
}

/// Ops whose results state is computed of, directly or through movement, by ops
/// that neither the loss nor a gradient depends on.
llvm::DenseSet<Operation *>
StageGraph::findReadByState(const llvm::DenseSet<Operation *> &ofLoss,
                            const llvm::DenseSet<Operation *> &ofSum) const {
  func::FuncOp step = micro->step;
  llvm::DenseSet<Operation *> found;
  for (Operation &op : llvm::reverse(step.getFunctionBody().front())) {
    bool isOfState = !micro->isInUpdatePhase(&op) && !ofLoss.contains(&op) &&
                     !ofSum.contains(&op);
    if (isOfState || (found.contains(&op) && isMovement(&op)))
      forEachOperand(&op, [&](OpOperand &use) {
        if (Operation *def = use.get().getDefiningOp())
          found.insert(def);
      });
  }
  return found;
}

/// Ops between a state and its next value, where the backward pass computes
/// that and nothing else reads them, belong to the backward pass.
void StageGraph::delayState(const llvm::DenseSet<Operation *> &ofLoss) {
  func::FuncOp step = micro->step;
  Block &body = step.getFunctionBody().front();
  auto isOfBackward = [&](Value root) {
    Operation *def = root.getDefiningOp();
    return def && getPass(def) == StepPass::Backward;
  };
  llvm::DenseSet<Value> ofState;
  for (const MicroBatchState &state : micro->states) {
    SetVector<Value> roots;
    getRoots(state.after, roots);
    if (llvm::any_of(roots, isOfBackward))
      ofState.insert(state.before);
  }
  auto reads = [&](Operation *op) {
    return llvm::any_of(getOperandRoots(op),
                        [&](Value root) { return ofState.contains(root); });
  };
  for (Operation &op : body)
    if (getPass(&op) == StepPass::Forward && !ofLoss.contains(&op) &&
        reads(&op))
      ofState.insert(op.getResults().begin(), op.getResults().end());
  llvm::DenseSet<Operation *> readBackward, readElsewhere;
  for (Operation &op : llvm::reverse(body)) {
    if (getPass(&op) == StepPass::Repeated)
      continue;
    bool isOfState = llvm::any_of(op.getResults(), [&](Value result) {
      return ofState.contains(result);
    });
    if (isOfState && readBackward.contains(&op) &&
        !readElsewhere.contains(&op)) {
      passes[&op] = StepPass::Backward;
      delayed.insert(&op);
    }
    bool isBackward = getPass(&op) == StepPass::Backward;
    for (Value root : getOperandRoots(&op))
      if (Operation *def = root.getDefiningOp())
        (isBackward ? readBackward : readElsewhere).insert(def);
  }
}

void StageGraph::getRoots(Value value, SetVector<Value> &roots) const {
  llvm::SmallSetVector<Value, 4> visited;
  visited.insert(value);
  for (unsigned i = 0; i < visited.size(); ++i) {
    Operation *def = visited[i].getDefiningOp();
    if (!def || passes.lookup(def) != StepPass::Repeated)
      roots.insert(visited[i]);
    else
      forEachOperand(def, [&](OpOperand &use) { visited.insert(use.get()); });
  }
}

SetVector<Value> StageGraph::getOperandRoots(Operation *op) const {
  SetVector<Value> roots;
  forEachOperand(op, [&](OpOperand &use) { getRoots(use.get(), roots); });
  return roots;
}

//===----------------------------------------------------------------------===//
// Where along the forward pass
//===----------------------------------------------------------------------===//

/// The last position at which all that the op reads is there.
void StageGraph::numberBackward(Operation *op) {
  int last = static_cast<int>(forward.size()) - 1;
  for (Value root : getOperandRoots(op)) {
    Operation *def = root.getDefiningOp();
    if (def && getPass(def) == StepPass::Backward)
      last = std::min(last, positions.lookup(def));
    else if (auto reader = lastReader.find(root); reader != lastReader.end())
      last = std::min(last, reader->second);
  }
  positions[op] = last;
}

void StageGraph::number() {
  for (auto [i, op] : llvm::enumerate(forward)) {
    positions[op] = i;
    for (Value result : op->getResults())
      lastReader[result] = i;
    for (Value root : getOperandRoots(op)) {
      if (!isa<BlockArgument>(root) || getReadParameter(root))
        lastReader[root] = i;
    }
  }
  for (Operation *op : auxiliary) {
    int first = 0;
    for (Value root : getOperandRoots(op))
      if (Operation *def = root.getDefiningOp())
        first = std::max(first, positions.lookup(def));
    positions[op] = first;
  }
  // What only serves to make state anew stands where that is made.
  for (Operation *op : llvm::reverse(auxiliary))
    for (Value root : getOperandRoots(op))
      if (Operation *def = root.getDefiningOp();
          def && llvm::is_contained(auxiliary, def))
        positions[def] = std::max(positions[def], positions.lookup(op));
  // A value that is narrowed for gradients is where they find it as it was.
  for (Operation *op : auxiliary) {
    int last = positions.lookup(op);
    if (isa<arith::TruncFOp>(op))
      for (Value root : getOperandRoots(op))
        last = std::max(last, lastReader.lookup(root));
    for (Value result : op->getResults())
      lastReader[result] = last;
  }
  for (Operation *op : backward)
    numberBackward(op);
  numberDelayed();
}

/// What is delayed runs where the first op runs that reads it.
void StageGraph::numberDelayed() {
  llvm::DenseMap<Operation *, int> firstReader;
  for (Operation *op : llvm::reverse(backward)) {
    if (delayed.contains(op))
      positions[op] = firstReader.lookup(op);
    for (Value root : getOperandRoots(op))
      if (Operation *def = root.getDefiningOp()) {
        int &known = firstReader[def];
        known = std::max(known, positions.lookup(op));
      }
  }
}

/// The parameters that updates of a gradient change.
static SmallVector<BlockArgument, 1> findParameters(func::FuncOp step,
                                                    const MicroBatchSum &sum) {
  SmallVector<BlockArgument, 1> found;
  SmallVector<OpOperand *> worklist(sum.uses);
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    OpOperand *use = worklist.pop_back_val();
    Operation *op = use->getOwner();
    bool isUpdate = false;
    if (isa<OptimizerOpInterface>(op))
      for (Value operand : op->getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand))
          if (getArgumentRole(step, argument.getArgNumber()) ==
              Role::Parameter) {
            isUpdate = true;
            if (!llvm::is_contained(found, argument))
              found.push_back(argument);
          }
    Value next = isUpdate ? Value() : getHandedOn(*use);
    if (!next || !seen.insert(next).second)
      continue;
    for (OpOperand &further : next.getUses())
      worklist.push_back(&further);
  }
  return found;
}

/// Whether nothing but the update phase reads a sum, as it is or narrowed: then
/// what adds it up can go.
static bool isOnlySummed(const MicroBatch &micro, Value sum) {
  func::FuncOp step = micro.step;
  Region &body = step.getFunctionBody();
  auto isInUpdatePhase = [&](Operation *user) {
    return micro.isInUpdatePhase(body.findAncestorOpInRegion(*user));
  };
  return llvm::all_of(sum.getUsers(), [&](Operation *user) {
    return isInUpdatePhase(user) ||
           (isa<arith::TruncFOp>(user) &&
            llvm::all_of(user->getUsers(), isInUpdatePhase));
  });
}

/// Puts what makes a gradient no higher than `position`, and what reduces and
/// splits it, too: what goes from one stage to another is not reduced yet.
void StageGraph::pullDown(Value gradient, int position) {
  SetVector<Value> roots;
  getRoots(gradient, roots);
  for (Value root : roots) {
    Operation *def = root.getDefiningOp();
    if (!def || getPass(def) != StepPass::Backward)
      continue;
    positions[def] = std::min(positions[def], position);
    bool isReshard = root.getDefiningOp<ReshardOp>() != nullptr;
    for (OpOperand &use : def->getOpOperands())
      if (isReshard || getOwnResult(use) == root)
        pullDown(use.get(), position);
  }
}

/// A sum of gradients comes apart where its parts are made for different uses
/// of a parameter; each is pulled down to the use that it can reach, so that
/// it is made where the parameter is.
void StageGraph::findLeaves() {
  llvm::DenseMap<Value, SmallVector<int>> users; // of parameters, ascending
  for (auto [i, op] : llvm::enumerate(forward))
    for (Value root : getOperandRoots(op))
      if (BlockArgument parameter = getReadParameter(root))
        users[parameter].push_back(i);
  llvm::DenseMap<Value, unsigned> sumsOf;
  for (const MicroBatchSum &sum : micro->sums)
    ++sumsOf[sum.value];
  leaves.resize(micro->sums.size());
  for (auto [i, sum] : llvm::enumerate(micro->sums)) {
    parameters.push_back(findParameters(micro->step, sum));
    BlockArgument parameter = getParameter(i);
    bool comesApart = parameter && sumsOf.lookup(sum.value) == 1 &&
                      isOnlySummed(*micro, sum.value);
    SmallVector<Value> worklist{sum.value};
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      auto add = value.getDefiningOp<arith::AddFOp>();
      bool isSum = add && comesApart && getPass(add) == StepPass::Backward &&
                   (value == sum.value || value.hasOneUse());
      if (isSum) {
        worklist.push_back(add.getRhs());
        worklist.push_back(add.getLhs());
        continue;
      }
      GradientLeaf leaf{value, static_cast<int>(forward.size()) - 1};
      SetVector<Value> roots;
      getRoots(value, roots);
      for (Value root : roots)
        if (Operation *def = root.getDefiningOp())
          leaf.position = std::min(leaf.position, positions.lookup(def));
      if (losses.contains(i))
        leaf.position = positions.lookup(sum.value.getDefiningOp());
      ArrayRef<int> uses = users[parameter];
      auto after = llvm::upper_bound(uses, leaf.position);
      if (after != uses.begin()) {
        leaf.position = *std::prev(after);
        pullDown(value, leaf.position);
      }
      leaves[i].push_back(leaf);
    }
  }
}

/// From the last op to the first: how many sums depend on each.
void StageGraph::findReached() {
  auto add = [&](Value value, int what) {
    SetVector<Value> roots;
    getRoots(value, roots);
    for (Value root : roots)
      if (Operation *def = root.getDefiningOp()) {
        int &known = reached[def];
        known = known == kNone || known == what ? what : kMany;
      }
  };
  for (unsigned i = 0; i < micro->sums.size(); ++i)
    for (const GradientLeaf &leaf : leaves[i])
      add(leaf.value, 1 + static_cast<int>(i));
  for (Operation *op : llvm::reverse(backward))
    if (int what = reached.lookup(op); what != kNone)
      for (Value root : getOperandRoots(op))
        add(root, what);
}

FailureOr<StageGraph> StageGraph::get(const MicroBatch &micro) {
  StageGraph graph(micro);
  graph.findCopies();
  if (failed(graph.findLoss()))
    return failure();
  graph.classify();
  func::FuncOp step = micro.step;
  if (graph.forward.empty())
    return step.emitOpError("has a loss that no op makes of the batch, "
                            "expected a forward pass");
  graph.number();
  graph.findLeaves();
  // What reads what was pulled down comes with it.
  for (Operation *op : graph.backward) {
    int pulled = graph.positions.lookup(op);
    graph.numberBackward(op);
    graph.positions[op] = std::min(pulled, graph.positions.lookup(op));
  }
  graph.numberDelayed();
  graph.findReached();
  return graph;
}
