//===- BucketPlanning.h - a block's collectives as a problem ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the IR and the solver: bucketable collectives that no ordering point
// separates become a BucketingProblem (gathers its mirror), and plans for it
// are run in the simulator, with the computation around them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H

#include "Communicate/BlockTimes.h"
#include "Communicate/Model.h"
#include "mpcomm/Scheduling/Bucketing/Gathering.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {

/// A collective that may share a bucket.
struct BucketCandidate {
  BucketableOpInterface op;
  mlir::Attribute key;    ///< equal for ops that may share a bucket
  mlir::Operation *ready; ///< last operand; null: start of the block
  mlir::Operation *use;   ///< first use in the block; null: none
  int64_t bytes;          ///< on the wire

  /// The op, whose accessors are not const.
  BucketableOpInterface getOp() const { return op; }
};

/// What a plan has to keep to.
struct BucketLimits {
  int64_t capBytes = BucketingProblem::unlimited;
  /// What memory leaves for the tensors of a bucket.
  int64_t peakBytes = BucketingProblem::unlimited;
  int64_t firstBytes = 0; ///< of baselines that know a first bucket; 0: theirs
  int64_t memoryBytes = BucketingProblem::unlimited;
  int64_t splitBytes = 0;
  /// Whether buckets may travel in two levels.
  bool decomposes = false;
  /// How buckets may travel compressed: where it is faster, or from so many
  /// bytes on; none where they may not.
  std::vector<WireFormat> compressions;
  int64_t compressMinBytes = -1;

  int64_t getCap() const { return std::min(capBytes, peakBytes); }
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
  /// Of each key: seconds of computation that lay out a byte of a bucket of
  /// several tensors before it starts, and hand it out after it; and of each
  /// tensor besides, on both sides. Empty: none.
  struct Packing {
    double before = 0, after = 0, perTensor = 0;
  };
  std::vector<Packing> packing;
  /// If `problem` is the mirror of one of gathers: that one, which begins after
  /// `origin`.
  std::optional<GatheringProblem> gathers;
  double origin = 0;
};

/// The problem of candidates in ready order; of gathers, which are on one
/// communicator, in the order of their first uses. `model` may be null: costs
/// are zero then.
BucketInstance buildInstance(llvm::ArrayRef<BucketCandidate> candidates,
                             const BlockTimes &times, const CostModel *model,
                             const BucketLimits &limits);

/// A plan by `policy`: `solved` takes the best of the solver's plan, the
/// baselines' and the input in the simulator, the others theirs. Without a
/// cluster nothing is compared.
ChosenPlan chooseBuckets(BucketInstance instance, const Cluster *cluster,
                         BucketPolicy policy, const BucketLimits &limits);

/// Plans the candidates of a run, which are in the order of buildInstance().
/// That of gathers is turned back into forward order.
ChosenPlan planBuckets(llvm::ArrayRef<BucketCandidate> candidates,
                       const BlockTimes &times, const CostModel *model,
                       BucketPolicy policy, const BucketLimits &limits);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BUCKETPLANNING_H
