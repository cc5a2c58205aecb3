//===- Combine.h - two elements of a reduction ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic of the enumeration Reduction.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_UTILS_COMBINE_H
#define MPCOMM_DIALECT_MPCOMM_UTILS_COMBINE_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// An `arith` op on two scalars or vectors of the same type for `reduction`.
inline mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                           Reduction reduction, mlir::Value lhs,
                           mlir::Value rhs) {
  using namespace mlir;
  Type element = getElementTypeOrSelf(lhs);
  bool isFloat = isa<FloatType>(element);
  bool isBool = element.isInteger(1);
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Mean:
    if (isFloat)
      return arith::AddFOp::create(builder, loc, lhs, rhs);
    if (isBool)
      return arith::OrIOp::create(builder, loc, lhs, rhs);
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case Reduction::Prod:
    if (isFloat)
      return arith::MulFOp::create(builder, loc, lhs, rhs);
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case Reduction::Min:
    if (isFloat)
      return arith::MinimumFOp::create(builder, loc, lhs, rhs);
    if (isBool)
      return arith::MinUIOp::create(builder, loc, lhs, rhs);
    return arith::MinSIOp::create(builder, loc, lhs, rhs);
  case Reduction::Max:
    if (isFloat)
      return arith::MaximumFOp::create(builder, loc, lhs, rhs);
    if (isBool)
      return arith::MaxUIOp::create(builder, loc, lhs, rhs);
    return arith::MaxSIOp::create(builder, loc, lhs, rhs);
  }
  llvm_unreachable("unknown reduction");
}

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_UTILS_COMBINE_H
