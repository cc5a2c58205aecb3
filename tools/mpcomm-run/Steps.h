//===- Steps.h - what ran in each step ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two files that rank 0 makes of its own trace: the timeline of one step, which
// mpcomm-report shows (--timeline, schema mpcomm-timeline-1), and the profile
// that overrides the compiler's cost model (--profile, schema
// mpcomm-profile-1, docs/Design/CostModel.md).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_STEPS_H
#define MPCOMM_RUN_STEPS_H

#include "Manifest.h"
#include "Status.h"
#include "Trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm::run {

/// When a step ran on this rank, in ns of the machine's monotonic clock.
struct StepSpan {
  uint64_t begin = 0, end = 0;
};

/// What the two files name besides.
struct StepsOrigin {
  std::string program, backend;
  uint64_t ranks = 1;
  ManifestPlaces places = {};
};

/// The steps of `spans` whose events are all among `events`, which are in the
/// order in which they ended. The first step, which warms up, does not count
/// unless it is the only one.
std::vector<StepSpan> completeSteps(const std::vector<StepSpan> &spans,
                                    const std::vector<TraceEvent> &events,
                                    uint64_t droppedEvents);

/// Renders the step of median length. Exposed is when the compute stream stood
/// still for a collective, hidden when it worked while one was under way.
std::string renderTimeline(const std::vector<StepSpan> &steps,
                           const std::vector<TraceEvent> &events,
                           const StepsOrigin &origin);

/// Renders the median over the steps of the seconds that each kernel, product
/// and collective took, by all places of its location; calls with the same name
/// and location count together.
std::string renderProfile(const std::vector<StepSpan> &steps,
                          const std::vector<TraceEvent> &events,
                          const StepsOrigin &origin);

/// Writes a file whole or not at all.
Status writeText(const std::string &path, const std::string &text);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_STEPS_H
