//===- Bucketing.h - which gradients travel together ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors become ready one after the other while a rank computes. Tensors in
// one collective pay its latency once, but wait for the last of them.
// solveBuckets finds the best buckets by the recurrence
//
//   f[i] = min over j < i of max(f[j], ready_i) + latency + secondsPerByte
//          (S_i - S_j)
//
// exactly and in linear time, for the end of communication and for the end of
// the step. Model, proofs, complexity and limits: docs/Design/Bucketing.md.
// Times are seconds, sizes bytes.
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

/// The time to minimise.
enum class BucketingObjective {
  CommunicationEnd, ///< the finish of the last collective
  StepEnd,          ///< the end of the last consumer
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
    /// Only tensors of equal key (communicator, kind, wire and accumulation
    /// type, …) share a bucket. Indexes `costs`.
    int key = 0;
    /// Seconds of its consumer. If the tensor is split, the consumer of a slice
    /// takes its share by bytes and can run when the slice has arrived.
    double consumer = 0;
    /// The latest finish of its bucket: a hard limit.
    double deadline = never;
    /// Slices are multiples of this.
    int64_t elementBytes = 1;
    /// Whether the tensor may be split.
    bool splittable = true;
    /// The module of the model that it belongs to, for bucketLikeFSDP.
    int module = 0;
  };
  struct Stream {
    /// The earliest start of its first bucket.
    double free = 0;
    /// Bound on the live bytes of its buckets. All bytes of a bucket are live
    /// from the time when its first tensor is ready (gradients are written
    /// directly into it) to the finish of its collective.
    int64_t memoryBytes = unlimited;
  };

  /// By ready time; equal ready times keep their order.
  std::vector<Tensor> tensors;
  /// By key.
  std::vector<CostCurve> costs;
  std::vector<Stream> streams = {Stream()};
  /// The end of the computation that produces the tensors (the backward pass).
  double computeEnd = 0;
  /// Largest size of a bucket that holds several tensors or a slice of one. A
  /// larger tensor that is not split travels alone.
  int64_t capBytes = unlimited;
  /// Tensors may be split at multiples of this; 0: never. A multiple of the
  /// `elementBytes` of every splittable tensor.
  int64_t splitBytes = 0;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: O(n).
  std::string check() const;
  /// A lower bound on all plans. With one key per stream and without memory
  /// bound and deadlines, it equals the optimum for the end of communication.
  /// Time: O(n) times the pieces and keys of a stream.
  double lowerBound(BucketingObjective objective) const;
};

/// Buckets. Those of one stream are in the order of execution.
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
    /// Its cost piece: index into costs[key].pieces.
    unsigned piece = 0;
    /// Ready times of its first and last tensor, start and finish of its
    /// collective, and seconds of its consumers.
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
  /// Whether the value of the objective is proven to be optimal, up to
  /// rounding.
  bool proven = false;
  /// The reason why there is no plan; else empty.
  std::string error;

  /// The objective's value of this plan.
  double value(BucketingObjective objective) const {
    return objective == BucketingObjective::StepEnd ? stepEnd
                                                    : communicationEnd;
  }
  /// Computes all members up to `peakBytes` from `slices` and from `begin` and
  /// `end` of `buckets`, which must be a partition into runs (see verify()).
  /// Time: O(n + b log b) for b buckets.
  void evaluate(const BucketingProblem &problem);
  /// Empty if this is a plan for `problem` that respects its caps, bounds,
  /// deadlines and types, with the times that evaluate() computes; else what is
  /// wrong with it. Time: as evaluate().
  std::string verify(const BucketingProblem &problem) const;
  /// The bucket of each tensor's first byte, in the problem's order.
  std::vector<int64_t> bucketOfTensor(const BucketingProblem &problem) const;
};

struct BucketingOptions {
  BucketingObjective objective = BucketingObjective::StepEnd;
  /// Values with a smaller relative difference count as equal (at least 1e-12
  /// and 2^-51 per tensor, for the rounding of sums). Among equal plans, the
  /// one with the fewest collectives is chosen, so a larger tolerance gives up
  /// that share of the objective for fewer collectives.
  double tolerance = 1e-12;
  /// Limit on steps where no linear method is exact: for several keys on one
  /// stream, under a memory bound, and for the fewest collectives. If it does
  /// not suffice, the plan is not `proven`, or may have more collectives than
  /// necessary.
  int64_t stepLimit = int64_t(1) << 24;
};

/// The best plan.
/// - One key per stream, and no memory bound that binds: exact. For the end of
///   communication O(n p) for p cost pieces; for the end of the step, with one
///   stream, O(n p) for each end that is tried (at most about 80).
/// - Several keys on a stream, or a memory bound: exact if the product of the
///   numbers of tensors per key is within `stepLimit`. Otherwise tensors are
///   merged until it is, and the plan is the better of the result and the
///   baselines below.
/// - Several streams: exact for the end of communication. For the end of the
///   step, streams are improved in turn, each exactly for fixed others; the
///   result is at most twice the optimum.
/// The number of collectives is the least among equal plans in the first two
/// cases within `stepLimit`; otherwise no two neighbours can be merged. If
/// there is no plan, `error` gives the reason and there are no buckets.
BucketingPlan solveBuckets(const BucketingProblem &problem,
                           const BucketingOptions &options = {});

/// Baselines: the rules of other systems for the same problem. They ignore
/// memory bounds and deadlines, so verify() may reject their plans. Rules
/// without a parameter `capBytes` respect the cap of the problem. Buckets hold
/// tensors of one stream and key; a stream runs its buckets in the order in
/// which they become ready.
/// @{

/// PyTorch DistributedDataParallel: a bucket closes once it holds `capBytes` or
/// more; the first one at `firstBytes`. (torch/csrc/distributed/c10d/
/// reducer.cpp, compute_bucket_assignment_by_size.)
BucketingPlan bucketLikeDDP(const BucketingProblem &problem,
                            int64_t capBytes = int64_t(25) << 20,
                            int64_t firstBytes = int64_t(1) << 20);
/// XLA's collective combiner: a bucket takes tensors as long as it stays within
/// `capBytes`. (xla/service/collective_combiner_utils.h.) The rule of
/// DeepSpeed's ZeRO, too, with other bounds: 5e8 elements to reduce, 5e7 to
/// gather (runtime/zero/config.py).
BucketingPlan bucketLikeXLA(const BucketingProblem &problem,
                            int64_t capBytes = int64_t(30) << 20);
/// Horovod: whenever the stream is free, at most once per cycle, all tensors
/// that are ready are fused, up to `capBytes` per bucket
/// (HOROVOD_FUSION_THRESHOLD and HOROVOD_CYCLE_TIME). The times of the plan do
/// not include waiting for a cycle.
BucketingPlan bucketLikeHorovod(const BucketingProblem &problem,
                                int64_t capBytes = int64_t(128) << 20,
                                double cycle = 1e-3);
/// Megatron-LM: a bucket closes once it holds `elements` or more.
/// (DistributedDataParallelConfig::bucket_size.)
BucketingPlan bucketLikeMegatron(const BucketingProblem &problem,
                                 int64_t elements = 40000000);
/// PyTorch's fully_shard (FSDP2): one bucket for each module that it is applied
/// to, such as a layer. (torch/distributed/fsdp/_fully_shard.)
BucketingPlan bucketLikeFSDP(const BucketingProblem &problem);
/// MG-WFBP's greedy rule: a bucket takes the next tensor if that is ready less
/// than one latency after the bucket could start (Shi, Chu and Li, "MG-WFBP:
/// Efficient data communication for distributed synchronous SGD algorithms",
/// INFOCOM 2019, algorithm 1).
BucketingPlan bucketLikeMGWFBP(const BucketingProblem &problem);
/// Wait-free backpropagation: one bucket per tensor.
BucketingPlan bucketOnePerTensor(const BucketingProblem &problem);
/// One bucket for each stream and key.
BucketingPlan bucketAllInOne(const BucketingProblem &problem);
/// @}

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_BUCKETING_BUCKETING_H
