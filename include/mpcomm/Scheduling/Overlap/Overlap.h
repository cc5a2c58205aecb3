//===- Overlap.h - orders that hide communication ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computation and collectives with their dependencies; wanted is an order of
// the computation and of the starts and awaits of the collectives with the
// least simulated step time, under a hard bound on memory. It is NP-hard even
// where computation is one chain and memory is plenty: heads from the chain and
// tails on streams of their own make it sequencing with release times and
// deadlines (Garey and Johnson, "Computers and Intractability", 1979, SS1).
//
// Model, algorithm and proofs: docs/Design/Overlap.md
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H
#define MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include <limits>

namespace mpcomm {

/// What the compute stream does with a node: runs it (computation), or starts
/// or awaits it (collective).
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
    /// Of computation: its seconds.
    double seconds = 0;
    /// Of a collective: as in SimCollective.
    double latency = 0, transfer = 0;
    int link = -1;
    /// Of a collective: bytes from its start until its await beyond those of
    /// its operands and results (staging, packed bucket).
    int64_t stagingBytes = 0;
    /// Nodes that come before it though no value says so (side effects).
    std::vector<int> after;
    /// Facts that pass through to SimCollective.
    bool belowSaturatingSize = false, userCap = false;
  };

  /// Memory. A value comes to life when its producer begins (a collective: at
  /// its start) and dies when the last of its users has ended (a collective:
  /// at its await). Users depend on the producer.
  struct Value {
    int64_t bytes = 0;
    /// -1: it is there from the beginning.
    int producer = -1;
    std::vector<int> users;
    /// Lives to the end of the step, whoever uses it.
    bool output = false;
  };

  struct Stream {
    /// Its collectives keep the order of the input: wanted where ranks with
    /// different programs meet in the communicator. Otherwise the order is
    /// chosen, as a function of this problem alone, so that ranks with the
    /// same program have the same order.
    bool keepOrder = false;
  };

  /// In the order of the program: a node comes after what it depends on.
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<Stream> streams;
  std::vector<SimLink> links;
  /// Streams of communicators that share two ranks or more: of such a pair no
  /// two collectives are in flight at a time, that is, one is started only
  /// when those of the other are awaited.
  std::vector<std::pair<int, int>> conflicts;
  /// The program as it is; empty: the nodes in order, each collective
  /// awaited directly after its start.
  std::vector<OverlapStep> input;
  double computeRateUnderComm = 1, commRateUnderCompute = 1;
  /// Bytes beside the values, and the most bytes that may live at a time.
  int64_t staticBytes = 0;
  int64_t memoryBound = std::numeric_limits<int64_t>::max();

  /// Empty if the problem is well formed, else what is wrong with it. An input
  /// above the memory bound, or with conflicting collectives in flight, is
  /// well formed. Time: O(n + e + conflicts) for e uses of values.
  std::string check() const;

  /// The input, spelled out where it is empty.
  std::vector<OverlapStep> inputSteps() const;
  /// The input with every await directly after its start.
  std::vector<OverlapStep> synchronousSteps() const;
  /// The most bytes that live at a time in this order. Time: O(n + e).
  int64_t peakBytes(const std::vector<OverlapStep> &steps) const;
  /// The one class of ranks that runs `steps`: one instruction a step; the
  /// i-th of its collectives is the i-th collective among the nodes. With
  /// `facts`, independentSeconds too is filled in (O(c (n + e)) for c
  /// collectives).
  SimProblem toSimProblem(const std::vector<OverlapStep> &steps,
                          bool facts = false) const;
  /// No order takes less: the largest of all computation, the one-machine
  /// bound of computation, of each stream and of each contending link, with
  /// the longest path and all computation before (after) a node as its head
  /// (tail; left out where c n > 10^8), and slowedBound of each. Time: O(n log
  /// n + c (n + e)) for c collectives.
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
  /// What the same algorithm reaches without a memory bound: seconds minus
  /// this is what the bound costs. Equal to `seconds` where it does not bind.
  double unboundedSeconds = 0;
  /// The bytes that it takes there.
  int64_t unboundedPeakBytes = 0;
  /// Of each node: whether the bound made a collective start later or be
  /// awaited earlier than the algorithm wanted.
  std::vector<bool> memoryBound;

  /// Empty if the steps solve the problem (each node once, dependencies,
  /// orders to be kept, conflicts, memory bound, seconds and bytes as stated),
  /// else what is wrong. Time: O(n log n + e).
  std::string verify(const OverlapProblem &problem) const;
};

struct OverlapOptions {
  /// Orders computation too; else only starts and awaits move.
  bool reorderCompute = true;
  /// Simulations that the local search of scheduleList may use; it stops at
  /// the lower bound. 0: no search.
  int searchSteps = 200;
};

/// Priority list scheduling by several rules, then a local search; the best of
/// them and the input in the simulator, so never worse than an input that
/// keeps the memory bound and the conflicts. The bound is kept exactly: a step
/// is taken early only if the rest, in the order of the input, still fits.
/// Time: O((n + e) log n) for each rule and O(n log n) a search step.
OverlapSchedule scheduleList(const OverlapProblem &problem,
                             const OverlapOptions &options = {});

/// An optimal schedule, by branch and bound; for problems of up to about
/// twenty steps (62 at most). Time: exponential.
OverlapSchedule scheduleExact(const OverlapProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_OVERLAP_OVERLAP_H
