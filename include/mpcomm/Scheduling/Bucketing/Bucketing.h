//===- Bucketing.h - which gradients travel together ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors become ready one after the other while a rank computes; those that
// travel in one collective pay its latency once, but wait for the last of
// them. This decides the buckets, exactly: by the recurrence
//
//   f[i] = min over j < i of max(f[j], ready_i) + latency + secondsPerByte
//          (S_i - S_j)
//
// in linear time, for the end of communication and for the end of the step.
// The model, the proofs, the complexity and the limits are in
// docs/Design/Bucketing.md. Times are seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_BUCKETING_BUCKETING_H
#define MPCOMM_SCHEDULING_BUCKETING_BUCKETING_H

#include "mpcomm/Scheduling/CostCurve.h"
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mpcomm {

/// What is to be as early as possible.
enum class BucketingObjective {
  CommunicationEnd, ///< the finish of the last collective
  StepEnd,          ///< the last consumer's end: what the step waits for
};

/// Tensors to bucket. A bucket holds a run of the tensors of one stream and
/// one key, in the order of `tensors`. A stream (a communicator's queue) runs
/// its buckets one after the other: a bucket starts when the one before it on
/// its stream has finished and its last tensor is ready. Consumers (optimizer
/// updates) run on the compute stream after `computeEnd`, bucket after bucket
/// in the order in which buckets finish.
struct BucketingProblem {
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct Tensor {
    int64_t bytes = 0;
    double ready = 0;
    int stream = 0;
    /// Tensors share a bucket only within a key (communicator, kind, wire and
    /// accumulation type, …). Indexes `costs`.
    int key = 0;
    /// Seconds of its consumer. Of a tensor that is split, each part's consumer
    /// takes its share by bytes and can run when that part has arrived.
    double consumer = 0;
    /// Its bucket must have finished by then: a hard limit.
    double deadline = never;
    /// No element is cut in two.
    int64_t elementBytes = 1;
    /// False for a tensor that has to travel in one piece.
    bool splittable = true;
  };
  struct Stream {
    /// When it is free for its first bucket.
    double free = 0;
    /// The most bytes of its buckets alive at one time. A bucket is alive, in
    /// all its bytes, from the time when its first tensor is ready (gradients
    /// are written straight into it) to the finish of its collective.
    int64_t memoryBytes = unlimited;
  };

  /// By ready time; those that are ready together in the order to keep.
  std::vector<Tensor> tensors;
  /// By key.
  std::vector<CostCurve> costs;
  std::vector<Stream> streams = {Stream()};
  /// When the compute that makes the tensors (the backward pass) ends.
  double computeEnd = 0;
  /// Buckets of more than one tensor, or part of one, hold at most these bytes;
  /// a larger tensor that is not split travels alone.
  int64_t capBytes = unlimited;
  /// Tensors may be cut at multiples of it; 0 for never. A multiple of every
  /// splittable tensor's `elementBytes`.
  int64_t splitBytes = 0;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: O(n).
  std::string check() const;
  /// No plan ends before it. With one key to a stream and neither memory bound
  /// nor deadlines, equals the optimum for the end of communication.
  /// Time: O(n) times the pieces and keys of a stream.
  double lowerBound(BucketingObjective objective) const;
};

/// Buckets, those of a stream in the order in which it runs them.
struct BucketingPlan {
  /// Bytes [offset, offset + bytes) of a tensor.
  struct Slice {
    int64_t tensor = 0;
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  struct Bucket {
    int stream = 0;
    int key = 0;
    /// Its slices are slices[begin, end).
    int64_t begin = 0;
    int64_t end = 0;
    int64_t bytes = 0;
    /// The cost piece that it uses: index into costs[key].pieces.
    unsigned piece = 0;
    /// When its first tensor is ready, and its last; when its collective starts
    /// and finishes; seconds of its consumers.
    double open = 0;
    double ready = 0;
    double start = 0;
    double finish = 0;
    double consumer = 0;
  };
  std::vector<Slice> slices;
  std::vector<Bucket> buckets;
  double communicationEnd = 0;
  double stepEnd = 0;
  /// Most bytes alive at one time, by stream (see Stream::memoryBytes).
  std::vector<int64_t> peakBytes;
  /// The objective's value is proven to be the least (up to rounding).
  bool proven = false;
  /// Why there is no plan; empty if there is one.
  std::string error;

  /// The objective's value of this plan.
  double value(BucketingObjective objective) const {
    return objective == BucketingObjective::StepEnd ? stepEnd
                                                    : communicationEnd;
  }
  /// Computes all that follows from `slices` and, of `buckets`, `begin` and
  /// `end`: everything up to `peakBytes`. Nothing else of the plan has to be
  /// set; it has to be a partition into runs, as verify() checks.
  /// Time: O(n + b log b) for b buckets.
  void evaluate(const BucketingProblem &problem);
  /// Empty if this is a plan for `problem` that keeps to its caps, bounds,
  /// deadlines and types, with the times that follow from its buckets, else
  /// what is wrong with it. Time: as evaluate().
  std::string verify(const BucketingProblem &problem) const;
  /// The bucket of each tensor's first byte, in the problem's order.
  std::vector<int64_t> bucketOfTensor(const BucketingProblem &problem) const;
};

struct BucketingOptions {
  BucketingObjective objective = BucketingObjective::StepEnd;
  /// Values that differ by less, relative to the value, count as equal (at
  /// least 1e-12 and 2^-51 a tensor are taken for the rounding of sums); among
  /// equals the plan with the fewest collectives wins. A larger figure trades
  /// that much of the objective for fewer collectives.
  double tolerance = 1e-12;
  /// Steps to spend where no linear method is exact: on several keys on one
  /// stream, under a memory bound, and on finding the fewest collectives. When
  /// they do not suffice, the plan is not `proven` (or of its equals perhaps
  /// not the one with the fewest collectives).
  int64_t stepLimit = int64_t(1) << 24;
};

/// The best plan. Which cases are exact:
/// - one key to a stream, no memory bound that binds: exact for the end of
///   communication, in O(n p) for p cost pieces; exact for the end of the step
///   with one stream, in O(n p) for each end that is tried (at most some 80).
/// - several keys on a stream, or a memory bound: exact while the product of
///   tensors by key stays in `stepLimit`; beyond, tensors are tied together
///   until it does, and the plan is the better of that and the baselines below.
/// - several streams: exact for the end of communication; for the end of the
///   step streams are improved in turn, each exactly with the others as they
///   are: at most twice the optimum.
/// The fewest collectives among equals: exact for the first two cases within
/// `stepLimit`, else no two neighbours can be merged.
/// On failure `error` says why and there are no buckets.
BucketingPlan solveBuckets(const BucketingProblem &problem,
                           const BucketingOptions &options = {});

/// What others do, on the same problem. None knows of memory bounds and
/// deadlines: verify() may refuse these plans. Rules without `capBytes` of
/// their own keep to the cap of the problem. Tensors are bucketed within their
/// stream and key; a stream runs its buckets in the order in which they become
/// ready.
/// @{

/// PyTorch DistributedDataParallel: a bucket closes once it holds `capBytes` or
/// more; the first one at `firstBytes`. (torch/csrc/distributed/c10d/
/// reducer.cpp, compute_bucket_assignment_by_size.)
BucketingPlan bucketLikeDDP(const BucketingProblem &problem,
                            int64_t capBytes = int64_t(25) << 20,
                            int64_t firstBytes = int64_t(1) << 20);
/// XLA's collective combiner: a bucket takes tensors as long as it stays within
/// `capBytes`. (xla/service/collective_combiner_utils.h.)
BucketingPlan bucketLikeXLA(const BucketingProblem &problem,
                            int64_t capBytes = int64_t(30) << 20);
/// Horovod: each time its stream is free, and at most once a cycle, all that is
/// ready is fused, up to `capBytes` a bucket. (HOROVOD_FUSION_THRESHOLD and
/// HOROVOD_CYCLE_TIME.) Times are then evaluated without the wait for a cycle.
BucketingPlan bucketLikeHorovod(const BucketingProblem &problem,
                                int64_t capBytes = int64_t(128) << 20,
                                double cycle = 1e-3);
/// Megatron-LM: a bucket closes once it holds `elements` or more.
/// (DistributedDataParallelConfig::bucket_size.)
BucketingPlan bucketLikeMegatron(const BucketingProblem &problem,
                                 int64_t elements = 40000000);
/// MG-WFBP's greedy: a bucket takes in the next tensor when that is ready less
/// than one latency after the bucket could start. (Shi, Chu and Li, "MG-WFBP:
/// Efficient data communication for distributed synchronous SGD algorithms",
/// INFOCOM 2019, algorithm 1.)
BucketingPlan bucketLikeMGWFBP(const BucketingProblem &problem);
/// Wait-free backpropagation: every tensor alone.
BucketingPlan bucketOnePerTensor(const BucketingProblem &problem);
/// One bucket for each stream and key.
BucketingPlan bucketAllInOne(const BucketingProblem &problem);
/// @}

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_BUCKETING_BUCKETING_H
