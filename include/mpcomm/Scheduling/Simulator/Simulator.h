//===- Simulator.h - step time of rank programs on streams ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An event-driven fluid simulation of one training step. Ranks that run the
// same program are one class. A class has a compute stream, which executes its
// instructions in order. Every communicator has one stream, which executes its
// collectives first in, first out. Times are seconds, sizes bytes.
//
// Model and proofs: docs/Design/Simulation.md
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_SIMULATOR_SIMULATOR_H
#define MPCOMM_SCHEDULING_SIMULATOR_SIMULATOR_H

#include "mpcomm/Scheduling/RankProgram.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mpcomm {

/// A level of the network, on which every rank has its own port. If it
/// contends, simultaneous transfers of a class share the port evenly; otherwise
/// they do not slow one another down.
struct SimLink {
  bool contends = true;
};

/// The classes of ranks that meet in a communicator: one for the data-parallel
/// group of an SPMD program (the class represents all ranks of the group), two
/// for the send and recv of neighbouring pipeline stages. The k-th Starts of
/// the member classes match.
struct SimCommunicator {
  std::vector<int> classes;
};

/// A collective of a program. If the members of a match give different costs,
/// the largest counts.
struct SimCollective {
  int communicator = 0;
  /// Seconds before the transfer; neither shared nor slowed.
  double latency = 0;
  /// Seconds of the transfer alone on its link.
  double transfer = 0;
  /// Index of a link; -1: a link that never contends.
  int link = -1;

  // Optional facts, for the lower bound and the reason.

  /// The instruction that produces the last of its operands, and the first one
  /// that needs its results; -1 (unknown): its Start and its Await.
  int producer = -1, consumer = -1;
  /// Seconds of computation that neither feeds the collective nor needs it,
  /// which bounds the time that any schedule can hide. Negative: unknown.
  double independentSeconds = -1;
  /// Whether the memory bound delayed its start or advanced its await.
  bool memoryBound = false;
  /// Whether its payload is too small to saturate the link.
  bool belowSaturatingSize = false;
  /// Whether a limit of the user determined its size.
  bool userCap = false;

  double seconds() const { return latency + transfer; }
};

/// The program of a class.
struct SimProgram : RankProgram<SimCollective> {
  /// Number of ranks that run it; does not affect times.
  int64_t multiplicity = 1;
  /// Bytes that live through the whole step.
  int64_t staticBytes = 0;
};

struct SimProblem {
  std::vector<SimProgram> classes;
  std::vector<SimCommunicator> communicators;
  std::vector<SimLink> links;
  /// Rate of the computation of a class while it has a collective in flight,
  /// and of a transfer while one of its classes computes; both in (0, 1].
  double computeRateUnderComm = 1;
  double commRateUnderCompute = 1;

  /// Empty if the problem is well formed, else what is wrong with it. A
  /// problem that deadlocks is well formed. Time: linear.
  std::string check() const;
};

/// The reason why a collective is exposed.
enum class SimReason {
  None, // nothing is exposed
  Dependency,
  NothingToHideUnder,
  MemoryBound,
  LatePeer,
  StreamOrder,
  BelowSaturatingSize,
  UserCap
};

/// "none", "dependency", "nothing-to-hide-under", "memory-bound",
/// "late-peer", "stream-order", "below-saturating-size" or "user-cap".
const char *toString(SimReason reason);

/// A collective, from the point of view of one class.
struct SimCollectiveResult {
  /// The times at which this class reached the Start, the collective started
  /// (its latency began) and ended, and this class reached the Await.
  double ready = 0, start = 0, end = 0, awaited = 0;
  /// Seconds between start and end in which this class computed.
  double hidden = 0;
  /// Seconds for which this class waited at the Await.
  double exposed = 0;
  SimReason reason = SimReason::None;
  /// For Dependency, the instruction that needs the result; for StreamOrder,
  /// the previous collective on the stream (an index into the program's
  /// collectives); else -1.
  int reasonIndex = -1;
};

struct SimClassResult {
  /// The end of the program and of all its collectives.
  double seconds = 0;
  /// Sum of the seconds of its Computes, and the time that communication adds.
  double compute = 0, slowdown = 0;
  /// Seconds for which the compute stream waited:
  /// seconds = compute + slowdown + exposed.
  double exposed = 0;
  int64_t peakBytes = 0;
  /// Begin and end of each instruction.
  std::vector<double> begin, end;
  /// Live bytes from each time on, by increasing time.
  std::vector<std::pair<double, int64_t>> memory;
  /// In the order of the program's collectives.
  std::vector<SimCollectiveResult> collectives;
};

struct SimResult {
  /// Empty, or a description of a deadlock: for each element of the cycle the
  /// class, the instruction and the collective. Times are then those up to the
  /// deadlock.
  std::string error;
  double seconds = 0;
  /// A lower bound for all placements of starts and awaits in these orders of
  /// computation (see lowerBound).
  double lowerBound = 0;
  std::vector<SimClassResult> classes;
};

/// Simulates a problem whose check() is empty. Deterministic. Copies of a class
/// give the same times as one class that represents them. Time: O(n log n) for
/// n instructions, if a class has few collectives in flight.
SimResult simulate(const SimProblem &problem);

/// simulate(problem).seconds without the records, for search; negative on
/// deadlock.
double simulateSeconds(const SimProblem &problem);

/// A lower bound on the step for all placements of starts and awaits: the
/// largest, over the classes, of the sum of computation; of the one-machine
/// bound of the collectives of each communicator and each contending link, with
/// the computation before their producer as head and the computation from their
/// consumer on as tail; and of slowedBound, if rates are below 1. Time: O(n log
/// n).
double lowerBound(const SimProblem &problem);

/// A job of one machine. It starts at `head` or later, takes `seconds` on the
/// machine, and then `tail` elsewhere.
struct OneMachineJob {
  double head = 0, seconds = 0, tail = 0;
};

/// The maximum over all sets of jobs of min head + sum of seconds + min tail: a
/// lower bound for all orders of the jobs, which is attained if jobs may be
/// interrupted (Jackson's preemptive schedule; Carlier, "The one-machine
/// sequencing problem", EJOR 11, 1982). Time: O(n log n).
double oneMachineBound(std::vector<OneMachineJob> jobs);

/// A collective of a class that computes at least `head` seconds before it and
/// at least `tail` seconds after it.
struct SlowedJob {
  double head = 0, latency = 0, transfer = 0, tail = 0;
};

/// A lower bound on a step with `compute` seconds of computation and these
/// collectives on one stream, if computation has the rate `computeRate` while a
/// collective is in flight, and transfers the rate `commRate` during
/// computation. At full rates it is the larger of `compute` and the one-machine
/// bound. Time: O(n log n).
double slowedBound(double compute, const std::vector<SlowedJob> &jobs,
                   double computeRate, double commRate);

/// The largest number of live bytes while an instruction runs. Time: linear.
int64_t peakBytes(const SimProgram &program);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_SIMULATOR_SIMULATOR_H
