//===- Elementwise.cpp - arith and math on tensors to linalg --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One generic per op: the op itself on scalars. Splat constants become scalars
// of the body. math ops on 16-bit floats are computed in f32.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

namespace {

struct ElementwiseToGeneric : public RewritePattern {
  explicit ElementwiseToGeneric(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

/// `op` on scalars. math ops on narrow floats are widened: approximations and
/// instructions exist for f32.
static SmallVector<Value> cloneOnScalars(OpBuilder &builder, Location loc,
                                         Operation *op,
                                         ArrayRef<Value> operands) {
  bool widen = isa<math::MathDialect>(op->getDialect());
  SmallVector<Value> values(operands);
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    Type element = getElementTypeOrSelf(type);
    types.push_back(widen ? getComputeType(element) : element);
  }
  if (widen)
    for (Value &value : values)
      value = castFloat(builder, loc, value, getComputeType(value.getType()));
  Operation *scalar = builder.create(loc, op->getName().getIdentifier(), values,
                                     types, op->getAttrs());
  SmallVector<Value> results(scalar->getResults());
  for (auto [result, type] : llvm::zip_equal(results, op->getResultTypes()))
    result = castFloat(builder, loc, result, getElementTypeOrSelf(type));
  return results;
}

LogicalResult
ElementwiseToGeneric::matchAndRewrite(Operation *op,
                                      PatternRewriter &rewriter) const {
  if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() == 0)
    return rewriter.notifyMatchFailure(op, "not elementwise");
  for (Type type : op->getResultTypes()) {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked || !ranked.hasStaticShape())
      return rewriter.notifyMatchFailure(op, "no tensor of static shape");
  }
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  AffineMap identity = rewriter.getMultiDimIdentityMap(type.getRank());

  SmallVector<Value> tensors; // read element by element
  SmallVector<AffineMap> maps;
  for (Value operand : op->getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()) ||
        matchPattern(operand, m_Constant<SplatElementsAttr>(nullptr)))
      continue;
    tensors.push_back(operand);
    maps.push_back(identity);
  }
  SmallVector<Value> inits;
  for (Type result : op->getResultTypes()) {
    inits.push_back(tensor::EmptyOp::create(rewriter, loc, type.getShape(),
                                            getElementTypeOrSelf(result)));
    maps.push_back(identity);
  }
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  auto body = [&](OpBuilder &builder, Location bodyLoc, ValueRange args) {
    SmallVector<Value> operands;
    unsigned next = 0;
    for (Value operand : op->getOperands()) {
      SplatElementsAttr splat;
      if (!isa<RankedTensorType>(operand.getType()))
        operands.push_back(operand);
      else if (matchPattern(operand, m_Constant(&splat)))
        operands.push_back(arith::ConstantOp::create(
            builder, bodyLoc, splat.getSplatValue<TypedAttr>()));
      else
        operands.push_back(args[next++]);
    }
    linalg::YieldOp::create(builder, bodyLoc,
                            cloneOnScalars(builder, bodyLoc, op, operands));
  };
  rewriter.replaceOpWithNewOp<linalg::GenericOp>(
      op, op->getResultTypes(), tensors, inits, maps, iterators, body);
  return success();
}

void mpcomm::populateElementwiseToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<ElementwiseToGeneric>(patterns.getContext());
}
