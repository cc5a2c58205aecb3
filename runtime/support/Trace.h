//===- Trace.h - what each stream did, and when ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events go to a ring that is allocated once; when it is full the oldest are
// overwritten. Times are of CLOCK_MONOTONIC, so that the traces of all ranks of
// one machine lie on one axis.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_TRACE_H
#define MPCOMM_RUNTIME_SUPPORT_TRACE_H

#include "mpcomm/Runtime/mprt.h"

#include <cstdint>
#include <ctime>
#include <vector>

namespace mprt {

/// Nanoseconds of CLOCK_MONOTONIC.
inline uint64_t nowNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1000000000u + uint64_t(time.tv_nsec);
}

/// One thing that a stream did in [begin, end).
struct TraceEvent {
  /// What kind of work this was.
  enum Kind : uint8_t { Kernel, Gemm, Copy, Zero, Collective, Wait };

  Kind kind;
  uint32_t stream;
  /// Strings of the program's descriptors, which live as long as the program;
  /// of literals otherwise. `location` may be empty; neither is null.
  const char *name;
  const char *location;
  uint64_t begin, end; ///< ns
  /// Bytes moved: as the kernel's descriptor says; of a product, its operands
  /// and its result, each once; a collective's payload.
  uint64_t bytes;
  /// Of a collective: when the program enqueued it, ns.
  uint64_t queued = 0;
  /// Of a collective, and of a wait for one: which of its stream it is, from 1.
  uint64_t position = 0;
  /// Floating point operations of a kernel or a product.
  uint64_t flops = 0;
  /// Of a product: the element type of its factors, as in "bf16"; else null.
  const char *type = nullptr;
  /// Of a wait: the stream that was waited for.
  uint32_t waitedStream = 0;
  /// Of a collective, and of a wait for one: the descriptor; else null.
  const mprt_collective *collective = nullptr;
};

/// The name of an event's kind, as in "kernel"; a trace viewer's category.
const char *nameOf(TraceEvent::Kind kind);

/// A ring of events. Off (and free) until `enable`.
class Trace {
public:
  /// Starts to record up to `capacity` events.
  void enable(uint32_t capacity);
  bool enabled() const { return !ring.empty(); }

  void record(const TraceEvent &event) {
    if (ring.empty())
      return;
    ring[recorded % ring.size()] = event;
    ++recorded;
  }

  /// The events that are still there, in the order in which they ended.
  std::vector<TraceEvent> events() const;
  /// How many were overwritten.
  uint64_t dropped() const {
    return recorded > ring.size() ? recorded - ring.size() : 0;
  }
  void clear() { recorded = 0; }

private:
  std::vector<TraceEvent> ring;
  uint64_t recorded = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_TRACE_H
