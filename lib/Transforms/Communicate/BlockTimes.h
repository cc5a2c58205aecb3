//===- BlockTimes.h - when the ops of a block run ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The clock of a block's computation, for plans of its collectives.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKTIMES_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKTIMES_H

#include "mpcomm/Analysis/StepModel/StepModel.h"

namespace mpcomm {

/// The computation of a block, as the planner needs it: that of ops which
/// depend on a collective, other than a gather, apart from that of all others.
/// Time: linear in the ops of the block, to construct it and for the first
/// question about clocks after an arrival that changes them; else logarithmic.
class BlockTimes {
public:
  /// `step` may be null: all times are zero then. With `interleaves` what
  /// depends on a collective runs as soon as it can, else after all other
  /// computation.
  BlockTimes(mlir::Block &block, const StepModel *step, bool interleaves);

  bool areKnown() const { return step; }
  /// When `op` has ended, if only what depends on no collective runs; 0 for
  /// null.
  double getReady(mlir::Operation *op) const;
  /// When all that depends on no collective has ended.
  double getComputeEnd() const { return computeEnd; }
  /// Seconds of ops that depend on this collective and on none after it.
  double getConsumer(mlir::Operation *collective) const;

  /// Says when what `collective` gives is there, for getClock().
  void setArrival(mlir::Operation *collective, double seconds);
  /// When `op` begins and when it has ended, if the collectives known to
  /// setArrival() are waited for, and gathers are not; 0 for null.
  double getBegin(mlir::Operation *op) const;
  double getClock(mlir::Operation *op) const;
  /// The same of the last op.
  double getEnd() const;
  /// The last op of which it and all before it have ended at that time; null:
  /// none.
  mlir::Operation *getLastEnded(double seconds) const;

private:
  void run() const;

  const StepModel *step;
  bool interleaves;
  /// What depends on a collective, with the last one that it depends on.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> late;
  llvm::DenseMap<mlir::Operation *, double> arrivals;
  /// By position, the second of an op and all before it; empty: not known yet.
  mutable std::vector<double> clocks, latest;
  std::vector<double> ends;           ///< by position in the step
  std::vector<mlir::Operation *> ops; ///< by position in the step
  llvm::DenseMap<mlir::Operation *, double> consumers;
  double computeEnd = 0, lateSeconds = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKTIMES_H
