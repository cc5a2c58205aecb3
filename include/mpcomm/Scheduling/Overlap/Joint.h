//===- Joint.h - buckets and order chosen together --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buckets are solved for the times at which gradients are ready; a schedule of
// the buckets moves computation, and with it those times. This goes back and
// forth between the two (Bucketing.h, Overlap.h) and keeps what the simulator
// finds best. Model, proofs and limits: docs/Design/Overlap.md, "Buckets and
// order together".
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_OVERLAP_JOINT_H
#define MPCOMM_SCHEDULING_OVERLAP_JOINT_H

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "mpcomm/Scheduling/Overlap/Overlap.h"
#include <functional>

namespace mpcomm {

struct JointProblem {
  /// The step, with a collective of its own for every tensor.
  OverlapProblem step;
  /// Tensors, costs, streams and limits. Streams and links are those of `step`;
  /// ready times, consumers and the end of computation follow from an order and
  /// need not be set.
  BucketingProblem buckets;
  /// Of each tensor: its collective in `step`. No collective of a tensor comes,
  /// by whatever way, after that of another.
  std::vector<int> nodes;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: O(n + e).
  std::string check() const;
  /// No buckets take less, in whatever order; or, given one of the early nodes
  /// (JointPlan::order), in that order. Of a key's bytes N on a stream, those
  /// of a tensor, n, take at least n / N of what one collective for all takes,
  /// since costs are concave: each tensor with that for itself, and the bound
  /// of OverlapProblem. Time: as that.
  double lowerBound(const std::vector<int> &order = {}) const;
};

struct JointOptions {
  /// Who solves buckets; the solver where it is empty. A plan with an error
  /// is none.
  std::function<BucketingPlan(const BucketingProblem &)> plan;
  OverlapOptions schedule = {true, 0};
  /// Orders that come of a schedule of buckets and are planned against, beside
  /// the input's and that of single tensors.
  int rounds = 3;
  /// Nothing is tried any more where the step is within this of the lower
  /// bound, relatively.
  double tolerance = 1e-3;
};

struct JointPlan {
  /// Why there is none.
  std::string error;
  /// An order of the nodes of `step` that do not depend on a tensor's
  /// collective; the others follow.
  std::vector<int> order;
  /// Whether `order` is another than the input's.
  bool isReordered = false;
  /// The buckets for the times of this order; slices name tensors of `buckets`.
  BucketingPlan plan;
  /// Simulated step of these buckets, scheduled; the same of the buckets for
  /// the input's order: what one pass over buckets and then over the order
  /// reaches.
  double seconds = 0, firstSeconds = 0;
  /// Of all buckets in all orders, and of all in this one.
  double lowerBound = 0, orderBound = 0;
  /// Orders that were planned against.
  int tried = 0;
};

/// The best of the input's order, the order in which single tensors without
/// latency are scheduled best, and up to `rounds` orders each of which comes of
/// the schedule of the buckets for the one before it, while that gains. Never
/// worse than the first. Time: 3 + rounds schedules (scheduleList) and 2 +
/// rounds bucket plans at most.
JointPlan planJointly(const JointProblem &problem,
                      const JointOptions &options = {});

/// `problem.step` with the buckets of `plan` in the place of single tensors.
/// Nodes are in `order`, a bucket after the last node that it needs, then
/// all nodes that `order` does not name; collectives start where they are and
/// are awaited where they are needed. `origin`, where given, gets the node of
/// `step` of each node, -1 for buckets. Time: O(n + e).
OverlapProblem bucketStep(const JointProblem &problem,
                          const std::vector<int> &order,
                          const BucketingPlan &plan,
                          std::vector<int> *origin = nullptr);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_OVERLAP_JOINT_H
