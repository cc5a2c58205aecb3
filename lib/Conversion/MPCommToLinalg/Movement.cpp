//===- Movement.cpp - ops that move elements to linalg and tensor ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

static SmallVector<OpFoldResult> asFolded(Builder &builder,
                                          ArrayRef<int64_t> values) {
  return getAsIndexOpFoldResult(builder.getContext(), values);
}

namespace {

struct LowerTranspose : public OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, transposeTensor(rewriter, markOrigin(op),
                                           op.getInput(), op.getDims()));
    return success();
  }
};

struct LowerReshape : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(
        op, reshapeTensor(rewriter, op.getLoc(), op.getInput(),
                          cast<ShapedType>(op.getType()).getShape()));
    return success();
  }
};

/// Dimensions of the result that the operand does not have, or has with size
/// 1, are left out of its map.
struct LowerBroadcast : public OpRewritePattern<BroadcastInDimOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastInDimOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    auto input = cast<RankedTensorType>(op.getInput().getType());
    SmallVector<AffineExpr> exprs;
    for (auto [i, d] : llvm::enumerate(op.getDims())) {
      bool expands = input.getDimSize(i) != type.getDimSize(d);
      exprs.push_back(expands ? rewriter.getAffineConstantExpr(0)
                              : rewriter.getAffineDimExpr(d));
    }
    LinalgBuilder linalg(rewriter, markOrigin(op.getLoc(), "broadcast"),
                         type.getShape());
    auto map = AffineMap::get(type.getRank(), 0, exprs, op.getContext());
    rewriter.replaceOp(op, linalg.map({linalg.mapped(op.getInput(), map)},
                                      type.getElementType(),
                                      [](ImplicitLocOpBuilder &,
                                         ArrayRef<Value> v) { return v[0]; }));
    return success();
  }
};

struct LowerSlice : public OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    // A window that may begin where the operand ends.
    if (type.getNumElements() == 0) {
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(op, type.getShape(),
                                                   type.getElementType());
      return success();
    }
    rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(
        op, type, op.getInput(), asFolded(rewriter, op.getStarts()),
        asFolded(rewriter, type.getShape()),
        asFolded(rewriter, op.getStrides()));
    return success();
  }
};

/// Each element of the result looks up its own: no map has a coordinate that
/// falls.
struct LowerReverse : public OpRewritePattern<ReverseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReverseOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    auto body = [&](ImplicitLocOpBuilder &b, ArrayRef<Value>) -> Value {
      SmallVector<Value> place;
      for (int64_t d = 0; d < type.getRank(); ++d) {
        Value at = linalg::IndexOp::create(b, d);
        if (llvm::is_contained(op.getDims(), d))
          at = arith::SubIOp::create(
              b, arith::ConstantIndexOp::create(b, type.getDimSize(d) - 1), at);
        place.push_back(at);
      }
      return tensor::ExtractOp::create(b, op.getInput(), place);
    };
    rewriter.replaceOp(op, linalg.map({}, type.getElementType(), body));
    return success();
  }
};

struct LowerConcatenate : public OpRewritePattern<ConcatenateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatenateOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Location loc = op.getLoc();
    Value result = tensor::EmptyOp::create(rewriter, loc, type.getShape(),
                                           type.getElementType());
    SmallVector<int64_t> offsets(type.getRank(), 0);
    SmallVector<int64_t> ones(type.getRank(), 1);
    for (Value input : op.getInputs()) {
      ArrayRef<int64_t> sizes =
          cast<RankedTensorType>(input.getType()).getShape();
      if (llvm::is_contained(sizes, 0))
        continue;
      result = tensor::InsertSliceOp::create(
          rewriter, loc, input, result, asFolded(rewriter, offsets),
          asFolded(rewriter, sizes), asFolded(rewriter, ones));
      offsets[op.getDim()] += sizes[op.getDim()];
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// concatenate(reshape(x), …) is reshape(concatenate(x, …)) where the dimension
/// is made of one of x' dimensions and inner ones that are equal: what is
/// computed as x can be written in its place at once.
struct MoveReshapeAfterConcatenate : public OpRewritePattern<ConcatenateOp> {
  explicit MoveReshapeAfterConcatenate(MLIRContext *context)
      : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(ConcatenateOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerPad : public OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Location loc = markOrigin(op);
    SplatElementsAttr splat;
    Value border;
    if (matchPattern(op.getValue(), m_Constant(&splat))) {
      border = makeFilled(rewriter, loc, type.getShape(),
                          splat.getSplatValue<TypedAttr>());
    } else {
      LinalgBuilder linalg(rewriter, loc, type.getShape());
      border = linalg.map(
          {linalg.scalar(op.getValue())}, type.getElementType(),
          [](ImplicitLocOpBuilder &, ArrayRef<Value> v) { return v[0]; });
    }
    SmallVector<int64_t> strides;
    for (int64_t gap : op.getInterior())
      strides.push_back(gap + 1);
    ArrayRef<int64_t> sizes =
        cast<RankedTensorType>(op.getInput().getType()).getShape();
    if (llvm::is_contained(sizes, 0)) {
      rewriter.replaceOp(op, border);
      return success();
    }
    rewriter.replaceOpWithNewOp<tensor::InsertSliceOp>(
        op, op.getInput(), border, asFolded(rewriter, op.getLow()),
        asFolded(rewriter, sizes), asFolded(rewriter, strides));
    return success();
  }
};

struct LowerIota : public OpRewritePattern<IotaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IotaOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Type element = type.getElementType();
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    auto body = [&](ImplicitLocOpBuilder &b, ArrayRef<Value>) -> Value {
      Value index = linalg::IndexOp::create(b, op.getDim());
      if (isa<IntegerType>(element))
        return arith::IndexCastOp::create(b, element, index);
      Value wide = arith::IndexCastOp::create(b, b.getI64Type(), index);
      return arith::SIToFPOp::create(b, getComputeType(element), wide);
    };
    rewriter.replaceOp(op, linalg.map({}, element, body));
    return success();
  }
};

} // namespace

static int64_t multiply(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

LogicalResult
MoveReshapeAfterConcatenate::matchAndRewrite(ConcatenateOp op,
                                             PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> sources;
  for (Value input : op.getInputs()) {
    auto reshape = input.getDefiningOp<ReshapeOp>();
    if (!reshape)
      return rewriter.notifyMatchFailure(op, "an operand is no reshape");
    sources.push_back(reshape.getInput());
  }
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  // The dimension of the sources that has as much before it as `dim` has.
  ArrayRef<int64_t> first = shapeOf(sources.front());
  int64_t outer = multiply(type.getShape().take_front(op.getDim()));
  size_t dim = 0;
  while (dim < first.size() && multiply(first.take_front(dim)) != outer)
    ++dim;
  if (dim == first.size() || type.getNumElements() == 0)
    return rewriter.notifyMatchFailure(op, "no dimension to concatenate");
  for (Value source : sources) {
    ArrayRef<int64_t> shape = shapeOf(source);
    if (shape.size() != first.size() ||
        shape.take_front(dim) != first.take_front(dim) ||
        shape.drop_front(dim + 1) != first.drop_front(dim + 1))
      return rewriter.notifyMatchFailure(op, "sources differ");
  }
  Value joined =
      ConcatenateOp::create(rewriter, op.getLoc(), sources, dim).getResult();
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, type, joined);
  return success();
}

void mpcomm::populateMovementToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerTranspose, LowerReshape, LowerBroadcast, LowerSlice,
               LowerReverse, LowerConcatenate, MoveReshapeAfterConcatenate,
               LowerPad, LowerIota>(patterns.getContext());
}
