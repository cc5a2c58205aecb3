//===- Scalars.h - arithmetic in bodies of linalg ops --------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_SCALARS_H
#define MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_SCALARS_H

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mpcomm {

/// Arithmetic on scalars of one float type.
struct Scalars {
  mlir::ImplicitLocOpBuilder &b;
  mlir::Type type;

  mlir::Value constant(double value) {
    return makeConstant(b, b.getLoc(), type, value);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddFOp::create(b, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubFOp::create(b, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulFOp::create(b, x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return mlir::arith::DivFOp::create(b, x, y);
  }
  mlir::Value scale(double factor, mlir::Value x) {
    return mul(constant(factor), x);
  }
  mlir::Value cast(mlir::Value x) { return castFloat(b, b.getLoc(), x, type); }
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_SCALARS_H
