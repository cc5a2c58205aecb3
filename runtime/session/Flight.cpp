//===- Flight.cpp - the last collectives of a rank ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Flight.h"

#include "support/Trace.h"

#include <algorithm>

using namespace mprt;

const char *mprt::stateOf(const FlightEntry &entry) {
  return entry.done ? "done" : entry.started ? "started" : "enqueued";
}

FlightEntry *FlightRecorder::find(uint64_t number) {
  if (number == 0 || number > count || count - number >= ring.size())
    return nullptr;
  return &ring[(number - 1) % ring.size()];
}

uint64_t FlightRecorder::enqueue(const mprt_collective &collective,
                                 uint64_t place) {
  if (ring.empty())
    return 0;
  uint64_t now = nowNanoseconds();
  std::lock_guard<std::mutex> guard(mutex);
  ++count;
  *find(count) = {count, place, collective, now, 0, 0};
  return count;
}

void FlightRecorder::start(uint64_t number) {
  if (ring.empty())
    return;
  uint64_t now = nowNanoseconds();
  std::lock_guard<std::mutex> guard(mutex);
  if (FlightEntry *entry = find(number))
    entry->started = now;
}

void FlightRecorder::finish(uint64_t number, uint64_t begin, uint64_t end) {
  if (ring.empty())
    return;
  uint64_t now = end ? end : nowNanoseconds();
  std::lock_guard<std::mutex> guard(mutex);
  FlightEntry *entry = find(number);
  if (!entry)
    return;
  if (begin)
    entry->started = begin;
  entry->done = now;
}

std::vector<FlightEntry> FlightRecorder::entries() const {
  std::lock_guard<std::mutex> guard(mutex);
  std::vector<FlightEntry> all;
  uint64_t kept = std::min<uint64_t>(count, ring.size());
  for (uint64_t number = count - kept + 1; number <= count; ++number)
    all.push_back(ring[(number - 1) % ring.size()]);
  return all;
}
