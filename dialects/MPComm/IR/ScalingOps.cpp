//===- ScalingOps.cpp - loss scaling, clipping, dropout -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;

static bool isF32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

static SmallVector<OpOperand *> collect(MutableOperandRange operands) {
  SmallVector<OpOperand *> list;
  for (OpOperand &operand : operands)
    list.push_back(&operand);
  return list;
}

/// Each gradient leaves as the result of its number.
static OpResult handOn(Operation *op, OpOperand &gradient,
                       MutableOperandRange gradients) {
  unsigned index = gradient.getOperandNumber();
  return index < gradients.size() ? op->getResult(index) : OpResult();
}

//===----------------------------------------------------------------------===//
// GradientOp
//===----------------------------------------------------------------------===//

SmallVector<OpOperand *> GradientOp::getGradientOperands() {
  return {&getGradMutable()};
}

OpResult GradientOp::getHandedOn(OpOperand &) {
  return cast<OpResult>(getResult());
}

//===----------------------------------------------------------------------===//
// UnscaleOp
//===----------------------------------------------------------------------===//

LogicalResult UnscaleOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  if (adaptor.getGrads().empty()) // unscale C1
    return inferError(location, "unscale", "expects at least one gradient");
  if (!isF32(adaptor.getScale())) // unscale C2
    return inferError(location, "unscale", "expects a scale of f32, got ",
                      adaptor.getScale().getType());
  for (Value gradient : adaptor.getGrads()) {
    auto type = cast<RankedTensorType>(gradient.getType());
    types.push_back(type.clone(detail::getSumType(type.getElementType())));
  }
  SmallVector<int64_t> shape;
  if (adaptor.getEach())
    shape.push_back(adaptor.getGrads().size());
  types.push_back(RankedTensorType::get(shape, Float32Type::get(context)));
  return success();
}

SmallVector<OpOperand *> UnscaleOp::getGradientOperands() {
  return collect(getGradsMutable());
}

OpResult UnscaleOp::getHandedOn(OpOperand &gradient) {
  return handOn(*this, gradient, getGradsMutable());
}

//===----------------------------------------------------------------------===//
// SquaredNormOp
//===----------------------------------------------------------------------===//

LogicalResult SquaredNormOp::inferReturnTypes(MLIRContext *context,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (adaptor.getGrads().empty()) // squared_norm C1
    return inferError(location, "squared_norm",
                      "expects at least one gradient");
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

SmallVector<OpOperand *> SquaredNormOp::getGradientOperands() {
  return collect(getGradsMutable());
}

//===----------------------------------------------------------------------===//
// ClipByGlobalNormOp
//===----------------------------------------------------------------------===//

LogicalResult ClipByGlobalNormOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  if (adaptor.getGrads().empty()) // clip_by_global_norm C1
    return inferError(location, "clip_by_global_norm",
                      "expects at least one gradient");
  double norm = adaptor.getMaxNorm().convertToDouble();
  if (!(norm > 0) || !std::isfinite(norm)) // clip_by_global_norm C2
    return inferError(location, "clip_by_global_norm",
                      "expects a positive finite 'max_norm', got ",
                      adaptor.getMaxNormAttr());
  if (Value given = adaptor.getGivenNorm(); given && !isF32(given))
    return inferError(location, "clip_by_global_norm", // clip_by_global_norm C3
                      "expects a norm of f32, got ", given.getType());
  llvm::append_range(types, TypeRange(adaptor.getGrads()));
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

SmallVector<OpOperand *> ClipByGlobalNormOp::getGradientOperands() {
  return collect(getGradsMutable());
}

OpResult ClipByGlobalNormOp::getHandedOn(OpOperand &gradient) {
  return handOn(*this, gradient, getGradsMutable());
}

//===----------------------------------------------------------------------===//
// UpdateLossScaleOp
//===----------------------------------------------------------------------===//

LogicalResult UpdateLossScaleOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto error = [&](auto &&...what) {
    return inferError(location, "update_loss_scale", what...);
  };
  for (Value value : {adaptor.getScale(), adaptor.getFound()})
    if (!isF32(value)) // update_loss_scale C1
      return error("expects scale and found of f32, got ", value.getType());
  double growth = adaptor.getGrowth().convertToDouble();
  double backoff = adaptor.getBackoff().convertToDouble();
  double min = adaptor.getMin().convertToDouble();
  double max = adaptor.getMax().convertToDouble();
  bool ordered =
      growth >= 1 && backoff > 0 && backoff <= 1 && min >= 0 && min <= max;
  if (!ordered || !std::isfinite(growth) ||
      !std::isfinite(max)) // update_loss_scale C2
    return error("expects finite numbers with growth >= 1, 0 < backoff <= 1, "
                 "0 <= min <= max");
  for (uint64_t count : {adaptor.getInterval(), adaptor.getHysteresis()})
    if (count == 0 || count > INT32_MAX) // update_loss_scale C3
      return error("expects an interval and a hysteresis in [1, ", INT32_MAX,
                   "], got ", int64_t(count));
  types.append({adaptor.getScale().getType(), adaptor.getGood().getType(),
                adaptor.getHyst().getType()});
  return success();
}

//===----------------------------------------------------------------------===//
// UpdateFp8ScaleOp
//===----------------------------------------------------------------------===//

LogicalResult UpdateFp8ScaleOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto error = [&](auto &&...what) {
    return inferError(location, "update_fp8_scale", what...);
  };
  auto history = cast<RankedTensorType>(adaptor.getHistory().getType());
  if (!history.getElementType().isF32() || history.getRank() != 1 ||
      history.getDimSize(0) < 1) // update_fp8_scale C1
    return error("expects a history of type tensor<nxf32> with n >= 1, got ",
                 history);
  for (Value value : {adaptor.getScale(), adaptor.getAmax()})
    if (!isF32(value)) // update_fp8_scale C2
      return error("expects scale and amax of f32, got ", value.getType());
  auto format = dyn_cast<FloatType>(adaptor.getFormat());
  if (!format || format.getWidth() != 8) // update_fp8_scale C3
    return error("expects a float type of 8 bits as 'format', got ",
                 adaptor.getFormat());
  auto margin = static_cast<int64_t>(adaptor.getMargin());
  if (margin < -64 || margin > 64) // update_fp8_scale C4
    return error("expects a margin in [-64, 64], got ", margin);
  types.append({history, adaptor.getScale().getType()});
  return success();
}

//===----------------------------------------------------------------------===//
// DropoutOp, DropoutGradOp
//===----------------------------------------------------------------------===//

/// C1 and C2 of both.
static LogicalResult checkMask(std::optional<Location> location, StringRef op,
                               const APFloat &p, uint64_t id) {
  double probability = p.convertToDouble();
  if (!(probability >= 0 && probability <= 1))
    return inferError(location, op, "expects 'p' in [0, 1], got ", probability);
  if (id > UINT32_MAX)
    return inferError(location, op, "expects 'id' in [0, 2^32), got ",
                      int64_t(id));
  return success();
}

LogicalResult DropoutOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkMask(location, "dropout", adaptor.getP(),
                   adaptor.getId()); // dropout C1, dropout C2
}

LogicalResult DropoutGradOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getGrad().getType());
  return checkMask(location, "dropout_grad", adaptor.getP(),
                   adaptor.getId()); // dropout_grad C1, dropout_grad C2
}
