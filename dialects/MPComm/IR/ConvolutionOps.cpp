//===- ConvolutionOps.cpp - convolutions, pools, batch norm ---------------===//
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
#include "mpcomm/Dialect/MPComm/IR/SlidingWindow.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t mpcomm::detail::countConvolutionFlops(Type filter, Type output) {
  auto shape = cast<ShapedType>(filter).getShape();
  int64_t products = 2;
  for (int64_t size : shape.drop_front())
    products = multiplySaturated(products, size);
  return multiplySaturated(products, countElements(output));
}

int64_t mpcomm::detail::countWindowFlops(ArrayRef<int64_t> window,
                                         Type windowed) {
  int64_t flops = countElements(windowed);
  for (int64_t size : window)
    flops = multiplySaturated(flops, size);
  return flops;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The windows of a convolution by `filter`, with that many entries of `sizes`
/// as the filter's rank allows.
template <typename Op>
static LogicalResult verifyConvolutionOp(Op op, Value input, Value filter,
                                         Value output) {
  auto filterType = cast<RankedTensorType>(filter.getType());
  auto sizes = filterType.getShape().take_back(
      std::min<int64_t>(2, filterType.getRank()));
  SlidingWindow windows{sizes,        op.getStrides(),  op.getLow(),
                        op.getHigh(), op.getDilation(), op.getChannelsLast()};
  return verifyConvolution(
      [&] { return op.emitOpError(); }, cast<ShapedType>(input.getType()),
      filterType, cast<ShapedType>(output.getType()), windows, op.getGroups());
}

LogicalResult ConvolutionOp::verify() {
  return verifyConvolutionOp(*this, getInput(), getFilter(), getResult());
}

LogicalResult ConvolutionInputGradOp::verify() { // C1
  return verifyConvolutionOp(*this, getResult(), getFilter(), getGrad());
}

LogicalResult ConvolutionFilterGradOp::verify() { // C1
  return verifyConvolutionOp(*this, getInput(), getResult(), getGrad());
}

Type ConvolutionOp::getAccumulationType() {
  return detail::getSumType(getElementTypeOrSelf(getResult().getType()));
}

Type ConvolutionInputGradOp::getAccumulationType() {
  return detail::getSumType(getElementTypeOrSelf(getResult().getType()));
}

Type ConvolutionFilterGradOp::getAccumulationType() {
  return detail::getSumType(getElementTypeOrSelf(getResult().getType()));
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

template <typename Op>
static LogicalResult verifyPoolOp(Op op, Value input, Value output) {
  static constexpr int64_t dense[] = {1, 1};
  SlidingWindow windows{op.getWindow(), op.getStrides(), op.getLow(),
                        op.getHigh(),   dense,           op.getChannelsLast()};
  return verifyPool([&] { return op.emitOpError(); },
                    cast<ShapedType>(input.getType()),
                    cast<ShapedType>(output.getType()), windows);
}

LogicalResult MaxPoolOp::verify() {
  return verifyPoolOp(*this, getInput(), getResult());
}

LogicalResult MaxPoolGradOp::verify() { // C1
  if (getInput().getType() != getResult().getType())
    return emitOpError() << "expects a result of type " << getInput().getType()
                         << ", got " << getResult().getType();
  return verifyPoolOp(*this, getInput(), getGrad());
}

LogicalResult AvgPoolOp::verify() { // C1
  return verifyPoolOp(*this, getInput(), getResult());
}

LogicalResult AvgPoolGradOp::verify() { // C1
  return verifyPoolOp(*this, getResult(), getGrad());
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

/// C1 and C2 of the batch norms; sets `features` to the type of what there is
/// one of a feature.
static LogicalResult inferFeatures(std::optional<Location> location,
                                   StringRef op, Type inputType,
                                   uint64_t featureDim, TypeRange perFeature,
                                   RankedTensorType &features) {
  auto input = dyn_cast<RankedTensorType>(inputType);
  if (!input || featureDim >= static_cast<uint64_t>(input.getRank())) // C1
    return inferError(location, op,
                      "expects 'feature_dim' to be a dimension of ", inputType,
                      ", got ", static_cast<int64_t>(featureDim));
  features = dyn_cast<RankedTensorType>(perFeature.front());
  bool valid =
      features && features.getRank() == 1 &&
      features.getDimSize(0) == input.getDimSize(featureDim) &&
      features.getElementTypeBitWidth() >= input.getElementTypeBitWidth();
  for (Type type : perFeature) // C2
    if (!valid || type != features)
      return inferError(location, op, "expects ", input.getDimSize(featureDim),
                        " elements, of one type no narrower than those of ",
                        input, ", for each feature, got ", type);
  return success();
}

LogicalResult BatchNormTrainingOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  RankedTensorType features;
  if (failed(inferFeatures(
          location, "batch_norm_training", adaptor.getInput().getType(),
          adaptor.getFeatureDim(),
          ValueRange{adaptor.getGamma(), adaptor.getBeta()}.getTypes(),
          features)))
    return failure();
  types.assign({adaptor.getInput().getType(), features, features});
  return success();
}

LogicalResult BatchNormInferenceOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  RankedTensorType features;
  if (failed(inferFeatures(location, "batch_norm_inference",
                           adaptor.getInput().getType(),
                           adaptor.getFeatureDim(),
                           ValueRange{adaptor.getGamma(), adaptor.getBeta(),
                                      adaptor.getMean(), adaptor.getVariance()}
                               .getTypes(),
                           features)))
    return failure();
  types.push_back(adaptor.getInput().getType());
  return success();
}

LogicalResult BatchNormGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  RankedTensorType features;
  Type input = adaptor.getInput().getType();
  if (failed(inferFeatures(location, "batch_norm_grad", input,
                           adaptor.getFeatureDim(),
                           ValueRange{adaptor.getGamma(), adaptor.getMean(),
                                      adaptor.getVariance()}
                               .getTypes(),
                           features)))
    return failure();
  if (adaptor.getGrad().getType() != input) // batch_norm_grad C3
    return inferError(location, "batch_norm_grad",
                      "expects a gradient of type ", input, ", got ",
                      adaptor.getGrad().getType());
  types.assign({input, features, features});
  return success();
}
