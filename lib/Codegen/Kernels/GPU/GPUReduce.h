//===- GPUReduce.h - reductions across threads ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The vocabulary of code for a GPU: constants, predicates, shuffles, shared
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUREDUCE_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUREDUCE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

namespace mpcomm::kernels {

/// Coordinates of `index`, which counts the points of a space of `sizes` in
/// row-major order.
llvm::SmallVector<mlir::Value> delinearize(mlir::OpBuilder &b,
                                           mlir::Location loc,
                                           mlir::Value index,
                                           llvm::ArrayRef<int64_t> sizes);
/// The other way; 0 for a space of one point.
mlir::Value linearize(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::ValueRange coordinates,
                      llvm::ArrayRef<int64_t> sizes);

/// a < b, a == b for indices.
mlir::Value isLess(mlir::OpBuilder &b, mlir::Location loc, mlir::Value lhs,
                   int64_t rhs);
mlir::Value isZero(mlir::OpBuilder &b, mlir::Location loc, mlir::Value index);
/// Both; a null predicate is true.
mlir::Value both(mlir::OpBuilder &b, mlir::Location loc, mlir::Value lhs,
                 mlir::Value rhs);
/// `value` where `valid` (null: always), else `otherwise`.
mlir::Value selectValid(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value valid, mlir::Value value,
                        mlir::Value otherwise);
/// Emits under a condition; a null one is true. `b` is after it
/// afterwards.
void emitIf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value condition,
            llvm::function_ref<void()> emit);

/// What lane ^ `offset` of the warp has in `value`, a scalar of any type.
mlir::Value shuffleXor(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value value, int64_t offset);
/// `value` of `width` neighbouring lanes, combined: the same in all of them, in
/// log2(width) shuffles.
mlir::Value reduceLanes(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Operation *combiner, mlir::Value value,
                        int64_t width);

/// Shared memory of a block: `count` elements of `type`.
mlir::Value addShared(mlir::gpu::GPUFuncOp function, mlir::Type type,
                      int64_t count);

/// What the launch gives a block beside that, as !llvm.ptr<3>, from the first
/// multiple of `alignment` on.
mlir::Value launchShared(mlir::OpBuilder &b, mlir::Location loc,
                         int64_t alignment);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUREDUCE_H
