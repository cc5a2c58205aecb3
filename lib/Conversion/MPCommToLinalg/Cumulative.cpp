//===- Cumulative.cpp - running sums and products to linalg ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hillis and Steele, "Data parallel algorithms" (1986), with a radix of four:
// after the pass of stride s, each element combines the 4s elements up to it.
// Each pass is one elementwise generic that reads three partners, so rows need
// no loop that carries a value, on any device; log4(n) passes over memory that
// is in the cache cost less than a chain of n dependent additions.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;

static constexpr int64_t kRadix = 4;

namespace {

struct LowerCumulative : public OpRewritePattern<CumulativeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CumulativeOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

/// The pass of `stride` along dimension 1 of `value`, [outer, n, inner].
static Value emitPass(OpBuilder &builder, Location loc, CumulativeOp op,
                      Value value, int64_t stride, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t n = type.getDimSize(1);
  Type sumType = getComputeType(element);
  LinalgBuilder linalg(builder, loc, type.getShape());
  auto body = [&](B &b, ArrayRef<Value> v) -> Value {
    SmallVector<Value> at;
    for (int64_t d = 0; d < type.getRank(); ++d)
      at.push_back(linalg::IndexOp::create(b, d));
    Value place = at[1];
    Value sum, isInside; // of the terms farther away
    for (int64_t t = kRadix - 1; t >= 0; --t) {
      int64_t distance = t * stride;
      if (distance >= n)
        continue;
      Value term = v[0], isHere;
      if (t > 0) {
        Value bound = arith::ConstantIndexOp::create(
            b, op.getReverse() ? n - distance : distance);
        isHere =
            arith::CmpIOp::create(b,
                                  op.getReverse() ? arith::CmpIPredicate::slt
                                                  : arith::CmpIPredicate::sge,
                                  place, bound);
        Value offset = arith::ConstantIndexOp::create(
            b, op.getReverse() ? distance : -distance);
        Value edge =
            arith::ConstantIndexOp::create(b, op.getReverse() ? n - 1 : 0);
        Value partner = arith::AddIOp::create(b, place, offset);
        at[1] = op.getReverse()
                    ? Value(arith::MinSIOp::create(b, partner, edge))
                    : Value(arith::MaxSIOp::create(b, partner, edge));
        term = castFloat(b, b.getLoc(), tensor::ExtractOp::create(b, value, at),
                         sumType);
      }
      if (sum)
        term = arith::SelectOp::create(
            b, isInside, combine(b, b.getLoc(), op.getReduction(), sum, term),
            term);
      sum = term;
      isInside = isHere;
    }
    return sum;
  };
  return linalg.map({linalg.full(value)}, element, body);
}

LogicalResult
LowerCumulative::matchAndRewrite(CumulativeOp op,
                                 PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getType());
  Location loc =
      markOrigin(op.getLoc(),
                 ("cumulative_" + stringifyReduction(op.getReduction())).str());
  ArrayRef<int64_t> shape = type.getShape();
  int64_t dim = op.getDim(), n = type.getDimSize(dim);
  auto product = [](ArrayRef<int64_t> sizes) {
    int64_t result = 1;
    for (int64_t size : sizes)
      result *= size;
    return result;
  };
  SmallVector<int64_t> flat = {product(shape.take_front(dim)), n};
  if (int64_t inner = product(shape.drop_front(dim + 1)); inner != 1)
    flat.push_back(inner);
  Value value = reshapeTensor(rewriter, loc, op.getInput(), flat);
  Type element = type.getElementType();
  for (int64_t stride = 1; stride < n; stride *= kRadix)
    value = emitPass(rewriter, loc, op, value, stride,
                     stride * kRadix < n ? getComputeType(element) : element);
  rewriter.replaceOp(op, reshapeTensor(rewriter, loc, value, shape));
  return success();
}

void mpcomm::populateCumulativeToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerCumulative>(patterns.getContext());
}
