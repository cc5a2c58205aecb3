//===- WireFormat.h - how elements look while they travel -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Floats of f32 as a payload of fewer bits, with a scale for each block where
// the format has few exponents or none, or as the largest of each block, with
// its place. What a format loses of a value is
// `value - decode(encode(value))`, which a compressor with error feedback adds
// to the next step's.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H

#include "mlir/IR/Builders.h"
#include <optional>
#include <vector>

namespace mpcomm {

/// What stands for a tensor of f32.
struct Encoded {
  mlir::Value payload;
  /// One f32 for each block, a scale; or one i8, the place of the payload in
  /// the block; or null where the format needs neither.
  mlir::Value ofBlocks;
};

class WireFormat {
public:
  /// Elements that share a scale, where nobody says how many.
  static constexpr int64_t kBlock = 256;

  /// The formats by name, for messages.
  static constexpr llvm::StringLiteral kNames =
      "f16, bf16, i8, f8E4M3FN, f8E5M2, i4, i1 or top1of8 to top1of256, or "
      "several of these with slashes between";
  /// `name` is one of them, in blocks of `block` elements; nothing for others.
  /// `i4` has two elements in a byte; `i1` eight, of which there is the sign,
  /// with the mean magnitude of the block; `top1ofN`, for powers of two, one
  /// bf16 of N elements, that of the largest magnitude, and 0 stands for the
  /// others; its blocks are these.
  static std::optional<WireFormat>
  get(mlir::MLIRContext *context, llvm::StringRef name, int64_t block = kBlock);
  /// Several names with slashes between, in their order; nothing if one of them
  /// is no format, or is there twice.
  static std::optional<std::vector<WireFormat>>
  getAll(mlir::MLIRContext *context, llvm::StringRef names,
         int64_t block = kBlock);
  /// A format that casts to `type`, a float of 16 bits.
  explicit WireFormat(mlir::Type type, int64_t block = kBlock)
      : type(type), bits(type.getIntOrFloatBitWidth()), block(block) {}

  /// Of the payload.
  mlir::Type getType() const { return type; }
  /// The name that gives this format.
  std::string getName() const;
  /// Elements of a block have to be a multiple of those in a byte.
  int64_t getElementsPerByte() const { return bits < 8 ? 8 / bits : 1; }
  int64_t getBlock() const { return block; }
  /// Whether there is something of each block beside the payload.
  bool hasBlocks() const { return limit != 0 || isSparse; }
  /// Bytes of `elements` elements in whole blocks, with what there is of these.
  int64_t getBytes(int64_t elements) const;

  /// Of `value`, a ranked tensor of f32 whose last dimension is a block. What
  /// there is of blocks has the other dimensions, as has the payload of one
  /// element of a block. A value that is not finite makes its whole block NaN
  /// when it is decoded, in a scaled format; of one element of a block, what is
  /// decoded has an element that is not finite.
  Encoded encode(mlir::OpBuilder &builder, mlir::Location loc,
                 mlir::Value value) const;
  /// The tensor of f32 again.
  mlir::Value decode(mlir::OpBuilder &builder, mlir::Location loc,
                     const Encoded &encoded) const;

private:
  Encoded encodeLargest(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value) const;
  mlir::Value decodeLargest(mlir::OpBuilder &builder, mlir::Location loc,
                            const Encoded &encoded) const;
  mlir::Value pack(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value numbers) const;
  mlir::Value unpack(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value bytes) const;

  mlir::Type type;
  unsigned bits; // of an element of the payload
  int64_t block;
  /// The greatest magnitude of a scaled payload; 0 where it is not scaled.
  double limit = 0;
  /// Whether one element of a block is sent.
  bool isSparse = false;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H
