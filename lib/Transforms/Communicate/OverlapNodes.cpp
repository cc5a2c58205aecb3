//===- OverlapNodes.cpp - what moves as one -------------------------------===//
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

#include "Communicate/OverlapGraphBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;

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
    if (!isAwait(op))
      nodeAt[slots[op]] = 0;
  }
  numNodes = 0;
  for (int &node : nodeAt)
    if (node == 0)
      node = numNodes++;
  nodeOf.assign(count, -1);
  for (int op = 0; op < count; ++op)
    if (!isAwait(op))
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
std::vector<OverlapGraphBuilder::StepPhase> OverlapGraphBuilder::findPhases() {
  int count = static_cast<int>(ops.size());
  std::vector<StepPhase> phases(count, StepPhase::Leaf);
  for (int op = 0; op < count; ++op) {
    if (collectiveOf[op] >= 0) {
      phases[op] = StepPhase::Communication;
      continue;
    }
    forEachOperand(op, [&](Value value) {
      int def = getOp(value);
      if (def >= 0 &&
          (isAwait(def) || phases[def] == StepPhase::Update))
        phases[op] = StepPhase::Update;
    });
  }
  constexpr int longestLeaf = 3;
  std::vector<int> level(count, 0); // ops from here to the end of the leaf
  for (int op = count - 1; op >= 0; --op) {
    if (phases[op] != StepPhase::Leaf)
      continue;
    if (level[op] >= longestLeaf)
      phases[op] = StepPhase::Main;
    forEachOperand(op, [&](Value value) {
      if (int def = getOp(value); def >= 0)
        level[def] = std::max(level[def], level[op] + 1);
    });
  }
  return phases;
}

/// Visits all ops but awaits with their nodes. `isBroken`: it is the first of
/// its node, and there is an await between it and the op before.
void OverlapGraphBuilder::visitNodes(
    llvm::function_ref<void(int op, int node, bool isBroken)> visit) const {
  std::vector<char> isFirst(numNodes, true);
  bool awaited = false;
  for (int op = 0, e = static_cast<int>(ops.size()); op < e; ++op) {
    if (isAwait(op)) {
      awaited = true;
      continue;
    }
    int node = nodeOf[op];
    visit(op, node, awaited && isFirst[node]);
    isFirst[node] = awaited = false;
  }
}

/// Joins runs of consecutive nodes, of updates only up to the next await.
void OverlapGraphBuilder::coarsen() {
  std::vector<StepPhase> phases = findPhases();
  std::vector<std::optional<StepPhase>> phaseOf(numNodes);
  std::vector<char> hasBreak(numNodes, false);
  visitNodes([&](int op, int node, bool isBroken) {
    if (!phaseOf[node])
      phaseOf[node] = phases[op];
    else if (*phaseOf[node] != phases[op])
      phaseOf[node] = StepPhase::Leaf;
    hasBreak[node] |= isBroken;
  });
  joinNodes([&](int node) {
    return phaseOf[node] == phaseOf[node - 1] &&
           (phaseOf[node] == StepPhase::Main ||
            (phaseOf[node] == StepPhase::Update && !hasBreak[node]));
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
  std::vector<char> hasBreak(numNodes, false), isCollective(numNodes, false);
  visitNodes([&](int op, int node, bool isBroken) {
    isCollective[node] |= collectiveOf[op] >= 0;
    hasBreak[node] |= isBroken;
  });
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
      if (!isAwait(op))
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
