//===- PipelineScheduling.h - which pipeline schedule to run ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From seconds and bytes of the pipeline's stages to the schedule and the
// number of micro-batches with the least step time within a rank's memory: the
// schedules of the literature, and orders searched for these very costs. To
// find the best orders is NP-hard, as a job shop is; small problems are solved
// exactly, for others the distance to a lower bound is given. Method and proofs
// are in docs/Design/PipelineSchedules.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H
#define MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"

namespace mpcomm {

/// One way to cut the step: micro-batches and virtual stages, with what they
/// cost. The micro-batches of each candidate are the same batch together.
struct PipelineCandidate {
  int microbatches = 1;
  PipelinePlacement placement;
  PipelineCosts costs;
  PipelineMemory memory;

  /// The shape of its schedules, without orders.
  PipelineSchedule shape(int stages) const;
};

struct PipelineProblem {
  /// p: ranks of the pipeline.
  int stages = 1;
  std::vector<PipelineCandidate> candidates;

  /// Empty if the problem is well formed, else what is wrong with it.
  std::string check() const;
  /// No schedule of the candidate takes less. Time: O(virtual stages).
  double lowerBound(const PipelineCandidate &candidate) const;
};

struct PipelineOptions {
  /// Look for orders beyond those of the literature.
  bool search = true;
  /// Steps of the search for each candidate: actions that it appends to orders.
  /// Problems of which it can see all within them are solved exactly.
  int64_t stepLimit = int64_t(1) << 18;
  /// Orders timed in local improvement, for each candidate: as many as take
  /// this number of actions together.
  int64_t improveLimit = int64_t(1) << 24;
};

/// The schedule that was chosen, and what it was chosen from.
struct PipelineChoice {
  /// A schedule that was looked at.
  struct Baseline {
    int candidate = 0;
    /// gpipe, 1f1b, interleaved, zb-h1, zb-v, or searched.
    std::string name;
    double seconds = 0;
    std::vector<int64_t> peaks;
    /// Why it cannot be taken (memory); empty if it can.
    std::string error;
  };
  /// Index of the chosen one's candidate.
  int candidate = -1;
  std::string name;
  PipelineSchedule schedule;
  PipelineTiming timing;
  /// No schedule of any candidate takes less.
  double lowerBound = 0;
  /// That the chosen one takes no more than any other is proven (up to
  /// rounding): it meets the bound, or the search has seen all.
  bool proven = false;
  std::vector<Baseline> baselines;
  /// Why there is none; empty if there is one.
  std::string error;
};

/// The schedule with the least seconds. Of equals (up to 1e-9, relatively) one
/// of the literature before a searched one, then the one with the least memory
/// on the rank that needs most, then the first in the order of candidates and
/// of PipelineKind. Never slower than a schedule of the literature that fits a
/// candidate and its memory. There is one if and only if one micro-batch of a
/// candidate fits every rank. Time for each candidate: 24 lists of O(actions
/// p), O(improveLimit), and stepLimit steps of O(p v) and a comparison with
/// each state of the same counts.
PipelineChoice choosePipelineSchedule(const PipelineProblem &problem,
                                      const PipelineOptions &options = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H
