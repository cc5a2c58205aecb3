//===- Stats.h - totals of one context ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Totals since the context was made. A report on one step is the difference of
// two copies.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_STATS_H
#define MPCOMM_RUNTIME_SUPPORT_STATS_H

#include <cstdint>

namespace mprt {

struct Stats {
  /// Time in which the compute stream stood still for communication.
  uint64_t waitedNanoseconds = 0;
  /// Time that the computing thread spent in moving collectives on, outside of
  /// waits. Where a progress thread does this, it stays 0.
  uint64_t progressNanoseconds = 0;
  uint64_t launches = 0;
  uint64_t gemms = 0;
  uint64_t collectives = 0;
  /// Payload of the collectives: count x size of the type, on this rank.
  uint64_t collectiveBytes = 0;
  /// Of an asynchronous device: steps that were run call by call, but for the
  /// first of each entry point, and what their calls put on its streams; of
  /// those that did not wait for staged collectives their number and the
  /// processor time that they took on the calling thread.
  uint64_t eagerSteps = 0;
  uint64_t eagerCalls = 0;
  uint64_t eagerTimed = 0;
  uint64_t eagerNanoseconds = 0;
  /// The same of steps that were run as a graph, which is one call; times are
  /// of all but the first replay of each graph. `graphLaunchNanoseconds` is the
  /// launch alone, by the clock.
  uint64_t graphSteps = 0;
  uint64_t graphNodes = 0, graphKernels = 0, graphCopies = 0, graphFills = 0;
  uint64_t graphTimed = 0;
  uint64_t graphNanoseconds = 0;
  uint64_t graphLaunchNanoseconds = 0;
  /// Of the first replays.
  uint64_t firstLaunchNanoseconds = 0;
  /// Time in which the calling thread waited until an asynchronous device was
  /// done.
  uint64_t deviceNanoseconds = 0;

  /// What communication cost the compute stream: waited and progressed.
  double exposedSeconds() const {
    return double(waitedNanoseconds + progressNanoseconds) * 1e-9;
  }

  Stats operator-(const Stats &before) const {
    Stats d = *this;
    d.waitedNanoseconds -= before.waitedNanoseconds;
    d.progressNanoseconds -= before.progressNanoseconds;
    d.launches -= before.launches;
    d.gemms -= before.gemms;
    d.collectives -= before.collectives;
    d.collectiveBytes -= before.collectiveBytes;
    d.eagerSteps -= before.eagerSteps;
    d.eagerCalls -= before.eagerCalls;
    d.eagerTimed -= before.eagerTimed;
    d.eagerNanoseconds -= before.eagerNanoseconds;
    d.graphSteps -= before.graphSteps;
    d.graphNodes -= before.graphNodes;
    d.graphKernels -= before.graphKernels;
    d.graphCopies -= before.graphCopies;
    d.graphFills -= before.graphFills;
    d.graphTimed -= before.graphTimed;
    d.graphNanoseconds -= before.graphNanoseconds;
    d.graphLaunchNanoseconds -= before.graphLaunchNanoseconds;
    d.firstLaunchNanoseconds -= before.firstLaunchNanoseconds;
    d.deviceNanoseconds -= before.deviceNanoseconds;
    return d;
  }
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_STATS_H
