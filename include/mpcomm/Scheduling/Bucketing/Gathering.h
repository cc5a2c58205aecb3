//===- Gathering.h - which gathers travel together --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computation waits for what gathers give (parameters), as reductions wait for
// what computation gives (gradients): the same problem, backwards.
// docs/Design/Bucketing.md, "Gathers", has the proof.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_BUCKETING_GATHERING_H
#define MPCOMM_SCHEDULING_BUCKETING_GATHERING_H

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"

namespace mpcomm {

/// Gathers to bucket, all of one stream. A bucket holds a run of the tensors of
/// one key, in the order of `tensors`. It starts when the one before it has
/// finished and its last tensor is ready. Computation waits at the first use of
/// a tensor until its bucket has finished, and all that follows moves.
struct GatheringProblem {
  struct Tensor {
    int64_t bytes = 0;
    /// When its blocks are there.
    double ready = 0;
    /// Its first use, if computation waits for nothing.
    double needed = 0;
    int key = 0;
    int module = 0; ///< as of a BucketingProblem
  };

  /// By first use; equal ones keep their order.
  std::vector<Tensor> tensors;
  /// By key.
  std::vector<CostCurve> costs;
  /// The end of computation that waits for nothing.
  double computeEnd = 0;
  /// Largest size of a bucket of several tensors.
  int64_t capBytes = BucketingProblem::unlimited;
  /// Bound on live bytes: all of a bucket are live from its start, which is as
  /// late as the end of the step allows, to the first use of its last tensor.
  int64_t memoryBytes = BucketingProblem::unlimited;

  /// Empty if the problem is well formed, else what is wrong with it: among
  /// others that every tensor is ready before the first use of any.
  std::string check() const;
  /// This problem with time running backwards, for the solver and baselines. It
  /// has the same plans, backwards, with the same `stepEnd`.
  BucketingProblem mirror() const;
  /// A plan of the mirror as one of this problem: buckets in the order of
  /// execution, which start as late as its `stepEnd` allows.
  BucketingPlan mirror(const BucketingPlan &plan) const;
};

/// The best plan, by solveBuckets(); exact where that is, with one key or with
/// all tensors ready from the beginning.
BucketingPlan solveGathers(const GatheringProblem &problem,
                           const BucketingOptions &options = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_BUCKETING_GATHERING_H
