//===- CastPlacementFlow.h - minimum cuts -----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dinic's maximum flow ("Algorithm for solution of a problem of maximum flow in
// networks with power estimation", Soviet Math. Doklady 11, 1970): blocking
// flows on the shortest paths of the residual graph until the sink is out of
// reach.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_CASTPLACEMENT_CASTPLACEMENTFLOW_H
#define MPCOMM_LIB_SCHEDULING_CASTPLACEMENT_CASTPLACEMENTFLOW_H

#include <cstdint>
#include <vector>

namespace mpcomm {

class CutGraph {
public:
  static constexpr int source = 0, sink = 1;
  /// More than all finite capacities together may be.
  static constexpr int64_t infinite = INT64_MAX / 4;

  CutGraph() : numNodes(2) {}
  int addNode() { return numNodes++; }
  /// Edges into the source, out of the sink, and loops count for nothing.
  void addEdge(int from, int to, int64_t capacity);

  /// The nodes on the source's side of the minimum cut whose source side is
  /// the smallest. Some cut has finite capacity. Time: O(V^2 E) at worst, near
  /// linear on graphs of training steps; nothing recursive.
  std::vector<bool> cut();

private:
  struct Edge {
    int from, to;
    int64_t capacity;
  };
  void buildLists();
  bool findLevels();
  void blockFlow();

  int numNodes;
  std::vector<Edge> edges; // each followed by its reverse
  std::vector<int> first;  // by node: its first entry of `incident`
  std::vector<int> incident;
  std::vector<int> level, next;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_SCHEDULING_CASTPLACEMENT_CASTPLACEMENTFLOW_H
