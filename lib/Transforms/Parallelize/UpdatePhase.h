//===- UpdatePhase.h - collectives and updates of a rank --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows the micro-batches, cut down to what one rank of a pipeline has:
// its gradients, its state. What all gradients have in common, the flag of
// those that are not finite and their norm, is put together over the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_UPDATEPHASE_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_UPDATEPHASE_H

#include "Parallelize/StageProgram.h"
#include "mlir/IR/IRMapping.h"

namespace mpcomm {

/// What one rank has of a step.
struct UpdatePhasePlan {
  int rank = 0;
  /// In the order of the step: arguments, and results by index, the loss among
  /// them.
  llvm::SmallVector<mlir::BlockArgument> arguments;
  llvm::SmallVector<int64_t> results;
  /// Sums that the rank's stage functions add to; and those that it needs, by
  /// the ranks that add to them and that need them.
  llvm::SmallVector<unsigned> ownSums;
  struct Shared {
    unsigned sum = 0;
    llvm::SmallVector<int> contributors, residents; // ascending ranks
  };
  std::vector<Shared> sums;
  /// The rank that makes the loss.
  int lossRank = 0;
  /// Ops of the update phase that the rank runs.
  llvm::DenseSet<mlir::Operation *> ops;
  /// Operands of scalings of many gradients that the rank has not: by use.
  llvm::DenseSet<mlir::OpOperand *> dropped;
  /// Operands of such ops that count on this rank in what is made of all
  /// gradients: each does on one rank.
  llvm::DenseSet<mlir::OpOperand *> counted;
};

mlir::FailureOr<UpdatePhasePlan>
planUpdatePhase(StageFunctions &stageFunctions,
                const PipelineSchedule &schedule, int rank);

/// Emits it, and the return, at the builder's place.
mlir::LogicalResult
emitUpdatePhase(mlir::OpBuilder &builder, const StageFunctions &stageFunctions,
                const UpdatePhasePlan &plan, const PipelineMesh &mesh,
                const PipelineSchedule &schedule, mlir::IRMapping mapping,
                const llvm::DenseMap<unsigned, mlir::Value> &totals,
                const llvm::DenseMap<unsigned, mlir::Value> &states);

/// The call of an action in a rank's program, and the last op of the action.
struct ActionEnd {
  mlir::Operation *call = nullptr, *last = nullptr;
};

/// Moves each reduction of the update phase that does not span the pipeline to
/// after the action that makes the last of what it reduces, with the ops in
/// between. `actions`: those of the program, in order. Time: linear, but for
/// ops that several reductions need.
void startReductions(mlir::Block &body, const PipelineMesh &mesh,
                     llvm::ArrayRef<ActionEnd> actions);

/// Puts collectives along the pipeline into asyncs that are awaited at once:
/// what other passes do to the programs of its ranks, each on its own, then
/// leaves them in the order that all ranks share.
void fixOrder(mlir::Block &body, const PipelineMesh &mesh);

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_UPDATEPHASE_H
