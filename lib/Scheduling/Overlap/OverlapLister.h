//===- OverlapLister.h - list scheduling by priorities ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One order of steps from one choice of priorities.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLISTER_H
#define MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLISTER_H

#include "Overlap/OverlapImpl.h"

namespace mpcomm::overlap {

struct Priorities {
  /// By node, lower first: of computation, and of the starts on a stream.
  std::vector<double> compute, start;
  enum Mode {
    /// What can run without a wait; a wait only where nothing can.
    Greedy,
    /// The first whose collectives are started, be there a wait or not.
    Patient,
    /// Computation in the order of its priorities, which respects
    /// dependencies.
    Fixed
  } mode = Greedy;
  /// Starts a collective as soon as it is ready; else only when its stream
  /// would run dry before the next computation ends, so that one that is more
  /// urgent may overtake it.
  bool eager = true;
};

struct Listed {
  std::vector<OverlapStep> steps;
  /// Of each node: the memory bound delayed its start or hastened its await.
  std::vector<bool> memoryBound;
};

/// `base` keeps the bound, the dependencies and the conflicts; so will the
/// result. Time: O((n + e) log n).
Listed list(const StepGraph &graph, const std::vector<OverlapStep> &base,
            int64_t bound, const Priorities &priorities);

} // namespace mpcomm::overlap

#endif // MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPLISTER_H
