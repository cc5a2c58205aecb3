//===- BucketPlanning.h - a block's reductions as a problem -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the IR and the solver: all_reduce ops that no ordering point
// separates become a BucketingProblem, and plans for it are run in the
// simulator, with the computation around them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H

#include "Communicate/Model.h"
#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {

/// An all_reduce that may share a bucket.
struct BucketCandidate {
  AllReduceOp op;
  mlir::Attribute key;    ///< equal for ops that may share a bucket
  mlir::Operation *ready; ///< last operand; null: start of the block
  mlir::Operation *use;   ///< first use in the block; null: none
  int64_t bytes;          ///< on the wire

  /// The op, whose accessors are not const.
  AllReduceOp getOp() const { return op; }
};

/// The computation of a block, as the planner needs it: that of ops which
/// depend on a collective apart from that of all others. Time: linear in the
/// ops of the block.
class BlockTimes {
public:
  /// `step` may be null: all times are zero then.
  BlockTimes(mlir::Block &block, const StepModel *step);

  bool areKnown() const { return step; }
  /// When `op` has ended, if only what depends on no collective runs; 0 for
  /// null.
  double getReady(mlir::Operation *op) const;
  /// When all that depends on no collective has ended.
  double getComputeEnd() const { return computeEnd; }
  /// Seconds of ops that depend on this collective and on none after it.
  double getConsumer(mlir::Operation *collective) const;

private:
  const StepModel *step;
  std::vector<double> ends; ///< by position in the step
  llvm::DenseMap<mlir::Operation *, double> consumers;
  double computeEnd = 0;
};

/// What a plan has to keep to.
struct BucketLimits {
  int64_t capBytes = BucketingProblem::unlimited;
  int64_t firstBytes = 0; ///< of baselines that know a first bucket; 0: theirs
  int64_t memoryBytes = BucketingProblem::unlimited;
  int64_t splitBytes = 0;
  /// Whether buckets may travel in two levels.
  bool decomposes = false;
  /// How buckets may travel compressed: where it is faster, or from so many
  /// bytes on.
  std::optional<Compression> compression;
  int64_t compressMinBytes = -1;
};

/// A plan with what the simulator says about it.
struct ChosenPlan {
  BucketingProblem problem;
  BucketingPlan plan;
  llvm::StringRef rule; ///< which rule gave it
  double seconds = 0;   ///< simulated end of the step, from its begin
  double inputSeconds = 0;
  double lowerBound = 0;
  std::string error; ///< why there is none
};

/// A problem, and what is known of its keys.
struct BucketInstance {
  BucketingProblem problem;
  /// Of each key: whether all its bytes would travel in two levels.
  std::vector<bool> isTwoLevel;
};

/// The problem of candidates in ready order. `model` may be null: costs are
/// zero then.
BucketInstance buildInstance(llvm::ArrayRef<BucketCandidate> candidates,
                             const BlockTimes &times, const CostModel *model,
                             const BucketLimits &limits);

/// A plan by `policy`: `solved` takes the best of the solver's plan, the
/// baselines' and the input in the simulator, the others theirs. Without a
/// cluster nothing is compared.
ChosenPlan chooseBuckets(BucketInstance instance, const Cluster *cluster,
                         BucketPolicy policy, const BucketLimits &limits);

/// Plans the candidates of a segment, which are in ready order.
ChosenPlan planBuckets(llvm::ArrayRef<BucketCandidate> candidates,
                       const BlockTimes &times, const CostModel *model,
                       BucketPolicy policy, const BucketLimits &limits);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H
