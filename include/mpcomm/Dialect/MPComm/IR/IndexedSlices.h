//===- IndexedSlices.h - what indices name in a tensor ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dimensions of gathers and scatters, for the ops of both dialects.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_IR_INDEXEDSLICES_H
#define MPCOMM_DIALECT_MPCOMM_IR_INDEXEDSLICES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace mpcomm {

/// Slices of `operand` along dimension `dim`, which `indices` name; the first
/// `batchDims` dimensions of both are shared.
struct IndexedSlices {
  mlir::RankedTensorType operand, indices;
  int64_t dim, batchDims;

  /// Checks that the dimensions exist and fit, and that `dim` has at least
  /// `leastSize` elements.
  llvm::LogicalResult
  verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
         int64_t leastSize) const;

  /// The type of what is gathered or scattered: the operand's, with the
  /// dimensions of the indices that are not shared in place of `dim`.
  mlir::RankedTensorType getSlicesType() const;
};

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_INDEXEDSLICES_H
