//===- OverlapLedger.h - memory promised to the rest of a step --*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheduler that takes steps in an order of its own may run into an order
// from which no completion keeps the memory bound. The ledger rules that out
// as the banker's algorithm does (Dijkstra, EWD 623): it holds the bytes that
// would live at every step still to come if from here on the base order were
// followed, and lets a step be taken only if none of them exceeds the bound.
//
// Invariant: the steps taken, then the others in the base order, keep the
// bound. So the first of the others may always be taken.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLEDGER_H
#define MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLEDGER_H

#include "Overlap/OverlapImpl.h"

namespace mpcomm::overlap {

class Ledger {
public:
  /// `base`: an order that keeps the bound. Time: O(n + e).
  Ledger(const StepGraph &graph, const std::vector<OverlapStep> &base,
         int64_t bound);

  /// Takes a step whose dependencies are taken, unless that breaks the
  /// invariant. An await never does. Time: O(log n) a value that the step
  /// makes or uses.
  bool take(int step);

  bool isTaken(int step) const { return positions[step] < 0; }
  /// The first step of the base order that is not taken; -1 if none.
  int next();

private:
  struct Change {
    int begin, end; // positions
    int64_t bytes;
  };
  void add(const Change &change);
  void add(int begin, int end, int64_t bytes, int node, int low, int high);

  const StepGraph &graph;
  int64_t bound, live;
  /// The bound holds whatever is taken: nothing has to be counted.
  bool isMet;
  std::vector<int> base;      // steps, by position
  std::vector<int> positions; // by step; -1: taken
  size_t first = 0;
  /// Of each value: the positions of its deaths, the last at the back; those
  /// of steps taken leave once they are at the back.
  std::vector<std::vector<int>> deaths;
  /// Segment tree over positions: bytes that live during a step, the most in
  /// each subtree beyond what was added above it.
  int size = 1;
  std::vector<int64_t> most, added;
};

} // namespace mpcomm::overlap

#endif // MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLEDGER_H
