//===- ExpandFunctions.cpp - rarer math functions as arithmetic -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Trigonometric and hyperbolic functions, their inverses, logarithms to other
// bases and erfc of f32. They are computed in f64 and rounded once, by series
// that are short there: the same code on each device, within a unit in the last
// place. Training graphs rarely have many of them.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/ExpandPattern.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <numbers>

using namespace mlir;

namespace mpcomm {

using kernels::MathEmitter;

static constexpr double kHalfPi = std::numbers::pi / 2;

/// Coefficients of a series in x^2: `first`, and each from the one before.
static SmallVector<double>
makeSeries(double first, int count,
           llvm::function_ref<double(double, int)> next) {
  SmallVector<double> series = {first};
  for (int i = 1; i < count; ++i)
    series.push_back(next(series.back(), i));
  return series;
}

/// `magnitude` with the sign of x.
static Value withSign(MathEmitter &d, Value magnitude, Value x) {
  return d.select(d.less(x, d.real(0.0)), d.negate(magnitude), magnitude);
}

/// Where |x| is less than 2^-10, `series` in x^2 times x, else `y`: functions
/// that are x near zero, by formulas that cancel there. Zero keeps its sign.
static Value nearZero(MathEmitter &d, Value x, ArrayRef<double> series,
                      Value y) {
  Value small = d.mul(x, d.polynomial(d.mul(x, x), series));
  return d.select(d.less(d.abs(x), d.real(0x1p-10)), small, y);
}

/// sin (`quarter` 0) and cos (1): x = n pi/2 + r, |r| <= pi/4. The parts of
/// pi/2 have 33 bits, so that products with n below 2^20 are exact; beyond that
/// the error is about 2^-52 |x|, and results stay within [-1, 1].
static Value expandWave(MathEmitter &d, Value x, int64_t quarter) {
  Value scaled = d.clamp(d.mul(x, d.real(1 / kHalfPi)), -0x1p50, 0x1p50);
  auto [n, bits] = d.roundToInteger(scaled);
  Value r = d.mulAdd(n, d.real(-0x1.921fb544p+0), x);
  r = d.mulAdd(n, d.real(-0x1.0b4611a6p-34), r);
  r = d.mulAdd(n, d.real(-0x1.3198a2e037073p-69), r);
  r = d.clamp(r, -0.8, 0.8);
  Value square = d.mul(r, r);
  Value sine =
      d.mul(r, d.polynomial(square, makeSeries(1.0, 8, [](double c, int i) {
                              return -c / (2 * i * (2 * i + 1));
                            })));
  Value cosine = d.polynomial(square, makeSeries(1.0, 9, [](double c, int i) {
                                return -c / (2 * i * (2 * i - 1));
                              }));
  Value turned = d.addInteger(bits, quarter);
  Value y = d.select(d.hasBit(turned, 0), cosine, sine);
  return d.select(d.hasBit(turned, 1), d.negate(y), y);
}

/// Infinity has no sine.
static Value wave(MathEmitter &d, Value x, int64_t quarter) {
  return d.select(d.less(d.abs(x), d.infinity(false)),
                  expandWave(d, x, quarter), d.nan());
}

static Value sine(MathEmitter &d, Value x) { return wave(d, x, 0); }
static Value cosine(MathEmitter &d, Value x) { return wave(d, x, 1); }
static Value tangent(MathEmitter &d, Value x) {
  return d.div(sine(d, x), cosine(d, x));
}

/// |x| beyond tan(3 pi/8) by pi/2 - atan(1 / |x|), beyond tan(pi/8) by
/// pi/4 + atan((|x| - 1) / (|x| + 1)), and Taylor's series.
static Value arcTangent(MathEmitter &d, Value x) {
  Value magnitude = d.abs(x), one = d.real(1.0);
  Value isFar = d.less(d.real(2.414213562373095), magnitude);
  Value isNear = d.less(magnitude, d.real(0.4142135623730951));
  Value reduced = d.div(d.sub(magnitude, one), d.add(magnitude, one));
  Value r = d.select(isFar, d.div(d.real(-1.0), magnitude),
                     d.select(isNear, magnitude, reduced));
  Value start = d.select(isFar, d.real(kHalfPi),
                         d.select(isNear, d.real(0.0), d.real(kHalfPi / 2)));
  SmallVector<double> series;
  for (int i = 0; i < 13; ++i)
    series.push_back((i % 2 ? -1.0 : 1.0) / (2 * i + 1));
  Value sum = d.mulAdd(r, d.polynomial(d.mul(r, r), series), start);
  // Zero and NaN are what they were.
  return d.select(d.less(d.real(0.0), magnitude), withSign(d, sum, x), x);
}

/// sqrt(1 - x^2), whose factors are exact.
static Value oppositeSide(MathEmitter &d, Value x) {
  return d.sqrt(d.mul(d.sub(d.real(1.0), x), d.add(d.real(1.0), x)));
}

static Value arcSine(MathEmitter &d, Value x) {
  return arcTangent(d, d.div(x, oppositeSide(d, x)));
}

/// 2 atan(sqrt((1 - x) / (1 + x))).
static Value arcCosine(MathEmitter &d, Value x) {
  Value half = d.div(d.sub(d.real(1.0), x), d.add(d.real(1.0), x));
  return d.mul(d.real(2.0), arcTangent(d, d.sqrt(half)));
}

static Value hyperbolicSine(MathEmitter &d, Value x) {
  Value up = d.expWide(x), down = d.div(d.real(1.0), up);
  Value y = d.mul(d.real(0.5), d.sub(up, down));
  return nearZero(d, x, {1.0, 1.0 / 6, 1.0 / 120}, y);
}

static Value hyperbolicCosine(MathEmitter &d, Value x) {
  Value up = d.expWide(x), down = d.div(d.real(1.0), up);
  return d.mul(d.real(0.5), d.add(up, down));
}

static Value arcHyperbolicSine(MathEmitter &d, Value x) {
  Value magnitude = d.abs(x);
  Value root = d.sqrt(d.mulAdd(x, x, d.real(1.0)));
  Value y = withSign(d, d.logWide(d.add(magnitude, root)), x);
  y = nearZero(d, x, {1.0, -1.0 / 6, 3.0 / 40}, y);
  return d.select(d.less(magnitude, d.infinity(false)), y, x);
}

static Value arcHyperbolicCosine(MathEmitter &d, Value x) {
  Value one = d.real(1.0);
  Value root = d.sqrt(d.mul(d.sub(x, one), d.add(x, one)));
  Value y = d.logWide(d.add(x, root));
  y = d.select(d.less(x, d.infinity(false)), y, x);
  return d.select(d.less(x, one), d.nan(), y);
}

static Value arcHyperbolicTangent(MathEmitter &d, Value x) {
  Value one = d.real(1.0);
  Value y = d.mul(d.real(0.5), d.logWide(d.div(d.add(one, x), d.sub(one, x))));
  y = nearZero(d, x, {1.0, 1.0 / 3, 1.0 / 5}, y);
  y = d.select(d.less(one, d.abs(x)), d.nan(), y);
  return d.select(d.equal(x, x), y, x);
}

/// The natural logarithm times `factor`.
static Value logarithm(MathEmitter &d, Value x, double factor) {
  Value y = d.mul(d.logWide(x), d.real(factor));
  return d.select(d.less(x, d.real(0.0)), d.nan(),
                  d.select(d.equal(x, x), y, x));
}

static Value binaryLogarithm(MathEmitter &d, Value x) {
  return logarithm(d, x, std::numbers::log2e);
}
static Value decimalLogarithm(MathEmitter &d, Value x) {
  return logarithm(d, x, std::numbers::log10e);
}

/// With t = 1 / (1 + z / 2), erfc z = t exp(P(t) - z^2) for z >= 0 to within
/// 3e-9, and 2 - erfc -z below.
static Value complementaryError(MathEmitter &d, Value x) {
  Value z = d.clamp(d.abs(x), 0.0, 10.25);
  Value t = d.div(d.real(1.0), d.mulAdd(z, d.real(0.5), d.real(1.0)));
  Value p = d.polynomial(
      t, {-1.2655433087460572, 1.0008870011323387, 0.3640683255077849,
          0.16000949986168655, -0.423121957269475, 0.8161024716361739,
          -1.8311932930823782, 1.8460768768547744, -0.5404284975038502,
          -0.3918361790857382, 0.3405135998954714, -0.07553454163971057});
  Value y = d.mul(t, d.expWide(d.sub(p, d.mul(z, z))));
  y = d.select(d.less(x, d.real(0.0)), d.sub(d.real(2.0), y), y);
  return d.select(d.equal(x, x), y, x);
}

/// Replaces `Op` on f32 by `expand` in f64, rounded.
template <typename Op>
static void addWide(RewritePatternSet &patterns,
                    Value (*expand)(MathEmitter &, Value)) {
  addExpansion<Op>(patterns, [expand](MathEmitter &e, ValueRange x) {
    MathEmitter d = e.wide();
    return e.truncate(expand(d, d.extend(x[0])));
  });
}

void populateFunctionExpansionPatterns(RewritePatternSet &patterns) {
  addWide<math::SinOp>(patterns, sine);
  addWide<math::CosOp>(patterns, cosine);
  addWide<math::TanOp>(patterns, tangent);
  addWide<math::AtanOp>(patterns, arcTangent);
  addWide<math::AsinOp>(patterns, arcSine);
  addWide<math::AcosOp>(patterns, arcCosine);
  addWide<math::SinhOp>(patterns, hyperbolicSine);
  addWide<math::CoshOp>(patterns, hyperbolicCosine);
  addWide<math::AsinhOp>(patterns, arcHyperbolicSine);
  addWide<math::AcoshOp>(patterns, arcHyperbolicCosine);
  addWide<math::AtanhOp>(patterns, arcHyperbolicTangent);
  addWide<math::Log2Op>(patterns, binaryLogarithm);
  addWide<math::Log10Op>(patterns, decimalLogarithm);
  addWide<math::ErfcOp>(patterns, complementaryError);
}

} // namespace mpcomm
