//===- OverlapPlanning.cpp - a step as an overlap problem -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem of a block, and the block in the order of a schedule.
//
//===----------------------------------------------------------------------===//

#include "Communicate/OverlapPlanning.h"
#include "Communicate/Communicator.h"
#include "Communicate/OverlapGraphBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;

void OverlapGraphBuilder::forEachOperand(
    int op, llvm::function_ref<void(Value)> visit) {
  auto visitOp = [&](Operation *user) {
    for (Value operand : user->getOperands())
      visit(operand);
  };
  if (ops[op]->getNumRegions() == 0)
    visitOp(ops[op]);
  else
    ops[op]->walk(visitOp);
}

int OverlapGraphBuilder::getOp(Value value) const {
  Operation *def = value.getDefiningOp();
  return def && def->getBlock() == graph.block ? step.getPosition(def) : -1;
}

/// Finds the ops and which collective an async or await is of.
bool OverlapGraphBuilder::read(std::string &why) {
  FunctionOpInterface function = step.getFunction();
  Region &body = function.getFunctionBody();
  if (!body.hasOneBlock() || !body.front().mightHaveTerminator()) {
    why = "the function has more than one block";
    return false;
  }
  graph.block = &body.front();
  terminator = graph.block->getTerminator();
  for (Operation &op : graph.block->without_terminator())
    ops.push_back(&op);
  collectiveOf.assign(ops.size(), -1);
  for (auto [i, collective] : llvm::enumerate(step.getCollectives())) {
    Operation *op = step.getInstructions()[collective.start].op;
    if (isSynchronous) {
      if (!isMovableCollective(op)) {
        why = ("'" + op->getName().getStringRef() + "' must not move").str();
        return false;
      }
      collectiveOf[step.getPosition(op)] = i;
      continue;
    }
    auto async = dyn_cast<AsyncOp>(op);
    if (!async || !async.getFuture().hasOneUse() ||
        !isa<AwaitOp>(*async.getFuture().user_begin()) ||
        (*async.getFuture().user_begin())->getBlock() != graph.block) {
      why = "a collective is synchronous, or its future is not awaited here";
      return false;
    }
    collectiveOf[step.getPosition(async)] = i;
    collectiveOf[step.getPosition(*async.getFuture().user_begin())] = i;
  }
  for (auto [i, op] : llvm::enumerate(ops))
    if (collectiveOf[i] < 0 && !isMemoryEffectFree(op)) {
      why = ("'" + op->getName().getStringRef() +
             "' has effects that fix the order")
                .str();
      return false;
    }
  return true;
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

/// Dependencies that have nothing to do with memory: all of SSA's, and that of
/// an update in place on who else reads the argument.
void OverlapGraphBuilder::addDependencies() {
  auto add = [&](int from, int to) {
    if (from != to)
      graph.problem.nodes[to].after.push_back(from);
  };
  for (int op = 0, e = static_cast<int>(ops.size()); op < e; ++op) {
    if (isAwait(op))
      continue;
    forEachOperand(op, [&](Value value) {
      if (int def = getOp(value); def >= 0)
        add(nodeOf[def], nodeOf[op]);
    });
  }
  FunctionOpInterface function = step.getFunction();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto donated = function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr);
    if (!donated)
      continue;
    uint64_t result = donated.getValue().getLimitedValue();
    int def = result < terminator->getNumOperands()
                  ? getOp(terminator->getOperand(result))
                  : -1;
    if (def < 0)
      continue;
    for (Operation *user : function.getArgument(i).getUsers())
      if (Operation *here = graph.block->findAncestorOpInBlock(*user))
        if (int reader = step.getPosition(here);
            here != terminator && reader >= 0 && nodeOf[reader] < nodeOf[def])
          add(nodeOf[reader], nodeOf[def]);
  }
  boundGathers();
  for (OverlapProblem::Node &node : graph.problem.nodes) {
    llvm::sort(node.after);
    node.after.erase(llvm::unique(node.after), node.after.end());
  }
}

/// The first op that takes time for what the collective of `op` makes; -1 if
/// there is none.
int OverlapGraphBuilder::getFirstReader(int op) const {
  size_t made = op; // or its await
  for (size_t i = made + 1; i < ops.size(); ++i)
    if (collectiveOf[i] == collectiveOf[op])
      made = i;
  int first = -1;
  SmallVector<Operation *> worklist{ops[made]};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val()->getUsers()) {
      Operation *here = graph.block->findAncestorOpInBlock(*user);
      int reader = here && here != terminator ? step.getPosition(here) : -1;
      if (reader < 0)
        continue;
      if (collectiveOf[reader] < 0 && step.getSeconds(here) == 0)
        worklist.push_back(here);
      else if (first < 0 || reader < first)
        first = reader;
    }
  return first;
}

/// Gathers of state, which depend on nothing, follow the first use of those
/// before them that getGatherBefore says.
void OverlapGraphBuilder::boundGathers() {
  struct Gathers {
    SmallVector<int> ops;
    SmallVector<int64_t> bytes;
  };
  llvm::MapVector<unsigned, Gathers> streams;
  for (int i = 0, e = static_cast<int>(ops.size()); i < e; ++i) {
    if (collectiveOf[i] < 0 || isAwait(i))
      continue;
    const StepCollective &collective = step.getCollectives()[collectiveOf[i]];
    CollectiveOpInterface op = collective.op;
    auto bucket = dyn_cast<BucketableOpInterface>(op.getOperation());
    if (!bucket || !gathersState(bucket))
      continue;
    Gathers &gathers = streams[collective.communicator];
    gathers.ops.push_back(i);
    gathers.bytes.push_back(collective.bytes);
  }
  for (auto &[_, gathers] : streams) {
    int64_t largest = *llvm::max_element(gathers.bytes);
    for (size_t i = 0; i < gathers.ops.size(); ++i) {
      int before =
          getGatherBefore(ArrayRef(gathers.bytes).take_front(i + 1), largest);
      int reader = before < 0 ? -1 : getFirstReader(gathers.ops[before]);
      // Of those that the block has in another order, nothing is said.
      int node = nodeOf[gathers.ops[i]];
      if (reader >= 0 && nodeOf[reader] < node)
        graph.problem.nodes[node].after.push_back(nodeOf[reader]);
    }
  }
}

void OverlapGraphBuilder::addValues() {
  OverlapProblem &problem = graph.problem;
  problem.staticBytes = step.getStaticBytes();
  llvm::DenseMap<int, int> valueOf; // by buffer
  auto getValue = [&](Value value) {
    int buffer = step.getBuffer(value);
    if (buffer < 0 || step.getBufferBytes(buffer) == 0)
      return -1;
    auto [it, isNew] =
        valueOf.try_emplace(buffer, static_cast<int>(problem.values.size()));
    if (isNew) {
      problem.values.emplace_back();
      problem.values.back().bytes = step.getBufferBytes(buffer);
    }
    return it->second;
  };
  for (int op = 0, e = static_cast<int>(ops.size()); op < e; ++op) {
    int node = nodeOf[op];
    for (Value result : ops[op]->getResults())
      if (int value = getValue(result); value >= 0) {
        int &producer = problem.values[value].producer;
        if (producer >= 0 && producer != node)
          problem.values[value].users.push_back(node);
        producer = producer < 0 ? node : std::min(producer, node);
      }
    forEachOperand(op, [&](Value operand) {
      if (int value = getValue(operand); value >= 0)
        problem.values[value].users.push_back(node);
    });
  }
  for (Value returned : terminator->getOperands())
    if (int value = getValue(returned); value >= 0)
      problem.values[value].output = true;
  for (OverlapProblem::Value &value : problem.values) {
    llvm::sort(value.users);
    value.users.erase(llvm::unique(value.users), value.users.end());
    llvm::erase(value.users, value.producer);
  }
}

/// Ranks that two groups of one mesh have in common, at the most. Channels of a
/// group are there to be in flight together.
static int64_t countShared(MeshOp mesh, ArrayAttr a, ArrayAttr b) {
  if (a.size() == b.size() && coversAxes(a, b))
    return 1;
  int64_t shared = 1;
  for (Attribute axis : a)
    if (llvm::is_contained(b, axis))
      shared *= mesh.getAxisSize(cast<StringAttr>(axis).getValue()).value_or(1);
  return shared;
}

void OverlapGraphBuilder::addCollectives() {
  OverlapProblem &problem = graph.problem;
  ArrayRef<StepCommunicator> communicators = step.getCommunicators();
  problem.streams.resize(communicators.size());
  for (size_t a = 0; a < communicators.size(); ++a)
    for (size_t b = a + 1; b < communicators.size(); ++b) {
      const StepCommunicator &first = communicators[a],
                             &second = communicators[b];
      auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
          step.getFunction(), first.mesh);
      if (first.mesh != second.mesh || !mesh ||
          countShared(mesh, first.axes, second.axes) > 1)
        problem.conflicts.emplace_back(a, b);
    }
  for (const LinkLevel &link : model.getCluster().links)
    problem.links.push_back({link.contends});
  problem.computeRateUnderComm = model.getCluster().computeRateUnderComm;
  problem.commRateUnderCompute = model.getCluster().commRateUnderCompute;
  for (size_t op = 0; op < ops.size(); ++op) {
    if (collectiveOf[op] < 0 || isAwait(op))
      continue;
    const StepCollective &collective = step.getCollectives()[collectiveOf[op]];
    OverlapProblem::Node &node = problem.nodes[nodeOf[op]];
    node.stream = static_cast<int>(collective.communicator);
    node.latency = collective.latency;
    node.transfer = collective.transfer;
    node.link = collective.link;
    node.belowSaturatingSize =
        collective.bytes < collective.cost.getSaturatingBytes();
    node.userCap = collective.op->hasAttr(kUserCapAttr);
  }
}

/// The block as it is: computation at its node's place.
void OverlapGraphBuilder::addInput() {
  struct Placed {
    OverlapStep step;
    int at;
  };
  std::vector<int> lastOp(numNodes, -1);
  for (size_t op = 0; op < ops.size(); ++op)
    if (!isAwait(op))
      lastOp[nodeOf[op]] = static_cast<int>(op);
  // Nodes in their order; an await before the first node that is after
  // it in the block.
  std::vector<int> awaits;
  for (size_t op = 0; op < ops.size(); ++op)
    if (isAwait(op))
      awaits.push_back(static_cast<int>(op));
  // The first node that needs the collective, by number.
  std::vector<int> neededBy(numNodes, numNodes);
  for (int node = 0; node < numNodes; ++node)
    for (int before : graph.problem.nodes[node].after)
      neededBy[before] = std::min(neededBy[before], node);
  for (const OverlapProblem::Value &value : graph.problem.values)
    if (value.producer >= 0)
      for (int user : value.users)
        neededBy[value.producer] = std::min(neededBy[value.producer], user);
  size_t next = 0;
  std::vector<OverlapStep> &input = graph.problem.input;
  std::vector<char> isStarted(numNodes, false), isAwaited(numNodes, false);
  std::vector<std::vector<int>> awaitedBefore(numNodes + 1);
  for (int node = 0; node < numNodes; ++node)
    if (graph.problem.nodes[node].stream >= 0)
      awaitedBefore[neededBy[node]].push_back(node);
  auto await = [&](int node) {
    if (!isAwaited[node]) {
      isAwaited[node] = true;
      input.push_back({RankInstruction::Await, node});
    }
  };
  for (int node = 0; node < numNodes; ++node) {
    // Awaits that the block has before this node's last op.
    for (; next < awaits.size() && awaits[next] < lastOp[node]; ++next)
      if (isStarted[nodeOf[awaits[next]]])
        await(nodeOf[awaits[next]]);
    for (int needed : awaitedBefore[node])
      await(needed);
    bool isCollective = graph.problem.nodes[node].stream >= 0;
    isStarted[node] = isCollective;
    input.push_back(
        {isCollective ? RankInstruction::Start : RankInstruction::Compute,
         node});
  }
  for (; next < awaits.size(); ++next)
    await(nodeOf[awaits[next]]);
  for (int node = 0; node < numNodes; ++node)
    if (graph.problem.nodes[node].stream >= 0)
      await(node);
}

void OverlapGraphBuilder::build() {
  graph.problem.nodes.resize(numNodes);
  graph.nodes.resize(numNodes);
  graph.ops = ops;
  for (auto [i, op] : llvm::enumerate(ops)) {
    OverlapGraph::Node &node = graph.nodes[nodeOf[i]];
    if (auto async = dyn_cast<AsyncOp>(op))
      node.async = async;
    else if (auto await = dyn_cast<AwaitOp>(op))
      node.await = await;
    else {
      node.ops.push_back(op);
      graph.problem.nodes[nodeOf[i]].seconds += step.getSeconds(op);
    }
  }
  addDependencies();
  addValues();
  addCollectives();
  addInput();
}

std::optional<OverlapGraph> OverlapGraph::get(const StepModel &step,
                                              const CostModel &model,
                                              size_t maxNodes, std::string &why,
                                              bool isSynchronous) {
  OverlapGraphBuilder builder(step, model, isSynchronous);
  if (!builder.read(why))
    return std::nullopt;
  if (!builder.numberNodes(maxNodes)) {
    why = "the block is no list of ops in order";
    return std::nullopt;
  }
  builder.build();
  why = builder.graph.problem.check();
  if (!why.empty())
    return std::nullopt;
  return std::move(builder.graph);
}

void OverlapGraph::apply(const OverlapSchedule &schedule) {
  Operation *end = block->getTerminator();
  for (const OverlapStep &step : schedule.steps) {
    Node &node = nodes[step.node];
    if (step.kind == RankInstruction::Start) {
      node.async->moveBefore(end);
      if (schedule.memoryBound[step.node])
        node.async->setAttr(kMemoryBoundAttr,
                            UnitAttr::get(node.async.getContext()));
    } else if (step.kind == RankInstruction::Await) {
      node.await->moveBefore(end);
    } else {
      for (Operation *op : node.ops)
        op->moveBefore(end);
    }
  }
}

void OverlapGraph::moveToFront(ArrayRef<int> order) {
  llvm::DenseSet<Operation *> moved;
  Operation *end = block->getTerminator();
  for (int node : order)
    for (Operation *op : nodes[node].ops) {
      op->moveBefore(end);
      moved.insert(op);
    }
  for (Operation *op : ops)
    if (!moved.contains(op))
      op->moveBefore(end);
}

void OverlapGraph::undo() {
  Operation *end = block->getTerminator();
  for (Operation *op : ops) {
    op->moveBefore(end);
    if (isa<AsyncOp>(op))
      op->removeAttr(kMemoryBoundAttr);
  }
}
