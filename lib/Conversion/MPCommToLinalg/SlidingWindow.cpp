//===- SlidingWindow.cpp - convolutions and pools to runtime calls --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Windows overlap, which the kernel generator's row spaces do not: they become
// mprt.convolution and mprt.pool, in destination style on an empty tensor.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

/// The tensor that a call on `op`'s operands overwrites.
template <typename Op> static Value makeInit(Op op, OpBuilder &builder) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  return tensor::EmptyOp::create(builder, op.getLoc(), type.getShape(),
                                 type.getElementType());
}

namespace {

template <typename Op> struct LowerConvolution : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<mprt::ConvolutionOp>(
        op, op->getResultTypes(), op->getName().stripDialect(), op.getStrides(),
        op.getLow(), op.getHigh(), op.getDilation(), op.getGroups(),
        op.getChannelsLast(), op->getOperands(), makeInit(op, rewriter));
    return success();
  }
};

template <typename Op> struct LowerPool : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    bool countPadding = false;
    if constexpr (std::is_same_v<Op, AvgPoolOp> ||
                  std::is_same_v<Op, AvgPoolGradOp>)
      countPadding = op.getCountPadding();
    rewriter.replaceOpWithNewOp<mprt::PoolOp>(
        op, op->getResultTypes(), op->getName().stripDialect(), op.getWindow(),
        op.getStrides(), op.getLow(), op.getHigh(), op.getChannelsLast(),
        countPadding, op->getOperands(), makeInit(op, rewriter));
    return success();
  }
};

} // namespace

void mpcomm::populateSlidingWindowToMPRTPatterns(RewritePatternSet &patterns) {
  patterns.add<
      LowerConvolution<ConvolutionOp>, LowerConvolution<ConvolutionInputGradOp>,
      LowerConvolution<ConvolutionFilterGradOp>, LowerPool<MaxPoolOp>,
      LowerPool<MaxPoolGradOp>, LowerPool<AvgPoolOp>, LowerPool<AvgPoolGradOp>>(
      patterns.getContext());
}
