//===- CollectiveClock.h - what collectives cost a rank ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long each collective was under way, and for how long the computing thread
// stood still for it. That is of one rank: a collective that another rank came
// late to was under way for longer. What compares ranks is adapt/Monitor.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_COLLECTIVECLOCK_H
#define MPCOMM_RUNTIME_SESSION_COLLECTIVECLOCK_H

#include "mpcomm/Runtime/mprt.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace mprt {

/// Of the collectives with one id, all calls together.
struct CollectiveTime {
  uint64_t count = 0;
  /// While it was under way, and nothing before it on its communicator was.
  uint64_t busyNanoseconds = 0;
  /// Of the computing thread.
  uint64_t waitedNanoseconds = 0;
};

struct CollectiveTimes {
  std::map<uint32_t, CollectiveTime> byId;
  /// While any of them, on whatever communicator, was under way; without sends
  /// and receives, which begin long before the other rank does.
  uint64_t busyNanoseconds = 0;
};

/// Off until `enable`.
class CollectiveClock {
public:
  void enable(bool on) {
    isOn = on;
    (void)take();
  }
  bool enabled() const { return isOn; }

  /// A collective was under way from `begin` to `end`, ns of CLOCK_MONOTONIC.
  void finish(const mprt_collective &collective, uint64_t begin, uint64_t end);
  void wait(const mprt_collective &collective, uint64_t nanoseconds);

  /// All since the last call. Time: n log n in the collectives since then.
  CollectiveTimes take();

private:
  bool isOn = false;
  CollectiveTimes times;
  /// The end of the last one on each communicator.
  std::map<uint32_t, uint64_t> lastEnd;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_COLLECTIVECLOCK_H
