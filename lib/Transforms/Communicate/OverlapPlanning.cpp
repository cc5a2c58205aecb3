//===- OverlapPlanning.cpp - a step as an overlap problem -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nodes are numbered in the order of the block, a kernel's at its last op (or,
// if that is no order in which every node follows what it needs, at its first;
// else each op is a node). A run of consecutive nodes may become one: the
// order stays one in which every node follows what it needs.
//
//===----------------------------------------------------------------------===//

#include "Communicate/OverlapPlanning.h"
#include "Communicate/Communicator.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;

namespace mpcomm {

class OverlapGraphBuilder {
public:
  OverlapGraphBuilder(const StepModel &step, const CostModel &model)
      : step(step), model(model) {}

  bool read(std::string &why);
  bool numberNodes(size_t maxNodes);
  void build();

  OverlapGraph graph;

private:
  bool assign(llvm::function_ref<int(int first, int last)> slotOfKernel);
  bool isOrder();
  enum class Part : char { Leaf, Main, Update, Communication };
  std::vector<Part> findParts();
  void coarsen();
  void joinRuns(size_t length);
  void joinNodes(llvm::function_ref<bool(int)> joins);
  void addDependencies();
  void addValues();
  void addCollectives();
  void addInput();
  void forEachOperand(int op, llvm::function_ref<void(Value)> visit);
  int getOp(Value value) const;

  const StepModel &step;
  const CostModel &model;
  std::vector<Operation *> ops; // of the block, without the terminator
  Operation *terminator = nullptr;
  std::vector<int> nodeOf;       // by op
  std::vector<int> collectiveOf; // by op, of asyncs and awaits; else -1
  int numNodes = 0;
};

} // namespace mpcomm

/// Visits operands, those of ops in regions too.
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

/// The op of the block that defines a value; -1 for arguments and others.
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
    auto async = dyn_cast<AsyncOp>(step.getInstructions()[collective.start].op);
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
// Nodes
//===----------------------------------------------------------------------===//

/// Numbers nodes by slots: kernels' as given, an await's is its async's node.
bool OverlapGraphBuilder::assign(
    llvm::function_ref<int(int first, int last)> slotOfKernel) {
  llvm::DenseMap<int, std::pair<int, int>> spans;
  int count = static_cast<int>(ops.size());
  for (int op = 0; op < count; ++op)
    if (int kernel = step.getKernel(ops[op]); kernel >= 0)
      spans.try_emplace(kernel, op, op).first->second.second = op;
  std::vector<int> nodeAt(count, -1), slots(count);
  for (int op = 0; op < count; ++op) {
    slots[op] = op;
    if (int kernel = step.getKernel(ops[op]); kernel >= 0) {
      auto [first, last] = spans[kernel];
      slots[op] = slotOfKernel(first, last);
    }
    if (!isa<AwaitOp>(ops[op]))
      nodeAt[slots[op]] = 0;
  }
  numNodes = 0;
  for (int &node : nodeAt)
    if (node == 0)
      node = numNodes++;
  nodeOf.assign(count, -1);
  for (int op = 0; op < count; ++op)
    if (!isa<AwaitOp>(ops[op]))
      nodeOf[op] = nodeAt[slots[op]];
  for (int op = 0; op < count; ++op)
    if (auto await = dyn_cast<AwaitOp>(ops[op]))
      nodeOf[op] = nodeOf[step.getPosition(await.getFuture().getDefiningOp())];
  return isOrder();
}

/// Whether each node follows what it needs.
bool OverlapGraphBuilder::isOrder() {
  bool isOrder = true;
  for (int op = 0, e = static_cast<int>(ops.size()); op < e && isOrder; ++op)
    forEachOperand(op, [&](Value value) {
      int def = getOp(value);
      isOrder &= def < 0 || nodeOf[def] <= nodeOf[op];
    });
  return isOrder;
}

/// What a run of nodes may consist of: ops on which other computation depends,
/// or updates. Leaves stay apart, for they are worth moving: what feeds nothing
/// but collectives, updates and the function's results, at most three ops on.
std::vector<OverlapGraphBuilder::Part> OverlapGraphBuilder::findParts() {
  int count = static_cast<int>(ops.size());
  std::vector<Part> parts(count, Part::Leaf);
  for (int op = 0; op < count; ++op) {
    if (collectiveOf[op] >= 0) {
      parts[op] = Part::Communication;
      continue;
    }
    forEachOperand(op, [&](Value value) {
      int def = getOp(value);
      if (def >= 0 && (isa<AwaitOp>(ops[def]) || parts[def] == Part::Update))
        parts[op] = Part::Update;
    });
  }
  constexpr int longestLeaf = 3;
  std::vector<int> level(count, 0); // ops from here to the end of the leaf
  for (int op = count - 1; op >= 0; --op) {
    if (parts[op] != Part::Leaf)
      continue;
    if (level[op] >= longestLeaf)
      parts[op] = Part::Main;
    forEachOperand(op, [&](Value value) {
      if (int def = getOp(value); def >= 0)
        level[def] = std::max(level[def], level[op] + 1);
    });
  }
  return parts;
}

/// Joins runs of consecutive nodes, of updates only up to the next await.
void OverlapGraphBuilder::coarsen() {
  std::vector<Part> parts = findParts();
  std::vector<Part> partOf(numNodes, Part::Leaf);
  std::vector<char> isFirst(numNodes, true), hasBreak(numNodes, false);
  bool awaited = false;
  for (size_t op = 0; op < ops.size(); ++op) {
    int node = nodeOf[op];
    if (isa<AwaitOp>(ops[op])) {
      awaited = true;
      continue;
    }
    if (isFirst[node])
      partOf[node] = parts[op];
    else if (partOf[node] != parts[op])
      partOf[node] = Part::Leaf;
    hasBreak[node] |= awaited && isFirst[node];
    isFirst[node] = awaited = false;
  }
  joinNodes([&](int node) {
    return partOf[node] == partOf[node - 1] &&
           (partOf[node] == Part::Main ||
            (partOf[node] == Part::Update && !hasBreak[node]));
  });
}

/// Renumbers nodes, each that `joins` the one before it with that one.
void OverlapGraphBuilder::joinNodes(llvm::function_ref<bool(int)> joins) {
  std::vector<int> renumbered(numNodes);
  int next = -1;
  for (int node = 0; node < numNodes; ++node) {
    next += node == 0 || !joins(node);
    renumbered[node] = next;
  }
  for (int &node : nodeOf)
    node = renumbered[node];
  numNodes = next + 1;
}

/// Joins up to `length` consecutive nodes of computation, whatever they are;
/// not across an await, nor across an async.
void OverlapGraphBuilder::joinRuns(size_t length) {
  std::vector<char> isFirst(numNodes, true), hasBreak(numNodes, false);
  std::vector<char> isCollective(numNodes, false);
  bool awaited = false;
  for (size_t op = 0; op < ops.size(); ++op) {
    int node = nodeOf[op];
    if (isa<AwaitOp>(ops[op])) {
      awaited = true;
      continue;
    }
    isCollective[node] |= isa<AsyncOp>(ops[op]);
    hasBreak[node] |= awaited && isFirst[node];
    isFirst[node] = awaited = false;
  }
  size_t joined = 1;
  joinNodes([&](int node) {
    bool joins = joined < length && !hasBreak[node] && !isCollective[node] &&
                 !isCollective[node - 1];
    joined = joins ? joined + 1 : 1;
    return joins;
  });
}

bool OverlapGraphBuilder::numberNodes(size_t maxNodes) {
  if (!assign([](int, int last) { return last; }) &&
      !assign([](int first, int) { return first; })) {
    // Kernels cross each other: each op is a node.
    std::vector<int> next;
    numNodes = 0;
    for (size_t op = 0; op < ops.size(); ++op)
      if (!isa<AwaitOp>(ops[op]))
        nodeOf[op] = numNodes++;
    for (size_t op = 0; op < ops.size(); ++op)
      if (auto await = dyn_cast<AwaitOp>(ops[op]))
        nodeOf[op] =
            nodeOf[step.getPosition(await.getFuture().getDefiningOp())];
    if (!isOrder())
      return false;
  }
  if (static_cast<size_t>(numNodes) > maxNodes)
    coarsen();
  if (static_cast<size_t>(numNodes) > maxNodes)
    joinRuns((numNodes + maxNodes - 1) / std::max<size_t>(maxNodes, 1));
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
    if (isa<AwaitOp>(ops[op]))
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
  for (OverlapProblem::Node &node : graph.problem.nodes) {
    llvm::sort(node.after);
    node.after.erase(llvm::unique(node.after), node.after.end());
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

/// Ranks that two groups of one mesh have in common, at the most.
static int64_t countShared(MeshOp mesh, ArrayAttr a, ArrayAttr b) {
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
    if (!isa<AsyncOp>(ops[op]))
      continue;
    const StepCollective &collective = step.getCollectives()[collectiveOf[op]];
    OverlapProblem::Node &node = problem.nodes[nodeOf[op]];
    node.stream = static_cast<int>(collective.communicator);
    node.latency = collective.latency;
    node.transfer = collective.transfer;
    node.link = static_cast<int>(collective.link);
    node.belowSaturatingSize =
        collective.bytes < collective.cost.getSaturatingBytes();
    node.userCap = collective.op->hasAttr(kUserCapAttr);
  }
}

/// The block as it stands: computation at its node's place.
void OverlapGraphBuilder::addInput() {
  struct Placed {
    OverlapStep step;
    int at;
  };
  std::vector<int> lastOp(numNodes, -1);
  for (size_t op = 0; op < ops.size(); ++op)
    if (!isa<AwaitOp>(ops[op]))
      lastOp[nodeOf[op]] = static_cast<int>(op);
  // Nodes in their order; an await before the first node that stands behind
  // it in the block.
  std::vector<int> awaits;
  for (size_t op = 0; op < ops.size(); ++op)
    if (isa<AwaitOp>(ops[op]))
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
      input.push_back({SimInstruction::Await, node});
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
        {isCollective ? SimInstruction::Start : SimInstruction::Compute, node});
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
                                              size_t maxNodes,
                                              std::string &why) {
  OverlapGraphBuilder builder(step, model);
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
    if (step.kind == SimInstruction::Start) {
      node.async->moveBefore(end);
      if (schedule.memoryBound[step.node])
        node.async->setAttr(kMemoryBoundAttr,
                            UnitAttr::get(node.async.getContext()));
    } else if (step.kind == SimInstruction::Await) {
      node.await->moveBefore(end);
    } else {
      for (Operation *op : node.ops)
        op->moveBefore(end);
    }
  }
}

void OverlapGraph::undo() {
  Operation *end = block->getTerminator();
  for (Operation *op : ops) {
    op->moveBefore(end);
    if (isa<AsyncOp>(op))
      op->removeAttr(kMemoryBoundAttr);
  }
}
