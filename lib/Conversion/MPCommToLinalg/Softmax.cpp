//===- Softmax.cpp - softmax and log_softmax to linalg --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Along the last dimension: passes over a row. Along another one: between two
// transposes.
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

/// The permutation that swaps `dim` and the last dimension; its own inverse.
static SmallVector<int64_t> swapWithLast(int64_t rank, int64_t dim) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(dims[dim], dims.back());
  return dims;
}

/// The row maximum and the exponentials of the differences from it.
static std::pair<Value, Value> emitExponentials(LinalgBuilder &linalg, Value x,
                                                Type type) {
  Value maximum = linalg.maximumOfRows(linalg.full(x), type);
  Value exp = linalg.map({linalg.full(x), linalg.row(maximum)}, type,
                         [](B &b, Values v) -> Value {
                           Value d = arith::SubFOp::create(b, v[0], v[1]);
                           return math::ExpOp::create(b, d);
                         });
  return {maximum, exp};
}

static Value sumRows(LinalgBuilder &linalg, Value x, Type type) {
  return linalg.reduceColumns(Reduction::Sum, {linalg.full(x)}, type,
                              [](B &, Values v) { return v[0]; });
}

static Value emit(SoftmaxOp, LinalgBuilder &linalg, Values operands,
                  Type element) {
  Type type = getComputeType(element);
  Value exp = emitExponentials(linalg, operands[0], type).second;
  Value sum = sumRows(linalg, exp, type);
  LinalgBuilder rows = linalg.rows();
  Value scale = rows.map({rows.full(sum)}, type, [&](B &b, Values v) -> Value {
    Value one = makeConstant(b, b.getLoc(), type, 1.0);
    return arith::DivFOp::create(b, one, v[0]);
  });
  return linalg.map({linalg.full(exp), linalg.row(scale)}, element,
                    [](B &b, Values v) -> Value {
                      return arith::MulFOp::create(b, v[0], v[1]);
                    });
}

static Value emit(LogSoftmaxOp, LinalgBuilder &linalg, Values operands,
                  Type element) {
  Type type = getComputeType(element);
  auto [maximum, exp] = emitExponentials(linalg, operands[0], type);
  Value sum = sumRows(linalg, exp, type);
  LinalgBuilder rows = linalg.rows();
  Value log = rows.map({rows.full(sum)}, type, [](B &b, Values v) -> Value {
    return math::LogOp::create(b, v[0]);
  });
  return linalg.map(
      {linalg.full(operands[0]), linalg.row(maximum), linalg.row(log)}, element,
      [](B &b, Values v) -> Value {
        Value d = arith::SubFOp::create(b, v[0], v[1]);
        return arith::SubFOp::create(b, d, v[2]);
      });
}

static Value emit(SoftmaxGradOp, LinalgBuilder &linalg, Values operands,
                  Type element) {
  Type type = getComputeType(element);
  LinalgBuilder::Operand dy = linalg.full(operands[0]),
                         y = linalg.full(operands[1]);
  Value sum = linalg.reduceColumns(
      Reduction::Sum, {dy, y}, type, [](B &b, Values v) -> Value {
        return arith::MulFOp::create(b, v[0], v[1]);
      });
  return linalg.map({dy, y, linalg.row(sum)}, element,
                    [](B &b, Values v) -> Value {
                      Value d = arith::SubFOp::create(b, v[0], v[2]);
                      return arith::MulFOp::create(b, d, v[1]);
                    });
}

static Value emit(LogSoftmaxGradOp, LinalgBuilder &linalg, Values operands,
                  Type element) {
  Type type = getComputeType(element);
  LinalgBuilder::Operand dy = linalg.full(operands[0]),
                         y = linalg.full(operands[1]);
  Value sum = sumRows(linalg, operands[0], type);
  return linalg.map({dy, y, linalg.row(sum)}, element,
                    [](B &b, Values v) -> Value {
                      Value exp = math::ExpOp::create(b, v[1]);
                      Value share = arith::MulFOp::create(b, exp, v[2]);
                      return arith::SubFOp::create(b, v[0], share);
                    });
}

namespace {

/// An op along one dimension whose operands and result have one type.
template <typename OpTy> struct LowerAlongDim : public OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Location loc = markOrigin(op);
    SmallVector<int64_t> order = swapWithLast(type.getRank(), op.getDim());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(transposeTensor(rewriter, loc, operand, order));
    LinalgBuilder linalg(
        rewriter, loc,
        cast<RankedTensorType>(operands[0].getType()).getShape());
    Value result = emit(op, linalg, operands, type.getElementType());
    rewriter.replaceOp(op, transposeTensor(rewriter, loc, result, order));
    return success();
  }
};

} // namespace

void mpcomm::populateSoftmaxToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerAlongDim<SoftmaxOp>, LowerAlongDim<SoftmaxGradOp>,
               LowerAlongDim<LogSoftmaxOp>, LowerAlongDim<LogSoftmaxGradOp>>(
      patterns.getContext());
}
