//===- ReplayTimes.h - what replayed steps cost the host ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the calling thread of a session spends the time of steps that replay a
// graph. Medians: one step that the machine interrupts says nothing of the
// others.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_REPLAYTIMES_H
#define MPCOMM_RUNTIME_SESSION_REPLAYTIMES_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mprt {

/// Nanoseconds of one step, by the clock.
struct ReplayTime {
  /// Batches, checked and copied to where they are sent from, and the calls
  /// that send them and put them in place.
  uint64_t inputs = 0;
  /// The device's launch of the graph.
  uint64_t launch = 0;
  /// Waiting until the device is done.
  uint64_t wait = 0;
  /// All else that the session does.
  uint64_t rest = 0;
  /// From the end of the wait of the step or evaluation before to the end of
  /// the launch, the caller's time in between included: the device has nothing
  /// to do.
  uint64_t idle = 0;
};

/// The last steps.
class ReplayTimes {
public:
  void add(const ReplayTime &time) { times[added++ % times.size()] = time; }

  /// 0 where there is none.
  double medianMicroseconds(uint64_t ReplayTime::*part) const {
    size_t count = std::min(added, times.size());
    if (count == 0)
      return 0;
    std::array<uint64_t, kept> sorted;
    for (size_t i = 0; i < count; ++i)
      sorted[i] = times[i].*part;
    std::nth_element(sorted.begin(), sorted.begin() + count / 2,
                     sorted.begin() + count);
    return 1e-3 * double(sorted[count / 2]);
  }

private:
  static constexpr size_t kept = 64;
  std::array<ReplayTime, kept> times;
  size_t added = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_REPLAYTIMES_H
