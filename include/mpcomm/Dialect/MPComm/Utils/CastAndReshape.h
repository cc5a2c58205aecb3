//===- CastAndReshape.h - values of other types -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Casts and reshapes around collectives that passes rewrite or lower. No op is
// created if the type does not change.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_UTILS_CASTANDRESHAPE_H
#define MPCOMM_DIALECT_MPCOMM_UTILS_CASTANDRESHAPE_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// Casts the elements of `value`, a scalar or a tensor, to the float type
/// `element`. Returns `value` if they have that type or are not floats.
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

/// `scalar`, a tensor of rank 0, for all elements of the shape of `type`;
/// itself where that has no dimensions.
inline mlir::Value broadcastScalar(mlir::OpBuilder &builder, mlir::Location loc,
                                   mlir::Value scalar,
                                   mlir::RankedTensorType type) {
  if (type.getRank() == 0)
    return scalar;
  return BroadcastInDimOp::create(
      builder, loc, type.clone(mlir::getElementTypeOrSelf(scalar.getType())),
      scalar, llvm::ArrayRef<int64_t>());
}

/// Reshapes `value`, a ranked tensor, to `shape` in row-major order. Returns
/// `value` if it has that shape.
inline mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, llvm::ArrayRef<int64_t> shape) {
  auto type = mlir::RankedTensorType::get(
      shape, mlir::getElementTypeOrSelf(value.getType()));
  if (type == value.getType())
    return value;
  return ReshapeOp::create(builder, loc, type, value);
}

/// The elements of `value`, a ranked tensor, in row-major order, with zeros
/// behind, `count` in all.
inline mlir::Value flattenTo(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value value, int64_t count) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  int64_t elements = type.getNumElements();
  mlir::Value flat = reshapeTo(builder, loc, value, {elements});
  if (count == elements)
    return flat;
  auto scalar = mlir::RankedTensorType::get({}, type.getElementType());
  mlir::Value zero = mlir::arith::ConstantOp::create(
      builder, loc,
      mlir::cast<mlir::TypedAttr>(builder.getZeroAttr(scalar)));
  return PadOp::create(builder, loc, flat, zero, llvm::ArrayRef<int64_t>(0),
                       llvm::ArrayRef<int64_t>(count - elements),
                       llvm::ArrayRef<int64_t>(0));
}

/// The first elements of `flat`, of one dimension, as a tensor of `shape`.
inline mlir::Value unflattenTo(mlir::OpBuilder &builder, mlir::Location loc,
                               mlir::Value flat,
                               llvm::ArrayRef<int64_t> shape) {
  auto type = mlir::cast<mlir::RankedTensorType>(flat.getType());
  int64_t elements = mlir::ShapedType::getNumElements(shape);
  if (type.getNumElements() != elements)
    flat = SliceOp::create(builder, loc, type.clone({elements}), flat,
                           llvm::ArrayRef<int64_t>(0),
                           llvm::ArrayRef<int64_t>(elements),
                           llvm::ArrayRef<int64_t>(1));
  return reshapeTo(builder, loc, flat, shape);
}

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_UTILS_CASTANDRESHAPE_H
