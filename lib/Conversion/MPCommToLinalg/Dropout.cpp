//===- Dropout.cpp - dropout and its gradient to linalg -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One elementwise generic, which computes its random word where it needs it:
// nothing is stored, and it fuses with its neighbours. Words of 32 bits are
// kept in lanes of 64, since processors multiply the low halves of such lanes
// to a whole product in one instruction; only what is multiplied or compared is
// masked.
//
//===----------------------------------------------------------------------===//

#include "Philox.h"
#include "Scalars.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;
using Values = ArrayRef<Value>;

static Value makeWord(B &b, uint64_t word) {
  return arith::ConstantOp::create(
      b, b.getI64IntegerAttr(static_cast<int64_t>(word)));
}

/// The low 32 bits.
static Value lowHalf(B &b, Value value) {
  return b.createOrFold<arith::AndIOp>(value, makeWord(b, UINT32_MAX));
}

std::array<Value, 4> mpcomm::emitPhilox(B &b, std::array<Value, 4> counter,
                                        std::array<Value, 2> key) {
  // Multipliers and key increments of the paper.
  constexpr uint64_t multipliers[] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint64_t increments[] = {0x9E3779B9, 0xBB67AE85};
  auto exclusiveOr = [&](Value x, Value y) {
    return b.createOrFold<arith::XOrIOp>(x, y);
  };
  auto [x0, x1, x2, x3] = counter;
  for (uint64_t round = 0; round < 10; ++round) {
    // The key of each round from the first: they do not wait for one another.
    Value keys[2], low[2], high[2];
    for (int i : {0, 1}) {
      keys[i] = lowHalf(b, b.createOrFold<arith::AddIOp>(
                               key[i], makeWord(b, round * increments[i])));
      low[i] = b.createOrFold<arith::MulIOp>(lowHalf(b, i == 0 ? x0 : x2),
                                             makeWord(b, multipliers[i]));
      high[i] = b.createOrFold<arith::ShRUIOp>(low[i], makeWord(b, 32));
    }
    x0 = exclusiveOr(exclusiveOr(high[1], x1), keys[0]);
    x2 = exclusiveOr(exclusiveOr(high[0], x3), keys[1]);
    x1 = low[1];
    x3 = low[0];
  }
  return {lowHalf(b, x0), lowHalf(b, x1), lowHalf(b, x2), lowHalf(b, x3)};
}

std::array<Value, 4> mpcomm::emitRandomWords(B &b, ArrayRef<int64_t> shape,
                                             Values key, uint64_t id) {
  Value element = makeWord(b, 0);
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    Value index = arith::IndexCastOp::create(b, b.getI64Type(),
                                             linalg::IndexOp::create(b, d));
    element = b.createOrFold<arith::AddIOp>(
        element, b.createOrFold<arith::MulIOp>(index, makeWord(b, stride)));
    stride *= shape[d];
  }
  Value high = makeWord(b, 0);
  if (stride > int64_t(UINT32_MAX) + 1)
    high = arith::ShRUIOp::create(b, element, makeWord(b, 32));
  std::array<Value, 2> words;
  for (auto [word, half] : llvm::zip_equal(words, key))
    word = arith::ExtUIOp::create(b, b.getI64Type(), half);
  return emitPhilox(
      b, {lowHalf(b, element), high, makeWord(b, id), makeWord(b, 0)}, words);
}

std::array<LinalgBuilder::Operand, 2>
mpcomm::seedWords(LinalgBuilder &linalg, Value seed, int64_t rank) {
  auto word = [&](int64_t i) {
    return linalg.mapped(
        seed,
        AffineMap::get(rank, 0, {getAffineConstantExpr(i, seed.getContext())},
                       seed.getContext()));
  };
  return {word(0), word(1)};
}

/// `input` with the mask of (seed, p, id) on it.
static Value applyMask(Operation *op, PatternRewriter &rewriter, Value input,
                       Value seed, double p, uint64_t id) {
  auto type = cast<RankedTensorType>(input.getType());
  auto threshold = static_cast<uint64_t>(std::floor(std::ldexp(p, 32)));
  LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
  auto [low, high] = seedWords(linalg, seed, type.getRank());
  return linalg.map(
      {linalg.full(input), low, high}, type.getElementType(),
      [&](B &b, Values v) -> Value {
        Scalars s{b, getComputeType(type.getElementType())};
        Value zero = s.constant(0.0);
        if (p == 1.0)
          return zero;
        Value word = emitRandomWords(b, type.getShape(), v.drop_front(), id)[0];
        Value kept = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, word,
                                           makeWord(b, threshold));
        return arith::SelectOp::create(b, kept, s.scale(1.0 / (1.0 - p), v[0]),
                                       zero);
      });
}

namespace {

struct LowerDropout : public OpRewritePattern<DropoutOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DropoutOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, applyMask(op, rewriter, op.getInput(), op.getSeed(),
                                     op.getP().convertToDouble(), op.getId()));
    return success();
  }
};

struct LowerDropoutGrad : public OpRewritePattern<DropoutGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DropoutGradOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, applyMask(op, rewriter, op.getGrad(), op.getSeed(),
                                     op.getP().convertToDouble(), op.getId()));
    return success();
  }
};

} // namespace

void mpcomm::populateDropoutToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerDropout, LowerDropoutGrad>(patterns.getContext());
}
