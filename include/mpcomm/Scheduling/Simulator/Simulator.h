//===- Simulator.h - step time of rank programs on streams ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An event-driven fluid simulation of one training step. Ranks that run the
// same program are one class. A class has a compute stream, which takes its
// instructions in order, and every communicator has one stream, which takes
// its collectives first in, first out. Times are seconds, sizes bytes.
//
// The model, with the proofs of what is claimed here: docs/Design/Simulation.md
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

/// A level of the network, of which every rank has its own port. Where it
/// contends, the transfers that a class has on it at one time share the port
/// evenly; else each has the rate that it has alone.
struct SimLink {
  bool contends = true;
};

/// The classes of ranks that meet in a communicator: one for the data-parallel
/// group of an SPMD program (folded: the class stands for all of the group's
/// ranks), two for the send and recv of neighbouring pipeline stages. The k-th
/// Start of each member class match.
struct SimCommunicator {
  std::vector<int> classes;
};

/// A collective of a program. Of the costs that the members of a match give,
/// the largest counts.
struct SimCollective {
  int communicator = 0;
  /// Seconds before the transfer; neither shared nor slowed.
  double latency = 0;
  /// Seconds of the transfer alone on its link.
  double transfer = 0;
  /// Index of a link; -1: a link that never contends.
  int link = -1;

  // Facts for the lower bound and for the reason; all of them optional.

  /// The instruction that makes the last of its operands, and the first one
  /// that needs its results; -1 where not known: then its Start and its Await.
  int producer = -1, consumer = -1;
  /// Seconds of computation that neither feeds the collective nor needs it:
  /// the most that any schedule could hide it under. Negative: not known.
  double independentSeconds = -1;
  /// The memory bound made it start later or be awaited earlier.
  bool memoryBound = false;
  /// Its payload is below what saturates the link.
  bool belowSaturatingSize = false;
  /// A limit of the user's (bucket bytes, collectives in flight) formed it.
  bool userCap = false;

  double seconds() const { return latency + transfer; }
};

/// The program of a class.
struct SimProgram : RankProgram<SimCollective> {
  /// Ranks that run it; changes no time.
  int64_t multiplicity = 1;
  /// Bytes that live through the whole step.
  int64_t staticBytes = 0;
};

struct SimProblem {
  std::vector<SimProgram> classes;
  std::vector<SimCommunicator> communicators;
  std::vector<SimLink> links;
  /// Rate of a class's computation while it has a collective in flight, and of
  /// a transfer while one of its classes computes; both in (0, 1].
  double computeRateUnderComm = 1;
  double commRateUnderCompute = 1;

  /// Empty if the problem is well formed, else what is wrong with it. A
  /// problem that deadlocks is well formed. Time: linear.
  std::string check() const;
};

/// What keeps a collective from being hidden.
enum class SimReason {
  None, // all of it is hidden
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

/// A collective as one class saw it.
struct SimCollectiveResult {
  /// This class reached the Start; it began to transfer or to count its
  /// latency; it ended; this class reached the Await.
  double ready = 0, start = 0, end = 0, awaited = 0;
  /// Seconds between start and end in which this class computed.
  double hidden = 0;
  /// Seconds for which this class stood still at the Await.
  double exposed = 0;
  SimReason reason = SimReason::None;
  /// What the reason speaks of: the instruction that depends on it
  /// (Dependency), the collective before it on the stream (StreamOrder, an
  /// index into the program's collectives); else -1.
  int reasonIndex = -1;
};

struct SimClassResult {
  /// When the program and all that it started had ended.
  double seconds = 0;
  /// Sum of the seconds of its Computes, and what communication added to it.
  double compute = 0, slowdown = 0;
  /// Seconds for which the compute stream stood still:
  /// seconds = compute + slowdown + exposed.
  double exposed = 0;
  int64_t peakBytes = 0;
  /// Begin and end of each instruction.
  std::vector<double> begin, end;
  /// Bytes from each time on, by increasing time.
  std::vector<std::pair<double, int64_t>> memory;
  /// In the order of the program's collectives.
  std::vector<SimCollectiveResult> collectives;
};

struct SimResult {
  /// Empty, or that the programs deadlock: which class waits at which
  /// instruction for which collective, round the cycle. Times are then those
  /// up to the standstill.
  std::string error;
  double seconds = 0;
  /// No placement of starts and awaits in these orders of computation is
  /// faster (see lowerBound).
  double lowerBound = 0;
  std::vector<SimClassResult> classes;
};

/// Runs a problem that checks. Deterministic; copies of a class and one class
/// that stands for them give the same times. Time: O(n log n) for n
/// instructions, while collectives in flight of one class are few.
SimResult simulate(const SimProblem &problem);

/// simulate(problem).seconds without the records, for search; negative on
/// deadlock.
double simulateSeconds(const SimProblem &problem);

/// The largest over the classes of: all of its computation; and for each
/// communicator and each contending link, the one-machine bound of its
/// collectives with the computation before their producer as head and that
/// from their consumer on as tail; and where overlap slows either, what that
/// must cost (slowedBound). Time: O(n log n).
double lowerBound(const SimProblem &problem);

/// A job of one machine: not before `head`, `seconds` on the machine, then
/// `tail` elsewhere.
struct OneMachineJob {
  double head = 0, seconds = 0, tail = 0;
};

/// The largest over all sets of jobs of min head + sum of seconds + min tail:
/// what no order of the jobs can beat, attained if jobs may be interrupted
/// (Jackson's preemptive schedule; Carlier, "The one-machine sequencing
/// problem", EJOR 11, 1982). Time: O(n log n).
double oneMachineBound(std::vector<OneMachineJob> jobs);

/// A collective beside the computation of a class: the class computes at least
/// `head` seconds before it and `tail` seconds after it.
struct SlowedJob {
  double head = 0, latency = 0, transfer = 0, tail = 0;
};

/// What a step takes at the least that has `compute` seconds of computation and
/// these collectives on one stream, where computation has the rate
/// `computeRate` while one is in flight, and transfers `commRate` while there
/// is computation. At full rates the larger of `compute` and the one-machine
/// bound. Time: O(n log n).
double slowedBound(double compute, const std::vector<SlowedJob> &jobs,
                   double computeRate, double commRate);

/// Bytes that live while each instruction runs, and the most of them.
/// Time: linear.
int64_t peakBytes(const SimProgram &program);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_SIMULATOR_SIMULATOR_H
