//===- GradientScale.h - a factor on all gradients of a step ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The backward pass of a graph begins where a value that the loss does not need
// is computed from values that it needs: at a constant gradient of the loss, or
// after it where the front end folded that. To scale the loss is to multiply
// there. The places are found from the gradients upwards, and the result is
// checked from there downwards, so that a graph in which a gradient would carry
// the factor twice or not at all is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_GRADIENTSCALE_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_GRADIENTSCALE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// A gradient of the step, and where it is used as one.
struct StepGradient {
  mlir::Value value;
  llvm::SmallVector<mlir::OpOperand *> uses;
  /// Indices of the parameters that it updates; empty where that is not known.
  llvm::SmallVector<unsigned> parameters;
};

/// The gradients of a function in the order of their first use.
llvm::SmallVector<StepGradient> collectGradients(mlir::func::FuncOp function);

/// Multiplies `gradients` by `scale`, a 0-d f32 tensor that dominates the body,
/// as far above them as it can be done; `gradients` are updated. Returns the
/// number of places, or failure, with an error that names the gradient and the
/// op that is in the way. Time: linear in the ops, times gradients / 64.
llvm::FailureOr<int64_t>
scaleGradients(mlir::func::FuncOp function, mlir::Value scale,
               llvm::MutableArrayRef<StepGradient> gradients);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_GRADIENTSCALE_H
