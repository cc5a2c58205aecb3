//===- Timeline.h - what ran in a step, and when --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The timeline of one step, which mpcomm-report shows (--timeline, schema
// mpcomm-timeline-1, docs/Guides/Explaining.md). Each rank renders what it
// knows: of each stage one rank all it did, every other rank when it came to
// each collective. Rank 0 merges them, and only there it shows whether a peer
// was late.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_TIMELINE_H
#define MPCOMM_RUN_REPORT_TIMELINE_H

#include "report/Steps.h"

#include <string>
#include <vector>

namespace mpcomm::run {

/// Renders `step`, with times from the beginning of `base` on, which ends the
/// picture. A collective is exposed while the compute stream waits for it, and
/// hidden while that stream works and it is under way.
std::string renderTimeline(const StepSpan &step, const StepSpan &base,
                           const std::vector<TraceEvent> &events,
                           const StepsOrigin &origin);

/// What a rank says that the picture does not show.
std::string renderArrivals(const StepSpan &step, const StepSpan &base,
                           const std::vector<TraceEvent> &events,
                           const StepsOrigin &origin);

/// One timeline of those of several ranks: the first, with the streams and
/// collectives of the others, and the reason of each exposed collective that
/// the times tell. Empty texts are left out.
std::string mergeTimelines(const std::vector<std::string> &timelines);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_TIMELINE_H
