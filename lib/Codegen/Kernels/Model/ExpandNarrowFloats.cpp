//===- ExpandNarrowFloats.cpp - casts of narrow floats as arithmetic ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// f8E4M3FN and f8E5M2 (Micikevicius et al., "FP8 Formats for Deep Learning",
// 2022) to and from f32 on the bits, branch-free, so that vectors of any width
// stay vectors. A code without its sign orders as the number does: that of a
// normal number is the upper bits of the f32's, less the difference of the
// biases; that of a subnormal one counts the smallest.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Codegen/Kernels.h"

#include <cmath>

using namespace mlir;

namespace {

/// A format of 8 bits with a sign.
struct Format {
  int mantissaBits, bias;
  /// The first code that is no finite number, and that of NaN.
  int firstSpecial, nan;
  bool hasInfinity;
};

constexpr int kMantissaBits = 23, kBias = 127; // f32

std::optional<Format> getFormat(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<Float8E4M3FNType>(element))
    return Format{3, 7, 0x7f, 0x7f, false};
  if (isa<Float8E5M2Type>(element))
    return Format{2, 15, 0x7c, 0x7e, true};
  return std::nullopt;
}

/// Arithmetic on scalars, or on vectors of one length.
class Bits {
public:
  Bits(OpBuilder &builder, Location loc, Type like)
      : builder(builder), loc(loc), like(like) {}

  Type with(Type element) const {
    auto vector = dyn_cast<VectorType>(like);
    return vector ? Type(vector.clone(element)) : element;
  }
  Type ints() const { return with(builder.getI32Type()); }
  Type floats() const { return with(builder.getF32Type()); }

  Value constant(Type type, Attribute value) const {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(builder, loc,
                                       DenseElementsAttr::get(vector, value));
    return arith::ConstantOp::create(builder, loc,
                                     llvm::cast<TypedAttr>(value));
  }
  Value integer(int64_t value) const {
    return constant(ints(), builder.getI32IntegerAttr(int32_t(value)));
  }
  Value real(double value) const {
    return constant(floats(), builder.getF32FloatAttr(float(value)));
  }
  template <typename Op> Value make(Value x, Value y) const {
    return Op::create(builder, loc, x, y);
  }
  template <typename Op> Value cast(Type type, Value x) const {
    return Op::create(builder, loc, type, x);
  }
  Value less(Value x, Value y) const {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, x, y);
  }
  Value select(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(builder, loc, condition, x, y);
  }

  OpBuilder &builder;
  Location loc;

private:
  Type like;
};

} // namespace

/// f64 to f32 so that a further rounding sees what the first one dropped:
/// towards zero, with the last bit set where anything was lost (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
/// using rounding to odd", 2008).
static Value roundToOdd(const Bits &e, Value wide) {
  Value nearest = e.cast<arith::TruncFOp>(e.floats(), wide);
  Value back = e.cast<arith::ExtFOp>(wide.getType(), nearest);
  auto compare = [&](arith::CmpFPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpFOp::create(e.builder, e.loc, predicate, x, y);
  };
  auto magnitude = [&](Value x) -> Value {
    return math::AbsFOp::create(e.builder, e.loc, x);
  };
  Value bits = e.cast<arith::BitcastOp>(e.ints(), nearest);
  Value isAbove =
      compare(arith::CmpFPredicate::OGT, magnitude(back), magnitude(wide));
  bits = e.select(isAbove, e.make<arith::SubIOp>(bits, e.integer(1)), bits);
  Value isInexact = compare(arith::CmpFPredicate::ONE, back, wide);
  bits = e.select(isInexact, e.make<arith::OrIOp>(bits, e.integer(1)), bits);
  return e.cast<arith::BitcastOp>(e.floats(), bits);
}

/// f32 to bf16, its upper half: to nearest, ties to even.
static Value narrowToBFloat(const Bits &e, Value wide, Type type) {
  Value bits = e.cast<arith::BitcastOp>(e.ints(), wide);
  Value upper = e.make<arith::ShRUIOp>(bits, e.integer(16));
  Value odd = e.make<arith::AndIOp>(upper, e.integer(1));
  Value rounded = e.make<arith::ShRUIOp>(
      e.make<arith::AddIOp>(e.make<arith::AddIOp>(bits, e.integer(0x7fff)),
                            odd),
      e.integer(16));
  Value magnitude = e.make<arith::AndIOp>(bits, e.integer(0x7fffffff));
  Value isNumber = e.less(magnitude, e.integer(0x7f800001));
  Value code =
      e.select(isNumber, rounded, e.make<arith::OrIOp>(upper, e.integer(0x40)));
  return e.cast<arith::BitcastOp>(
      type, e.cast<arith::TruncIOp>(e.with(e.builder.getI16Type()), code));
}

static Value widen(const Bits &e, const Format &format, Value narrow) {
  Value code = e.cast<arith::ExtUIOp>(
      e.ints(),
      e.cast<arith::BitcastOp>(e.with(e.builder.getI8Type()), narrow));
  Value magnitude = e.make<arith::AndIOp>(code, e.integer(0x7f));
  Value sign = e.make<arith::ShLIOp>(
      e.make<arith::AndIOp>(code, e.integer(0x80)), e.integer(24));
  int shift = kMantissaBits - format.mantissaBits;
  Value normal = e.make<arith::AddIOp>(
      e.make<arith::ShLIOp>(magnitude, e.integer(shift)),
      e.integer(int64_t(kBias - format.bias) << kMantissaBits));
  double smallest = std::ldexp(1.0, 1 - format.bias - format.mantissaBits);
  Value subnormal = e.cast<arith::BitcastOp>(
      e.ints(),
      e.make<arith::MulFOp>(e.cast<arith::UIToFPOp>(e.floats(), magnitude),
                            e.real(smallest)));
  Value bits = e.select(e.less(magnitude, e.integer(1 << format.mantissaBits)),
                        subnormal, normal);
  Value special = e.integer(0x7fc00000);
  if (format.hasInfinity)
    special = e.select(e.less(magnitude, e.integer(format.firstSpecial + 1)),
                       e.integer(0x7f800000), special);
  bits = e.select(e.less(magnitude, e.integer(format.firstSpecial)), bits,
                  special);
  return e.cast<arith::BitcastOp>(e.floats(), e.make<arith::OrIOp>(bits, sign));
}

/// To nearest, ties to even. Beyond the largest number comes infinity, or NaN
/// where the format has none.
static Value narrow(const Bits &e, const Format &format, Value wide,
                    Type type) {
  Value all = e.cast<arith::BitcastOp>(e.ints(), wide);
  Value bits = e.make<arith::AndIOp>(all, e.integer(0x7fffffff));
  Value sign = e.make<arith::AndIOp>(e.make<arith::ShRUIOp>(all, e.integer(24)),
                                     e.integer(0x80));
  int shift = kMantissaBits - format.mantissaBits;
  Value odd = e.make<arith::AndIOp>(
      e.make<arith::ShRUIOp>(bits, e.integer(shift)), e.integer(1));
  Value rounded = e.make<arith::AddIOp>(
      e.make<arith::AddIOp>(bits, e.integer((1 << (shift - 1)) - 1)), odd);
  Value normal = e.make<arith::SubIOp>(
      e.make<arith::ShRUIOp>(rounded, e.integer(shift)),
      e.integer((kBias - format.bias) << format.mantissaBits));
  double smallest = std::ldexp(1.0, 1 - format.bias - format.mantissaBits);
  int64_t firstNormal = int64_t(kBias + 1 - format.bias) << kMantissaBits;
  Value isSmall = e.less(bits, e.integer(firstNormal));
  // Large values would not fit an integer, and are not looked at.
  Value magnitude = e.cast<arith::BitcastOp>(
      e.floats(), e.select(isSmall, bits, e.integer(0)));
  Value count = math::RoundEvenOp::create(
      e.builder, e.loc, e.make<arith::MulFOp>(magnitude, e.real(1 / smallest)));
  Value subnormal = e.cast<arith::FPToUIOp>(e.ints(), count);
  Value code = e.select(isSmall, subnormal, normal);
  Value overflow =
      e.integer(format.hasInfinity ? format.firstSpecial : format.nan);
  code = e.select(e.less(code, e.integer(format.firstSpecial)), code, overflow);
  Value isNumber = e.less(bits, e.integer(0x7f800001));
  code = e.select(isNumber, code, e.integer(format.nan));
  return e.cast<arith::BitcastOp>(
      type, e.cast<arith::TruncIOp>(e.with(e.builder.getI8Type()),
                                    e.make<arith::OrIOp>(code, sign)));
}

namespace {

struct ExpandExtension : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Format> format = getFormat(op.getIn().getType());
    if (!format)
      return rewriter.notifyMatchFailure(op, "extends no 8-bit float");
    Bits bits(rewriter, op.getLoc(), op.getType());
    Value wide = widen(bits, *format, op.getIn());
    unsigned width = getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth();
    if (width > 32)
      wide = bits.cast<arith::ExtFOp>(op.getType(), wide);
    else if (width < 32)
      wide = bits.cast<arith::TruncFOp>(op.getType(), wide);
    rewriter.replaceOp(op, wide);
    return success();
  }
};

struct ExpandTruncation : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Format> format = getFormat(op.getType());
    Type from = getElementTypeOrSelf(op.getIn().getType());
    if (!format || from.getIntOrFloatBitWidth() > 32)
      return rewriter.notifyMatchFailure(op, "not f32 or less to 8 bits");
    Bits bits(rewriter, op.getLoc(), op.getType());
    Value wide = op.getIn();
    if (!from.isF32())
      wide = bits.cast<arith::ExtFOp>(bits.floats(), wide);
    rewriter.replaceOp(op, narrow(bits, *format, wide, op.getType()));
    return success();
  }
};

/// Two numbers at a time by NVIDIA's cvt. It saturates, where a truncation
/// gives NaN or infinity beyond the format's range: so only what has been
/// clamped.
struct ConvertClamped : OpRewritePattern<arith::TruncFOp> {
  ConvertClamped(MLIRContext *context)
      : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Format> format = getFormat(op.getType());
    Type from = getElementTypeOrSelf(op.getIn().getType());
    auto vector = dyn_cast<VectorType>(op.getType());
    int64_t count = vector ? vector.getNumElements() : 1;
    if (!format || !from.isF32() || (vector && vector.getRank() != 1) ||
        (count != 1 && count % 2 != 0) ||
        !isClamped(op.getIn(), largestOf(*format)))
      return rewriter.notifyMatchFailure(op, "no pairs of clamped f32");
    Location loc = op.getLoc();
    Bits bits(rewriter, loc, op.getType());
    auto convert = [&](Value upper, Value lower) -> Value {
      return NVVM::ConvertF32x2ToF8x2Op::create(
          rewriter, loc, rewriter.getI16Type(), upper, lower,
          NVVM::FPRoundingMode::RN, NVVM::SaturationMode::SATFINITE,
          /*relu=*/false, getElementTypeOrSelf(op.getType()));
    };
    Value code;
    if (count == 1) {
      Value wide = op.getIn();
      if (vector)
        wide = vector::ExtractOp::create(rewriter, loc, wide, 0);
      Value zero =
          arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(0));
      code = arith::TruncIOp::create(rewriter, loc, rewriter.getI8Type(),
                                     convert(zero, wide));
      if (vector)
        code = vector::BroadcastOp::create(
            rewriter, loc, bits.with(rewriter.getI8Type()), code);
    } else {
      SmallVector<Value> pairs;
      for (int64_t i = 0; i < count; i += 2)
        pairs.push_back(
            convert(vector::ExtractOp::create(rewriter, loc, op.getIn(), i + 1),
                    vector::ExtractOp::create(rewriter, loc, op.getIn(), i)));
      code = vector::FromElementsOp::create(
          rewriter, loc, VectorType::get({count / 2}, rewriter.getI16Type()),
          pairs);
      code = vector::BitCastOp::create(
          rewriter, loc, cast<VectorType>(bits.with(rewriter.getI8Type())),
          code);
    }
    rewriter.replaceOp(op, bits.cast<arith::BitcastOp>(op.getType(), code));
    return success();
  }

private:
  static double largestOf(const Format &format) {
    // The code before the first special one: its mantissa has all bits, or all
    // but the last where that is NaN.
    double ulps = format.hasInfinity ? 1 : 2;
    int exponent = format.hasInfinity ? format.bias : format.bias + 1;
    return std::ldexp(2 - ulps * std::ldexp(1.0, -format.mantissaBits),
                      exponent);
  }

  /// Whether `value` is max(min(x, c), d) or min(max(x, c), d) with constants
  /// in
  /// [-most, most].
  static bool isClamped(Value value, double most) {
    bool above = false, below = false;
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<arith::MaximumFOp, arith::MinimumFOp>(op))
        break;
      FloatAttr bound;
      Attribute constant;
      if (!matchPattern(op->getOperand(1), m_Constant(&constant)))
        break;
      if (auto elements = dyn_cast<SplatElementsAttr>(constant))
        bound = elements.getSplatValue<FloatAttr>();
      else
        bound = dyn_cast<FloatAttr>(constant);
      if (!bound || !(std::abs(bound.getValueAsDouble()) <= most))
        break;
      (isa<arith::MaximumFOp>(op) ? below : above) = true;
      value = op->getOperand(0);
    }
    return above && below;
  }
};

struct ExpandBFloatTruncation : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    if (!getElementTypeOrSelf(op.getType()).isBF16() ||
        !(from.isF32() || from.isF64()))
      return rewriter.notifyMatchFailure(op, "not f32 or f64 to bf16");
    Bits bits(rewriter, op.getLoc(), op.getType());
    Value wide = from.isF64() ? roundToOdd(bits, op.getIn()) : op.getIn();
    rewriter.replaceOp(op, narrowToBFloat(bits, wide, op.getType()));
    return success();
  }
};

template <typename Op> struct ExpandBFloatConversion : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isBF16())
      return rewriter.notifyMatchFailure(op, "converts to no bf16");
    Bits bits(rewriter, op.getLoc(), op.getType());
    Value wide = bits.cast<Op>(bits.with(rewriter.getF64Type()), op.getIn());
    rewriter.replaceOp(
        op, narrowToBFloat(bits, roundToOdd(bits, wide), op.getType()));
    return success();
  }
};

/// Canonicalization makes these of a conversion to f32 and a truncation.
template <typename Op> struct ExpandConversion : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    std::optional<Format> format = getFormat(op.getType());
    if (!format)
      return rewriter.notifyMatchFailure(op, "converts to no 8-bit float");
    Bits bits(rewriter, op.getLoc(), op.getType());
    Value wide = bits.cast<Op>(bits.floats(), op.getIn());
    rewriter.replaceOp(op, narrow(bits, *format, wide, op.getType()));
    return success();
  }
};

} // namespace

void mpcomm::populateNarrowFloatPatterns(RewritePatternSet &patterns,
                                         bool hasF8) {
  if (hasF8)
    patterns.add<ConvertClamped>(patterns.getContext());
  patterns
      .add<ExpandExtension, ExpandTruncation, ExpandConversion<arith::SIToFPOp>,
           ExpandConversion<arith::UIToFPOp>>(patterns.getContext());
}

void mpcomm::populateBFloatPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandBFloatTruncation, ExpandBFloatConversion<arith::SIToFPOp>,
               ExpandBFloatConversion<arith::UIToFPOp>>(patterns.getContext());
}
