//===- Timeline.h - record of a step ----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The record of one step, simulated or measured, for reports, and its JSON
// form, "mpcomm-timeline-1" (docs/Guides/Explaining.md).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_SIMULATOR_TIMELINE_H
#define MPCOMM_SCHEDULING_SIMULATOR_TIMELINE_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include <optional>

namespace mpcomm {

/// Times are seconds since the beginning of the step, sizes bytes per rank.
struct Timeline {
  struct Event {
    std::string name, location;
    double begin = 0, end = 0;
    /// Collective that it starts, carries or awaits; -1: none.
    int64_t flow = -1;
    /// For a pass of a micro-batch on a virtual stage of a pipeline: F, B, I or
    /// W and the number of the micro-batch, as in F0; and the stage.
    std::string action = "";
    int64_t stage = -1;
  };
  struct Stream {
    std::string name;
    int64_t rank = 0;
    std::vector<Event> events;
  };
  struct Collective {
    int64_t id = 0;
    /// The rank on which these times were observed.
    int64_t rank = 0;
    std::string name, location;
    int64_t bytes = 0, tensors = 0;
    double ready = 0, start = 0, end = 0, awaited = 0, hidden = 0, exposed = 0;
    /// toString(SimReason) and a sentence.
    std::string reason, detail;
  };

  /// The ranks that run one of several programs.
  struct Program {
    std::string name;
    /// The first of these ranks, and their number.
    int64_t rank = 0, ranks = 1;
    double seconds = 0, compute = 0, exposed = 0;
    int64_t peakBytes = 0;
  };
  struct Pipeline {
    /// gpipe, 1f1b, interleaved, zb-h1, zb-v or another name.
    std::string schedule;
    int64_t ranks = 1, stages = 1, microbatches = 1;
    /// Idle share of the ranks until the end of the last pass of a micro-batch;
    /// and the closed form for equal stages, negative if there is none.
    double bubble = 0, formula = -1;
  };

  std::string name;
  /// "simulated" or "measured".
  std::string kind = "simulated";
  std::string cluster;
  int64_t ranks = 1;
  double seconds = 0, lowerBound = 0;
  /// For several programs: the mean computation of a rank, the rest of the
  /// step, and the largest number of bytes of a rank.
  double compute = 0, exposed = 0;
  int64_t peakBytes = 0;
  std::vector<Program> programs;
  std::optional<Pipeline> pipeline;
  std::vector<Stream> streams;
  std::vector<Collective> collectives;
  /// Live bytes over time of the rank with the peak.
  std::vector<std::pair<double, int64_t>> memory;
};

/// The JSON text; deterministic, times with nine significant digits.
std::string toJson(const Timeline &timeline);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_SIMULATOR_TIMELINE_H
