//===- FlatOps.h - ops that can work on flat parts --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_SHARD_FLATOPS_H
#define MPCOMM_LIB_TRANSFORMS_SHARD_FLATOPS_H

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// How an op may work on parts of its operands in row-major order.
enum class FlatKind {
  None,
  Elementwise, ///< all of its tensors of one shape, and scalars beside them
  Rows,        ///< blocks of rows, which are parts in another shape
  PerGradient, ///< each gradient for itself, and something of all of them
  Extremum,    ///< the largest or smallest element: that of a part comes first
};

/// Over so many ranks.
FlatKind getFlatKind(mlir::Operation *op, int64_t ranks);

/// Whether `value` is one that is split if `op` works on parts: a tensor of the
/// shape that it works on, or with its rows, or one of its gradients. `op` uses
/// or defines it.
bool isSplitIn(mlir::Operation *op, mlir::Value value, int64_t ranks);

/// The rows of an update of kind Rows.
ShardingFactor getRows(mlir::Operation *op);

/// Of an op of kind Extremum, which it is of all elements of its operand.
std::optional<Reduction> findExtremum(mlir::Operation *op, int64_t ranks);

/// Whether all elements of `value`, a tensor, are equal wherever it is cut.
bool isUniform(mlir::Value value);

/// Whether `op` is of kind PerGradient, over however many ranks.
bool isOfGradients(mlir::Operation *op);

/// The gradients that `op`, of kind PerGradient, has.
mlir::SmallVector<mlir::OpOperand *> getGradients(mlir::Operation *op);

/// The result that hands `gradient` on; null if there is none.
mlir::OpResult findHandedOn(mlir::OpOperand &gradient);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_SHARD_FLATOPS_H
