//===- Trace.h - what ran when, for a trace viewer ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the events of all ranks in Chrome's trace format, which Perfetto reads
// too: one process a rank, one track a stream.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_TRACE_H
#define MPCOMM_RUN_REPORT_TRACE_H

#include "launch/Session.h"
#include "support/Trace.h"

#include <string>

namespace mpcomm::run {

/// What a stream did, as the runtime records it.
using mprt::TraceEvent;

/// Events that a rank keeps of each plan, some 20 MB.
inline constexpr uint32_t tracedEvents = 1u << 18;

struct RecordedTrace {
  std::vector<TraceEvent> events;
  /// Parallel to `events`: the number of the program that ran it.
  std::vector<uint32_t> programs;
  /// How many before them are lost.
  uint64_t dropped = 0;
};

/// Something that happened to all ranks, by the clock of events.
struct TraceMark {
  uint64_t at = 0;
  std::string text;
};

/// What the session has recorded.
Expected<RecordedTrace> traceOf(const RunSession &session);

/// Brings the events of all ranks to rank 0, which writes `path` with its
/// `marks` across all tracks. `manifests` are those of all programs, by number;
/// their streams of one name are one track. All ranks call it.
Error writeTrace(const std::string &path,
                 const std::vector<Manifest> &manifests,
                 const RunSession &session,
                 const std::vector<TraceMark> &marks);

/// Writes the events and marks of this rank alone; for a run that has failed,
/// after which nobody can be asked for theirs.
Error writeOwnTrace(const std::string &path,
                    const std::vector<Manifest> &manifests,
                    const RunSession &session,
                    const std::vector<TraceMark> &marks);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_TRACE_H
