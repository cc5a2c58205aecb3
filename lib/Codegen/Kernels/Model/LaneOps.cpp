//===- LaneOps.cpp - vectors, scalars and memory --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See LaneOps.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/KernelModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;

namespace mpcomm::kernels {

Type computeType(Type element) { return mpcomm::detail::getSumType(element); }

Type memoryType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  return element;
}

Type withLanesOf(Type type, Type like) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), type);
  return type;
}

int64_t lanesOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getNumElements() : 0;
}

static TypedAttr zeroLike(OpBuilder &b, Type type) {
  return cast<TypedAttr>(b.getZeroAttr(type));
}

Value fromMemory(OpBuilder &b, Location loc, Value raw, Type element) {
  if (element.isInteger(1))
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::ne, raw,
        arith::ConstantOp::create(b, loc, zeroLike(b, raw.getType())));
  Type compute = computeType(element);
  if (compute == element)
    return raw;
  return arith::ExtFOp::create(b, loc, withLanesOf(compute, raw.getType()),
                               raw);
}

Value toMemory(OpBuilder &b, Location loc, Value value, Type element) {
  Type type = withLanesOf(memoryType(element), value.getType());
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, loc, type, value);
  if (computeType(element) == element)
    return value;
  // Not to be rounded twice.
  if (auto extended = value.getDefiningOp<arith::ExtFOp>())
    if (extended.getIn().getType() == type)
      return extended.getIn();
  return arith::TruncFOp::create(b, loc, type, value);
}

Value indexConstant(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

Value addScaled(OpBuilder &b, Location loc, Value a, Value value,
                int64_t scale) {
  if (scale == 0 || matchPattern(value, m_Zero()))
    return a;
  Value term = value;
  if (scale != 1)
    term = arith::MulIOp::create(b, loc, value, indexConstant(b, loc, scale));
  if (matchPattern(a, m_Zero()))
    return term;
  return arith::AddIOp::create(b, loc, a, term);
}

Value splat(OpBuilder &b, Location loc, Value scalar, int64_t width) {
  auto type = VectorType::get({width}, scalar.getType());
  TypedAttr constant;
  if (matchPattern(scalar, m_Constant(&constant)))
    return arith::ConstantOp::create(
        b, loc,
        cast<TypedAttr>(
            DenseElementsAttr::get(type, static_cast<Attribute>(constant))));
  return vector::BroadcastOp::create(b, loc, type, scalar);
}

Value maskOf(OpBuilder &b, Location loc, int64_t active, int64_t width) {
  SmallVector<bool> lanes(width, false);
  std::fill_n(lanes.begin(), active, true);
  auto type = VectorType::get({width}, b.getI1Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, lanes));
}

/// 0, stride, 2 * stride, ...; 32 bits where they suffice.
static Value laneOffsets(OpBuilder &b, Location loc, int64_t stride,
                         int64_t width) {
  bool narrow = stride < (int64_t(1) << 31) / width;
  SmallVector<APInt> offsets;
  for (int64_t i = 0; i < width; ++i)
    offsets.push_back(APInt(narrow ? 32 : 64, i * stride));
  auto type =
      VectorType::get({width}, narrow ? b.getI32Type() : b.getI64Type());
  return arith::ConstantOp::create(b, loc,
                                   DenseElementsAttr::get(type, offsets));
}

Value loadLanes(OpBuilder &b, Location loc, Value flat, Value index,
                int64_t stride, int64_t width, Value mask,
                llvm::MaybeAlign alignment, Value others) {
  Type element = cast<MemRefType>(flat.getType()).getElementType();
  auto type = VectorType::get({width}, element);
  if (stride == 1 && !mask)
    return vector::LoadOp::create(b, loc, type, flat, index,
                                  /*nontemporal=*/false, alignment);
  if (!others)
    others = arith::ConstantOp::create(b, loc, zeroLike(b, type));
  if (stride == 1)
    return vector::MaskedLoadOp::create(b, loc, type, flat, index, mask,
                                        others);
  if (!mask)
    mask = maskOf(b, loc, width, width);
  return vector::GatherOp::create(b, loc, type, flat, index,
                                  laneOffsets(b, loc, stride, width), mask,
                                  others);
}

void storeLanes(OpBuilder &b, Location loc, Value flat, Value index,
                int64_t stride, Value value, Value mask,
                llvm::MaybeAlign alignment) {
  int64_t width = lanesOf(value);
  if (stride == 1 && !mask) {
    vector::StoreOp::create(b, loc, value, flat, index, /*nontemporal=*/false,
                            alignment);
    return;
  }
  if (stride == 1) {
    // LLVM 22 makes of one lane, where it is the only one of a constant mask, a
    // store of the type that the lane was truncated from (X86, AVX-512).
    DenseElementsAttr lanes;
    if (matchPattern(mask, m_Constant(&lanes)) &&
        llvm::count(lanes.getValues<bool>(), true) == 1 &&
        *lanes.getValues<bool>().begin())
      memref::StoreOp::create(
          b, loc, vector::ExtractOp::create(b, loc, value, 0), flat, index);
    else
      vector::MaskedStoreOp::create(b, loc, flat, index, mask, value);
    return;
  }
  if (!mask)
    mask = maskOf(b, loc, width, width);
  vector::ScatterOp::create(b, loc, Type(), flat, index,
                            laneOffsets(b, loc, stride, width), mask, value);
}

SmallVector<Value> transposeLanes(OpBuilder &b, Location loc,
                                  ArrayRef<Value> rows) {
  // Each stage interleaves row j with row j + n/2; log2(n) such perfect
  // shuffles move element (i, j) to (j, i).
  int64_t n = rows.size();
  SmallVector<Value> now(rows), next(n);
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < n / 2; ++i) {
    llvm::append_values(low, i, n + i);
    llvm::append_values(high, n / 2 + i, n + n / 2 + i);
  }
  for (int64_t stage = 1; stage < n; stage *= 2) {
    for (int64_t j = 0; j < n / 2; ++j) {
      next[2 * j] =
          vector::ShuffleOp::create(b, loc, now[j], now[j + n / 2], low);
      next[2 * j + 1] =
          vector::ShuffleOp::create(b, loc, now[j], now[j + n / 2], high);
    }
    std::swap(now, next);
  }
  return now;
}

void allowContraction(Operation *op) {
  if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
    return;
  auto interface = cast<arith::ArithFastMathInterface>(op);
  auto flags = interface.getFastMathFlagsAttr().getValue() |
               arith::FastMathFlags::contract;
  op->setAttr(interface.getFastMathAttrName(),
              arith::FastMathFlagsAttr::get(op->getContext(), flags));
}

/// Whether `value`, in the body of an op on tensors, is a magnitude.
static bool isMagnitude(Value value) {
  while (auto argument = dyn_cast<BlockArgument>(value)) {
    auto op = dyn_cast<linalg::LinalgOp>(argument.getOwner()->getParentOp());
    if (!op || argument.getArgNumber() >= op.getNumDpsInputs())
      return false;
    auto read = dyn_cast<OpResult>(op->getOperand(argument.getArgNumber()));
    auto source = read ? dyn_cast<linalg::LinalgOp>(read.getOwner()) : nullptr;
    if (!source)
      return false;
    value =
        source.getBlock()->getTerminator()->getOperand(read.getResultNumber());
  }
  return value.getDefiningOp<math::AbsFOp>();
}

bool isOfMagnitudes(Operation *combiner) {
  if (!isa<arith::MaximumFOp>(combiner))
    return false;
  auto op = dyn_cast<linalg::LinalgOp>(combiner->getParentOp());
  bool isOfTerms =
      op && llvm::all_of(combiner->getOperands(), [&](Value value) {
        auto argument = dyn_cast<BlockArgument>(value);
        return isMagnitude(value) ||
               (argument && argument.getArgNumber() >= op.getNumDpsInputs());
      });
  return isOfTerms && llvm::all_of(op.getDpsInits(), [](Value init) {
           auto start = dyn_cast_or_null<FloatAttr>(matchUniformTensor(init));
           return start && !start.getValue().isNaN() &&
                  (!start.getValue().isNegative() ||
                   start.getValue().isInfinity());
         });
}

Value combine(OpBuilder &b, Location loc, Operation *combiner, Value lhs,
              Value rhs, bool comparesBits) {
  if (comparesBits) {
    Type floats = lhs.getType();
    Type bits = withLanesOf(
        b.getIntegerType(getElementTypeOrSelf(floats).getIntOrFloatBitWidth()),
        floats);
    auto toBits = [&](Value value) {
      return arith::BitcastOp::create(b, loc, bits, value);
    };
    Value left = toBits(lhs), right = toBits(rhs);
    return arith::BitcastOp::create(
        b, loc, floats, arith::MaxSIOp::create(b, loc, left, right));
  }
  OperationState state(loc, combiner->getName());
  state.addOperands({lhs, rhs});
  state.addTypes(lhs.getType());
  Operation *op = b.create(state);
  allowContraction(op);
  return op->getResult(0);
}

TypedAttr neutralOf(Operation *combiner) {
  Type type = computeType(getElementTypeOrSelf(combiner->getResult(0)));
  Builder b(combiner->getContext());
  if (auto floating = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floating.getFloatSemantics();
    if (isa<arith::AddFOp>(combiner)) // -0.0 + x = x for each x
      return b.getFloatAttr(type, APFloat::getZero(semantics, true));
    if (isa<arith::MulFOp>(combiner))
      return b.getFloatAttr(type, APFloat(semantics, 1));
    bool isMax = isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner);
    return b.getFloatAttr(type, APFloat::getInf(semantics, isMax));
  }
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  APInt value(width, 0);
  if (isa<arith::MulIOp>(combiner))
    value = APInt(width, 1);
  else if (isa<arith::AndIOp, arith::MinUIOp>(combiner))
    value = APInt::getAllOnes(width);
  else if (isa<arith::MaxSIOp>(combiner))
    value = APInt::getSignedMinValue(width);
  else if (isa<arith::MinSIOp>(combiner))
    value = APInt::getSignedMaxValue(width);
  return b.getIntegerAttr(type, value);
}

bool isNeutral(TypedAttr start, Operation *combiner) {
  // Of a NaN, maxnumf and minnumf keep the other operand, an infinity, too.
  if (!start || isa<arith::MaxNumFOp, arith::MinNumFOp>(combiner))
    return false;
  TypedAttr neutral = neutralOf(combiner);
  auto number = dyn_cast<FloatAttr>(start);
  if (!number)
    return start == neutral;
  double one = number.getValueAsDouble();
  double other = cast<FloatAttr>(neutral).getValueAsDouble();
  return one == other && std::signbit(one) == std::signbit(other);
}

bool mayStartLast(TypedAttr start, Operation *combiner) {
  if (!start)
    return false;
  if (isa<arith::AddFOp>(combiner))
    return cast<FloatAttr>(start).getValue().isZero();
  return !isa<arith::MulFOp>(combiner) || isNeutral(start, combiner);
}

Value foldLanes(OpBuilder &b, Location loc, Operation *combiner, Value vector,
                int64_t width, bool comparesBits) {
  int64_t lanes = lanesOf(vector);
  while (lanes > width && lanes > 1) {
    lanes /= 2;
    if (lanes == 1) {
      Value low = vector::ExtractOp::create(b, loc, vector, 0);
      Value high = vector::ExtractOp::create(b, loc, vector, 1);
      return combine(b, loc, combiner, low, high, comparesBits);
    }
    auto half = [&](int64_t from) -> Value {
      return vector::ExtractStridedSliceOp::create(
          b, loc, vector, ArrayRef<int64_t>{from}, ArrayRef<int64_t>{lanes},
          ArrayRef<int64_t>{1});
    };
    Value low = half(0);
    Value high = half(lanes);
    vector = combine(b, loc, combiner, low, high, comparesBits);
  }
  if (width == 1 && lanes == 1)
    return vector::ExtractOp::create(b, loc, vector, 0);
  return vector;
}

} // namespace mpcomm::kernels
