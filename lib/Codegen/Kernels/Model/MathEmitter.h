//===- MathEmitter.h - arithmetic on lanes ----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short names for arithmetic on a scalar or vector of f32 or f64, and the steps
// that expansions of math functions share.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_MATHEMITTER_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_MATHEMITTER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mpcomm::kernels {

class MathEmitter {
public:
  /// Emits at `b` on values of `type`: f32, f64 or vectors of them.
  MathEmitter(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type)
      : b(b), loc(loc), type(type) {}

  using Value = mlir::Value;

  Value real(double value);
  Value infinity(bool negative);
  Value nan();
  Value integer(int64_t value);
  Value yes();

  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  /// x * y + z, in one rounding where the machine can.
  Value mulAdd(Value x, Value y, Value z) { return add(mul(x, y), z); }
  Value negate(Value x);
  Value abs(Value x);
  Value sqrt(Value x);
  Value floor(Value x);
  Value less(Value x, Value y);
  Value equal(Value x, Value y);
  Value notEqual(Value x, Value y); ///< floats (true on NaN) or bools
  Value logicalAnd(Value x, Value y);
  Value logicalOr(Value x, Value y);
  Value select(Value condition, Value x, Value y);
  Value signBit(Value x);
  /// Of integers, as roundToInteger gives them.
  Value addInteger(Value integer, int64_t value);
  Value hasBit(Value integer, int64_t bit);

  /// x limited to [low, high]; NaN stays.
  Value clamp(Value x, double low, double high);
  /// The same by two instructions where the machine's minimum keeps NaN.
  Value clampByExtrema(Value x, double low, double high);
  /// 2^x to within 2^-22 relative, by NVIDIA's ex2.approx.
  Value exp2Approximate(Value x);
  /// c[0] + c[1] x + ..., by Horner's rule.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);
  /// The nearest integer, |x| < 2^21 (f64: 2^50), as a float and as an integer
  /// whose low bits are its two's complement.
  std::pair<Value, Value> roundToInteger(Value x);
  /// The bits of a float as such an integer.
  Value bitsOf(Value x);
  /// 2^(n + shift), n as roundToInteger gives it; 0 at the lowest exponent.
  Value powerOfTwo(Value integer, int64_t shift);
  /// x = 2^k m for positive normal x, with m from `lowest` (the bits of a
  /// float in [1/2, 1)) to twice that; k is a float.
  std::pair<Value, Value> splitExponent(Value x, int64_t lowest);

  /// An emitter of f64 with as many lanes, and casts between the two.
  MathEmitter wide();
  Value extend(Value narrow);  ///< of the wide emitter
  Value truncate(Value value); ///< of the narrow emitter
  /// f64, to within some 1e-14 relative: what rounding to f32 needs. exp takes
  /// arguments beyond +-200 as +-200.
  Value expWide(Value x);
  Value logWide(Value x);

private:
  bool isWide() const;
  mlir::Type integerType() const;

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_MATHEMITTER_H
