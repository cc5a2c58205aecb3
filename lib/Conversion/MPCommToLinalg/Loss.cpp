//===- Loss.cpp - cross-entropy to linalg ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The logit of the target is picked by comparing column numbers within the
// row's pass, so that it works on logits that exist only in registers. The
// number of rows that count (for the mean) depends on the targets alone: a
// generic of its own, which forward and backward share.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;
using Values = ArrayRef<Value>;

/// Whether a row with this target counts, as an i1.
static Value emitCounts(B &b, Value target, const APInt &ignored) {
  auto type = cast<IntegerType>(target.getType());
  if (!ignored.isSignedIntN(type.getWidth()))
    return arith::ConstantOp::create(b, b.getBoolAttr(true));
  Value index = arith::ConstantOp::create(
      b, b.getIntegerAttr(type, ignored.sextOrTrunc(type.getWidth())));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, target, index);
}

/// Whether the column of the innermost loop is the target's.
static Value emitIsTarget(B &b, Value target) {
  Value column = linalg::IndexOp::create(b, 1);
  Value index = arith::IndexCastOp::create(b, target.getType(), column);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, index, target);
}

/// Rows that count, a 0-d i64.
static Value countRows(OpBuilder &builder, Location loc, Value targets,
                       const APInt &ignored) {
  auto type = cast<RankedTensorType>(targets.getType());
  LinalgBuilder rows(builder, loc, type.getShape());
  return rows.reduce(Reduction::Sum, {rows.full(targets)}, {true},
                     builder.getI64Type(), [&](B &b, Values v) -> Value {
                       return arith::ExtUIOp::create(
                           b, b.getI64Type(), emitCounts(b, v[0], ignored));
                     });
}

namespace {

struct LowerCrossEntropy : public OpRewritePattern<CrossEntropyOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CrossEntropyOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerCrossEntropyGrad : public OpRewritePattern<CrossEntropyGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CrossEntropyGradOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult
LowerCrossEntropy::matchAndRewrite(CrossEntropyOp op,
                                   PatternRewriter &rewriter) const {
  auto logitsType = cast<RankedTensorType>(op.getLogits().getType());
  Type element = logitsType.getElementType();
  Type type = getComputeType(element);
  Location loc = markOrigin(op);
  APInt ignored = op.getIgnoreIndexAttr().getValue();
  bool isMean = op.getReduction() == LossReduction::Mean;

  LinalgBuilder linalg(rewriter, loc, logitsType.getShape());
  LinalgBuilder rows = linalg.rows();
  auto x = linalg.full(op.getLogits());
  auto target = linalg.row(op.getTargets());
  Value maximum = linalg.maximumOfRows(x, type);
  Value sum = linalg.reduceColumns(
      Reduction::Sum, {x, linalg.row(maximum)}, type,
      [](B &b, Values v) -> Value {
        return math::ExpOp::create(b, arith::SubFOp::create(b, v[0], v[1]));
      });
  Value picked = linalg.reduceColumns(
      Reduction::Sum, {x, target}, type, [&](B &b, Values v) -> Value {
        Value zero = makeConstant(b, b.getLoc(), type, 0.0);
        return arith::SelectOp::create(b, emitIsTarget(b, v[1]), v[0], zero);
      });
  Value lse = rows.map(
      {rows.full(maximum), rows.full(sum)}, type, [](B &b, Values v) -> Value {
        return arith::AddFOp::create(b, v[0], math::LogOp::create(b, v[1]));
      });
  Value loss;
  if (isMean && logitsType.getDimSize(0) == 0) {
    // A mean of nothing.
    loss = makeFilled(
        rewriter, loc, {},
        rewriter.getFloatAttr(type, std::numeric_limits<double>::quiet_NaN()));
  } else {
    SmallVector<LinalgBuilder::Operand> inputs{
        rows.full(lse), rows.full(picked), rows.full(op.getTargets())};
    if (isMean)
      inputs.push_back(
          rows.scalar(countRows(rewriter, loc, op.getTargets(), ignored)));
    loss = rows.reduce(Reduction::Sum, inputs, {true}, type,
                       [&](B &b, Values v) -> Value {
                         Value zero = makeConstant(b, b.getLoc(), type, 0.0);
                         Value cost = arith::SubFOp::create(b, v[0], v[1]);
                         Value row = arith::SelectOp::create(
                             b, emitCounts(b, v[2], ignored), cost, zero);
                         if (!isMean)
                           return row;
                         Value count = arith::SIToFPOp::create(b, type, v[3]);
                         return arith::DivFOp::create(b, row, count);
                       });
  }
  rewriter.replaceOp(op, {castTensor(rewriter, loc, loss, element),
                          castTensor(rewriter, loc, lse, element)});
  return success();
}

LogicalResult
LowerCrossEntropyGrad::matchAndRewrite(CrossEntropyGradOp op,
                                       PatternRewriter &rewriter) const {
  auto logitsType = cast<RankedTensorType>(op.getLogits().getType());
  Type element = logitsType.getElementType();
  Type type = getComputeType(element);
  Location loc = markOrigin(op);
  APInt ignored = op.getIgnoreIndexAttr().getValue();
  bool isMean = op.getReduction() == LossReduction::Mean;

  // What a row's gradient is multiplied with: 0-d, or it would be computed
  // once per row.
  Value scale = op.getGrad();
  if (isMean) {
    LinalgBuilder scalar(rewriter, loc, {});
    Value count = countRows(rewriter, loc, op.getTargets(), ignored);
    scale = scalar.map({scalar.full(scale), scalar.full(count)}, type,
                       [&](B &b, Values v) -> Value {
                         Value n = arith::SIToFPOp::create(b, type, v[1]);
                         return arith::DivFOp::create(b, v[0], n);
                       });
  }
  LinalgBuilder linalg(rewriter, loc, logitsType.getShape());
  Value result = linalg.map(
      {linalg.full(op.getLogits()), linalg.row(op.getTargets()),
       linalg.row(op.getLse()), linalg.scalar(scale)},
      element, [&](B &b, Values v) -> Value {
        Value zero = makeConstant(b, b.getLoc(), type, 0.0);
        Value one = makeConstant(b, b.getLoc(), type, 1.0);
        Value p = math::ExpOp::create(b, arith::SubFOp::create(b, v[0], v[2]));
        Value label =
            arith::SelectOp::create(b, emitIsTarget(b, v[1]), one, zero);
        Value d = arith::SubFOp::create(b, p, label);
        Value scaled = arith::MulFOp::create(b, d, v[3]);
        return arith::SelectOp::create(b, emitCounts(b, v[1], ignored), scaled,
                                       zero);
      });
  rewriter.replaceOp(op, result);
  return success();
}

void mpcomm::populateLossToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerCrossEntropy, LowerCrossEntropyGrad>(patterns.getContext());
}
