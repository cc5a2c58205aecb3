//===- LayerNorm.cpp - layer_norm and rms_norm to linalg ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The normalised dimensions become the columns of the row space. The variance
// is that of the differences from the mean: a second pass over the row, which
// does not cancel.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;
using Values = ArrayRef<Value>;

/// The leading dimensions of `type`, and its last `trailing` ones as one.
static SmallVector<int64_t> joinTrailing(RankedTensorType type,
                                         int64_t trailing) {
  SmallVector<int64_t> shape(type.getShape().drop_back(trailing));
  int64_t columns = 1;
  for (int64_t size : type.getShape().take_back(trailing))
    columns *= size;
  shape.push_back(columns);
  return shape;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// The means of rows of `columns` elements, from their sums.
static Value average(LinalgBuilder &rows, Value sums, Type type,
                     double columns) {
  return rows.map({rows.full(sums)}, type, [&](B &b, Values v) -> Value {
    Value n = makeConstant(b, b.getLoc(), type, columns);
    return arith::DivFOp::create(b, v[0], n);
  });
}

/// 1 / sqrt(sum / columns + eps) for each of the sums.
static Value invertRoot(LinalgBuilder &rows, Value sums, Type type,
                        double columns, const APFloat &eps) {
  return rows.map({rows.full(sums)}, type, [&](B &b, Values v) -> Value {
    Value n = makeConstant(b, b.getLoc(), type, columns);
    Value mean = arith::DivFOp::create(b, v[0], n);
    Value e = makeConstant(b, b.getLoc(), type, eps.convertToDouble());
    Value root = math::SqrtOp::create(b, arith::AddFOp::create(b, mean, e));
    Value one = makeConstant(b, b.getLoc(), type, 1.0);
    return arith::DivFOp::create(b, one, root);
  });
}

namespace {

struct LowerLayerNorm : public OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerLayerNormGrad : public OpRewritePattern<LayerNormGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormGradOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerRMSNorm : public OpRewritePattern<RMSNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RMSNormOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerRMSNormGrad : public OpRewritePattern<RMSNormGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RMSNormGradOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult LowerLayerNorm::matchAndRewrite(LayerNormOp op,
                                              PatternRewriter &rewriter) const {
  auto inputType = cast<RankedTensorType>(op.getInput().getType());
  int64_t trailing = shapeOf(op.getGamma()).size();
  Location loc = markOrigin(op);
  Type element = inputType.getElementType();
  Type type = getComputeType(element);
  SmallVector<int64_t> shape = joinTrailing(inputType, trailing);
  double columns = shape.back();

  LinalgBuilder linalg(rewriter, loc, shape);
  LinalgBuilder rows = linalg.rows();
  auto x = linalg.full(reshapeTensor(rewriter, loc, op.getInput(), shape));
  auto gamma = linalg.column(
      reshapeTensor(rewriter, loc, op.getGamma(), {shape.back()}));
  auto beta =
      linalg.column(reshapeTensor(rewriter, loc, op.getBeta(), {shape.back()}));

  Value sum = linalg.reduceColumns(Reduction::Sum, {x}, type,
                                   [](B &, Values v) { return v[0]; });
  Value mean = average(rows, sum, type, columns);
  Value centred =
      linalg.map({x, linalg.row(mean)}, type, [](B &b, Values v) -> Value {
        return arith::SubFOp::create(b, v[0], v[1]);
      });
  Value squares =
      linalg.reduceColumns(Reduction::Sum, {linalg.full(centred)}, type,
                           [](B &b, Values v) -> Value {
                             return arith::MulFOp::create(b, v[0], v[0]);
                           });
  Value rstd = invertRoot(rows, squares, type, columns, op.getEps());
  Value y =
      linalg.map({linalg.full(centred), linalg.row(rstd), gamma, beta}, element,
                 [](B &b, Values v) -> Value {
                   Value normalised = arith::MulFOp::create(b, v[0], v[1]);
                   Value scaled = arith::MulFOp::create(b, normalised, v[2]);
                   return arith::AddFOp::create(b, scaled, v[3]);
                 });
  rewriter.replaceOp(op, {reshapeTensor(rewriter, loc, y, inputType.getShape()),
                          castTensor(rewriter, loc, mean, element),
                          castTensor(rewriter, loc, rstd, element)});
  return success();
}

LogicalResult
LowerLayerNormGrad::matchAndRewrite(LayerNormGradOp op,
                                    PatternRewriter &rewriter) const {
  auto inputType = cast<RankedTensorType>(op.getInput().getType());
  ArrayRef<int64_t> gammaShape = shapeOf(op.getGamma());
  Location loc = markOrigin(op);
  Type element = inputType.getElementType();
  Type type = getComputeType(element);
  SmallVector<int64_t> shape = joinTrailing(inputType, gammaShape.size());
  double columns = shape.back();

  LinalgBuilder linalg(rewriter, loc, shape);
  LinalgBuilder rows = linalg.rows();
  auto dy = linalg.full(reshapeTensor(rewriter, loc, op.getGrad(), shape));
  auto x = linalg.full(reshapeTensor(rewriter, loc, op.getInput(), shape));
  auto gamma = linalg.column(
      reshapeTensor(rewriter, loc, op.getGamma(), {shape.back()}));
  auto mean = linalg.row(op.getMean()), rstd = linalg.row(op.getRstd());

  Value normalised =
      linalg.map({x, mean, rstd}, type, [](B &b, Values v) -> Value {
        Value d = arith::SubFOp::create(b, v[0], v[1]);
        return arith::MulFOp::create(b, d, v[2]);
      });
  auto xhat = linalg.full(normalised);
  auto multiply = [](B &b, Values v) -> Value {
    return arith::MulFOp::create(b, v[0], v[1]);
  };
  auto g = linalg.full(linalg.map({dy, gamma}, type, multiply));
  auto averageColumns = [&](Value sums) {
    return average(rows, sums, type, columns);
  };
  Value meanG = averageColumns(linalg.reduceColumns(
      Reduction::Sum, {g}, type, [](B &, Values v) { return v[0]; }));
  Value meanGX = averageColumns(
      linalg.reduceColumns(Reduction::Sum, {g, xhat}, type, multiply));
  Value dx = linalg.map({g, xhat, linalg.row(meanG), linalg.row(meanGX), rstd},
                        element, [](B &b, Values v) -> Value {
                          Value centred = arith::SubFOp::create(b, v[0], v[2]);
                          Value along = arith::MulFOp::create(b, v[1], v[3]);
                          Value d = arith::SubFOp::create(b, centred, along);
                          return arith::MulFOp::create(b, d, v[4]);
                        });
  Value dgamma = linalg.reduceRows(Reduction::Sum, {dy, xhat}, type, multiply);
  Value dbeta = linalg.reduceRows(Reduction::Sum, {dy}, type,
                                  [](B &, Values v) { return v[0]; });
  auto finish = [&](Value sum) {
    return reshapeTensor(rewriter, loc, castTensor(rewriter, loc, sum, element),
                         gammaShape);
  };
  rewriter.replaceOp(op,
                     {reshapeTensor(rewriter, loc, dx, inputType.getShape()),
                      finish(dgamma), finish(dbeta)});
  return success();
}

LogicalResult LowerRMSNorm::matchAndRewrite(RMSNormOp op,
                                            PatternRewriter &rewriter) const {
  auto inputType = cast<RankedTensorType>(op.getInput().getType());
  Location loc = markOrigin(op);
  Type element = inputType.getElementType();
  Type type = getComputeType(element);
  SmallVector<int64_t> shape =
      joinTrailing(inputType, shapeOf(op.getGamma()).size());
  double columns = shape.back();

  LinalgBuilder linalg(rewriter, loc, shape);
  LinalgBuilder rows = linalg.rows();
  auto x = linalg.full(reshapeTensor(rewriter, loc, op.getInput(), shape));
  auto gamma = linalg.column(
      reshapeTensor(rewriter, loc, op.getGamma(), {shape.back()}));
  Value squares = linalg.reduceColumns(
      Reduction::Sum, {x}, type, [](B &b, Values v) -> Value {
        return arith::MulFOp::create(b, v[0], v[0]);
      });
  Value rstd = invertRoot(rows, squares, type, columns, op.getEps());
  Value y = linalg.map(
      {x, linalg.row(rstd), gamma}, element, [](B &b, Values v) -> Value {
        Value normalised = arith::MulFOp::create(b, v[0], v[1]);
        return arith::MulFOp::create(b, normalised, v[2]);
      });
  rewriter.replaceOp(op, {reshapeTensor(rewriter, loc, y, inputType.getShape()),
                          castTensor(rewriter, loc, rstd, element)});
  return success();
}

LogicalResult
LowerRMSNormGrad::matchAndRewrite(RMSNormGradOp op,
                                  PatternRewriter &rewriter) const {
  auto inputType = cast<RankedTensorType>(op.getInput().getType());
  ArrayRef<int64_t> gammaShape = shapeOf(op.getGamma());
  Location loc = markOrigin(op);
  Type element = inputType.getElementType();
  Type type = getComputeType(element);
  SmallVector<int64_t> shape = joinTrailing(inputType, gammaShape.size());

  LinalgBuilder linalg(rewriter, loc, shape);
  auto dy = linalg.full(reshapeTensor(rewriter, loc, op.getGrad(), shape));
  auto x = linalg.full(reshapeTensor(rewriter, loc, op.getInput(), shape));
  auto gamma = linalg.column(
      reshapeTensor(rewriter, loc, op.getGamma(), {shape.back()}));
  auto rstd = linalg.row(op.getRstd());
  auto multiply = [](B &b, Values v) -> Value {
    return arith::MulFOp::create(b, v[0], v[1]);
  };
  auto xhat = linalg.full(linalg.map({x, rstd}, type, multiply));
  auto g = linalg.full(linalg.map({dy, gamma}, type, multiply));
  LinalgBuilder rows = linalg.rows();
  Value sums = linalg.reduceColumns(Reduction::Sum, {g, xhat}, type, multiply);
  Value meanGX = average(rows, sums, type, shape.back());
  Value dx = linalg.map({g, xhat, linalg.row(meanGX), rstd}, element,
                        [](B &b, Values v) -> Value {
                          Value along = arith::MulFOp::create(b, v[1], v[2]);
                          Value d = arith::SubFOp::create(b, v[0], along);
                          return arith::MulFOp::create(b, d, v[3]);
                        });
  Value dgamma = linalg.reduceRows(Reduction::Sum, {dy, xhat}, type, multiply);
  rewriter.replaceOp(
      op,
      {reshapeTensor(rewriter, loc, dx, inputType.getShape()),
       reshapeTensor(rewriter, loc, castTensor(rewriter, loc, dgamma, element),
                     gammaShape)});
  return success();
}

void mpcomm::populateLayerNormToLinalgPatterns(RewritePatternSet &patterns) {
  patterns
      .add<LowerLayerNorm, LowerLayerNormGrad, LowerRMSNorm, LowerRMSNormGrad>(
          patterns.getContext());
}
