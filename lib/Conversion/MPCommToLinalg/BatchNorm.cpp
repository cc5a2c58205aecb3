//===- BatchNorm.cpp - batch_norm to linalg -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operand is seen as [outer, features, inner]; where the features come last
// it keeps its shape, so that kernels hold its neighbours too. The variance is
// that of the differences from the mean: another pass over memory, which does
// not cancel.
//
// Sums over rows are taken in f64, one after the other: their error is the same
// for all elements of a feature, it adds up from layer to layer where roundings
// of elements average out, and it moves what is near zero across it, where an
// activation after the norm decides whether a gradient passes.
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

namespace {

/// The row space of a batch norm, and what its lowerings have in common.
class FeatureSpace {
public:
  FeatureSpace(OpBuilder &builder, Location loc, RankedTensorType type,
               int64_t featureDim)
      : builder(builder), loc(loc), type(type),
        count(type.getDimSize(featureDim)),
        last(llvm::product_of(type.getShape().drop_front(featureDim + 1)) == 1),
        shape(join(featureDim)), linalg(builder, loc, shape),
        features(builder, loc, {count}),
        element(getComputeType(type.getElementType())) {}

  LinalgBuilder::Operand full(Value value) {
    return linalg.full(reshapeTensor(builder, loc, value, shape));
  }
  LinalgBuilder::Operand feature(Value value) {
    return linalg.mapped(
        value,
        AffineMap::get(shape.size(), 0,
                       builder.getAffineDimExpr(last ? shape.size() - 1 : 1)));
  }
  Value map(ArrayRef<LinalgBuilder::Operand> inputs, LinalgBuilder::Body body) {
    Value value = linalg.map(inputs, type.getElementType(), body);
    return reshapeTensor(builder, loc, value, type.getShape());
  }
  /// A value per feature from such values.
  Value mapFeatures(ArrayRef<Value> inputs, LinalgBuilder::Body body) {
    SmallVector<LinalgBuilder::Operand> operands;
    for (Value value : inputs)
      operands.push_back(features.full(value));
    return features.map(operands, element, body);
  }
  /// Sums of the body's value, one a feature: over the innermost dimension
  /// first, where it is not the features'.
  Value sum(ArrayRef<LinalgBuilder::Operand> inputs, LinalgBuilder::Body body) {
    if (last) {
      Type wide = builder.getF64Type();
      Value total = linalg.reduceRows(
          Reduction::Sum, inputs, wide, [&](B &b, Values v) -> Value {
            return castFloat(b, b.getLoc(), body(b, v), wide);
          });
      return castTensor(builder, loc, total, element);
    }
    Value rows = linalg.reduceColumns(Reduction::Sum, inputs, element, body);
    LinalgBuilder outer(builder, loc, ArrayRef(shape).drop_back());
    return outer.reduceRows(Reduction::Sum, {outer.full(rows)}, element,
                            [](B &, Values v) { return v[0]; });
  }
  /// `sum` divided by the number of elements of a feature.
  Value mean(Value sum) {
    return mapFeatures({sum}, [&](B &b, Values v) -> Value {
      double elements = type.getNumElements();
      return arith::DivFOp::create(
          b, v[0], makeConstant(b, b.getLoc(), element, elements / count));
    });
  }
  Value rstd(Value variance, double eps) {
    return mapFeatures({variance}, [&](B &b, Values v) -> Value {
      Value shift = makeConstant(b, b.getLoc(), element, eps);
      Value root =
          math::SqrtOp::create(b, arith::AddFOp::create(b, v[0], shift));
      Value one = makeConstant(b, b.getLoc(), element, 1.0);
      return arith::DivFOp::create(b, one, root);
    });
  }
  /// (x - mean) * rstd * gamma + beta.
  Value normalise(Value x, Value mean, Value rstd, Value gamma, Value beta) {
    return map(
        {full(x), feature(mean), feature(rstd), feature(gamma), feature(beta)},
        [](B &b, Values v) -> Value {
          Value centred = arith::SubFOp::create(b, v[0], v[1]);
          Value normal = arith::MulFOp::create(b, centred, v[2]);
          Value scaled = arith::MulFOp::create(b, normal, v[3]);
          return arith::AddFOp::create(b, scaled, v[4]);
        });
  }
  Value cast(Value value, Value like) {
    auto to = mlir::cast<RankedTensorType>(like.getType());
    return castTensor(builder, loc, value, to.getElementType());
  }

private:
  SmallVector<int64_t> join(int64_t featureDim) const {
    ArrayRef<int64_t> sizes = type.getShape();
    if (featureDim + 1 == type.getRank())
      return llvm::to_vector(sizes);
    SmallVector<int64_t> joined{llvm::product_of(sizes.take_front(featureDim)),
                                count};
    if (!last)
      joined.push_back(llvm::product_of(sizes.drop_front(featureDim + 1)));
    return joined;
  }

  OpBuilder &builder;
  Location loc;
  RankedTensorType type;
  int64_t count; // features
  bool last;     // no dimension of more elements comes after theirs
  SmallVector<int64_t> shape;
  LinalgBuilder linalg, features;
  Type element;
};

struct LowerBatchNormTraining : public OpRewritePattern<BatchNormTrainingOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormTrainingOp op,
                                PatternRewriter &rewriter) const override {
    FeatureSpace space(rewriter, markOrigin(op),
                       cast<RankedTensorType>(op.getInput().getType()),
                       op.getFeatureDim());
    auto x = space.full(op.getInput());
    Value mean = space.mean(space.sum({x}, [](B &, Values v) { return v[0]; }));
    Value variance = space.mean(
        space.sum({x, space.feature(mean)}, [](B &b, Values v) -> Value {
          Value centred = arith::SubFOp::create(b, v[0], v[1]);
          return arith::MulFOp::create(b, centred, centred);
        }));
    Value rstd = space.rstd(variance, op.getEps().convertToDouble());
    Value y =
        space.normalise(op.getInput(), mean, rstd, op.getGamma(), op.getBeta());
    rewriter.replaceOp(op, {y, space.cast(mean, op.getMean()),
                            space.cast(variance, op.getVariance())});
    return success();
  }
};

struct LowerBatchNormInference : public OpRewritePattern<BatchNormInferenceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormInferenceOp op,
                                PatternRewriter &rewriter) const override {
    FeatureSpace space(rewriter, markOrigin(op),
                       cast<RankedTensorType>(op.getInput().getType()),
                       op.getFeatureDim());
    Value rstd = space.rstd(op.getVariance(), op.getEps().convertToDouble());
    rewriter.replaceOp(op, space.normalise(op.getInput(), op.getMean(), rstd,
                                           op.getGamma(), op.getBeta()));
    return success();
  }
};

struct LowerBatchNormGrad : public OpRewritePattern<BatchNormGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormGradOp op,
                                PatternRewriter &rewriter) const override {
    FeatureSpace space(rewriter, markOrigin(op),
                       cast<RankedTensorType>(op.getInput().getType()),
                       op.getFeatureDim());
    auto dy = space.full(op.getGrad()), x = space.full(op.getInput());
    auto mean = space.feature(op.getMean());
    Value rstd = space.rstd(op.getVariance(), op.getEps().convertToDouble());
    Value dbeta = space.sum({dy}, [](B &, Values v) { return v[0]; });
    // Of dy * (x - mean): rstd is a factor of all its terms.
    Value along = space.sum({dy, x, mean}, [](B &b, Values v) -> Value {
      Value centred = arith::SubFOp::create(b, v[1], v[2]);
      return arith::MulFOp::create(b, v[0], centred);
    });
    auto multiply = [](B &b, Values v) -> Value {
      return arith::MulFOp::create(b, v[0], v[1]);
    };
    Value dgamma = space.mapFeatures({along, rstd}, multiply);
    Value scale = space.mapFeatures({op.getGamma(), rstd}, multiply);
    // mean(dy * xhat) * rstd, the factor of x - mean.
    Value slope = space.mapFeatures({space.mean(dgamma), rstd}, multiply);
    Value dx = space.map({dy, x, mean, space.feature(space.mean(dbeta)),
                          space.feature(slope), space.feature(scale)},
                         [](B &b, Values v) -> Value {
                           Value centred = arith::SubFOp::create(b, v[1], v[2]);
                           Value level = arith::SubFOp::create(b, v[0], v[3]);
                           Value tilt = arith::MulFOp::create(b, centred, v[4]);
                           Value d = arith::SubFOp::create(b, level, tilt);
                           return arith::MulFOp::create(b, d, v[5]);
                         });
    rewriter.replaceOp(op, {dx, space.cast(dgamma, op.getGammaGrad()),
                            space.cast(dbeta, op.getBetaGrad())});
    return success();
  }
};

} // namespace

void mpcomm::populateBatchNormToLinalgPatterns(RewritePatternSet &patterns) {
  patterns
      .add<LowerBatchNormTraining, LowerBatchNormInference, LowerBatchNormGrad>(
          patterns.getContext());
}
