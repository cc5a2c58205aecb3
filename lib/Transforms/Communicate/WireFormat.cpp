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
#include "mlir/Support/DebugStringHelper.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using namespace mpcomm;

/// Elements of a block in `top1ofN`; 0 for other names.
static int64_t getSparseBlock(StringRef name) {
  int64_t block = 0;
  if (!name.consume_front("top1of") || name.starts_with("0") ||
      name.getAsInteger(10, block) || block < 8 || block > 256 ||
      !llvm::isPowerOf2_64(block))
    return 0;
  return block;
}

std::optional<WireFormat> WireFormat::get(MLIRContext *context, StringRef name,
                                          int64_t block) {
  Builder builder(context);
  if (int64_t sparse = getSparseBlock(name)) {
    WireFormat format(builder.getBF16Type(), sparse);
    format.isSparse = true;
    return format;
  }
  Type type = llvm::StringSwitch<Type>(name)
                  .Case("f16", builder.getF16Type())
                  .Case("bf16", builder.getBF16Type())
                  .Cases({"i8", "i4", "i1"}, builder.getI8Type())
                  .Case("f8E4M3FN", Float8E4M3FNType::get(context))
                  .Case("f8E5M2", Float8E5M2Type::get(context))
                  .Default(Type());
  if (!type)
    return std::nullopt;
  WireFormat format(type, block);
  if (type.isInteger(8)) {
    name.drop_front().getAsInteger(10, format.bits);
    format.limit = (1 << (format.bits - 1)) - 1;
    // A sign stands for the mean magnitude.
    if (format.bits == 1)
      format.limit = 1;
  }
  if (auto narrow = dyn_cast<FloatType>(type); narrow && narrow.getWidth() == 8)
    format.limit =
        APFloat::getLargest(narrow.getFloatSemantics()).convertToDouble();
  return format;
}

std::optional<std::vector<WireFormat>>
WireFormat::getAll(MLIRContext *context, StringRef names, int64_t block) {
  std::vector<WireFormat> formats;
  for (StringRef name : llvm::split(names, '/')) {
    std::optional<WireFormat> format = get(context, name, block);
    bool isNew = format && llvm::none_of(formats, [&](const WireFormat &one) {
                   return one.getName() == format->getName();
                 });
    if (!isNew)
      return std::nullopt;
    formats.push_back(*format);
  }
  return formats;
}

std::string WireFormat::getName() const {
  if (isSparse)
    return "top1of" + std::to_string(block);
  if (type.isInteger(8))
    return "i" + std::to_string(bits);
  return mlir::debugString(type);
}

int64_t WireFormat::getBytes(int64_t elements) const {
  if (isSparse)
    return elements / block * 3;
  int64_t payload = elements * bits / 8;
  return hasBlocks() ? payload + elements / block * 4 : payload;
}

static Value splat(OpBuilder &builder, Location loc, Value like,
                   double number) {
  auto type = cast<RankedTensorType>(like.getType());
  Type element = type.getElementType();
  TypedAttr value;
  if (isa<FloatType>(element))
    value = builder.getFloatAttr(element, number);
  else
    value = builder.getIntegerAttr(element, static_cast<int64_t>(number));
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, Attribute(value)));
}

/// `scales`, repeated along the last dimension of `type`.
static Value repeat(OpBuilder &builder, Location loc, Value scales,
                    RankedTensorType type) {
  SmallVector<int64_t> dims(
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)));
  return BroadcastInDimOp::create(builder, loc, type, scales, dims);
}

/// Part `part` of `parts` of the last dimension.
static Value slicePart(OpBuilder &builder, Location loc, Value value,
                       int64_t part, int64_t parts) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
      strides(type.getRank(), 1);
  int64_t width = limits.back() / parts;
  starts.back() = part * width;
  limits.back() = starts.back() + width;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = width;
  return SliceOp::create(builder, loc, type.clone(shape), value, starts, limits,
                         strides);
}

/// The low bits of `numbers`, i8. Byte i of a block has its elements i, i +
/// width, i + 2 width and so on: neighbours stay neighbours.
Value WireFormat::pack(OpBuilder &builder, Location loc, Value numbers) const {
  Value bytes;
  for (int64_t part = 0, parts = getElementsPerByte(); part < parts; ++part) {
    Value some = slicePart(builder, loc, numbers, part, parts);
    some = arith::AndIOp::create(builder, loc, some,
                                 splat(builder, loc, some, (1 << bits) - 1));
    if (part)
      some = arith::ShLIOp::create(builder, loc, some,
                                   splat(builder, loc, some, part * bits));
    bytes = bytes ? arith::OrIOp::create(builder, loc, bytes, some) : some;
  }
  return bytes;
}

/// The numbers again, with their signs.
Value WireFormat::unpack(OpBuilder &builder, Location loc, Value bytes) const {
  auto type = cast<RankedTensorType>(bytes.getType());
  SmallVector<Value> parts;
  for (int64_t part = 0, count = getElementsPerByte(); part < count; ++part) {
    Value some = bytes;
    if (int64_t above = 8 - bits * (part + 1))
      some = arith::ShLIOp::create(builder, loc, some,
                                   splat(builder, loc, some, above));
    parts.push_back(arith::ShRSIOp::create(
        builder, loc, some, splat(builder, loc, some, 8 - bits)));
  }
  SmallVector<int64_t> shape(type.getShape());
  shape.back() *= parts.size();
  return ConcatenateOp::create(builder, loc, type.clone(shape), parts,
                               type.getRank() - 1);
}

/// The places of a block's elements, along the last dimension of `shape`.
static Value placesIn(OpBuilder &builder, Location loc,
                      ArrayRef<int64_t> shape) {
  return IotaOp::create(builder, loc,
                        RankedTensorType::get(shape, builder.getI32Type()),
                        static_cast<int64_t>(shape.size()) - 1);
}

/// Of equals the first is sent.
Encoded WireFormat::encodeLargest(OpBuilder &builder, Location loc,
                                  Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> last = {type.getRank() - 1};
  auto ofBlocks = [&](Type element) {
    return RankedTensorType::get(type.getShape().drop_back(), element);
  };
  Value magnitudes = math::AbsFOp::create(builder, loc, value);
  Value largest =
      ReduceOp::create(builder, loc, ofBlocks(type.getElementType()),
                       Reduction::Max, magnitudes, last);
  Value isLargest =
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, magnitudes,
                            repeat(builder, loc, largest, type));
  Value places = placesIn(builder, loc, type.getShape());
  Type i32 = builder.getI32Type();
  // The largest is no number where an element is none: any place is right.
  Value place = ReduceOp::create(
      builder, loc, ofBlocks(i32), Reduction::Min,
      arith::SelectOp::create(
          builder, loc, isLargest, places,
          splat(builder, loc, places, static_cast<double>(block - 1))),
      last);
  Value isSent = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::eq, places,
      repeat(builder, loc, place, cast<RankedTensorType>(places.getType())));
  Value sent = ReduceOp::create(
      builder, loc, ofBlocks(type.getElementType()), Reduction::Sum,
      arith::SelectOp::create(builder, loc, isSent, value,
                              splat(builder, loc, value, 0)),
      last);
  Value isFinite = arith::CmpFOp::create(
      builder, loc, arith::CmpFPredicate::OLT, largest,
      splat(builder, loc, largest, std::numeric_limits<double>::infinity()));
  sent = arith::SelectOp::create(builder, loc, isFinite, sent, largest);
  return {castFloat(builder, loc, sent, this->type),
          arith::TruncIOp::create(builder, loc, ofBlocks(builder.getI8Type()),
                                  place)};
}

Value WireFormat::decodeLargest(OpBuilder &builder, Location loc,
                                const Encoded &encoded) const {
  Value sent = castFloat(builder, loc, encoded.payload, builder.getF32Type());
  auto blocks = cast<RankedTensorType>(sent.getType());
  SmallVector<int64_t> shape(blocks.getShape());
  shape.push_back(block);
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  Value places = placesIn(builder, loc, shape);
  Value place = arith::ExtUIOp::create(
      builder, loc, blocks.clone(builder.getI32Type()), encoded.ofBlocks);
  Value isSent = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::eq, places,
      repeat(builder, loc, place, cast<RankedTensorType>(places.getType())));
  Value values = repeat(builder, loc, sent, type);
  return arith::SelectOp::create(builder, loc, isSent, values,
                                 splat(builder, loc, values, 0));
}

Encoded WireFormat::encode(OpBuilder &builder, Location loc,
                           Value value) const {
  if (isSparse)
    return encodeLargest(builder, loc, value);
  auto type = cast<RankedTensorType>(value.getType());
  if (!hasBlocks())
    return {castFloat(builder, loc, value, this->type), Value()};
  auto scaleType =
      RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
  Value magnitudes = math::AbsFOp::create(builder, loc, value);
  bool isSign = bits == 1;
  Value scales = ReduceOp::create(
      builder, loc, scaleType, isSign ? Reduction::Sum : Reduction::Max,
      magnitudes, ArrayRef<int64_t>(type.getRank() - 1));
  double divisor = isSign ? static_cast<double>(type.getShape().back()) : limit;
  scales = arith::MulFOp::create(builder, loc, scales,
                                 splat(builder, loc, scales, 1 / divisor));
  if (isSign) {
    Value isNegative =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, value,
                              splat(builder, loc, value, 0));
    Value sign = arith::ExtUIOp::create(builder, loc, type.clone(this->type),
                                        isNegative);
    return {pack(builder, loc, sign), scales};
  }
  // A block of zeros; NaN stays.
  scales = arith::MaximumFOp::create(
      builder, loc, scales,
      splat(builder, loc, scales, std::numeric_limits<float>::min()));
  // One division a block. 1 / the least scale is still finite.
  Value factors = arith::DivFOp::create(builder, loc,
                                        splat(builder, loc, scales, 1), scales);
  Value scaled = arith::MulFOp::create(builder, loc, value,
                                       repeat(builder, loc, factors, type));
  // A product may round up over the limit, and NaN is no integer: where the
  // scale is NaN or infinite, the payload does not matter.
  scaled = arith::MaxNumFOp::create(builder, loc, scaled,
                                    splat(builder, loc, scaled, -limit));
  scaled = arith::MinNumFOp::create(builder, loc, scaled,
                                    splat(builder, loc, scaled, limit));
  auto payloadType = type.clone(this->type);
  if (isa<FloatType>(this->type))
    return {arith::TruncFOp::create(builder, loc, payloadType, scaled), scales};
  Value rounded = math::RoundEvenOp::create(builder, loc, scaled);
  Value numbers = arith::FPToSIOp::create(builder, loc, payloadType, rounded);
  return {bits < 8 ? pack(builder, loc, numbers) : numbers, scales};
}

Value WireFormat::decode(OpBuilder &builder, Location loc,
                         const Encoded &encoded) const {
  if (isSparse)
    return decodeLargest(builder, loc, encoded);
  Value payload = encoded.payload;
  if (bits < 8)
    payload = unpack(builder, loc, payload);
  auto type =
      cast<RankedTensorType>(payload.getType()).clone(builder.getF32Type());
  if (!hasBlocks())
    return castFloat(builder, loc, encoded.payload, builder.getF32Type());
  Value value;
  if (isa<FloatType>(this->type))
    value = arith::ExtFOp::create(builder, loc, type, payload);
  else
    value = arith::SIToFPOp::create(builder, loc, type, payload);
  // 0 and -1 stand for 1 and -1.
  if (bits == 1) {
    value = arith::AddFOp::create(builder, loc, value, value);
    value = arith::AddFOp::create(builder, loc, value,
                                  splat(builder, loc, value, 1));
  }
  return arith::MulFOp::create(
      builder, loc, value,
      repeat(builder, loc, encoded.ofBlocks, cast<RankedTensorType>(type)));
}
