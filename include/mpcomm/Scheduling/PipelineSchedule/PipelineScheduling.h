//===- PipelineScheduling.h - choice of a pipeline schedule -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the schedule and the number of micro-batches with the least step time
// within the memory of the ranks, given the seconds and bytes of the pipeline's
// stages. Candidates are the schedules of the literature, and orders that are
// searched for the given costs. Finding the best orders is NP-hard (job shop).
// Small problems are solved exactly; for others a lower bound is given. Method
// and proofs: docs/Design/PipelineSchedules.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H
#define MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"

namespace mpcomm {

/// A number of micro-batches and virtual stages, with their costs. The
/// micro-batches of every candidate together are the same batch.
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
  /// A lower bound on all schedules of the candidate. Time: O(virtual stages).
  double lowerBound(const PipelineCandidate &candidate) const;
};

struct PipelineOptions {
  /// Whether to search for orders other than those of the literature.
  bool search = true;
  /// Limit on the actions that the search appends to orders, per candidate. If
  /// the search finishes within the limit, the solution is exact.
  int64_t stepLimit = int64_t(1) << 18;
  /// Limit on the actions of all orders that local improvement times, per
  /// candidate.
  int64_t improveLimit = int64_t(1) << 24;
};

/// The chosen schedule, and the schedules it was compared with.
struct PipelineChoice {
  /// A schedule that was considered.
  struct Baseline {
    int candidate = 0;
    /// gpipe, 1f1b, interleaved, zb-h1, zb-v, or searched.
    std::string name;
    double seconds = 0;
    std::vector<int64_t> peaks;
    /// The reason why it does not qualify (memory); else empty.
    std::string error;
  };
  /// Index of the candidate of the chosen schedule.
  int candidate = -1;
  std::string name;
  PipelineSchedule schedule;
  PipelineTiming timing;
  /// A lower bound on all schedules of all candidates.
  double lowerBound = 0;
  /// Whether the choice is proven to be optimal, up to rounding: it meets the
  /// bound, or the search was exhaustive.
  bool proven = false;
  std::vector<Baseline> baselines;
  /// The reason why there is no schedule; else empty.
  std::string error;
};

/// The schedule with the least seconds. Among equals (relative difference up to
/// 1e-9), one of the literature is preferred to a searched one, then the one
/// with the smallest memory peak, then the first in the order of candidates and
/// of PipelineKind. The result is never slower than a schedule of the
/// literature that fits a candidate and its memory. There is a result if and
/// only if one micro-batch of a candidate fits every rank. Time per candidate:
/// 24 lists of O(actions p), O(improveLimit), and stepLimit steps of O(p v)
/// plus a comparison with each state of equal counts.
PipelineChoice choosePipelineSchedule(const PipelineProblem &problem,
                                      const PipelineOptions &options = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_PIPELINESCHEDULE_PIPELINESCHEDULING_H
