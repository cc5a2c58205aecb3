//===- MathEmitter.cpp - arithmetic on lanes ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See MathEmitter.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/MathEmitter.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace mpcomm::kernels {

static Value constantOf(OpBuilder &b, Location loc, Type type,
                        Attribute value) {
  if (auto vector = dyn_cast<VectorType>(type))
    value = DenseElementsAttr::get(vector, value);
  return arith::ConstantOp::create(b, loc, cast<TypedAttr>(value));
}

bool MathEmitter::isWide() const { return getElementTypeOrSelf(type).isF64(); }

Type MathEmitter::integerType() const {
  return withLanesOf(b.getIntegerType(isWide() ? 64 : 32), type);
}

Value MathEmitter::real(double value) {
  return constantOf(b, loc, type,
                    b.getFloatAttr(getElementTypeOrSelf(type), value));
}

Value MathEmitter::infinity(bool negative) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  return constantOf(
      b, loc, type,
      b.getFloatAttr(element,
                     APFloat::getInf(element.getFloatSemantics(), negative)));
}

Value MathEmitter::nan() {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  return constantOf(
      b, loc, type,
      b.getFloatAttr(element, APFloat::getNaN(element.getFloatSemantics())));
}

Value MathEmitter::integer(int64_t value) {
  Type integers = integerType();
  return constantOf(b, loc, integers,
                    b.getIntegerAttr(getElementTypeOrSelf(integers), value));
}

Value MathEmitter::yes() {
  return constantOf(b, loc, withLanesOf(b.getI1Type(), type),
                    b.getBoolAttr(true));
}

/// Multiply-adds may be contracted: expansions are right either way.
template <typename Op>
static Value contracted(OpBuilder &b, Location loc, Value x, Value y) {
  return Op::create(b, loc, x, y, arith::FastMathFlags::contract);
}

Value MathEmitter::add(Value x, Value y) {
  return contracted<arith::AddFOp>(b, loc, x, y);
}
Value MathEmitter::sub(Value x, Value y) {
  return contracted<arith::SubFOp>(b, loc, x, y);
}
Value MathEmitter::mul(Value x, Value y) {
  return contracted<arith::MulFOp>(b, loc, x, y);
}
Value MathEmitter::div(Value x, Value y) {
  return arith::DivFOp::create(b, loc, x, y);
}
Value MathEmitter::negate(Value x) { return arith::NegFOp::create(b, loc, x); }
Value MathEmitter::abs(Value x) { return math::AbsFOp::create(b, loc, x); }
Value MathEmitter::sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
Value MathEmitter::floor(Value x) { return math::FloorOp::create(b, loc, x); }

Value MathEmitter::less(Value x, Value y) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y);
}
Value MathEmitter::equal(Value x, Value y) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y);
}
Value MathEmitter::notEqual(Value x, Value y) {
  if (isa<IntegerType>(getElementTypeOrSelf(x)))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x, y);
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x, y);
}
Value MathEmitter::logicalAnd(Value x, Value y) {
  return arith::AndIOp::create(b, loc, x, y);
}
Value MathEmitter::logicalOr(Value x, Value y) {
  return arith::OrIOp::create(b, loc, x, y);
}
Value MathEmitter::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value MathEmitter::signBit(Value x) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, bitsOf(x),
                               integer(0));
}

Value MathEmitter::addInteger(Value value, int64_t other) {
  return arith::AddIOp::create(b, loc, value, integer(other));
}

Value MathEmitter::hasBit(Value value, int64_t bit) {
  Value masked =
      arith::AndIOp::create(b, loc, value, integer(int64_t(1) << bit));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked,
                               integer(0));
}

Value MathEmitter::clamp(Value x, double low, double high) {
  // In this order of operands x86 has one instruction for each.
  Value bottom = real(low), top = real(high);
  x = select(less(x, bottom), bottom, x);
  return select(less(top, x), top, x);
}

Value MathEmitter::clampByExtrema(Value x, double low, double high) {
  x = arith::MaximumFOp::create(b, loc, x, real(low));
  return arith::MinimumFOp::create(b, loc, x, real(high));
}

Value MathEmitter::exp2Approximate(Value x) {
  auto call = [&](Value one) -> Value {
    return LLVM::CallIntrinsicOp::create(
               b, loc, one.getType(),
               b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"), ValueRange(one))
        .getResult(0);
  };
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return call(x);
  // The instruction takes one number.
  auto elements = vector::ToElementsOp::create(b, loc, x);
  SmallVector<Value> made;
  for (Value element : elements.getResults())
    made.push_back(call(element));
  return vector::FromElementsOp::create(b, loc, vector, made);
}

Value MathEmitter::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = real(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = mulAdd(sum, x, real(coefficient));
  return sum;
}

std::pair<Value, Value> MathEmitter::roundToInteger(Value x) {
  // Adding 1.5 * 2^(bits of the mantissa) rounds to an integer, which the low
  // bits of the sum then hold.
  Value magic = real(isWide() ? 6755399441055744.0 : 12582912.0);
  Value sum = add(x, magic);
  return {sub(sum, magic), bitsOf(sum)};
}

Value MathEmitter::bitsOf(Value x) {
  return arith::BitcastOp::create(b, loc, integerType(), x);
}

Value MathEmitter::powerOfTwo(Value n, int64_t shift) {
  Value biased = arith::AddIOp::create(
      b, loc, n, integer((isWide() ? 1023 : 127) + shift));
  Value bits =
      arith::ShLIOp::create(b, loc, biased, integer(isWide() ? 52 : 23));
  return arith::BitcastOp::create(b, loc, type, bits);
}

std::pair<Value, Value> MathEmitter::splitExponent(Value x, int64_t lowest) {
  Value mantissa = integer(isWide() ? 52 : 23);
  Value bits = bitsOf(x);
  Value above = arith::SubIOp::create(b, loc, bits, integer(lowest));
  Value k = arith::ShRSIOp::create(b, loc, above, mantissa);
  Value rest = arith::SubIOp::create(
      b, loc, bits, arith::ShLIOp::create(b, loc, k, mantissa));
  return {arith::SIToFPOp::create(b, loc, type, k),
          arith::BitcastOp::create(b, loc, type, rest)};
}

MathEmitter MathEmitter::wide() {
  return MathEmitter(b, loc, withLanesOf(b.getF64Type(), type));
}
Value MathEmitter::extend(Value narrow) {
  return arith::ExtFOp::create(b, loc, type, narrow);
}
Value MathEmitter::truncate(Value value) {
  return arith::TruncFOp::create(b, loc, type, value);
}

Value MathEmitter::expWide(Value x) {
  x = clamp(x, -200.0, 200.0);
  auto [n, bits] = roundToInteger(mul(x, real(1.4426950408889634)));
  Value r = mulAdd(n, real(-0.69314718055994531), x);
  SmallVector<double> taylor = {1.0};
  for (int i = 1; i <= 12; ++i)
    taylor.push_back(taylor.back() / i);
  return mul(polynomial(r, taylor), powerOfTwo(bits, 0));
}

Value MathEmitter::logWide(Value x) {
  // log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172. Any float of 32
  // bits but 0 and infinity is a positive normal one of 64.
  auto [k, m] = splitExponent(x, 0x3fe6a09e667f3bcd);
  Value s = div(sub(m, real(1.0)), add(m, real(1.0)));
  SmallVector<double> series;
  for (int i = 1; i <= 21; i += 2)
    series.push_back(2.0 / i);
  Value y = mulAdd(k, real(0.69314718055994531),
                   mul(s, polynomial(mul(s, s), series)));
  y = select(equal(x, real(0.0)), infinity(true), y);
  return select(equal(x, infinity(false)), x, y);
}

} // namespace mpcomm::kernels
