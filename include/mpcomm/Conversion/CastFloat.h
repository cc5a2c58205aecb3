//===- CastFloat.h - between float types ------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CONVERSION_CASTFLOAT_H
#define MPCOMM_CONVERSION_CASTFLOAT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpcomm {

/// `value`, a scalar or a tensor, with floats of type `element` for its
/// elements; itself where they are, or are no floats.
inline mlir::Value castFloat(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, mlir::Type element) {
  auto from =
      mlir::dyn_cast<mlir::FloatType>(mlir::getElementTypeOrSelf(value));
  auto to = mlir::dyn_cast<mlir::FloatType>(element);
  if (!from || !to || from == to)
    return value;
  auto typeOf = [&](mlir::Type scalar) -> mlir::Type {
    auto shaped = mlir::dyn_cast<mlir::ShapedType>(value.getType());
    return shaped ? mlir::Type(shaped.clone(scalar)) : scalar;
  };
  // Two formats of one width meet in f32, which holds both.
  if (from.getWidth() == to.getWidth())
    value = mlir::arith::ExtFOp::create(builder, loc,
                                        typeOf(builder.getF32Type()), value);
  if (from.getWidth() < to.getWidth())
    return mlir::arith::ExtFOp::create(builder, loc, typeOf(to), value);
  return mlir::arith::TruncFOp::create(builder, loc, typeOf(to), value);
}

} // namespace mpcomm

#endif // MPCOMM_CONVERSION_CASTFLOAT_H
