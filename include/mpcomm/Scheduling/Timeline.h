//===- Timeline.h - what happened when in a step ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The record of one step, simulated or measured, that reports read, and its
// JSON form, schema "mpcomm-timeline-1" (docs/Design/Simulation.md).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_TIMELINE_H
#define MPCOMM_SCHEDULING_TIMELINE_H

#include "mpcomm/Scheduling/Simulator.h"

namespace mpcomm {

/// Times are seconds since the begin of the step, sizes bytes a rank.
struct Timeline {
  struct Event {
    std::string name, location;
    double begin = 0, end = 0;
    /// Collective that it starts, carries or awaits; -1: none.
    int64_t flow = -1;
  };
  struct Stream {
    std::string name;
    int64_t rank = 0;
    std::vector<Event> events;
  };
  struct Collective {
    int64_t id = 0;
    std::string name, location;
    int64_t bytes = 0, tensors = 0;
    double ready = 0, start = 0, end = 0, awaited = 0, hidden = 0, exposed = 0;
    /// toString(SimReason) and a sentence.
    std::string reason, detail;
  };

  std::string name;
  /// "simulated" or "measured".
  std::string kind = "simulated";
  std::string cluster;
  int64_t ranks = 1;
  double seconds = 0, lowerBound = 0, compute = 0, exposed = 0;
  int64_t peakBytes = 0;
  std::vector<Stream> streams;
  std::vector<Collective> collectives;
  std::vector<std::pair<double, int64_t>> memory;
};

/// The JSON text; deterministic, times with nine significant digits.
std::string toJson(const Timeline &timeline);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_TIMELINE_H
