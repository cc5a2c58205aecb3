//===- Overlap.h - orders that hide communication ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Given computation and collectives with their dependencies, finds an order of
// the computation and of the starts and awaits of the collectives with the
// least simulated step time, under a hard bound on memory. The problem is
// NP-hard even if computation is one chain and memory is unlimited: with heads
// from the chain and tails on separate streams it expresses sequencing with
// release times and deadlines (Garey and Johnson, "Computers and
// Intractability", 1979, SS1).
//
// Model, algorithm and proofs: docs/Design/Overlap.md
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H
#define MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include <limits>

namespace mpcomm {

/// A step of the compute stream: it runs a node (computation), or starts or
/// awaits it (collective).
struct OverlapStep {
  RankInstruction::Kind kind = RankInstruction::Compute;
  int node = 0;
  bool operator==(const OverlapStep &) const = default;
};

struct OverlapProblem {
  /// A piece of computation (stream < 0) or a collective.
  struct Node {
    /// Index of the stream (communicator) of a collective; -1: computation.
    int stream = -1;
    /// Seconds, for computation.
    double seconds = 0;
    /// For a collective, as in SimCollective.
    double latency = 0, transfer = 0;
    int link = -1;
    /// For a collective, bytes that live from its start to its await, in
    /// addition to operands and results (staging, packed bucket).
    int64_t stagingBytes = 0;
    /// Further nodes that must precede it, without a value (side effects).
    std::vector<int> after;
    /// Passed on to SimCollective.
    bool belowSaturatingSize = false, userCap = false;
  };

  /// A value lives from the beginning of its producer (a collective: its start)
  /// to the end of its last user (a collective: its await). Users depend on the
  /// producer.
  struct Value {
    int64_t bytes = 0;
    /// -1: it exists from the beginning.
    int producer = -1;
    std::vector<int> users;
    /// Lives to the end of the step in any case.
    bool output = false;
  };

  struct Stream {
    /// Whether its collectives keep the order of the input, as they must if
    /// ranks with different programs meet in the communicator. Otherwise the
    /// order is a function of this problem alone, so ranks with the same
    /// program get the same order.
    bool keepOrder = false;
  };

  /// In the order of the program: a node follows the nodes it depends on.
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<Stream> streams;
  std::vector<SimLink> links;
  /// Pairs of streams whose communicators share two ranks or more. Collectives
  /// of such a pair are never in flight at the same time: one is started only
  /// after those of the other have been awaited.
  std::vector<std::pair<int, int>> conflicts;
  /// The order of the program. If empty: the nodes in order, with each
  /// collective awaited directly after its start.
  std::vector<OverlapStep> input;
  double computeRateUnderComm = 1, commRateUnderCompute = 1;
  /// Bytes in addition to the values, and the largest number of live bytes.
  int64_t staticBytes = 0;
  int64_t memoryBound = std::numeric_limits<int64_t>::max();

  /// Empty if the problem is well formed, else what is wrong with it. An input
  /// above the memory bound, or with conflicting collectives in flight, is
  /// well formed. Time: O(n + e + conflicts) for e uses of values.
  std::string check() const;

  /// The input; if it is empty, the default order.
  std::vector<OverlapStep> inputSteps() const;
  /// The input with every await directly after its start.
  std::vector<OverlapStep> synchronousSteps() const;
  /// The largest number of live bytes in this order. Time: O(n + e).
  int64_t peakBytes(const std::vector<OverlapStep> &steps) const;
  /// The problem of one class of ranks that runs `steps`, with one instruction
  /// per step. Collective i is the i-th collective among the nodes. With
  /// `facts`, independentSeconds is set too (O(c (n + e)) for c collectives).
  SimProblem toSimProblem(const std::vector<OverlapStep> &steps,
                          bool facts = false) const;
  /// A lower bound on all orders: the largest of the sum of computation, the
  /// one-machine bounds of computation, of each stream and of each contending
  /// link, and slowedBound of each. The head (tail) of a node is the longest
  /// path to (from) it, or all computation that precedes (follows) it, which is
  /// left out if c n > 10^8. Time: O(n log n + c (n + e)) for c collectives.
  double lowerBound() const;
};

struct OverlapSchedule {
  /// Empty, or why there is no schedule; `steps` is then the input.
  std::string error;
  std::vector<OverlapStep> steps;
  /// Simulated step time of the steps.
  double seconds = 0;
  int64_t peakBytes = 0;
  /// Simulated step time of the input, and its bytes.
  double inputSeconds = 0;
  int64_t inputPeakBytes = 0;
  /// The result of the same algorithm without a memory bound. `seconds` minus
  /// this is the cost of the bound; the two are equal if it does not bind.
  double unboundedSeconds = 0;
  /// The peak bytes of that result.
  int64_t unboundedPeakBytes = 0;
  /// For each node, whether the bound delayed the start of a collective or
  /// advanced its await.
  std::vector<bool> memoryBound;

  /// Empty if the steps solve the problem (each node once, dependencies,
  /// orders to be kept, conflicts, memory bound, seconds and bytes as stated),
  /// else what is wrong. Time: O(n log n + e).
  std::string verify(const OverlapProblem &problem) const;
};

struct OverlapOptions {
  /// Whether computation moves too, or only starts and awaits.
  bool reorderCompute = true;
  /// Maximum number of simulations in the local search of scheduleList, which
  /// stops at the lower bound. 0: no search.
  int searchSteps = 200;
};

/// Priority list scheduling by several rules, then a local search. Returns the
/// best of these and the input by the simulator, so the result is never worse
/// than an input that respects the memory bound and the conflicts. The bound
/// holds exactly: a step is taken early only if the remaining steps, in the
/// order of the input, still fit. Time: O((n + e) log n) per rule, O(n log n)
/// per step of the search.
OverlapSchedule scheduleList(const OverlapProblem &problem,
                             const OverlapOptions &options = {});

/// An optimal schedule, by branch and bound; for problems of up to about
/// twenty steps (62 at most). Time: exponential.
OverlapSchedule scheduleExact(const OverlapProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H
