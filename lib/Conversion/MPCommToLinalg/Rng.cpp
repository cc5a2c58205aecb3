//===- Rng.cpp - random numbers to linalg ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One elementwise generic, as dropout: nothing is stored unless a reader is far
// away.
//
//===----------------------------------------------------------------------===//

#include "Philox.h"
#include "Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;

/// The upper `bits` of two words of 32 bits in i64, as a number in [0, 1) of
/// the type of `s`. f32 has bits of the first word only.
static Value makeUniform(B &b, Scalars &s, Value word, Value next,
                         unsigned bits) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  Value upper;
  if (s.type.isF64()) {
    Value both = arith::OrIOp::create(
        b, arith::ShLIOp::create(b, word, constant(32)), next);
    upper = arith::ShRUIOp::create(b, both, constant(64 - bits));
  } else {
    upper = arith::ShRUIOp::create(b, word, constant(32 - bits));
    upper = arith::TruncIOp::create(b, b.getI32Type(), upper);
  }
  Value number = arith::SIToFPOp::create(b, s.type, upper);
  return s.scale(std::ldexp(1.0, -static_cast<int>(bits)), number);
}

namespace {

struct LowerRng : public OpRewritePattern<RngOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RngOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    auto element = cast<FloatType>(type.getElementType());
    auto computed = cast<FloatType>(getComputeType(element));
    bool isNormal = op.getDistribution() == RngDistribution::Normal;
    // Rounding to the element type must not give 1.
    unsigned bits = (isNormal ? computed : element).getFPMantissaWidth();
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    auto [low, high] = seedWords(linalg, op.getSeed(), type.getRank());
    auto body = [&](B &b, ArrayRef<Value> key) -> Value {
      Scalars s{b, computed};
      std::array<Value, 4> words =
          emitRandomWords(b, type.getShape(), key, op.getId());
      Value u = makeUniform(b, s, words[0], words[1], bits);
      if (!isNormal)
        return u;
      bool isWide = computed.isF64();
      Value v =
          makeUniform(b, s, words[isWide ? 2 : 1], words[isWide ? 3 : 2], bits);
      Value log = math::LogOp::create(b, s.sub(s.constant(1.0), u));
      Value radius = math::SqrtOp::create(b, s.scale(-2.0, log));
      Value angle = s.scale(2.0 * std::numbers::pi, v);
      return s.mul(radius, math::CosOp::create(b, angle));
    };
    rewriter.replaceOp(op, linalg.map({low, high}, element, body));
    return success();
  }
};

} // namespace

void mpcomm::populateRngToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerRng>(patterns.getContext());
}
