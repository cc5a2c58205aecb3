//===- Reduction.cpp - reduce to linalg -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction is over columns (trailing dimensions, which become one), over
// rows (any others), or over everything. One that mixes the first two becomes
// two: columns first.
//
// A column has several sums at a time, which are added up at the end; rows are
// added one after the other, and the rounding error of a sum of n of them grows
// like sqrt(n) (Higham and Mary, "A new approach to probabilistic rounding
// error analysis", 2019). Gradients of the biases of convolutions have as many
// rows as there are pixels in the batch: so many are added in f64. A device
// that adds several rows side by side has as many more of them in f32, if they
// are all that there are beside the columns.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

/// The most rows that are added in f32: to within about 2^-24 * 64.
static constexpr int64_t kMaxRowsInF32 = 4096;

namespace {

struct LowerReduce : public OpRewritePattern<ReduceOp> {
  LowerReduce(MLIRContext *context, int64_t rowsAtATime)
      : OpRewritePattern(context), rowsAtATime(rowsAtATime) {}
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    Location loc =
        markOrigin(op.getLoc(), stringifyReduction(op.getReduction()));
    Value value = op.getInput();
    auto type = cast<RankedTensorType>(value.getType());
    Type element = type.getElementType();
    Type sumType = getComputeType(element);
    SmallVector<bool> reduced(type.getRank(), false);
    for (int64_t d : op.getDims())
      reduced[d] = true;
    if (!llvm::is_contained(reduced, true))
      return rewriter.notifyMatchFailure(op, "reduces nothing");
    auto widen = [&](ImplicitLocOpBuilder &b, ArrayRef<Value> v) {
      return castFloat(b, b.getLoc(), v[0], sumType);
    };
    auto reduceOver = [&](ArrayRef<bool> dims) {
      LinalgBuilder linalg(rewriter, loc,
                           cast<RankedTensorType>(value.getType()).getShape());
      value = linalg.reduce(op.getReduction(), {linalg.full(value)}, dims,
                            sumType, widen);
    };
    size_t lead = reduced.size(); // dimensions before the trailing reduced ones
    while (lead > 0 && reduced[lead - 1])
      --lead;
    if (lead > 0 && lead < reduced.size()) {
      SmallVector<int64_t> shape(type.getShape().take_front(lead));
      int64_t columns = 1;
      for (int64_t size : type.getShape().drop_front(lead))
        columns *= size;
      shape.push_back(columns);
      value = reshapeTensor(rewriter, loc, value, shape);
      SmallVector<bool> last(shape.size(), false);
      last.back() = true;
      reduceOver(last);
      reduced.resize(lead);
    }
    if (llvm::is_contained(reduced, true)) {
      int64_t rows = 1, kept = 1; // beside the columns
      for (auto [d, size] :
           llvm::enumerate(cast<RankedTensorType>(value.getType()).getShape()))
        (reduced[d] ? rows : kept) *=
            reduced[d] || d + 1 < reduced.size() ? size : 1;
      bool allRows = kept == 1;
      int64_t oneAfterTheOther =
          allRows ? llvm::divideCeil(rows, rowsAtATime) : rows;
      if (op.getReduction() == Reduction::Sum && !reduced.back() &&
          oneAfterTheOther > kMaxRowsInF32 && sumType.isF32())
        sumType = rewriter.getF64Type();
      reduceOver(reduced);
    }
    rewriter.replaceOp(op, castTensor(rewriter, loc, value, element));
    return success();
  }

private:
  int64_t rowsAtATime;
};

} // namespace

void mpcomm::populateReductionToLinalgPatterns(RewritePatternSet &patterns,
                                               int64_t rowsAtATime) {
  patterns.add<LowerReduce>(patterns.getContext(), rowsAtATime);
}
