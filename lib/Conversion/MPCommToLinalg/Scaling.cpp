//===- Scaling.cpp - loss scaling and clipping to linalg ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients are read twice: by one kernel each that reduces them, and by the
// update, which multiplies them by what was found. So the reductions are of the
// gradients as they come, whatever was done to them in between is computed
// again, and a product with a factor is left to fuse with the update.
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;
using Values = ArrayRef<Value>;

/// The most 0-d tensors that one kernel adds up.
static constexpr size_t kMaxTerms = 16;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The sum of `body` over all elements of `value`, 0-d, in f32. `factors` are
/// scalars that the body reads too.
static Value sumOver(OpBuilder &builder, Location loc, Value value,
                     ValueRange factors, LinalgBuilder::Body body) {
  RankedTensorType type = typeOf(value);
  LinalgBuilder linalg(builder, loc, type.getShape());
  SmallVector<LinalgBuilder::Operand> inputs{linalg.full(value)};
  for (Value factor : factors)
    inputs.push_back(linalg.scalar(factor));
  Type f32 = builder.getF32Type();
  if (type.getRank() == 0)
    return linalg.map(inputs, f32, body);
  return linalg.reduce(Reduction::Sum, inputs,
                       SmallVector<bool>(type.getRank(), true),
                       getComputeType(type.getElementType()), body);
}

/// `finish` of the sum of 0-d tensors, kMaxTerms of them at a time.
static Value addUp(OpBuilder &builder, Location loc, SmallVector<Value> terms,
                   function_ref<Value(Scalars &, Value)> finish) {
  LinalgBuilder scalar(builder, loc, {});
  Type f32 = builder.getF32Type();
  while (true) {
    bool isLast = terms.size() <= kMaxTerms;
    SmallVector<Value> sums;
    for (Values rest = terms; !rest.empty();
         rest = rest.drop_front(std::min(rest.size(), kMaxTerms))) {
      SmallVector<LinalgBuilder::Operand> inputs;
      for (Value term : rest.take_front(kMaxTerms))
        inputs.push_back(scalar.full(term));
      sums.push_back(scalar.map(inputs, f32, [&](B &b, Values v) -> Value {
        Scalars s{b, f32};
        Value sum = s.cast(v.front());
        for (Value term : v.drop_front())
          sum = s.add(sum, s.cast(term));
        return isLast ? finish(s, sum) : sum;
      }));
    }
    if (isLast)
      return sums.front();
    terms = std::move(sums);
  }
}

/// value * factor in `element`; the factor is 0-d.
static Value multiply(OpBuilder &builder, Location loc, Value value,
                      Value factor, Type element) {
  LinalgBuilder linalg(builder, loc, typeOf(value).getShape());
  return linalg.map({linalg.full(value), linalg.scalar(factor)}, element,
                    [&](B &b, Values v) -> Value {
                      Scalars s{b, v[0].getType()};
                      return s.mul(v[0], s.cast(v[1]));
                    });
}

/// 1 / scale. Ops that unscale by the same value compute it in the same way:
/// CSE leaves one.
static Value invert(OpBuilder &builder, Location loc, Value scale) {
  LinalgBuilder scalar(builder, loc, {});
  return scalar.map({scalar.full(scale)}, builder.getF32Type(),
                    [](B &b, Values v) -> Value {
                      Scalars s{b, v[0].getType()};
                      return s.div(s.constant(1.0), v[0]);
                    });
}

/// 1 where the value is not 0 or NaN, else 0.
static Value isNotZero(Scalars &s, Value value) {
  Value some = arith::CmpFOp::create(s.b, arith::CmpFPredicate::UNE, value,
                                     s.constant(0.0));
  return arith::SelectOp::create(s.b, some, s.constant(1.0), s.constant(0.0));
}

/// 0, or NaN where an element is not finite: the product with 0 is NaN then.
static Value flagNonFinite(OpBuilder &builder, Location loc, Value gradient) {
  return sumOver(builder, loc, gradient, {}, [](B &b, Values v) -> Value {
    Scalars s{b, v[0].getType()};
    return s.mul(v[0], s.constant(0.0));
  });
}

namespace {

struct LowerGradient : public OpRewritePattern<GradientOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GradientOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, op.getGrad());
    return success();
  }
};

struct LowerUnscale : public OpRewritePattern<UnscaleOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(UnscaleOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerClip : public OpRewritePattern<ClipByGlobalNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ClipByGlobalNormOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerSquaredNorm : public OpRewritePattern<SquaredNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SquaredNormOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerUpdateLossScale : public OpRewritePattern<UpdateLossScaleOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(UpdateLossScaleOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerUpdateFp8Scale : public OpRewritePattern<UpdateFp8ScaleOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(UpdateFp8ScaleOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult LowerUnscale::matchAndRewrite(UnscaleOp op,
                                            PatternRewriter &rewriter) const {
  Location loc = markOrigin(op);
  Value inverse = invert(rewriter, loc, op.getScale());
  SmallVector<Value> results, flags;
  bool isChecked = !op.getFound().use_empty();
  for (auto [gradient, result] :
       llvm::zip_equal(op.getGrads(), op.getUnscaled())) {
    if (isChecked)
      flags.push_back(flagNonFinite(rewriter, loc, gradient));
    // After what reduces the gradient, so that all of that is together; with
    // no mark of its origin, as the kernel that it fuses with is an update's.
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointAfter(op);
    results.push_back(multiply(rewriter, op.getLoc(), gradient, inverse,
                               typeOf(result).getElementType()));
  }
  if (!isChecked) {
    results.push_back(makeFilled(rewriter, loc,
                                 typeOf(op.getFound()).getShape(),
                                 rewriter.getF32FloatAttr(0.0)));
  } else if (!op.getEach()) {
    results.push_back(addUp(rewriter, loc, flags, isNotZero));
  } else {
    // One element a gradient.
    for (Value &flag : flags)
      flag = reshapeTensor(rewriter, loc,
                           addUp(rewriter, loc, {flag}, isNotZero), {1});
    results.push_back(ConcatenateOp::create(rewriter, loc, flags, /*dim=*/0));
  }
  rewriter.replaceOp(op, results);
  return success();
}

/// The sums of squares of each gradient.
static SmallVector<Value> sumSquares(PatternRewriter &rewriter, Location loc,
                                     ValueRange gradients) {
  SmallVector<Value> squares;
  for (Value gradient : gradients) {
    // Of a gradient that is unscaled, what it is unscaled from: that is in
    // memory, and its kernel looks for what is not finite already.
    SmallVector<Value> factors;
    OpBuilder::InsertionGuard guard(rewriter);
    if (auto unscale = gradient.getDefiningOp<UnscaleOp>()) {
      rewriter.setInsertionPoint(unscale);
      factors.push_back(
          invert(rewriter, markOrigin(unscale), unscale.getScale()));
      gradient = unscale.getGrads()[cast<OpResult>(gradient).getResultNumber()];
    }
    squares.push_back(
        sumOver(rewriter, loc, gradient, factors, [&](B &b, Values v) -> Value {
          Scalars s{b, v[0].getType()};
          Value x = v[0];
          if (v.size() > 1)
            x = s.mul(x, s.cast(v[1]));
          return s.mul(x, x);
        }));
  }
  return squares;
}

LogicalResult
LowerSquaredNorm::matchAndRewrite(SquaredNormOp op,
                                  PatternRewriter &rewriter) const {
  Location loc = markOrigin(op);
  rewriter.replaceOp(op, addUp(rewriter, loc,
                               sumSquares(rewriter, loc, op.getGrads()),
                               [](Scalars &, Value sum) { return sum; }));
  return success();
}

LogicalResult LowerClip::matchAndRewrite(ClipByGlobalNormOp op,
                                         PatternRewriter &rewriter) const {
  Location loc = markOrigin(op);
  Value norm = op.getGivenNorm();
  if (!norm)
    norm = addUp(rewriter, loc, sumSquares(rewriter, loc, op.getGrads()),
                 [](Scalars &s, Value sum) {
                   return Value(math::SqrtOp::create(s.b, sum));
                 });
  double maximum = op.getMaxNorm().convertToDouble();
  LinalgBuilder scalar(rewriter, loc, {});
  Value factor = scalar.map(
      {scalar.full(norm)}, rewriter.getF32Type(), [&](B &b, Values v) -> Value {
        Scalars s{b, v[0].getType()};
        Value quotient =
            s.div(s.constant(maximum), s.add(v[0], s.constant(1e-6)));
        return arith::MinimumFOp::create(b, quotient, s.constant(1.0));
      });
  SmallVector<Value> results;
  for (Value gradient : op.getGrads())
    results.push_back(multiply(rewriter, op.getLoc(), gradient, factor,
                               typeOf(gradient).getElementType()));
  results.push_back(norm);
  rewriter.replaceOp(op, results);
  return success();
}

LogicalResult
LowerUpdateLossScale::matchAndRewrite(UpdateLossScaleOp op,
                                      PatternRewriter &rewriter) const {
  Type f32 = rewriter.getF32Type(), i32 = rewriter.getI32Type();
  LinalgBuilder scalar(rewriter, markOrigin(op), {});
  auto body = [&](B &b, Values v) -> SmallVector<Value> {
    Scalars s{b, f32};
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
    };
    auto choose = [&](Value condition, Value yes, Value no) -> Value {
      return arith::SelectOp::create(b, condition, yes, no);
    };
    auto equals = [&](Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
    };
    Value scale = v[0], good = v[1], left = v[2];
    // Factors are numbers of f64, as PyTorch's: one rounding, of the product.
    Scalars wide{b, b.getF64Type()};
    auto times = [&](const APFloat &factor) -> Value {
      return s.cast(wide.scale(factor.convertToDouble(), wide.cast(scale)));
    };
    Value found = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, v[3],
                                        s.constant(0.0));
    // What an overflow does.
    Value fewer = arith::MaxSIOp::create(
        b, arith::SubIOp::create(b, left, number(1)), number(0));
    Value less = arith::MaxNumFOp::create(
        b, times(op.getBackoff()), s.constant(op.getMin().convertToDouble()));
    less = choose(equals(fewer, number(0)), less, scale);
    // What a good step does.
    Value grown = times(op.getGrowth());
    Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, grown,
                                           s.constant(INFINITY));
    Value more =
        choose(isFinite,
               arith::MinNumFOp::create(
                   b, grown, s.constant(op.getMax().convertToDouble())),
               scale);
    Value next = arith::AddIOp::create(b, good, number(1));
    Value grows = equals(next, number(op.getInterval()));
    return {
        choose(found, less, choose(grows, more, scale)),
        choose(found, number(0), choose(grows, number(0), next)),
        choose(found, fewer, choose(grows, number(op.getHysteresis()), left))};
  };
  rewriter.replaceOp(
      op,
      scalar.mapSeveral({scalar.full(op.getScale()), scalar.full(op.getGood()),
                         scalar.full(op.getHyst()), scalar.full(op.getFound())},
                        {f32, i32, i32}, body));
  return success();
}

LogicalResult
LowerUpdateFp8Scale::matchAndRewrite(UpdateFp8ScaleOp op,
                                     PatternRewriter &rewriter) const {
  Location loc = markOrigin(op);
  Type f32 = rewriter.getF32Type();
  int64_t length = typeOf(op.getHistory()).getDimSize(0);
  auto isFinite = [](Scalars &s, Value x) -> Value {
    Value magnitude = math::AbsFOp::create(s.b, x);
    return arith::CmpFOp::create(s.b, arith::CmpFPredicate::OLT, magnitude,
                                 s.constant(INFINITY));
  };
  LinalgBuilder scalar(rewriter, loc, {});
  LinalgBuilder linalg(rewriter, loc, {length});
  // The history moves on by one. It is read by index: cut and joined, it would
  // be copied.
  Value history = linalg.map(
      {linalg.scalar(op.getAmax())}, f32, [&](B &b, Values v) -> Value {
        Scalars s{b, f32};
        Value newest = arith::SelectOp::create(b, isFinite(s, v[0]), v[0],
                                               s.constant(0.0));
        Value index = linalg::IndexOp::create(b, 0);
        Value zero = arith::ConstantIndexOp::create(b, 0),
              one = arith::ConstantIndexOp::create(b, 1);
        Value before = arith::MaxSIOp::create(
            b, arith::SubIOp::create(b, index, one), zero);
        Value older = tensor::ExtractOp::create(b, op.getHistory(), before);
        Value isFirst =
            arith::CmpIOp::create(b, arith::CmpIPredicate::eq, index, zero);
        return arith::SelectOp::create(b, isFirst, newest, older);
      });
  Value greatest = linalg.reduce(Reduction::Max, {linalg.full(history)}, {true},
                                 f32, [](B &, Values v) { return v[0]; });
  double top =
      APFloat::getLargest(cast<FloatType>(op.getFormat()).getFloatSemantics())
          .convertToDouble();
  double numerator =
      std::ldexp(top, -static_cast<int>(static_cast<int64_t>(op.getMargin())));
  Value scale =
      scalar.map({scalar.full(greatest), scalar.full(op.getScale())}, f32,
                 [&](B &b, Values v) -> Value {
                   Scalars s{b, f32};
                   Value quotient = s.div(s.constant(numerator), v[0]);
                   Value positive = arith::CmpFOp::create(
                       b, arith::CmpFPredicate::OGT, v[0], s.constant(0.0));
                   Value usable = arith::AndIOp::create(
                       b, arith::AndIOp::create(b, positive, isFinite(s, v[0])),
                       isFinite(s, quotient));
                   return arith::SelectOp::create(b, usable, quotient, v[1]);
                 });
  rewriter.replaceOp(op, {history, scale});
  return success();
}

void mpcomm::populateScalingToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerGradient, LowerUnscale, LowerSquaredNorm, LowerClip,
               LowerUpdateLossScale, LowerUpdateFp8Scale>(
      patterns.getContext());
}
