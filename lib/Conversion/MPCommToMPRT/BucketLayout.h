//===- BucketLayout.h - what a bucket sends and receives --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks of tensors, and how several tensors are one range of memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_BUCKETLAYOUT_H
#define MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_BUCKETLAYOUT_H

#include "mlir/IR/Builders.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// Moves dimension `from` to position `to`.
mlir::Value moveDim(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value value, int64_t from, int64_t to);
/// Cuts dimension `dim` into `group` blocks and makes the block the first
/// dimension: [.., n, ..] to [group, .., n / group, ..].
mlir::Value splitToFront(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value value, int64_t dim, int64_t group);
/// The reverse: joins the first dimension to dimension `dim` of the rest.
mlir::Value joinFromFront(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value value, int64_t dim);

/// The operands of one element type of a reduce_scatter, an all_gather or an
/// all_to_all. Each is made of blocks, one for each rank, before, after or on
/// both sides of the collective. A rank's blocks of all operands lie in a row,
/// and of what goes to, or comes from, all ranks there is a row for each:
///
///   [rank 0: block of a, block of b, ...][rank 1: block of a, block of b, ...]
///
/// so that what travels from one rank to another is one piece of memory.
class BucketLayout {
public:
  /// `slots` are numbers of operands; they travel as `wire`.
  BucketLayout(BucketableOpInterface op, llvm::ArrayRef<unsigned> slots,
               int64_t group, mlir::Type wire);

  /// What the collective reads.
  mlir::Value pack(mlir::OpBuilder &builder, mlir::Location loc) const;
  /// The shape of what it writes: rows, or of one operand its blocks.
  llvm::SmallVector<int64_t> getReceivedShape() const;
  /// The results that `received` holds.
  llvm::SmallVector<mlir::Value> unpack(mlir::OpBuilder &builder,
                                        mlir::Location loc,
                                        mlir::Value received) const;

private:
  struct Member {
    mlir::Value operand;
    mlir::RankedTensorType result;
    int64_t splitDim, joinDim; ///< those that the kind has
    int64_t blockSize;
  };
  llvm::SmallVector<int64_t> getReceivedShape(const Member &member) const;

  llvm::SmallVector<Member> members;
  int64_t group;
  mlir::Type wire;
  bool sendsToAll, receivesFromAll;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPCOMMTOMPRT_BUCKETLAYOUT_H
