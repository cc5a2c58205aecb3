//===- WireFormat.h - how elements look while they travel -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Floats of f32 as a payload of fewer bits, with a scale for each block where
// the format has few exponents or none. What a format loses of a value is
// `value - decode(encode(value))`, which a compressor with error feedback adds
// to the next step's.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H

#include "mlir/IR/Builders.h"
#include <optional>

namespace mpcomm {

/// What stands for a tensor of f32.
struct Encoded {
  mlir::Value payload;
  /// One f32 for each block, or null where the format needs none.
  mlir::Value scales;
};

class WireFormat {
public:
  /// Elements that share a scale, where nobody says how many.
  static constexpr int64_t kBlock = 256;

  /// The formats by name, for messages.
  static constexpr llvm::StringLiteral kNames =
      "f16, bf16, i8, f8E4M3FN, f8E5M2, i4 or i1";
  /// `name` is one of them; nothing for others. `i4` has two elements in a
  /// byte; `i1` eight, of which there is the sign, with the mean magnitude of
  /// the block.
  static std::optional<WireFormat> get(mlir::MLIRContext *context,
                                       llvm::StringRef name);
  /// A format that casts to `type`, a float of 16 bits.
  explicit WireFormat(mlir::Type type)
      : type(type), bits(type.getIntOrFloatBitWidth()) {}

  /// Of the payload.
  mlir::Type getType() const { return type; }
  /// Elements of a block have to be a multiple of those in a byte.
  int64_t getElementsPerByte() const { return bits < 8 ? 8 / bits : 1; }
  /// Whether blocks have scales.
  bool isScaled() const { return limit != 0; }
  /// Bytes of `elements` elements in blocks of `block`, scales included.
  int64_t getBytes(int64_t elements, int64_t block) const;

  /// Of `value`, a ranked tensor of f32 whose last dimension is a block. Scales
  /// have the other dimensions. A value that is not finite makes its whole
  /// block NaN when it is decoded, in a scaled format.
  Encoded encode(mlir::OpBuilder &builder, mlir::Location loc,
                 mlir::Value value) const;
  /// The tensor of f32 again.
  mlir::Value decode(mlir::OpBuilder &builder, mlir::Location loc,
                     const Encoded &encoded) const;

private:
  mlir::Value pack(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value numbers) const;
  mlir::Value unpack(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value bytes) const;

  mlir::Type type;
  unsigned bits; // of an element
  /// The greatest magnitude of a scaled payload; 0 where it is not scaled.
  double limit = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_WIREFORMAT_H
