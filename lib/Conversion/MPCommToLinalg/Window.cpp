//===- Window.cpp - convolutions and pools to runtime calls ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Windows overlap, which the kernel generator's row spaces do not: they become
// mprt.window, in destination style on an empty tensor.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

static constexpr int64_t kDense[] = {1, 1};

/// Replaces `op` by a call; `window` are the sizes of its windows.
template <typename Op>
static void replaceByCall(Op op, ArrayRef<int64_t> window,
                          ArrayRef<int64_t> dilation, int64_t groups,
                          bool countPadding, PatternRewriter &rewriter) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  Value init = tensor::EmptyOp::create(rewriter, op.getLoc(), type.getShape(),
                                       type.getElementType());
  rewriter.replaceOpWithNewOp<mprt::WindowOp>(
      op, TypeRange(type), op->getName().stripDialect(), window,
      op.getStrides(), op.getLow(), op.getHigh(), dilation, groups,
      op.getChannelsLast(), countPadding, op->getOperands(), ValueRange(init));
}

namespace {

template <typename Op> struct LowerConvolution : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Value filter;
    if constexpr (std::is_same_v<Op, ConvolutionFilterGradOp>)
      filter = op.getResult();
    else
      filter = op.getFilter();
    auto shape = cast<RankedTensorType>(filter.getType()).getShape();
    replaceByCall(op, shape.take_back(2), op.getDilation(), op.getGroups(),
                  /*countPadding=*/false, rewriter);
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
    replaceByCall(op, op.getWindow(), kDense, /*groups=*/1, countPadding,
                  rewriter);
    return success();
  }
};

} // namespace

void mpcomm::populateWindowToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<
      LowerConvolution<ConvolutionOp>, LowerConvolution<ConvolutionInputGradOp>,
      LowerConvolution<ConvolutionFilterGradOp>, LowerPool<MaxPoolOp>,
      LowerPool<MaxPoolGradOp>, LowerPool<AvgPoolOp>, LowerPool<AvgPoolGradOp>>(
      patterns.getContext());
}
