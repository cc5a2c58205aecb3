//===- StridedProduct.h - contractions as strided products ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_CONTRACTION_STRIDEDPRODUCT_H
#define MPCOMM_ANALYSIS_CONTRACTION_STRIDEDPRODUCT_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mpcomm/Analysis/Contraction/ContractionPlan.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <array>

namespace mpcomm {

/// The loops of a dot_general: batching loops, free loops of lhs and of rhs,
/// contracted loops.
struct ProductLoops {
  explicit ProductLoops(DotGeneralOp op);

  llvm::SmallVector<int64_t> lhs, rhs, result; // loop of each dimension
  llvm::SmallVector<int64_t> sizes;
  unsigned numParallel = 0;
};

/// Whether the contraction C = A * B is one matrix product with strided batch
/// dimensions (see planContraction) on row-major tensors, without copies. `a`,
/// `b` and `c` give the loop of each dimension of the three tensors, `sizes`
/// the sizes of the loops. A loop is a batch loop (in all three), or in A and
/// C, or in B and C, or summed (in A and B).
bool isStridedProduct(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> a,
                      llvm::ArrayRef<int64_t> b, llvm::ArrayRef<int64_t> c);

/// That product; nothing where it takes several, or none at all.
std::optional<StridedGemm> getStridedProduct(llvm::ArrayRef<int64_t> sizes,
                                             llvm::ArrayRef<int64_t> a,
                                             llvm::ArrayRef<int64_t> b,
                                             llvm::ArrayRef<int64_t> c);

/// Whether elements of `type` are 8-bit floats that tensor cores multiply.
bool isF8OfTensorCores(mlir::Type type);

/// Loops of the dimensions of two operands.
using OperandLoops = std::array<llvm::SmallVector<int64_t>, 2>;

/// The orders of loops in which tensor cores can multiply the operands, given
/// in 8 bits: those that they have, or parallel loops before those that are
/// summed, from `numParallel` on. Nothing if they cannot: both operands have
/// `lhs` and `rhs` of f8E5M2 or another type than isF8OfTensorCores, `result`
/// elements of other than 16 or 32 bits, or sizes or strides that are not
/// multiples of 16.
std::optional<OperandLoops>
orderForTensorCoresOfF8(llvm::ArrayRef<int64_t> sizes, int64_t numParallel,
                        const OperandLoops &loops,
                        llvm::ArrayRef<int64_t> resultLoops, mlir::Type lhs,
                        mlir::Type rhs, mlir::Type result);

/// Whether tensor cores can multiply operands of 8 bits so: both lie along what
/// is summed, sizes and strides are multiples of 16 elements, and those of the
/// result, whose elements have `resultBytes`, of 16 bytes.
bool fitsTensorCoresOfF8(const StridedGemm &product, int64_t resultBytes);

/// The dimensions of a contraction, one per loop, whose operands A, B and C are
/// buffers of `types`. Fails, with a reason, if a size or a stride is not
/// static, or if a map has results other than dimensions.
llvm::LogicalResult
getContractionDims(mlir::linalg::LinalgOp op, llvm::ArrayRef<mlir::Type> types,
                   llvm::SmallVectorImpl<ContractionDim> &dims,
                   std::string &reason);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_CONTRACTION_STRIDEDPRODUCT_H
