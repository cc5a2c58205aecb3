//===- ExpandPattern.h - math functions by formulas -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EXPANDPATTERN_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EXPANDPATTERN_H

#include "Kernels/Model/MathEmitter.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpcomm {

/// Replaces `Op` on f32 by what `expand` makes of its operands.
template <typename Op, typename Expand>
struct ExpandPattern : mlir::OpRewritePattern<Op> {
  ExpandPattern(mlir::MLIRContext *context, Expand expand)
      : mlir::OpRewritePattern<Op>(context, /*benefit=*/2), expand(expand) {}
  llvm::LogicalResult
  matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    if (!mlir::getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "expands f32 only");
    kernels::MathEmitter emitter(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, expand(emitter, op->getOperands()));
    return mlir::success();
  }
  Expand expand;
};

template <typename Op, typename Expand>
void addExpansion(mlir::RewritePatternSet &patterns, Expand expand) {
  patterns.add(std::make_unique<ExpandPattern<Op, Expand>>(
      patterns.getContext(), expand));
}

/// Trigonometric and hyperbolic functions, their inverses, logarithms to other
/// bases, erfc.
void populateFunctionExpansionPatterns(mlir::RewritePatternSet &patterns);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EXPANDPATTERN_H
