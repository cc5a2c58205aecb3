//===- BlockCombiner.h - the buckets of a block -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plan for a block, and its application.
//
// The plan is made in terms of the ops that are in the block before anything
// changes. For a candidate c: ready(c) is the last op that defines an operand,
// use(c) the first op that uses a result. A run of candidates is planned
// together if every ready(c) in it is before every use(c); so a bucket, which
// is after the ready(c) of its members and of the buckets before it on
// its stream, is before every use. Reductions and the like are in runs in the
// order of ready(c), gathers in others in the order of use(c). A candidate with
// an operand from another one is ready at its own place, which is after that
// one's bucket, as it is a use of it; so no candidate needs a place that
// depends on where others go.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKCOMBINER_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKCOMBINER_H

#include "Communicate/BucketPlanning.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include <deque>

namespace mpcomm {

/// A bucket in terms of the IR: parts of candidates, and the op after which it
/// stands.
struct PlacedBucket {
  struct Member {
    const BucketCandidate *candidate;
    /// Of one that is split: elements [begin, begin + count) in memory order.
    int64_t begin = 0, count = 0;
    bool isWhole = true;
  };
  llvm::SmallVector<Member> members;
  mlir::Operation *ready = nullptr;
  int64_t bytes = 0;
  /// A cap of the user, on buckets or on memory, kept the next tensor out.
  bool isCapped = false;
};

/// Collectives of a function at first, and how many went into another one.
struct CombineStatistics {
  int64_t before = 0, after = 0;
};

struct CombineOptions {
  BucketPolicy policy;
  BucketLimits limits;
  Numerics numerics;
  llvm::StringRef function;
  /// mpcomm-schedule-overlap follows.
  bool isReordered = false;

  mlir::remark::RemarkOpts remarkNamed(llvm::StringRef name) const {
    return mlir::remark::RemarkOpts::name(name)
        .category("mpcomm-combine-collectives")
        .function(function);
  }
};

/// The plan for one block, and its application.
class BlockCombiner {
public:
  /// `model` and `step` may be null; `step` is that of the block's function.
  BlockCombiner(mlir::Block &block, const CombineOptions &options,
                const CostModel *model, const StepModel *step,
                CombineStatistics &statistics)
      : block(block), options(options), model(model),
        times(block, step, options.isReordered), statistics(statistics) {}

  void run();

  /// The candidates of the block that are no gathers in ready order, if each is
  /// ready before the first use of any; else nothing. Changes nothing.
  llvm::SmallVector<BucketCandidate> getOnlyRun();

private:
  void plan();
  void planRun(llvm::MutableArrayRef<BucketCandidate> candidates);
  void planGathers(llvm::MutableArrayRef<BucketCandidate> candidates);
  llvm::SmallVector<mlir::Operation *>
  getGatherPlaces(const BucketingPlan &plan,
                  llvm::ArrayRef<BucketCandidate> kept);
  void boundGathers(const BucketingPlan &plan,
                    llvm::ArrayRef<BucketCandidate> kept,
                    llvm::MutableArrayRef<mlir::Operation *> places);
  void markCapped(const ChosenPlan &chosen, bool isGather);
  void planSegment(llvm::SmallVectorImpl<BucketCandidate> &candidates,
                   mlir::Operation *end);
  std::optional<BucketCandidate> getCandidate(mlir::Operation *op,
                                              mlir::Operation *segmentStart);
  mlir::Block::iterator getPlace(const PlacedBucket &bucket);
  void emit(PlacedBucket &bucket, mlir::Block::iterator at);
  mlir::Value sliceMember(mlir::OpBuilder &builder,
                          const PlacedBucket::Member &member);
  void joinParts(mlir::Operation *op, mlir::Block::iterator at);
  void report();

  mlir::Block &block;
  const CombineOptions &options;
  const CostModel *model;
  BlockTimes times;
  CombineStatistics &statistics;
  /// What buckets point into.
  std::deque<llvm::SmallVector<BucketCandidate>> runs;
  llvm::SmallVector<PlacedBucket> buckets;
  /// Candidates; once known, with the first op after that is none.
  llvm::DenseMap<mlir::Operation *, std::optional<mlir::Block::iterator>>
      moving;
  /// Reduced parts of a candidate that is split, in order, and how many lack.
  struct Pieces {
    llvm::SmallVector<mlir::Value> values;
    int64_t missing = 0;
  };
  llvm::DenseMap<mlir::Operation *, Pieces> pieces;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKCOMBINER_H
