//===- TopK.cpp - ordering of rows to linalg ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All by elementwise generics and reductions of rows, which both devices have.
//
// 1. Elements become *keys*: integers whose order is that of the elements,
//    with NaN last and one zero; complemented for the largest first. So equal
//    keys are equal elements, and ties are by place.
// 2. Blocks of kBlock keys are ordered by counting: the *rank* of a key is the
//    number of keys of the block before it, and the key of rank r is found as
//    the sum over the block of [rank = r] * place. Both are reductions over a
//    broadcast; nothing of the size of a block squared is in memory.
// 3. Of many keys, few are looked at: the first k are in the k blocks (of about
//    sqrt(n / k) keys) whose first keys are the first. Of others, if k is at
//    most half a block, the first k of each block are candidates, in their
//    order, and 2. is repeated on these. Otherwise sorted runs are merged: the
//    element at place p of the merged run is found by a binary search along the
//    diagonal p of the two runs (Green, McColl and Bader, "GPU merge path", ICS
//    2012).
//
// Rows are padded with the last key to whole blocks; padding comes after equal
// keys, since its place does.
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
using Values = ArrayRef<Value>;
using Compare = arith::CmpIPredicate;

/// Keys that are ordered by counting: n^2 comparisons of vectors against
/// n log^2(n) gathers of one element.
static constexpr int64_t kBlock = 64;

/// How many times as many keys as are wanted there are before blocks of them
/// are chosen first.
static constexpr int64_t kManyTimes = 16;

namespace {

/// Integer arithmetic on scalars in the body of a generic.
struct Integers {
  B &b;
  Type type;

  Value constant(const APInt &value) {
    return arith::ConstantOp::create(b, IntegerAttr::get(type, value));
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, IntegerAttr::get(type, value));
  }
  Value loop(int64_t dim) { return cast(linalg::IndexOp::create(b, dim)); }
  Value cast(Value index) { return arith::IndexCastOp::create(b, type, index); }
  Value index(Value value) {
    return arith::IndexCastOp::create(b, b.getIndexType(), value);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
  Value compare(Compare predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
};

/// Rows of keys, and of each the place in the operand's row.
struct Rows {
  Value keys, places;
  int64_t rows, size;
};

class TopKEmitter {
public:
  TopKEmitter(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  Rows makeKeys(Value input, bool largest);
  /// The k blocks of `block` keys whose first keys are the first: the first k
  /// keys of the row are among theirs, in the same order.
  Rows selectBlocks(Rows rows, int64_t block, int64_t k);
  /// The first k of each block of `block`, in order.
  Rows selectFromBlocks(Rows rows, int64_t block, int64_t k);
  /// Runs of twice the length, from sorted ones.
  Rows merge(Rows rows, int64_t length);
  /// The first k, in order.
  Rows select(Rows rows, int64_t k);

private:
  /// `value` of each block of a row, padded to whole blocks.
  Value cut(Value value, Rows rows, int64_t block, TypedAttr padding);

  OpBuilder &builder;
  Location loc;
};

} // namespace

static Type keyType(Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  return IntegerType::get(element.getContext(), width > 32 ? 64 : 32);
}

static Value makeKey(B &b, Value x, bool largest) {
  Type element = x.getType();
  Integers i{b, keyType(element)};
  Value key = x;
  if (isa<FloatType>(element)) {
    Value bits = arith::BitcastOp::create(b, i.type, x);
    unsigned width = i.type.getIntOrFloatBitWidth();
    Value most = i.constant(APInt::getSignedMaxValue(width));
    Value zero = makeConstant(b, b.getLoc(), element, 0.0);
    auto is = [&](arith::CmpFPredicate predicate, Value y) -> Value {
      return arith::CmpFOp::create(b, predicate, x, y);
    };
    key = i.select(is(arith::CmpFPredicate::OLT, zero),
                   arith::XOrIOp::create(b, bits, most), bits);
    key = i.select(is(arith::CmpFPredicate::OEQ, zero), i.constant(0), key);
    key = i.select(is(arith::CmpFPredicate::UNO, x), most, key);
  } else if (element != i.type) {
    key = element.isInteger(1) ? Value(arith::ExtUIOp::create(b, i.type, x))
                               : Value(arith::ExtSIOp::create(b, i.type, x));
  }
  return largest ? Value(arith::XOrIOp::create(b, key, i.constant(-1))) : key;
}

Rows TopKEmitter::makeKeys(Value input, bool largest) {
  auto type = cast<RankedTensorType>(input.getType());
  LinalgBuilder linalg(builder, loc, type.getShape());
  Value keys = linalg.map(
      {linalg.full(input)}, keyType(getComputeType(type.getElementType())),
      [&](B &b, Values v) { return makeKey(b, v[0], largest); });
  return {keys, Value(), type.getDimSize(0), type.getDimSize(1)};
}

Value TopKEmitter::cut(Value value, Rows rows, int64_t block,
                       TypedAttr padding) {
  int64_t blocks = llvm::divideCeil(rows.size, block);
  if (rows.size != blocks * block) {
    Value border =
        makeFilled(builder, loc, {rows.rows, blocks * block}, padding);
    auto sizes =
        getAsIndexOpFoldResult(builder.getContext(), {rows.rows, rows.size});
    SmallVector<OpFoldResult> starts(2, builder.getIndexAttr(0));
    SmallVector<OpFoldResult> strides(2, builder.getIndexAttr(1));
    value = tensor::InsertSliceOp::create(builder, loc, value, border, starts,
                                          sizes, strides);
  }
  return reshapeTensor(builder, loc, value, {rows.rows * blocks, block});
}

Rows TopKEmitter::selectBlocks(Rows rows, int64_t block, int64_t k) {
  auto type = cast<RankedTensorType>(rows.keys.getType());
  Type key = type.getElementType(), i32 = builder.getI32Type();
  int64_t blocks = llvm::divideCeil(rows.size, block);
  Value keys = cut(rows.keys, rows, block, getIdentity(Reduction::Min, key));
  LinalgBuilder whole(builder, loc, {rows.rows * blocks, block});
  Value first = whole.reduceColumns(Reduction::Min, {whole.full(keys)}, key,
                                    [](B &, Values v) { return v[0]; });
  first = reshapeTensor(builder, loc, first, {rows.rows, blocks});
  // In the order in which they lie, as ties are.
  Rows chosen = select({first, Value(), rows.rows, blocks}, k);
  chosen = select({chosen.places, Value(), rows.rows, k}, k);

  keys = reshapeTensor(builder, loc, keys, {rows.rows, blocks * block});
  Value places =
      rows.places ? cut(rows.places, rows, block, builder.getI32IntegerAttr(0))
                  : Value();
  if (places)
    places = reshapeTensor(builder, loc, places, {rows.rows, blocks * block});
  LinalgBuilder linalg(builder, loc, {rows.rows, k, block});
  SmallVector<Value> found = linalg.mapSeveral(
      {linalg.row(chosen.keys)}, {key, i32}, [&](B &b, Values v) {
        Integers i{b, i32};
        Value start = arith::MulIOp::create(b, v[0], i.constant(block));
        Value place = i.add(start, i.loop(2));
        SmallVector<Value> at = {linalg::IndexOp::create(b, 0), i.index(place)};
        return SmallVector<Value>{
            tensor::ExtractOp::create(b, keys, at),
            places ? Value(tensor::ExtractOp::create(b, places, at)) : place};
      });
  SmallVector<int64_t> shape = {rows.rows, k * block};
  return {reshapeTensor(builder, loc, found[0], shape),
          reshapeTensor(builder, loc, found[1], shape), rows.rows, k * block};
}

Rows TopKEmitter::selectFromBlocks(Rows rows, int64_t block, int64_t k) {
  Type key = cast<RankedTensorType>(rows.keys.getType()).getElementType();
  Type i32 = builder.getI32Type();
  if (block == 1) { // in order
    LinalgBuilder linalg(builder, loc, {rows.rows, rows.size});
    if (!rows.places)
      rows.places = linalg.map(
          {}, i32, [&](B &b, Values) { return Integers{b, i32}.loop(1); });
    return rows;
  }
  int64_t blocks = llvm::divideCeil(rows.size, block);
  Value keys = cut(rows.keys, rows, block, getIdentity(Reduction::Min, key));
  Value places =
      rows.places ? cut(rows.places, rows, block, builder.getI32IntegerAttr(0))
                  : Value();

  auto mapOf = [&](ArrayRef<unsigned> dims) {
    SmallVector<AffineExpr> exprs;
    for (unsigned d : dims)
      exprs.push_back(builder.getAffineDimExpr(d));
    return AffineMap::get(3, 0, exprs, builder.getContext());
  };
  LinalgBuilder pairs(builder, loc, {rows.rows * blocks, block, block});
  Value ranks = pairs.reduceColumns(
      Reduction::Sum,
      {pairs.mapped(keys, mapOf({0, 1})), pairs.mapped(keys, mapOf({0, 2}))},
      i32, [&](B &b, Values v) -> Value {
        Integers i{b, i32};
        Value isEarlier = i.compare(Compare::slt, linalg::IndexOp::create(b, 2),
                                    linalg::IndexOp::create(b, 1));
        Value isBefore =
            i.either(i.compare(Compare::slt, v[1], v[0]),
                     i.both(i.compare(Compare::eq, v[1], v[0]), isEarlier));
        return arith::ExtUIOp::create(b, i32, isBefore);
      });
  LinalgBuilder chosen(builder, loc, {rows.rows * blocks, k, block});
  Value order = chosen.reduceColumns(
      Reduction::Sum, {chosen.mapped(ranks, mapOf({0, 2}))}, i32,
      [&](B &b, Values v) -> Value {
        Integers i{b, i32};
        return i.select(i.compare(Compare::eq, v[0], i.loop(1)), i.loop(2),
                        i.constant(0));
      });
  LinalgBuilder linalg(builder, loc, {rows.rows * blocks, k});
  SmallVector<Value> found =
      linalg.mapSeveral({linalg.full(order)}, {key, i32}, [&](B &b, Values v) {
        Integers i{b, i32};
        Value row = linalg::IndexOp::create(b, 0);
        SmallVector<Value> at = {row, i.index(v[0])};
        Value place = v[0];
        if (places) {
          place = tensor::ExtractOp::create(b, places, at);
        } else if (blocks > 1) {
          Value inRow = arith::RemUIOp::create(
              b, row, arith::ConstantIndexOp::create(b, blocks));
          Value start = arith::MulIOp::create(
              b, inRow, arith::ConstantIndexOp::create(b, block));
          place = i.add(place, i.cast(start));
        }
        return SmallVector<Value>{tensor::ExtractOp::create(b, keys, at),
                                  place};
      });
  SmallVector<int64_t> shape = {rows.rows, blocks * k};
  return {reshapeTensor(builder, loc, found[0], shape),
          reshapeTensor(builder, loc, found[1], shape), rows.rows, blocks * k};
}

Rows TopKEmitter::merge(Rows rows, int64_t length) {
  Type key = cast<RankedTensorType>(rows.keys.getType()).getElementType();
  Type i32 = builder.getI32Type();
  LinalgBuilder linalg(builder, loc, {rows.rows, rows.size});
  // Runs A and B from `start` and `start + length` on; p is a place in both
  // together, and c of the p elements before it are of A.
  auto body = [&](B &b, Values) {
    Integers i{b, i32};
    Value row = linalg::IndexOp::create(b, 0), place = i.loop(1);
    auto read = [&](Value tensor, Value at) -> Value {
      return tensor::ExtractOp::create(b, tensor, ValueRange{row, i.index(at)});
    };
    Value whole = i.constant(length), zero = i.constant(0), one = i.constant(1);
    Value start = arith::AndIOp::create(b, place, i.constant(-2 * length));
    Value p = i.sub(place, start);
    Value left = i.sub(i.constant(rows.size), start);
    Value sizeOfA = i.min(whole, left);
    Value sizeOfB = i.max(i.min(i.sub(left, whole), whole), zero);
    Value middle = i.add(start, sizeOfA);
    Value last = i.constant(rows.size - 1);
    Value count = i.max(i.sub(p, sizeOfB), zero), most = i.min(p, sizeOfA);
    for (int64_t step = length; step >= 1; step /= 2) {
      // Is A[c - 1] among the first p, that is, not after B[p - c]?
      Value c = i.add(count, i.constant(step));
      Value isPossible = i.compare(Compare::sle, c, most);
      Value inBounds = i.min(c, most);
      Value a =
          read(rows.keys, i.max(i.sub(i.add(start, inBounds), one), start));
      Value other =
          read(rows.keys, i.min(i.sub(i.add(middle, p), inBounds), last));
      Value isAmong = i.both(isPossible, i.compare(Compare::sle, a, other));
      count = i.select(isAmong, c, count);
    }
    Value rest = i.sub(p, count);
    Value placeOfA = i.min(i.add(start, count), last);
    Value placeOfB = i.min(i.add(middle, rest), last);
    Value keyOfA = read(rows.keys, placeOfA),
          keyOfB = read(rows.keys, placeOfB);
    Value isA = i.both(i.compare(Compare::slt, count, sizeOfA),
                       i.either(i.compare(Compare::sge, rest, sizeOfB),
                                i.compare(Compare::sle, keyOfA, keyOfB)));
    Value from = i.select(isA, placeOfA, placeOfB);
    return SmallVector<Value>{i.select(isA, keyOfA, keyOfB),
                              read(rows.places, from)};
  };
  SmallVector<Value> merged = linalg.mapSeveral({}, {key, i32}, body);
  return {merged[0], merged[1], rows.rows, rows.size};
}

Rows TopKEmitter::select(Rows rows, int64_t k) {
  // n / block keys to choose from, then k * block.
  while (rows.size > kBlock && rows.size >= kManyTimes * k)
    rows = selectBlocks(rows,
                        int64_t(1) << llvm::Log2_64_Ceil(rows.size / k) / 2, k);
  while (rows.size > kBlock && 2 * k <= kBlock)
    rows = selectFromBlocks(rows, kBlock, k);
  if (rows.size <= kBlock)
    return selectFromBlocks(rows, rows.size, k);
  rows = selectFromBlocks(rows, kBlock, kBlock);
  for (int64_t length = kBlock; length < rows.size; length *= 2)
    rows = merge(rows, length);
  auto first = [&](Value value) -> Value {
    SmallVector<OpFoldResult> sizes =
        getAsIndexOpFoldResult(builder.getContext(), {rows.rows, k});
    SmallVector<OpFoldResult> starts(2, builder.getIndexAttr(0));
    SmallVector<OpFoldResult> strides(2, builder.getIndexAttr(1));
    return tensor::ExtractSliceOp::create(builder, loc, value, starts, sizes,
                                          strides);
  };
  if (rows.size == k)
    return rows;
  return {first(rows.keys), first(rows.places), rows.rows, k};
}

namespace {

struct LowerTopK : public OpRewritePattern<TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TopKOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult LowerTopK::matchAndRewrite(TopKOp op,
                                         PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto resultType = cast<RankedTensorType>(op.getValues().getType());
  Type indexType =
      cast<RankedTensorType>(op.getIndices().getType()).getElementType();
  Location loc = markOrigin(op);
  int64_t dim = op.getDim(), k = op.getK(), n = type.getDimSize(dim);
  // The dimension last, and back.
  SmallVector<int64_t> there, back(type.getRank());
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (d != dim)
      there.push_back(d);
  there.push_back(dim);
  for (auto [to, from] : llvm::enumerate(there))
    back[from] = to;
  Value input = transposeTensor(rewriter, loc, op.getInput(), there);
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(input.getType()).getShape());
  if (resultType.getNumElements() == 0) {
    rewriter.replaceOp(
        op, {tensor::EmptyOp::create(rewriter, loc, resultType.getShape(),
                                     resultType.getElementType()),
             tensor::EmptyOp::create(rewriter, loc, resultType.getShape(),
                                     indexType)});
    return success();
  }
  int64_t rows = type.getNumElements() / n;
  input = reshapeTensor(rewriter, loc, input, {rows, n});
  shape.back() = k;

  TopKEmitter emitter(rewriter, loc);
  Rows found = emitter.select(emitter.makeKeys(input, op.getLargest()), k);
  LinalgBuilder linalg(rewriter, loc, {rows, k});
  SmallVector<Value> results = linalg.mapSeveral(
      {linalg.full(found.places)}, {type.getElementType(), indexType},
      [&](B &b, Values v) {
        Value at = arith::IndexCastOp::create(b, b.getIndexType(), v[0]);
        Value index = v[0];
        if (index.getType() != indexType)
          index = arith::ExtSIOp::create(b, indexType, index);
        Value row = linalg::IndexOp::create(b, 0);
        return SmallVector<Value>{
            tensor::ExtractOp::create(b, input, ValueRange{row, at}), index};
      });
  for (Value &result : results) {
    result = reshapeTensor(rewriter, loc, result, shape);
    result = transposeTensor(rewriter, loc, result, back);
  }
  rewriter.replaceOp(op, results);
  return success();
}

void mpcomm::populateTopKToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerTopK>(patterns.getContext());
}
