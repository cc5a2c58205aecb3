//===- LayerNorm.cpp - layer_norm and rms_norm to linalg ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The normalised dimensions become the columns of the row space. The variance
// is that of the differences from the mean: a second pass over the row, which
// does not cancel.
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

namespace {

/// The row space of a norm, and what its lowerings have in common: normalised
/// dimensions, as many as gamma has, are the columns.
class NormSpace {
public:
  NormSpace(OpBuilder &builder, Operation *op, Value input, Value gamma)
      : builder(builder), loc(markOrigin(op)),
        inputType(cast<RankedTensorType>(input.getType())),
        gammaType(cast<RankedTensorType>(gamma.getType())),
        shape(inputType.getShape().drop_back(gammaType.getRank())),
        type(getComputeType(inputType.getElementType())),
        linalg(builder, loc, addColumns()), rows(linalg.rows()) {}

  LinalgBuilder::Operand full(Value value) {
    return linalg.full(reshapeTensor(builder, loc, value, shape));
  }
  LinalgBuilder::Operand column(Value value) {
    return linalg.column(reshapeTensor(builder, loc, value, {shape.back()}));
  }
  LinalgBuilder::Operand row(Value value) { return linalg.row(value); }
  LinalgBuilder::Operand map(ArrayRef<LinalgBuilder::Operand> inputs,
                             LinalgBuilder::Body body) {
    return linalg.full(linalg.map(inputs, type, body));
  }
  Value sumOfRows(ArrayRef<LinalgBuilder::Operand> inputs,
                  LinalgBuilder::Body body) {
    return linalg.reduceColumns(Reduction::Sum, inputs, type, body);
  }
  /// Means of rows, from their sums.
  Value average(Value sums) {
    return rows.map({rows.full(sums)}, type,
                    [&](B &b, Values v) { return divideByColumns(b, v[0]); });
  }
  /// 1 / sqrt(sum / columns + eps) for each of the sums.
  Value invertRoot(Value sums, const APFloat &eps) {
    return rows.map({rows.full(sums)}, type, [&](B &b, Values v) -> Value {
      Value mean = divideByColumns(b, v[0]);
      Value e = makeConstant(b, b.getLoc(), type, eps.convertToDouble());
      Value root = math::SqrtOp::create(b, arith::AddFOp::create(b, mean, e));
      Value one = makeConstant(b, b.getLoc(), type, 1.0);
      return arith::DivFOp::create(b, one, root);
    });
  }

  /// A result of the input's type.
  Value result(ArrayRef<LinalgBuilder::Operand> inputs,
               LinalgBuilder::Body body) {
    Value value = linalg.map(inputs, inputType.getElementType(), body);
    return reshapeTensor(builder, loc, value, inputType.getShape());
  }
  /// A result of one value a row.
  Value rowResult(Value value) {
    return castTensor(builder, loc, value, inputType.getElementType());
  }
  /// A result of gamma's type: a sum over the rows.
  Value columnResult(ArrayRef<LinalgBuilder::Operand> inputs,
                     LinalgBuilder::Body body) {
    Value sum = linalg.reduceRows(Reduction::Sum, inputs, type, body);
    return reshapeTensor(
        builder, loc, castTensor(builder, loc, sum, gammaType.getElementType()),
        gammaType.getShape());
  }

private:
  ArrayRef<int64_t> addColumns() {
    shape.push_back(llvm::product_of(gammaType.getShape()));
    return shape;
  }
  Value divideByColumns(B &b, Value sum) {
    double columns = shape.back();
    return arith::DivFOp::create(b, sum,
                                 makeConstant(b, b.getLoc(), type, columns));
  }

  OpBuilder &builder;
  Location loc;
  RankedTensorType inputType, gammaType;
  SmallVector<int64_t> shape;
  Type type;
  LinalgBuilder linalg, rows;
};

} // namespace

static Value take(B &, Values v) { return v[0]; }
static Value square(B &b, Values v) {
  return arith::MulFOp::create(b, v[0], v[0]);
}
static Value subtract(B &b, Values v) {
  return arith::SubFOp::create(b, v[0], v[1]);
}
static Value multiply(B &b, Values v) {
  return arith::MulFOp::create(b, v[0], v[1]);
}

static LogicalResult lowerLayerNorm(LayerNormOp op, PatternRewriter &rewriter) {
  NormSpace space(rewriter, op, op.getInput(), op.getGamma());
  auto x = space.full(op.getInput());
  Value mean = space.average(space.sumOfRows({x}, take));
  auto centred = space.map({x, space.row(mean)}, subtract);
  Value rstd =
      space.invertRoot(space.sumOfRows({centred}, square), op.getEps());
  Value y =
      space.result({centred, space.row(rstd), space.column(op.getGamma()),
                    space.column(op.getBeta())},
                   [](B &b, Values v) -> Value {
                     Value normalised = arith::MulFOp::create(b, v[0], v[1]);
                     Value scaled = arith::MulFOp::create(b, normalised, v[2]);
                     return arith::AddFOp::create(b, scaled, v[3]);
                   });
  rewriter.replaceOp(op, {y, space.rowResult(mean), space.rowResult(rstd)});
  return success();
}

static LogicalResult lowerLayerNormGrad(LayerNormGradOp op,
                                        PatternRewriter &rewriter) {
  NormSpace space(rewriter, op, op.getInput(), op.getGamma());
  auto dy = space.full(op.getGrad()), x = space.full(op.getInput());
  auto rstd = space.row(op.getRstd());
  auto xhat = space.map({x, space.row(op.getMean()), rstd},
                        [](B &b, Values v) -> Value {
                          Value d = arith::SubFOp::create(b, v[0], v[1]);
                          return arith::MulFOp::create(b, d, v[2]);
                        });
  auto g = space.map({dy, space.column(op.getGamma())}, multiply);
  Value meanG = space.average(space.sumOfRows({g}, take));
  Value meanGX = space.average(space.sumOfRows({g, xhat}, multiply));
  Value dx = space.result({g, xhat, space.row(meanG), space.row(meanGX), rstd},
                          [](B &b, Values v) -> Value {
                            Value level = arith::SubFOp::create(b, v[0], v[2]);
                            Value along = arith::MulFOp::create(b, v[1], v[3]);
                            Value d = arith::SubFOp::create(b, level, along);
                            return arith::MulFOp::create(b, d, v[4]);
                          });
  rewriter.replaceOp(op, {dx, space.columnResult({dy, xhat}, multiply),
                          space.columnResult({dy}, take)});
  return success();
}

static LogicalResult lowerRMSNorm(RMSNormOp op, PatternRewriter &rewriter) {
  NormSpace space(rewriter, op, op.getInput(), op.getGamma());
  auto x = space.full(op.getInput());
  Value rstd = space.invertRoot(space.sumOfRows({x}, square), op.getEps());
  Value y = space.result({x, space.row(rstd), space.column(op.getGamma())},
                         [](B &b, Values v) -> Value {
                           Value xhat = arith::MulFOp::create(b, v[0], v[1]);
                           return arith::MulFOp::create(b, xhat, v[2]);
                         });
  rewriter.replaceOp(op, {y, space.rowResult(rstd)});
  return success();
}

static LogicalResult lowerRMSNormGrad(RMSNormGradOp op,
                                      PatternRewriter &rewriter) {
  NormSpace space(rewriter, op, op.getInput(), op.getGamma());
  auto dy = space.full(op.getGrad()), x = space.full(op.getInput());
  auto rstd = space.row(op.getRstd());
  auto xhat = space.map({x, rstd}, multiply);
  auto g = space.map({dy, space.column(op.getGamma())}, multiply);
  Value meanGX = space.average(space.sumOfRows({g, xhat}, multiply));
  Value dx = space.result({g, xhat, space.row(meanGX), rstd},
                          [](B &b, Values v) -> Value {
                            Value along = arith::MulFOp::create(b, v[1], v[2]);
                            Value d = arith::SubFOp::create(b, v[0], along);
                            return arith::MulFOp::create(b, d, v[3]);
                          });
  rewriter.replaceOp(op, {dx, space.columnResult({dy, xhat}, multiply)});
  return success();
}

void mpcomm::populateLayerNormToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add(lowerLayerNorm);
  patterns.add(lowerLayerNormGrad);
  patterns.add(lowerRMSNorm);
  patterns.add(lowerRMSNormGrad);
}
