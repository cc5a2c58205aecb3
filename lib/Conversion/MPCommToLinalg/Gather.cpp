//===- Gather.cpp - gather and scatter to linalg --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gather reads its operand at any element, so it is elementwise over its
// result, and fuses with what makes its indices and with what reads it. A
// scatter writes at any element: `mprt.scatter`, for which kernels have code of
// their own.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;

/// `index`, an integer, as an index in [0, size).
static Value clampIndex(B &b, Value index, int64_t size) {
  index = arith::IndexCastOp::create(b, b.getIndexType(), index);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value last = arith::ConstantIndexOp::create(b, size - 1);
  return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, index, zero),
                                last);
}

namespace {

struct LowerGather : public OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    auto from = cast<RankedTensorType>(op.getOperand().getType());
    auto indices = cast<RankedTensorType>(op.getIndices().getType());
    int64_t dim = op.getDim(), batchDims = op.getBatchDims();
    int64_t numIndexed = indices.getRank() - batchDims;
    SmallVector<AffineExpr> indexDims;
    for (int64_t d = 0; d < indices.getRank(); ++d)
      indexDims.push_back(
          rewriter.getAffineDimExpr(d < batchDims ? d : d - batchDims + dim));
    AffineMap map =
        AffineMap::get(type.getRank(), 0, indexDims, rewriter.getContext());
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    Value result = linalg.map(
        {linalg.mapped(op.getIndices(), map)}, type.getElementType(),
        [&](B &b, ArrayRef<Value> v) -> Value {
          SmallVector<Value> at;
          for (int64_t d = 0; d < from.getRank(); ++d)
            at.push_back(d == dim ? clampIndex(b, v[0], from.getDimSize(dim))
                                  : linalg::IndexOp::create(
                                        b, d < dim ? d : d - 1 + numIndexed)
                                        .getResult());
          return tensor::ExtractOp::create(b, op.getOperand(), at);
        });
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct LowerGatherGrad : public OpRewritePattern<GatherGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherGradOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Type sumType = getComputeType(type.getElementType());
    Location loc = markOrigin(op);
    Value grad = castTensor(rewriter, loc, op.getGrad(), sumType);
    Value zeros = makeFilled(rewriter, loc, type.getShape(),
                             getIdentity(Reduction::Sum, sumType));
    Value sums = mprt::ScatterOp::create(
        rewriter, loc, zeros.getType(), "sum", op.getDim(), op.getBatchDims(),
        /*clamp=*/true, op.getPaddingIdxAttr(), grad, op.getIndices(), zeros);
    rewriter.replaceOp(op,
                       castTensor(rewriter, loc, sums, type.getElementType()));
    return success();
  }
};

struct LowerScatter : public OpRewritePattern<ScatterOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScatterOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    std::optional<Reduction> reduction = op.getReduction();
    bool sums = reduction == Reduction::Sum || reduction == Reduction::Prod;
    Type element = type.getElementType();
    Type computed = sums ? getComputeType(element) : element;
    Location loc = markOrigin(op);
    Value operand = op.getOperand();
    SplatElementsAttr splat;
    if (matchPattern(operand, m_Constant(&splat))) {
      // Kernels take fills along.
      auto value = splat.getSplatValue<TypedAttr>();
      if (auto real = dyn_cast<FloatAttr>(value))
        value = FloatAttr::get(computed, real.getValueAsDouble());
      operand = makeFilled(rewriter, loc, type.getShape(), value);
    }
    operand = castTensor(rewriter, loc, operand, computed);
    Value result = mprt::ScatterOp::create(
        rewriter, loc, operand.getType(),
        reduction ? stringifyReduction(*reduction) : "replace", op.getDim(),
        op.getBatchDims(), /*clamp=*/false, /*skipped=*/IntegerAttr(),
        castTensor(rewriter, loc, op.getUpdates(), computed), op.getIndices(),
        operand);
    rewriter.replaceOp(op, castTensor(rewriter, loc, result, element));
    return success();
  }
};

} // namespace

void mpcomm::populateGatherToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerGather, LowerGatherGrad, LowerScatter>(
      patterns.getContext());
}
