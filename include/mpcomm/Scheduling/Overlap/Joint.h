//===- Joint.h - buckets and order chosen together --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buckets are solved for the times at which gradients are ready. The schedule
// of the buckets then moves computation, which changes these times. planJointly
// alternates between the two solvers (Bucketing.h, Overlap.h) and keeps the
// best result by the simulator. Model, proofs and limits:
// docs/Design/Overlap.md, "Buckets and order together".
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_OVERLAP_JOINT_H
#define MPCOMM_SCHEDULING_OVERLAP_JOINT_H

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "mpcomm/Scheduling/Overlap/Overlap.h"
#include <functional>

namespace mpcomm {

struct JointProblem {
  /// The step, with a separate collective for each tensor.
  OverlapProblem step;
  /// Tensors, costs, streams and limits. Streams and links are those of `step`;
  /// ready times, consumers and the end of computation follow from an order and
  /// need not be set.
  BucketingProblem buckets;
  /// For each tensor, its collective in `step`. No collective of a tensor
  /// depends on that of another, directly or indirectly.
  std::vector<int> nodes;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: O(n + e).
  std::string check() const;
  /// A lower bound on the step for all buckets in any order or, given an order
  /// of early nodes (JointPlan::order), in that order. Costs are concave: of
  /// the N bytes of a key on a stream, n bytes take at least n / N of the time
  /// of one collective for all. The bound is that of OverlapProblem with this
  /// cost for each tensor. Time: as OverlapProblem::lowerBound.
  double lowerBound(const std::vector<int> &order = {}) const;
};

struct JointOptions {
  /// Solves buckets; by default solveBuckets. A plan with an error is ignored.
  std::function<BucketingPlan(const BucketingProblem &)> plan;
  OverlapOptions schedule = {true, 0};
  /// Maximum number of orders that are taken from a schedule of buckets, in
  /// addition to that of the input and that of single tensors.
  int rounds = 3;
  /// The search ends when the relative distance of the step from the lower
  /// bound is at most this.
  double tolerance = 1e-3;
};

struct JointPlan {
  /// The reason why there is no plan; else empty.
  std::string error;
  /// An order of the early nodes of `step`, which do not depend on a tensor's
  /// collective. The other nodes follow.
  std::vector<int> order;
  /// Whether `order` differs from that of the input.
  bool isReordered = false;
  /// The buckets for this order; slices are of tensors of `buckets`.
  BucketingPlan plan;
  /// Simulated step with these buckets, scheduled; and with the buckets for the
  /// order of the input (one pass over buckets, then one over the order).
  double seconds = 0, firstSeconds = 0;
  /// Lower bounds for all buckets in all orders, and in this order.
  double lowerBound = 0, orderBound = 0;
  /// Number of orders for which buckets were planned.
  int tried = 0;
};

/// Plans buckets for the order of the input, for the best order of single
/// tensors without latency, and for up to `rounds` orders that are each taken
/// from the schedule of the previous buckets, as long as the step improves.
/// Returns the best plan, which is never worse than the first. Time: at most 3
/// + rounds schedules (scheduleList) and 2 + rounds bucket plans.
JointPlan planJointly(const JointProblem &problem,
                      const JointOptions &options = {});

/// `problem.step` with the buckets of `plan` instead of single tensors. Nodes
/// follow `order`, with each bucket after the last node that it needs; then all
/// other nodes follow. Collectives start at their place and are awaited before
/// their first use. If `origin` is given, it gets for each node its node in
/// `step`, or -1 for buckets. Time: O(n + e).
OverlapProblem bucketStep(const JointProblem &problem,
                          const std::vector<int> &order,
                          const BucketingPlan &plan,
                          std::vector<int> *origin = nullptr);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_OVERLAP_JOINT_H
