//===- CollectiveClock.cpp - what collectives cost a rank -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/CollectiveClock.h"

#include <algorithm>

using namespace mprt;

void CollectiveClock::finish(const mprt_collective &collective, uint64_t begin,
                             uint64_t end) {
  if (!isOn)
    return;
  uint64_t &before = lastEnd[collective.communicator];
  CollectiveTime &time = times.byId[collective.id];
  ++time.count;
  time.busyNanoseconds += end - std::min(end, std::max(begin, before));
  before = std::max(before, end);
  if (collective.kind != MPRT_SEND && collective.kind != MPRT_RECV)
    spans.emplace_back(begin, end);
}

void CollectiveClock::wait(const mprt_collective &collective,
                           uint64_t nanoseconds) {
  if (isOn)
    times.byId[collective.id].waitedNanoseconds += nanoseconds;
}

CollectiveTimes CollectiveClock::take() {
  std::sort(spans.begin(), spans.end());
  uint64_t covered = 0;
  for (auto [begin, end] : spans) {
    times.busyNanoseconds += end - std::min(end, std::max(begin, covered));
    covered = std::max(covered, end);
  }
  spans.clear();
  return std::exchange(times, {});
}
