//===- ExpandMath.cpp - math functions as arithmetic ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Math functions of f32 by argument reduction and polynomials, branch-free, so
// that vectors of any width stay vectors. Coefficients were fitted for the
// largest relative error (Lawson's reweighted least squares on Chebyshev
// nodes, rational ones linearised after Loeb).
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/ExpandPattern.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

#define DEBUG_TYPE "mpcomm-expand-math"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "mpcomm/Codegen/Passes.h.inc"

using kernels::MathEmitter;

/// exp(x) = 2^n exp(r), x = n ln 2 + r, |r| <= ln(2)/2. The polynomial is
/// twice exp(r) and the power half of 2^n, so that n = 128 neither overflows
/// before the product does, and n = -126 gives zero.
static Value expandExp(MathEmitter &e, Value x) {
  x = e.clamp(x, -87.3365448, 88.8);
  auto [n, bits] = e.roundToInteger(e.mul(x, e.real(1.44269504088896341)));
  Value r = e.mulAdd(n, e.real(-0.693359375), x);
  r = e.mulAdd(n, e.real(2.12194440054690583e-4), r);
  Value twice = e.polynomial(r, {2.0, 2.0, 0.9999998686419803,
                                 0.3333304104079774, 0.08333678157937041,
                                 0.016737490254203104, 0.0027629079755546665});
  return e.mul(twice, e.powerOfTwo(bits, -1));
}

/// The same by the instruction for powers of two: exp(x) = 2^(n - 1) 2^(f + 1),
/// f = x log2 e - n. log2 e is the sum of two constants, as the error of one
/// would be multiplied by x.
static Value expandExpByUnit(MathEmitter &e, Value x) {
  x = e.clampByExtrema(x, -87.3365448, 88.8);
  // n is in the low bits of what adding 1.5 * 2^23 makes.
  constexpr double magic = 12582912.0;
  Value sum = e.mulAdd(x, e.real(1.44269504088896341), e.real(magic));
  Value f = e.mulAdd(x, e.real(1.44269502162933349609375),
                     e.sub(e.real(magic + 1), sum));
  f = e.mulAdd(x, e.real(1.925963033500011079e-8), f);
  return e.mul(e.exp2Approximate(f), e.powerOfTwo(e.bitsOf(sum), -1));
}

/// The same of a rounded difference x, which is off by |x| 2^-24 already: so is
/// one product, and neither a second constant nor a clamp is of use. This is
/// what softmax computes of each element, and twice in its gradient.
static Value expandExpOfDifference(MathEmitter &e, Value x) {
  return e.exp2Approximate(e.mul(x, e.real(1.44269504088896341)));
}

/// log(2^k m) = k ln 2 + log(1 + f), m = 1 + f in [sqrt(1/2), sqrt(2)).
static Value expandLog(MathEmitter &e, Value x) {
  Value tiny = e.less(x, e.real(1.17549435e-38));
  Value scaled = e.select(tiny, e.mul(x, e.real(8388608.0)), x);
  auto [k, m] = e.splitExponent(scaled, 0x3f3504f3);
  k = e.add(k, e.select(tiny, e.real(-23.0), e.real(0.0)));
  Value f = e.sub(m, e.real(1.0));
  Value p = e.polynomial(f, {0.3333333170770004, -0.25000821034348736,
                             0.2000122687638528, -0.16623357343621717,
                             0.1420175799880738, -0.13160182396223913,
                             0.12761577047648284, -0.07634496530849821});
  Value square = e.mul(f, f);
  Value low =
      e.mulAdd(k, e.real(-2.12194440054690583e-4), e.mul(e.mul(f, square), p));
  low = e.mulAdd(square, e.real(-0.5), low);
  Value y = e.mulAdd(k, e.real(0.693359375), e.add(f, low));
  y = e.select(e.less(e.real(0.0), x), y,
               e.select(e.equal(x, e.real(0.0)), e.infinity(true), e.nan()));
  return e.select(e.equal(x, e.infinity(false)), x, y);
}

/// x P(x^2) / Q(x^2) up to `bound`, where the function reaches 1.
static Value expandSigmoidal(MathEmitter &e, Value x, double bound,
                             ArrayRef<double> p, ArrayRef<double> q) {
  x = e.clamp(x, -bound, bound);
  Value z = e.mul(x, x);
  Value y = e.div(e.mul(x, e.polynomial(z, p)), e.polynomial(z, q));
  return e.clamp(y, -1.0, 1.0);
}

static Value expandTanh(MathEmitter &e, Value x) {
  return expandSigmoidal(
      e, x, 9.02,
      {0.9999999932281687, 0.1308316458014416, 0.0031030099271415913,
       1.1144344795201415e-05, -2.018431942863138e-08, 5.257941616483773e-11,
       -8.43644056129302e-14},
      {1.0, 0.4641649154337185, 0.02449141527555901, 0.0002544763619701485});
}

static Value expandErf(MathEmitter &e, Value x) {
  return expandSigmoidal(
      e, x, 3.92,
      {1.1283791461447226, 0.19040672047151355, 0.05274875263737597,
       0.0037656261903926532, 0.00028488259708596685, 2.050080840602236e-06},
      {1.0, 0.502076303497794, 0.11410921255478301, 0.014969236172830927,
       0.0011625370916275347, 3.8091642330215437e-05});
}

/// |x|^y in f64 as exp(y log |x|), rounded once to f32; then the sign and the
/// cases of IEEE 754's pow.
static Value expandPow(MathEmitter &e, Value x, Value y) {
  MathEmitter d = e.wide();
  Value magnitude = e.abs(x);
  Value log = d.logWide(d.extend(magnitude));
  Value power = e.truncate(d.expWide(d.mul(d.extend(y), log)));
  Value one = e.real(1.0);
  power =
      e.select(e.logicalOr(e.equal(y, e.real(0.0)), e.equal(magnitude, one)),
               one, power);
  Value whole = e.equal(e.floor(y), y);
  Value half = e.mul(y, e.real(0.5));
  Value odd = e.logicalAnd(whole, e.notEqual(e.floor(half), half));
  power = e.select(e.logicalAnd(e.signBit(x), odd), e.negate(power), power);
  Value undefined = e.logicalAnd(
      e.logicalAnd(e.less(x, e.real(0.0)), e.notEqual(whole, e.yes())),
      e.less(magnitude, e.infinity(false)));
  Value anyNaN =
      e.logicalOr(e.logicalAnd(e.notEqual(x, x), e.notEqual(y, e.real(0.0))),
                  e.logicalAnd(e.notEqual(y, y), e.notEqual(x, one)));
  return e.select(e.logicalOr(undefined, anyNaN), e.nan(), power);
}

namespace {
struct ExpandMathPass : impl::ExpandMathPassBase<ExpandMathPass> {
  using ExpandMathPassBase::ExpandMathPassBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathExpansionPatterns(patterns, hasExp2);
    populateNarrowFloatPatterns(patterns, hasF8);
    if (!hasBFloat)
      populateBFloatPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

void populateMathExpansionPatterns(RewritePatternSet &patterns, bool hasExp2) {
  addExpansion<math::ExpOp>(patterns, [=](MathEmitter &e, ValueRange x) {
    if (!hasExp2)
      return expandExp(e, x[0]);
    return x[0].getDefiningOp<arith::SubFOp>() ? expandExpOfDifference(e, x[0])
                                               : expandExpByUnit(e, x[0]);
  });
  addExpansion<math::Exp2Op>(patterns, [](MathEmitter &e, ValueRange x) {
    return expandPow(e, e.real(2.0), x[0]);
  });
  addExpansion<math::LogOp>(patterns, [](MathEmitter &e, ValueRange x) {
    return expandLog(e, x[0]);
  });
  addExpansion<math::TanhOp>(patterns, [](MathEmitter &e, ValueRange x) {
    return expandTanh(e, x[0]);
  });
  addExpansion<math::ErfOp>(patterns, [](MathEmitter &e, ValueRange x) {
    return expandErf(e, x[0]);
  });
  addExpansion<math::RsqrtOp>(patterns, [](MathEmitter &e, ValueRange x) {
    return e.div(e.real(1.0), e.sqrt(x[0]));
  });
  addExpansion<math::PowFOp>(patterns, [](MathEmitter &e, ValueRange x) {
    return expandPow(e, x[0], x[1]);
  });
  populateFunctionExpansionPatterns(patterns);
  // Accurate enough upstream.
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
    return llvm::is_contained(
        {"math.atan2", "math.cbrt", "math.expm1", "math.log1p"}, name);
  });
}

} // namespace mpcomm
