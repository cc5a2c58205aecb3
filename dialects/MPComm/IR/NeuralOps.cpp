//===- NeuralOps.cpp - layers, losses and their gradients -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Softmax and its kin
//===----------------------------------------------------------------------===//

/// C1 of softmax, softmax_grad, log_softmax and log_softmax_grad.
static LogicalResult verifyAlongDim(Operation *op, int64_t dim) {
  int64_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
  if (dim < 0 || dim >= rank)
    return op->emitOpError()
           << "expects 'dim' in [0, " << rank << "), got " << dim;
  return success();
}

LogicalResult SoftmaxOp::verify() { return verifyAlongDim(*this, getDim()); }
LogicalResult SoftmaxGradOp::verify() {
  return verifyAlongDim(*this, getDim());
}
LogicalResult LogSoftmaxOp::verify() { return verifyAlongDim(*this, getDim()); }
LogicalResult LogSoftmaxGradOp::verify() {
  return verifyAlongDim(*this, getDim());
}

//===----------------------------------------------------------------------===//
// Layer norm
//===----------------------------------------------------------------------===//

/// True where `gamma` has the shape of the trailing dimensions of `input`, at
/// least one.
static bool isTrailing(RankedTensorType input, RankedTensorType gamma) {
  return gamma.getRank() >= 1 && gamma.getRank() <= input.getRank() &&
         input.getShape().take_back(gamma.getRank()) == gamma.getShape();
}

static RankedTensorType leadingType(RankedTensorType input,
                                    RankedTensorType gamma) {
  return RankedTensorType::get(input.getShape().drop_back(gamma.getRank()),
                               input.getElementType());
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  auto gamma = dyn_cast<RankedTensorType>(adaptor.getGamma().getType());
  auto beta = dyn_cast<RankedTensorType>(adaptor.getBeta().getType());
  if (!input || !gamma || !beta)
    return inferError(location, "layer_norm", "expects ranked tensors");
  if (!isTrailing(input, gamma) ||
      gamma.getShape() != beta.getShape()) // layer_norm C1
    return inferError(location, "layer_norm",
                      "expects gamma and beta of the trailing dimensions of ",
                      input, ", got ", gamma, " and ", beta);
  if (gamma.getElementType() != input.getElementType() ||
      beta.getElementType() != input.getElementType()) // layer_norm C2
    return inferError(location, "layer_norm", "expects one element type, got ",
                      input, ", ", gamma, " and ", beta);
  RankedTensorType leading = leadingType(input, gamma);
  types.assign({input, leading, leading});
  return success();
}

/// C1 to C3 of layer_norm_grad and rms_norm_grad; `statistics` of rows are what
/// the norm gave besides its result.
static LogicalResult verifyNormGrad(std::optional<Location> location,
                                    StringRef op, Value grad, Value of,
                                    Value by, ValueRange statistics) {
  auto input = dyn_cast<RankedTensorType>(of.getType());
  auto gamma = dyn_cast<RankedTensorType>(by.getType());
  if (!input || !gamma)
    return inferError(location, op, "expects ranked tensors");
  if (!isTrailing(input, gamma) ||
      gamma.getElementType() != input.getElementType()) // C1
    return inferError(location, op,
                      "expects gamma of the trailing dimensions of ", input,
                      ", got ", gamma);
  if (grad.getType() != input) // C2
    return inferError(location, op, "expects a gradient of type ", input,
                      ", got ", grad.getType());
  RankedTensorType leading = leadingType(input, gamma);
  for (Value rows : statistics)
    if (rows.getType() != leading) // C3
      return inferError(location, op, "expects statistics of rows of type ",
                        leading, ", got ", rows.getType());
  return success();
}

LogicalResult LayerNormGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  Value input = adaptor.getInput(), gamma = adaptor.getGamma();
  types.assign({input.getType(), gamma.getType(), gamma.getType()});
  return verifyNormGrad(location, "layer_norm_grad", adaptor.getGrad(), input,
                        gamma, {adaptor.getMean(), adaptor.getRstd()});
}

//===----------------------------------------------------------------------===//
// RMS norm
//===----------------------------------------------------------------------===//

LogicalResult RMSNormOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  auto gamma = dyn_cast<RankedTensorType>(adaptor.getGamma().getType());
  if (!input || !gamma)
    return inferError(location, "rms_norm", "expects ranked tensors");
  if (!isTrailing(input, gamma)) // rms_norm C1
    return inferError(location, "rms_norm",
                      "expects gamma of the trailing dimensions of ", input,
                      ", got ", gamma);
  if (gamma.getElementType() != input.getElementType()) // rms_norm C2
    return inferError(location, "rms_norm", "expects one element type, got ",
                      input, " and ", gamma);
  types.assign({input, leadingType(input, gamma)});
  return success();
}

LogicalResult RMSNormGradOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  Value input = adaptor.getInput(), gamma = adaptor.getGamma();
  types.assign({input.getType(), gamma.getType()});
  return verifyNormGrad(location, "rms_norm_grad", adaptor.getGrad(), input,
                        gamma, adaptor.getRstd());
}

//===----------------------------------------------------------------------===//
// Cross-entropy
//===----------------------------------------------------------------------===//

/// C1 and C2 of cross_entropy and cross_entropy_grad.
static LogicalResult checkRows(std::optional<Location> location, StringRef op,
                               RankedTensorType logits,
                               RankedTensorType targets) {
  if (!logits || logits.getRank() != 2)
    return inferError(location, op, "expects logits of rank 2");
  if (!targets || targets.getRank() != 1 ||
      targets.getDimSize(0) != logits.getDimSize(0))
    return inferError(location, op, "expects one target for each of the ",
                      logits.getDimSize(0), " rows of the logits");
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> location,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  auto logits = dyn_cast<RankedTensorType>(adaptor.getLogits().getType());
  auto targets = dyn_cast<RankedTensorType>(adaptor.getTargets().getType());
  if (failed(checkRows(location, "cross_entropy", logits, targets)))
    return failure();
  Type element = logits.getElementType();
  types.push_back(RankedTensorType::get({}, element));
  types.push_back(RankedTensorType::get(logits.getDimSize(0), element));
  return success();
}

LogicalResult CrossEntropyGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto logits = dyn_cast<RankedTensorType>(adaptor.getLogits().getType());
  auto targets = dyn_cast<RankedTensorType>(adaptor.getTargets().getType());
  if (failed(checkRows(location, "cross_entropy_grad", logits, targets)))
    return failure();
  auto perRow =
      RankedTensorType::get(logits.getDimSize(0), logits.getElementType());
  if (adaptor.getLse().getType() != perRow) // cross_entropy_grad C2
    return inferError(location, "cross_entropy_grad", "expects an lse of type ",
                      perRow, ", got ", adaptor.getLse().getType());
  auto scalar = RankedTensorType::get({}, logits.getElementType());
  if (adaptor.getGrad().getType() != scalar) // cross_entropy_grad C3
    return inferError(location, "cross_entropy_grad",
                      "expects a gradient of type ", scalar, ", got ",
                      adaptor.getGrad().getType());
  types.push_back(logits);
  return success();
}
