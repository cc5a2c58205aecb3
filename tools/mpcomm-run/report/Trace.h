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

#include "data/Status.h"
#include "program/Manifest.h"

#include "mpcomm/Runtime/mprt.h"

#include <cstdint>
#include <string>

namespace mpcomm::run {

class Rank;

/// One kernel, copy or collective on a stream.
struct TraceEvent {
  uint32_t stream = 0;
  /// `kernel`, `gemm`, `collective`, `wait`, ...
  const char *category = "";
  /// Strings of the program; live as long as it does.
  const char *name = "";
  const char *location = "";
  /// Of the machine's monotonic clock.
  uint64_t beginNanoseconds = 0, endNanoseconds = 0;
  uint64_t bytes = 0;
  /// Of a collective: when it was enqueued, and which of its stream it is; of a
  /// wait: the stream and the position that were waited for.
  uint64_t queuedNanoseconds = 0;
  uint64_t position = 0;
  uint32_t waitedStream = 0;
  /// Of a collective, and of a wait for one; else null.
  const mprt_collective *collective = nullptr;
  /// Of a kernel or a product: floating point operations; of a product also the
  /// element type of its factors, else null.
  uint64_t flops = 0;
  const char *type = nullptr;
};

/// Brings the events of all ranks to rank 0, which writes `path`. All ranks
/// call it.
Status writeTrace(const std::string &path, const Manifest &manifest,
                  Rank &rank);

/// Writes the events of this rank alone; for a run that has failed, after which
/// nobody can be asked for theirs.
Status writeOwnTrace(const std::string &path, const Manifest &manifest,
                     const Rank &rank);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_TRACE_H
