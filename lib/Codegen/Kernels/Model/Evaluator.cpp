//===- Evaluator.cpp - values of a kernel at a row and a chunk ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Evaluator.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/Evaluator.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include <numeric>

using namespace mlir;

namespace mpcomm::kernels {

static Value lookup(const LoadMemo &memo, const KernelAccess &access) {
  for (const auto &entry : memo)
    if (entry.first == access)
      return entry.second;
  return {};
}

Evaluator::Evaluator(const KernelModel &model, const Schedule &schedule,
                     Block &block, ValueRange arguments)
    : code(block.getParentOp()->getContext()), row(code), entry(code),
      loc(block.getParentOp()->getLoc()), model(model), schedule(schedule),
      top(code) {
  top.setInsertionPoint(block.getTerminator());
  for (Value argument : arguments) {
    auto type = cast<MemRefType>(argument.getType());
    int64_t span = *mprt::spanOf(type); // layouts have known strides
    auto flatType = MemRefType::get({span}, type.getElementType());
    if (type == flatType) {
      flats.push_back(argument);
      continue;
    }
    flats.push_back(memref::ReinterpretCastOp::create(
        top, loc, flatType, argument, 0, ArrayRef<int64_t>{span},
        ArrayRef<int64_t>{1}));
  }
  for (const auto &entry : schedule.bufferedIn) {
    Type type = computeType(getElementTypeOrSelf(entry.first));
    int64_t columns = llvm::alignTo(model.columns(), schedule.lanes);
    auto buffer = memref::AllocaOp::create(
        top, loc,
        MemRefType::get({columns * schedule.rowBlock}, memoryType(type)));
    buffer.setAlignment(64);
    buffers[entry.first] = buffer;
  }
  // Constants stay before all else.
  Operation *marker = indexConstant(top, loc, 0).getDefiningOp();
  code.setInsertionPoint(block.getTerminator());
  row = code;
  entry = code;
  top.setInsertionPoint(marker);
}

Value Evaluator::constant(TypedAttr value) {
  Value &known = constants[value];
  if (known)
    return known;
  // Half precision is computed in f32.
  if (auto number = dyn_cast<FloatAttr>(value)) {
    Type type = computeType(number.getType());
    if (type != number.getType())
      value = top.getFloatAttr(type, number.getValueAsDouble());
  }
  return known = arith::ConstantOp::create(top, loc, value);
}

Value Evaluator::lanes(Value value, Row &atRow, Chunk &chunk) {
  if (lanesOf(value))
    return value;
  Value &known = atRow.splats[{value, chunk.width}];
  if (!known)
    known = splat(row, loc, value, chunk.width);
  return known;
}

Value Evaluator::base(const KernelAccess &access, Row &atRow) {
  if (Value known = lookup(atRow.bases, access))
    return known;
  Value index = indexConstant(top, loc, access.offset);
  for (auto [coordinate, stride] : llvm::zip(atRow.coordinates, access.strides))
    index = addScaled(row, loc, index, coordinate, stride);
  atRow.bases.push_back({access, index});
  return index;
}

Value Evaluator::indexAt(const KernelAccess &access, Row &atRow, Chunk &chunk) {
  return addScaled(code, loc, base(access, atRow), chunk.start,
                   access.strides[model.column()]);
}

Value Evaluator::bufferIndex(Row &atRow, Chunk &chunk) {
  int64_t columns = llvm::alignTo(model.columns(), schedule.lanes);
  return addScaled(code, loc, indexConstant(top, loc, atRow.inBlock * columns),
                   chunk.start, 1);
}

llvm::MaybeAlign Evaluator::alignmentOf(const KernelAccess &access,
                                        int64_t width) const {
  if (model.alignments.empty())
    return {};
  uint64_t bytes =
      memoryType(elementOf(access.argument)).getIntOrFloatBitWidth() / 8;
  uint64_t known =
      std::gcd(model.alignments[access.argument], access.offset * bytes);
  for (auto [dim, stride] : llvm::enumerate(access.strides)) {
    bool isColumn = static_cast<int>(dim) == model.column();
    if (model.sizes[dim] > 1)
      known = std::gcd(known, stride * bytes * (isColumn ? width : 1));
  }
  return llvm::MaybeAlign(known & -known);
}

Value Evaluator::loadTiled(const KernelAccess &access, Row &atRow,
                           Chunk &chunk) {
  for (const auto &entry : *chunk.tiles)
    if (entry.first == access)
      return entry.second[atRow.inBlock];
  int64_t stride = access.strides[model.column()];
  Value first = indexAt(access, atRow, chunk);
  auto type =
      VectorType::get({schedule.lanes}, memoryType(elementOf(access.argument)));
  SmallVector<Value> columns;
  for (int64_t i = 0; i < schedule.lanes; ++i) {
    if (i >= chunk.active) {
      columns.push_back(arith::ConstantOp::create(
          code, loc, cast<TypedAttr>(code.getZeroAttr(type))));
      continue;
    }
    Value at = addScaled(code, loc, first, indexConstant(code, loc, i), stride);
    columns.push_back(loadLanes(code, loc, flat(access.argument), at, 1,
                                schedule.lanes, Value()));
  }
  chunk.tiles->push_back({access, transposeLanes(code, loc, columns)});
  return chunk.tiles->back().second[atRow.inBlock];
}

Value Evaluator::load(const KernelAccess &access, Row &atRow, Chunk *chunk) {
  Type element = elementOf(access.argument);
  bool sameForRows =
      llvm::all_of(ArrayRef(access.strides).take_front(model.rows().size()),
                   [](int64_t stride) { return stride == 0; });
  if (chunk && model.alongColumn(access)) {
    LoadMemo &memo =
        sameForRows && chunk->shared ? *chunk->shared : chunk->loads;
    if (Value known = lookup(memo, access))
      return known;
    Value raw;
    if (chunk->tiles && Schedule::isTiled(model, access))
      raw = loadTiled(access, atRow, *chunk);
    else
      raw = loadLanes(code, loc, flat(access.argument),
                      indexAt(access, atRow, *chunk),
                      access.strides[model.column()], chunk->width, chunk->mask,
                      alignmentOf(access, chunk->width));
    Value value = fromMemory(code, loc, raw, element);
    memo.push_back({access, value});
    return value;
  }
  LoadMemo &memo = sameForRows ? uniforms : atRow.scalars;
  if (Value known = lookup(memo, access))
    return known;
  OpBuilder &b = sameForRows ? entry : row;
  Value at = sameForRows ? indexConstant(top, loc, access.offset)
                         : base(access, atRow);
  Value raw = memref::LoadOp::create(b, loc, flat(access.argument), at);
  Value value = fromMemory(b, loc, raw, element);
  memo.push_back({access, value});
  return value;
}

void Evaluator::loadAll(Row &atRow, Chunk &chunk) {
  for (const auto &entry : model.accesses) {
    const KernelAccess &access = entry.second;
    auto op = cast<linalg::LinalgOp>(entry.first->getOwner());
    bool differs =
        llvm::any_of(ArrayRef(access.strides).take_front(model.rows().size()),
                     [](int64_t stride) { return stride != 0; });
    if (differs && model.alongColumn(access) &&
        op.payloadUsesValueFromOperand(entry.first))
      load(access, atRow, &chunk);
  }
}

Value Evaluator::operand(OpOperand &operand, Row &atRow, Chunk *chunk) {
  Value value = operand.get();
  if (auto scalar = value.getDefiningOp<arith::ConstantOp>();
      scalar && !isa<ShapedType>(value.getType()))
    return constant(cast<TypedAttr>(scalar.getValue()));
  if (TypedAttr same = matchUniformTensor(value))
    return constant(same);
  if (isa<BlockArgument>(value))
    return load(model.accesses.find(&operand)->second, atRow, chunk);
  return result(value, atRow, chunk);
}

Value Evaluator::result(Value value, Row &atRow, Chunk *chunk) {
  const KernelResult &result = model.results.find(value)->second;
  if (Value known = atRow.values.lookup(value))
    return known;
  if (chunk) {
    if (Value known = chunk->values.lookup(value))
      return known;
    auto buffered = schedule.bufferedIn.find(value);
    if (buffered != schedule.bufferedIn.end() && buffered->second < pass) {
      Value raw =
          loadLanes(code, loc, bufferOf(value), bufferIndex(atRow, *chunk), 1,
                    chunk->width, Value());
      return chunk->values[value] = fromMemory(
                 code, loc, raw, computeType(getElementTypeOrSelf(value)));
    }
  }
  linalg::LinalgOp op = result.op;
  return body(op, op.getBlock()->getTerminator()->getOperand(result.index),
              atRow, chunk);
}

Value Evaluator::body(linalg::LinalgOp op, Value value, Row &atRow,
                      Chunk *chunk) {
  if (auto outer = value.getDefiningOp<arith::ConstantOp>())
    return constant(cast<TypedAttr>(outer.getValue()));
  if (chunk && !assumed.empty())
    if (auto found = assumed.find(value.getDefiningOp());
        found != assumed.end())
      return splat(code, loc, constant(code.getBoolAttr(found->second)),
                   chunk->width);
  if (Value known = atRow.values.lookup(value))
    return known;
  if (chunk)
    if (Value known = chunk->values.lookup(value))
      return known;
  Value made;
  if (auto argument = dyn_cast<BlockArgument>(value))
    made = operand(*op.getMatchingOpOperand(argument), atRow, chunk);
  else
    made = bodyOp(op, value.getDefiningOp(), atRow, chunk);
  if (chunk && lanesOf(made))
    chunk->values[value] = made;
  else
    atRow.values[value] = made;
  return made;
}

Value Evaluator::index(linalg::LinalgOp op, unsigned loop, Row &atRow,
                       Chunk *chunk) {
  int dim = model.loops.find(op)->second[loop];
  if (dim < 0)
    return indexConstant(top, loc, 0);
  if (dim != model.column())
    return atRow.coordinates[dim];
  auto type = VectorType::get({chunk->width}, code.getIndexType());
  Value step = vector::StepOp::create(top, loc, type);
  Value start = vector::BroadcastOp::create(code, loc, type, chunk->start);
  return arith::AddIOp::create(code, loc, start, step);
}

/// The predicate p' with a p b = b p' a.
static arith::CmpIPredicate swapSides(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::slt:
    return arith::CmpIPredicate::sgt;
  case arith::CmpIPredicate::sle:
    return arith::CmpIPredicate::sge;
  case arith::CmpIPredicate::sgt:
    return arith::CmpIPredicate::slt;
  case arith::CmpIPredicate::sge:
    return arith::CmpIPredicate::sle;
  default: // eq and ne; unsigned ones are not asked for
    return predicate;
  }
}

bool Evaluator::isColumnIndex(linalg::LinalgOp op, Value value) const {
  // Through casts that keep the number of every column.
  while (auto cast = value.getDefiningOp<arith::IndexCastOp>()) {
    auto type = dyn_cast<IntegerType>(cast.getType());
    if (type && !llvm::isIntN(type.getWidth(), model.columns() - 1))
      return false;
    value = cast.getIn();
  }
  auto index = value.getDefiningOp<linalg::IndexOp>();
  return index &&
         model.loops.find(op)->second[index.getDim()] == model.column();
}

/// Reads `index`, of a dimension of `size`, as a shifted value, whether or not
/// it is the column. A bound outside of the dimension never takes effect, since
/// there is no element at it, which must not be loaded, either.
static ShiftedColumn matchShift(Value index, int64_t size) {
  ShiftedColumn result;
  result.column = index;
  APInt constant;
  auto within = [&](int64_t bound) {
    return bound >= 0 && bound < size ? std::optional(bound) : std::nullopt;
  };
  auto match = [&](Operation *op) {
    return matchPattern(op->getOperand(1), m_ConstantInt(&constant));
  };
  if (auto bound = result.column.getDefiningOp<arith::MinSIOp>();
      bound && match(bound)) {
    result.high = within(constant.getSExtValue());
    result.column = bound.getLhs();
  } else if (auto bound = result.column.getDefiningOp<arith::MaxSIOp>();
             bound && match(bound)) {
    result.low = within(constant.getSExtValue());
    result.column = bound.getLhs();
  }
  if (auto sum = result.column.getDefiningOp<arith::AddIOp>();
      sum && match(sum)) {
    result.shift = constant.getSExtValue();
    result.column = sum.getLhs();
  }
  return result;
}

Value Evaluator::loadShifted(unsigned argument, Value scalars, int64_t stride,
                             const ShiftedColumn &index, Row &atRow,
                             Chunk &chunk) {
  Type element = elementOf(argument);
  Value mask = chunk.mask, edge;
  // Where the index is beyond a bound, the element is that of the bound.
  if (index.low || index.high) {
    int64_t bound = index.low ? *index.low : *index.high;
    Value isWithin = compareLanes(
        index.low ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle,
        indexConstant(top, loc, bound - index.shift), chunk);
    mask = mask ? Value(arith::AndIOp::create(code, loc, mask, isWithin))
                : isWithin;
    Value at =
        addScaled(row, loc, scalars, indexConstant(top, loc, bound), stride);
    edge = memref::LoadOp::create(row, loc, flat(argument), at);
    edge = lanes(edge, atRow, chunk);
  }
  Value start = addScaled(code, loc, chunk.start,
                          indexConstant(top, loc, index.shift), 1);
  Value first = addScaled(code, loc, scalars, start, stride);
  return fromMemory(code, loc,
                    loadLanes(code, loc, flat(argument), first, stride,
                              chunk.width, mask, llvm::MaybeAlign(), edge),
                    element);
}

Value Evaluator::extract(linalg::LinalgOp op, tensor::ExtractOp extract,
                         Row &atRow, Chunk *chunk) {
  unsigned argument = cast<BlockArgument>(extract.getTensor()).getArgNumber();
  auto [strides, offset] = model.layouts[argument].getStridesAndOffset();
  Type element = elementOf(argument);
  Value zero = indexConstant(top, loc, 0);
  Value scalars = zero, vectors;
  int64_t columnStride = 0, shiftedStride = 0;
  ShiftedColumn shifted;
  Value shiftedIndex;
  auto toIndex = [&](Value lanes) -> Value {
    Type type = withLanesOf(code.getIndexType(), lanes.getType());
    return lanes.getType() == type
               ? lanes
               : arith::IndexCastOp::create(code, loc, type, lanes);
  };
  // Offsets of 32 bits, where they come from such and suffice, take half of the
  // registers.
  bool isNarrow = *mprt::spanOf(model.layouts[argument]) <= INT32_MAX;
  auto addTerm = [&](Value at, int64_t stride) {
    auto cast = at.getDefiningOp<arith::IndexCastOp>();
    if (cast && isNarrow && getElementTypeOrSelf(cast.getIn()).isInteger(32))
      at = cast.getIn();
    TypedAttr scale = code.getIntegerAttr(getElementTypeOrSelf(at), stride);
    Value term = arith::MulIOp::create(
        code, loc, at, splat(code, loc, constant(scale), chunk->width));
    if (!vectors) {
      vectors = term;
      return;
    }
    if (vectors.getType() != term.getType()) {
      vectors = toIndex(vectors);
      term = toIndex(term);
    }
    vectors = arith::AddIOp::create(code, loc, vectors, term);
  };
  for (auto [index, stride, size] :
       llvm::zip(extract.getIndices(), strides,
                 extract.getTensor().getType().getShape())) {
    if (chunk && isColumnIndex(op, index)) {
      columnStride += stride;
      continue;
    }
    if (ShiftedColumn found = matchShift(index, size);
        chunk && !shiftedIndex && isColumnIndex(op, found.column)) {
      shifted = found;
      shiftedIndex = index;
      shiftedStride = stride;
      continue;
    }
    Value at = body(op, index, atRow, chunk);
    if (!lanesOf(at)) {
      scalars = addScaled(row, loc, scalars, at, stride);
      continue;
    }
    addTerm(at, stride);
  }
  if (shiftedIndex && !vectors && columnStride == 0)
    return loadShifted(argument, scalars, shiftedStride, shifted, atRow,
                       *chunk);
  if (shiftedIndex)
    addTerm(body(op, shiftedIndex, atRow, chunk), shiftedStride);
  if (!chunk || (!vectors && columnStride == 0)) {
    Value raw = memref::LoadOp::create(row, loc, flat(argument), scalars);
    return fromMemory(row, loc, raw, element);
  }
  Value first = addScaled(code, loc, scalars, chunk->start, columnStride);
  if (!vectors)
    return fromMemory(code, loc,
                      loadLanes(code, loc, flat(argument), first, columnStride,
                                chunk->width, chunk->mask),
                      element);
  if (columnStride != 0) {
    vectors = toIndex(vectors);
    auto indexType = cast<VectorType>(vectors.getType());
    Value step = vector::StepOp::create(top, loc, indexType);
    Value scale =
        splat(top, loc, indexConstant(top, loc, columnStride), chunk->width);
    vectors = arith::AddIOp::create(
        code, loc, vectors, arith::MulIOp::create(code, loc, step, scale));
  }
  auto type = VectorType::get({chunk->width}, memoryType(element));
  Value mask =
      chunk->mask ? chunk->mask : maskOf(top, loc, chunk->width, chunk->width);
  Value passThrough = arith::ConstantOp::create(
      top, loc, cast<TypedAttr>(top.getZeroAttr(type)));
  Value raw = vector::GatherOp::create(code, loc, type, flat(argument), first,
                                       vectors, mask, passThrough);
  return fromMemory(code, loc, raw, element);
}

Value Evaluator::compareColumn(linalg::LinalgOp op, arith::CmpIOp compare,
                               Row &atRow, Chunk &chunk) {
  arith::CmpIPredicate predicate = compare.getPredicate();
  Value lhs = compare.getLhs(), rhs = compare.getRhs();
  if (!isColumnIndex(op, lhs)) {
    std::swap(lhs, rhs);
    predicate = swapSides(predicate);
  }
  bool isUnsigned = predicate >= arith::CmpIPredicate::ult;
  if (!isColumnIndex(op, lhs) || isUnsigned)
    return {};
  Value bound = body(op, rhs, atRow, &chunk);
  if (lanesOf(bound))
    return {};
  if (!bound.getType().isIndex())
    bound = arith::IndexCastOp::create(code, loc, code.getIndexType(), bound);
  return compareLanes(predicate, bound, chunk);
}

Value Evaluator::compareLanes(arith::CmpIPredicate predicate, Value bound,
                              Chunk &chunk) {
  SmallVector<int32_t> places;
  for (int64_t i = 0; i < chunk.width; ++i)
    places.push_back(static_cast<int32_t>(i));
  Value lanes =
      arith::ConstantOp::create(code, loc, code.getI32VectorAttr(places));
  APInt constant;
  if (matchPattern(bound, m_ConstantInt(&constant)) &&
      constant.isSignedIntN(32) && llvm::isInt<32>(model.columns())) {
    Value start =
        arith::IndexCastOp::create(code, loc, code.getI32Type(), chunk.start);
    Value columns = arith::AddIOp::create(code, loc, lanes,
                                          splat(code, loc, start, chunk.width));
    TypedAttr limit = code.getI32IntegerAttr(constant.getSExtValue());
    return arith::CmpIOp::create(
        code, loc, predicate, columns,
        splat(code, loc, this->constant(limit), chunk.width));
  }
  // Lane i is column start + i: compare i with bound - start, which may be
  // clamped to [-1, width] and so fits 32 bits.
  Value rest = arith::SubIOp::create(code, loc, bound, chunk.start);
  rest = arith::MaxSIOp::create(code, loc, rest, indexConstant(code, loc, -1));
  rest = arith::MinSIOp::create(code, loc, rest,
                                indexConstant(code, loc, chunk.width));
  rest = arith::IndexCastOp::create(code, loc, code.getI32Type(), rest);
  return arith::CmpIOp::create(code, loc, predicate, lanes,
                               splat(code, loc, rest, chunk.width));
}

Value Evaluator::bodyOp(linalg::LinalgOp op, Operation *inner, Row &atRow,
                        Chunk *chunk) {
  if (auto index = dyn_cast<linalg::IndexOp>(inner))
    return this->index(op, index.getDim(), atRow, chunk);
  if (auto gather = dyn_cast<tensor::ExtractOp>(inner))
    return extract(op, gather, atRow, chunk);
  if (auto compare = dyn_cast<arith::CmpIOp>(inner); compare && chunk)
    if (Value narrow = compareColumn(op, compare, atRow, *chunk))
      return narrow;
  SmallVector<Value> operands;
  bool wide = false;
  for (Value operand : inner->getOperands()) {
    operands.push_back(body(op, operand, atRow, chunk));
    wide |= lanesOf(operands.back()) != 0;
  }
  if (wide)
    for (Value &operand : operands)
      operand = lanes(operand, atRow, *chunk);
  OpBuilder &b = wide ? code : row;
  Type element = inner->getResult(0).getType();
  Type type = withLanesOf(computeType(element), operands[0].getType());
  // Casts to and from half precision: values already have the wider type, and
  // the cast to the narrower one rounds.
  if (isa<arith::ExtFOp>(inner) && operands[0].getType() == type)
    return operands[0];
  bool rounds = computeType(element) != element &&
                isa<arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp>(inner);
  if (isa<arith::TruncFOp>(inner) && rounds) {
    Value narrow = arith::TruncFOp::create(b, loc, withLanesOf(element, type),
                                           operands[0]);
    return arith::ExtFOp::create(b, loc, type, narrow);
  }
  if (isa<arith::BitcastOp>(inner)) {
    // Bits are those of the element's own type.
    Type from = inner->getOperand(0).getType();
    if (from == element)
      return operands[0];
    Value bits = toMemory(b, loc, operands[0], from);
    bits = arith::BitcastOp::create(b, loc, withLanesOf(element, type), bits);
    return fromMemory(b, loc, bits, element);
  }
  OperationState state(loc, inner->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(inner->getAttrs());
  Operation *made = b.create(state);
  allowContraction(made);
  Value value = made->getResult(0);
  if (!rounds)
    return value;
  value = arith::TruncFOp::create(b, loc, withLanesOf(element, type), value);
  return arith::ExtFOp::create(b, loc, type, value);
}

} // namespace mpcomm::kernels
