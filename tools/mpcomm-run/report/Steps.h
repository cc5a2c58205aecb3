//===- Steps.h - what ran in each step ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which steps of a trace are whole, and the profile that rank 0 makes of them
// and of those of the other stages: it overrides the compiler's cost model
// (--profile, schema mpcomm-profile-1, docs/Design/CostModel.md).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_STEPS_H
#define MPCOMM_RUN_REPORT_STEPS_H

#include "data/Runtime.h"
#include "files/Manifest.h"
#include "report/Trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm::run {

/// When a step ran on this rank, in ns of the machine's monotonic clock.
struct StepSpan {
  uint64_t begin = 0, end = 0;
};

/// What a profile and a timeline name besides.
struct StepsOrigin {
  std::string program, backend;
  uint64_t ranks = 1;
  ManifestPlaces places = {};
  /// Whose events they are.
  uint64_t rank = 0;
  /// Of the program, where there is one; and whether all ranks have one clock.
  const Manifest *manifest = nullptr;
  bool hasOneClock = true;
};

/// The steps of `spans` whose events are all among `events`, which are in the
/// order in which they ended. The first step, which warms up, does not count
/// unless it is the only one.
std::vector<StepSpan> completeSteps(const std::vector<StepSpan> &spans,
                                    const std::vector<TraceEvent> &events,
                                    uint64_t droppedEvents);

/// The step of median length; an empty one where there is none.
StepSpan medianStep(std::vector<StepSpan> steps);

/// Renders the median over the steps of the seconds that each kernel, product
/// and collective took, by all places of its location; calls with the same name
/// and location count together. Of what is called for each micro-batch, those
/// of one: a model of the step has it once.
std::string renderProfile(const std::vector<StepSpan> &steps,
                          const std::vector<TraceEvent> &events,
                          const StepsOrigin &origin);

/// One profile of those of several ranks: the first, with what only others
/// have. Empty texts are left out.
std::string mergeProfiles(const std::vector<std::string> &profiles);

/// Writes a file whole or not at all.
Error writeText(const std::string &path, const std::string &text);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_STEPS_H
