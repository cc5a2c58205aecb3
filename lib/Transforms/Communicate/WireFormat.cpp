//===- WireFormat.cpp - how elements look while they travel ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block's scale is its largest magnitude over the largest of the format, so
// that the largest element is kept to the last bit that the format has: the
// error of an element is at most half a step, scale / 2 for i8.
//
//===----------------------------------------------------------------------===//

#include "Communicate/WireFormat.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using namespace mpcomm;

std::optional<WireFormat> WireFormat::get(MLIRContext *context,
                                          StringRef name) {
  Builder builder(context);
  Type type = llvm::StringSwitch<Type>(name)
                  .Case("f16", builder.getF16Type())
                  .Case("bf16", builder.getBF16Type())
                  .Case("i8", builder.getI8Type())
                  .Case("f8E4M3FN", Float8E4M3FNType::get(context))
                  .Case("f8E5M2", Float8E5M2Type::get(context))
                  .Default(Type());
  if (!type)
    return std::nullopt;
  WireFormat format(type);
  if (type.isInteger(8))
    format.limit = 127;
  else if (auto narrow = cast<FloatType>(type); narrow.getWidth() == 8)
    format.limit =
        APFloat::getLargest(narrow.getFloatSemantics()).convertToDouble();
  return format;
}

int64_t WireFormat::getBytes(int64_t elements, int64_t block) const {
  int64_t payload = elements * type.getIntOrFloatBitWidth() / 8;
  return isScaled() ? payload + elements / block * 4 : payload;
}

static Value splat(OpBuilder &builder, Location loc, Value like,
                   double number) {
  auto type = cast<RankedTensorType>(like.getType());
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getFloatAttr(type.getElementType(), number)));
}

/// `scales`, repeated along the last dimension of `type`.
static Value repeat(OpBuilder &builder, Location loc, Value scales,
                    RankedTensorType type) {
  SmallVector<int64_t> dims(
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)));
  return BroadcastInDimOp::create(builder, loc, type, scales, dims);
}

Encoded WireFormat::encode(OpBuilder &builder, Location loc,
                           Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  if (!isScaled())
    return {castFloat(builder, loc, value, this->type), Value()};
  auto scaleType =
      RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
  Value magnitudes = math::AbsFOp::create(builder, loc, value);
  Value scales =
      ReduceOp::create(builder, loc, scaleType, Reduction::Max, magnitudes,
                       ArrayRef<int64_t>(type.getRank() - 1));
  scales = arith::MulFOp::create(builder, loc, scales,
                                 splat(builder, loc, scales, 1 / limit));
  // A block of zeros; NaN stays.
  scales = arith::MaximumFOp::create(
      builder, loc, scales,
      splat(builder, loc, scales, std::numeric_limits<float>::min()));
  Value scaled = arith::DivFOp::create(builder, loc, value,
                                       repeat(builder, loc, scales, type));
  // A quotient may round up over the limit, and NaN is no integer: where the
  // scale is NaN or infinite, the payload does not matter.
  scaled = arith::MaxNumFOp::create(builder, loc, scaled,
                                    splat(builder, loc, scaled, -limit));
  scaled = arith::MinNumFOp::create(builder, loc, scaled,
                                    splat(builder, loc, scaled, limit));
  auto payloadType = type.clone(this->type);
  if (isa<FloatType>(this->type))
    return {arith::TruncFOp::create(builder, loc, payloadType, scaled), scales};
  Value rounded = math::RoundEvenOp::create(builder, loc, scaled);
  return {arith::FPToSIOp::create(builder, loc, payloadType, rounded), scales};
}

Value WireFormat::decode(OpBuilder &builder, Location loc,
                         const Encoded &encoded) const {
  auto type = cast<RankedTensorType>(encoded.payload.getType())
                  .clone(builder.getF32Type());
  if (!isScaled())
    return castFloat(builder, loc, encoded.payload, builder.getF32Type());
  Value value;
  if (isa<FloatType>(this->type))
    value = arith::ExtFOp::create(builder, loc, type, encoded.payload);
  else
    value = arith::SIToFPOp::create(builder, loc, type, encoded.payload);
  return arith::MulFOp::create(
      builder, loc, value,
      repeat(builder, loc, encoded.scales, cast<RankedTensorType>(type)));
}
