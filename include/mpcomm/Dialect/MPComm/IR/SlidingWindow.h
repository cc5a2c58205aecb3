//===- SlidingWindow.h - geometry of convolutions and pools -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The geometry of convolutions and pooling, on tensors and on buffers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_IR_SLIDINGWINDOW_H
#define MPCOMM_DIALECT_MPCOMM_IR_SLIDINGWINDOW_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace mpcomm {

/// Lists have an entry for the height and one for the width.
struct SlidingWindow {
  llvm::ArrayRef<int64_t> size, strides, low, high, dilation;
  bool channelsLast = false;

  /// Position in an activation of dimension `d` of [N, C, H, W].
  unsigned position(unsigned d) const {
    return !channelsLast || d == 0 ? d : d == 1 ? 3 : d - 1;
  }
  /// The sizes N, C, H, W of an activation.
  llvm::SmallVector<int64_t, 4> sizesOf(mlir::ShapedType activation) const;
  /// Number of windows along height (0) or width (1) in `extent` elements; 0 if
  /// none fits. The windows must be valid.
  int64_t count(unsigned axis, int64_t extent) const;
};

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Checks C1 to C5 of mpcomm.convolution. Sizes of `windows` are the filter's.
llvm::LogicalResult
verifyConvolution(EmitError emitError, mlir::ShapedType input,
                  mlir::ShapedType filter, mlir::ShapedType output,
                  const SlidingWindow &windows, int64_t groups);

/// Checks C1 to C3 of mpcomm.max_pool.
llvm::LogicalResult verifyPool(EmitError emitError, mlir::ShapedType input,
                               mlir::ShapedType output,
                               const SlidingWindow &windows);

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_SLIDINGWINDOW_H
