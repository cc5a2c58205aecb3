//===- Activation.cpp - gelu to linalg ------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// With the functions that gelu is made of.
struct GeluScalars : Scalars {
  /// Phi(x) = (1 + erf(x / sqrt 2)) / 2.
  Value normalCdf(Value x) {
    Value erf =
        math::ErfOp::create(b, mul(x, constant(1.0 / llvm::numbers::sqrt2)));
    return mul(add(erf, constant(1.0)), constant(0.5));
  }
  /// sqrt(2 / pi) (x + 0.044715 x^3), the argument of tanh.
  Value tanhArgument(Value x) {
    Value cube = mul(mul(x, x), x);
    Value sum = add(x, mul(cube, constant(0.044715)));
    return mul(sum, constant(kSqrtTwoOverPi));
  }

  static constexpr double kSqrtTwoOverPi =
      llvm::numbers::sqrt2 * llvm::numbers::inv_sqrtpi;
};

struct LowerGelu : public OpRewritePattern<GeluOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GeluOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerGeluGrad : public OpRewritePattern<GeluGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GeluGradOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult LowerGelu::matchAndRewrite(GeluOp op,
                                         PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getType());
  bool approximate = op.getApproximate() == GeluApproximation::Tanh;
  LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
  auto body = [&](ImplicitLocOpBuilder &b, ArrayRef<Value> v) -> Value {
    Value x = v[0];
    GeluScalars s{{b, x.getType()}};
    if (!approximate)
      return s.mul(x, s.normalCdf(x));
    Value tanh = math::TanhOp::create(b, s.tanhArgument(x));
    Value half = s.mul(x, s.constant(0.5));
    return s.mul(half, s.add(tanh, s.constant(1.0)));
  };
  rewriter.replaceOp(op, linalg.map({linalg.full(op.getInput())},
                                    type.getElementType(), body));
  return success();
}

LogicalResult LowerGeluGrad::matchAndRewrite(GeluGradOp op,
                                             PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getType());
  bool approximate = op.getApproximate() == GeluApproximation::Tanh;
  LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
  auto body = [&](ImplicitLocOpBuilder &b, ArrayRef<Value> v) -> Value {
    Value dy = v[0], x = v[1];
    GeluScalars s{{b, x.getType()}};
    if (!approximate) {
      // Phi(x) + x phi(x), phi the density of the normal distribution.
      Value square = s.mul(s.mul(x, x), s.constant(-0.5));
      Value density =
          s.mul(math::ExpOp::create(b, square),
                s.constant(llvm::numbers::inv_sqrtpi / llvm::numbers::sqrt2));
      Value slope = s.add(s.normalCdf(x), s.mul(x, density));
      return s.mul(dy, slope);
    }
    // (1 + t) / 2 + x / 2 (1 - t^2) u', t = tanh(u).
    Value t = math::TanhOp::create(b, s.tanhArgument(x));
    Value one = s.constant(1.0), half = s.constant(0.5);
    Value left = s.mul(half, s.add(t, one));
    Value inner = s.add(s.mul(s.mul(x, x), s.constant(3 * 0.044715)), one);
    Value du = s.mul(inner, s.constant(GeluScalars::kSqrtTwoOverPi));
    Value dtanh = s.sub(one, s.mul(t, t));
    Value right = s.mul(s.mul(s.mul(half, x), dtanh), du);
    return s.mul(dy, s.add(left, right));
  };
  rewriter.replaceOp(
      op, linalg.map({linalg.full(op.getGrad()), linalg.full(op.getInput())},
                     type.getElementType(), body));
  return success();
}

void mpcomm::populateActivationToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerGelu, LowerGeluGrad>(patterns.getContext());
}
