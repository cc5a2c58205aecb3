//===- Embedding.cpp - embedding and its gradient to linalg ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient adds rows to rows that repeat, in the order of the indices: a
// loop that carries the table, marked `mpcomm.scatter_add` with the index whose
// rows are left out (or -1) so that kernels can be made of it without analysis.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;

/// `id`, an integer, as an index in [0, rows).
static Value clampIndex(B &b, Value id, int64_t rows) {
  Value index = arith::IndexCastOp::create(b, b.getIndexType(), id);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value last = arith::ConstantIndexOp::create(b, rows - 1);
  return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, index, zero),
                                last);
}

namespace {

struct LowerEmbedding : public OpRewritePattern<EmbeddingOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EmbeddingOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    auto tableType = cast<RankedTensorType>(op.getTable().getType());
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    Value result =
        linalg.map({linalg.row(op.getIds())}, type.getElementType(),
                   [&](B &b, ArrayRef<Value> v) -> Value {
                     Value row = clampIndex(b, v[0], tableType.getDimSize(0));
                     Value column =
                         linalg::IndexOp::create(b, type.getRank() - 1);
                     return tensor::ExtractOp::create(b, op.getTable(),
                                                      ValueRange{row, column});
                   });
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct LowerEmbeddingGrad : public OpRewritePattern<EmbeddingGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EmbeddingGradOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

/// table[id, :] + grad[position, :] put back in table, unless id is `padding`.
static Value addRow(B &b, Value table, Value grad, Value ids, Value position,
                    int64_t padding) {
  auto type = cast<RankedTensorType>(table.getType());
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  Value id = tensor::ExtractOp::create(b, ids, position);
  Value raw = arith::IndexCastOp::create(b, b.getIndexType(), id);
  Value isPadding =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, raw,
                            arith::ConstantIndexOp::create(b, padding));
  auto rowType = RankedTensorType::get({columns}, type.getElementType());
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1),
                                     b.getIndexAttr(columns)};
  SmallVector<OpFoldResult> strides(2, b.getIndexAttr(1));
  auto slice = [&](Value from, Value row) -> Value {
    SmallVector<OpFoldResult> offsets = {row, b.getIndexAttr(0)};
    return tensor::ExtractSliceOp::create(b, rowType, from, offsets, sizes,
                                          strides);
  };
  Value row = clampIndex(b, id, rows);
  AffineMap identity = b.getMultiDimIdentityMap(1);
  auto sum = linalg::GenericOp::create(
      b, rowType, ValueRange{slice(grad, position)},
      ValueRange{slice(table, row)}, ArrayRef<AffineMap>{identity, identity},
      ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        Value added = arith::AddFOp::create(nested, loc, args[1], args[0]);
        if (padding >= 0)
          added =
              arith::SelectOp::create(nested, loc, isPadding, args[1], added);
        linalg::YieldOp::create(nested, loc, added);
      });
  SmallVector<OpFoldResult> offsets = {row, b.getIndexAttr(0)};
  return tensor::InsertSliceOp::create(b, sum.getResult(0), table, offsets,
                                       sizes, strides);
}

/// The gradient of one looked-up row: that row, among zeros. (A loop of one
/// round would be unrolled by anybody.)
static Value emitSingleRow(LinalgBuilder &linalg, Value grad, Value ids,
                           int64_t rows, int64_t padding, Type element) {
  MLIRContext *context = grad.getContext();
  auto first = AffineMap::get(2, 0, getAffineConstantExpr(0, context));
  auto row = AffineMap::get(
      2, 0, {getAffineConstantExpr(0, context), getAffineDimExpr(1, context)},
      context);
  return linalg.map(
      {linalg.mapped(grad, row), linalg.mapped(ids, first)}, element,
      [&](B &b, ArrayRef<Value> v) -> Value {
        Value zero = makeConstant(b, b.getLoc(), v[0].getType(), 0.0);
        Value isRow = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                            clampIndex(b, v[1], rows),
                                            linalg::IndexOp::create(b, 0));
        Value value = arith::SelectOp::create(b, isRow, v[0], zero);
        if (padding < 0)
          return value;
        Value isPadding = arith::CmpIOp::create(
            b, arith::CmpIPredicate::eq, v[1],
            makeConstant(b, b.getLoc(), v[1].getType(), padding));
        return arith::SelectOp::create(b, isPadding, zero, value);
      });
}

LogicalResult
LowerEmbeddingGrad::matchAndRewrite(EmbeddingGradOp op,
                                    PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getType());
  auto idsType = cast<RankedTensorType>(op.getIds().getType());
  Type element = type.getElementType();
  Type sumType = getComputeType(element);
  Location loc = markOrigin(op);
  int64_t count = idsType.getNumElements();
  std::optional<uint64_t> padding = op.getPaddingIdx();
  int64_t paddingIdx = padding ? static_cast<int64_t>(*padding) : -1;

  Value ids = reshapeTensor(rewriter, loc, op.getIds(), {count});
  Value grad =
      reshapeTensor(rewriter, loc, op.getGrad(), {count, type.getDimSize(1)});
  if (count == 1) {
    LinalgBuilder linalg(rewriter, loc, type.getShape());
    rewriter.replaceOp(op, emitSingleRow(linalg, grad, ids, type.getDimSize(0),
                                         paddingIdx, element));
    return success();
  }
  grad = castTensor(rewriter, loc, grad, sumType);
  Value init = makeFilled(rewriter, loc, type.getShape(),
                          getIdentity(Reduction::Sum, sumType));
  B b(loc, rewriter);
  auto bound = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto loop = scf::ForOp::create(
      b, bound(0), bound(count), bound(1), init,
      [&](OpBuilder &nested, Location bodyLoc, Value position,
          ValueRange carried) {
        B body(bodyLoc, nested);
        scf::YieldOp::create(
            body, addRow(body, carried[0], grad, ids, position, paddingIdx));
      });
  loop->setAttr(kScatterAddAttr, rewriter.getI64IntegerAttr(paddingIdx));
  rewriter.replaceOp(op, castTensor(rewriter, loc, loop.getResult(0), element));
  return success();
}

void mpcomm::populateEmbeddingToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerEmbedding, LowerEmbeddingGrad>(patterns.getContext());
}
