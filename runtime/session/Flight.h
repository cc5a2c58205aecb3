//===- Flight.h - the last collectives of a rank --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a rank has called last, and how far each call came: the first thing to
// look at where ranks wait for one another. It is always kept, at the cost of
// some hundred nanoseconds a collective, and may be read by any thread at any
// time, also while the computing thread hangs.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_FLIGHT_H
#define MPCOMM_RUNTIME_SESSION_FLIGHT_H

#include "mpcomm/Runtime/mprt.h"

#include <cstdint>
#include <mutex>
#include <vector>

namespace mprt {

struct FlightEntry {
  /// Counts the collectives of this rank, and those of them on this
  /// communicator, from 1.
  uint64_t number = 0, place = 0;
  /// Its name and location are the program's, and live as long as that.
  mprt_collective collective = {};
  /// When the program called it, when it was its turn on the communicator, and
  /// when it was done: ns of CLOCK_MONOTONIC; 0 where that has not come yet.
  uint64_t enqueued = 0, started = 0, done = 0;
};

/// `enqueued`, `started` or `done`.
const char *stateOf(const FlightEntry &entry);

class FlightRecorder {
public:
  /// Keeps the last `capacity` collectives; nothing where that is 0.
  explicit FlightRecorder(uint32_t capacity) : ring(capacity) {}

  /// A collective is called; returns its number, for the calls below.
  uint64_t enqueue(const mprt_collective &collective, uint64_t place);
  void start(uint64_t number);
  /// It has run from `begin` to `end`, as far as is known: 0 is now.
  void finish(uint64_t number, uint64_t begin = 0, uint64_t end = 0);

  /// Oldest first. Any thread may ask.
  std::vector<FlightEntry> entries() const;

private:
  /// The entry of that number, or null where it is no longer kept.
  FlightEntry *find(uint64_t number);

  mutable std::mutex mutex;
  std::vector<FlightEntry> ring;
  uint64_t count = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_FLIGHT_H
