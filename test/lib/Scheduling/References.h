//===- References.h - twins of solvers that try all -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each solver returns, by trying all solutions: the tests of the solvers
// compare with these on small random problems.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_SCHEDULING_REFERENCES_H
#define MPCOMM_TEST_LIB_SCHEDULING_REFERENCES_H

#include "mpcomm/Scheduling/Arena/ArenaPlanning.h"
#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "mpcomm/Scheduling/Bucketing/Gathering.h"
#include "mpcomm/Scheduling/CastPlacement/CastPlacement.h"
#include "mpcomm/Scheduling/EventPlacement/EventPlacement.h"
#include "mpcomm/Scheduling/Overlap/Overlap.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineScheduling.h"
#include "mpcomm/Scheduling/StagePartition/StagePartition.h"

namespace mpcomm {

/// The smallest arena that some order of first-fit placement gives: up to about
/// nine buffers. Time: O(n! n^3).
ArenaPlan planArenaReference(const ArenaProblem &problem);

/// The plan of the least objective: up to about ten parts of tensors.
BucketingPlan solveBucketsReference(const BucketingProblem &problem,
                                    const BucketingOptions &options = {});

/// The end of the step with these buckets, each a list of tensors of one key,
/// in the order of execution. Time: linear.
double playGathers(const GatheringProblem &problem,
                   const std::vector<std::vector<int64_t>> &buckets);

/// The least end of the step without a memory bound, and the fewest buckets
/// that reach it: up to about eight tensors.
struct GatheringOptimum {
  double stepEnd;
  size_t buckets;
};
GatheringOptimum solveGathersReference(const GatheringProblem &problem);

/// The fewest bytes, then casts, then wide ops: at most 24 ops that are neither
/// Narrow nor Wide. Time: O(2^n (v + u)) for v values and u uses.
CastPlan placeCastsReference(const CastProblem &problem);

/// Every set of waits and every numbering: up to about eight operations. Time:
/// exponential.
EventPlan placeEventsReference(const EventProblem &problem);

/// An optimal schedule: up to about ten steps. Time: O(n! n).
OverlapSchedule scheduleReference(const OverlapProblem &problem);

/// Times every order of every rank, B unused and micro-batches in order
/// (neither loses anything): up to about 10^6 orders.
PipelineChoice choosePipelineScheduleReference(const PipelineProblem &problem);

/// Every partition. Time: O(C(n, p) (n + u)).
StagePartition
partitionStagesReference(const StagePartitionProblem &problem,
                         const StagePartitionOptions &options = {});

} // namespace mpcomm

#endif // MPCOMM_TEST_LIB_SCHEDULING_REFERENCES_H
