//===- MicroBatch.h - what a step does with a part of its batch -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is run on a part of its batch up to the update phase: the first
// collective that makes a complete value, or the first update. What the update
// phase needs of that is added up over the parts. Here is found what that is.
// Collectives that make parts, and gathers of what is no gradient, belong to
// the micro-batch.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_MICROBATCH_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_MICROBATCH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "llvm/ADT/DenseSet.h"

namespace mpcomm {

/// A value of the micro-batch that the update phase needs as its mean, a
/// gradient or the loss, or as its maximum.
struct MicroBatchSum {
  mlir::Value value; // what is added up
  bool isMaximum = false;
  /// The value is narrowed before it is used: here, from `value`.
  mlir::arith::TruncFOp narrowed;
  llvm::SmallVector<mlir::OpOperand *> uses; // in the update phase

  /// Of what is added up; null where ranks have the whole.
  ShardingAttr getSharding() const;
  /// In which it is added up: f32 or wider.
  mlir::RankedTensorType getTotalType() const;
  /// What its total starts from.
  mlir::Value makeStart(mlir::OpBuilder &builder, mlir::Location loc) const;
  /// The total with one more value, which has its type.
  mlir::Value combine(mlir::OpBuilder &builder, mlir::Value total,
                      mlir::Value value) const;
};

/// State that each micro-batch takes from the one before.
struct MicroBatchState {
  mlir::BlockArgument before;
  mlir::Value after; // of this state alone
  /// Takes it out of the micro-batch: to the terminator, or to a reduction of
  /// the update phase.
  mlir::OpOperand *exit;
};

struct MicroBatch {
  /// Finds out about a step whose body is one block. Fails, with an error,
  /// where a micro-batch depends on more than its samples and state. Gives each
  /// state a value of its own, by a reshape to the same shape. Gradients that
  /// are added up of several, which are made in several places where it
  /// `hasStages`, are then reduced in the update phase. Time: linear in the ops
  /// for each level of states that are computed of other states.
  static mlir::FailureOr<MicroBatch> get(mlir::func::FuncOp step, int64_t count,
                                         bool hasStages = false);

  bool isInUpdatePhase(mlir::Operation *op) const {
    return updatePhase.contains(op);
  }

  mlir::func::FuncOp step;
  int64_t count = 1; ///< micro-batches of a step
  llvm::SmallVector<mlir::BlockArgument> batches, seeds;
  llvm::SmallVector<MicroBatchState> states;
  llvm::SmallVector<MicroBatchSum> sums;

private:
  explicit MicroBatch(mlir::func::FuncOp step, int64_t count)
      : step(step), count(count), body(&step.getFunctionBody().front()) {}
  void findUpdatePhase(bool hasStages);
  void findVarying();
  bool leaves(mlir::OpOperand &use, bool orGradient);
  mlir::LogicalResult checkBatch();
  mlir::LogicalResult findState();
  mlir::LogicalResult addState(mlir::OpOperand &returned, Role role);
  mlir::OpOperand &separateReductions(mlir::OpOperand &use);
  void isolateArguments();
  mlir::LogicalResult findSums();
  mlir::LogicalResult checkRegions(mlir::Operation *op);
  mlir::LogicalResult addSum(mlir::OpOperand &use);

  mlir::Block *body;
  /// Collectives of complete values, updates, and what depends on them.
  llvm::DenseSet<mlir::Operation *> updatePhase;
  /// What depends on the batch, on seeds or on what micro-batches hand on.
  llvm::DenseSet<mlir::Value> varying;
  /// By the value that is used: the index of its mean, and of its maximum.
  llvm::DenseMap<mlir::Value, unsigned> meanOf, maximumOf;
  llvm::DenseMap<mlir::Value, mlir::Value> copies;
};

/// Samples of micro-batch `index` of `count`, of a batch that has all of them.
mlir::Value sliceMicroBatch(mlir::OpBuilder &builder, mlir::Value batch,
                            int64_t index, int64_t count);
/// Says of the argument `index` of a function, which takes `value` of a step,
/// how it is split.
void copySharding(mlir::Value value, SignatureEditor &editor, unsigned index);
/// A seed of its own for micro-batch `index`.
mlir::Value seedMicroBatch(mlir::OpBuilder &builder, mlir::Value seed,
                           int64_t index);
/// Has `uses`, which stand for those of `sum` in the update phase, take the
/// mean of what `total` has added up over `count` micro-batches: divided after
/// a reduction in f32 that is the only use (what is summed then travels from
/// where it was added up), else before.
void useMean(mlir::OpBuilder &builder, const MicroBatchSum &sum,
             llvm::ArrayRef<mlir::OpOperand *> uses, mlir::Value total,
             int64_t count);

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_MICROBATCH_H
