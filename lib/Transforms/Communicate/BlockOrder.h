//===- BlockOrder.h - positions of the ops of a block -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Positions in a block that stay valid while ops are inserted and moved.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKORDER_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKORDER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// The ops of a block, numbered once. `Operation::isBeforeInBlock` would number
/// a block again after each insertion.
class BlockOrder {
public:
  explicit BlockOrder(mlir::Block &block);

  llvm::ArrayRef<mlir::Operation *> getOps() const { return ops; }
  unsigned size() const { return ops.size(); }

  /// Position of `op`, or of the op of the block that it is nested in; size()
  /// where it is in neither, as in a later block.
  unsigned getPosition(mlir::Operation *op) const;

  /// The smallest position at which a result of `op` is used; size() if none.
  unsigned getFirstUse(mlir::Operation *op) const;

private:
  mlir::Block &block;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_BLOCKORDER_H
