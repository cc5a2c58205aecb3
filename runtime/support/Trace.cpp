//===- Trace.cpp - what each stream did, and when -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Trace.h"

#include <algorithm>
#include <cstddef>

using namespace mprt;

const char *mprt::nameOf(TraceEvent::Kind kind) {
  switch (kind) {
  case TraceEvent::Kernel:
    return "kernel";
  case TraceEvent::Gemm:
    return "gemm";
  case TraceEvent::Copy:
    return "copy";
  case TraceEvent::Zero:
    return "zero";
  case TraceEvent::Collective:
    return "collective";
  case TraceEvent::Wait:
    return "wait";
  }
  return "unknown";
}

void Trace::enable(uint32_t capacity) {
  // Written once here, so that no page is touched for the first time in a step.
  ring.assign(capacity, TraceEvent{});
  recorded = 0;
}

std::vector<TraceEvent> Trace::events() const {
  if (recorded <= ring.size())
    return {ring.begin(), ring.begin() + std::ptrdiff_t(recorded)};
  std::vector<TraceEvent> result(ring.size());
  auto oldest = ring.begin() + std::ptrdiff_t(recorded % ring.size());
  std::rotate_copy(ring.begin(), oldest, ring.end(), result.begin());
  return result;
}
