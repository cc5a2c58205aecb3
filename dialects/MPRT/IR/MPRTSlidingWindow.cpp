//===- MPRTSlidingWindow.cpp - convolutions and pools as runtime calls ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

static ShapedType typeOf(Value value) {
  return cast<ShapedType>(value.getType());
}

/// C1 and C2 of both ops.
template <typename Op>
static LogicalResult verifyOperands(Op op, size_t numInputs) {
  if (op.getInputs().size() != numInputs || op.getOutputs().size() != 1)
    return op.emitOpError()
           << "expects " << numInputs << " inputs and one output for '"
           << op.getKind() << "', got " << op.getInputs().size() << " and "
           << op.getOutputs().size();
  return verifyDestinationStyle(op, op.getOutputs());
}

//===----------------------------------------------------------------------===//
// mprt.convolution
//===----------------------------------------------------------------------===//

std::optional<unsigned> mprt::ConvolutionOp::getKindNumber() {
  return llvm::StringSwitch<std::optional<unsigned>>(getKind())
      .Case("convolution", MPRT_CONVOLUTION)
      .Case("convolution_input_grad", MPRT_CONVOLUTION_INPUT_GRAD)
      .Case("convolution_filter_grad", MPRT_CONVOLUTION_FILTER_GRAD)
      .Default(std::nullopt);
}

Value mprt::ConvolutionOp::getFilter() {
  return getKindNumber() == MPRT_CONVOLUTION_FILTER_GRAD ? getOutputs().front()
                                                         : getInputs()[1];
}

SlidingWindow mprt::ConvolutionOp::getGeometry() {
  return {typeOf(getFilter()).getShape().take_back(2),
          getStrides(),
          getLow(),
          getHigh(),
          getDilation(),
          getChannelsLast()};
}

LogicalResult mprt::ConvolutionOp::verify() {
  std::optional<unsigned> kind = getKindNumber(); // convolution C1
  if (!kind)
    return emitOpError() << "does not know the kind '" << getKind() << "'";
  if (failed(verifyOperands(*this, 2))) // convolution C1, C2
    return failure();
  // The operands as the forward op has them.
  ShapedType input = typeOf(getInputs()[0]), filter = typeOf(getFilter()),
             output = typeOf(getOutputs().front());
  if (filter.getRank() != 4) // convolution C3
    return emitOpError() << "expects a filter of rank 4, got " << filter;
  if (*kind == MPRT_CONVOLUTION_INPUT_GRAD)
    std::swap(input, output);
  else if (*kind == MPRT_CONVOLUTION_FILTER_GRAD)
    std::tie(input, output) = std::pair(typeOf(getInputs()[1]), input);
  if (failed(verifyConvolution([&] { return emitOpError(); }, input, filter,
                               output, getGeometry(), getGroups())))
    return failure();
  return verifySpans(*this); // convolution C4
}

void mprt::ConvolutionOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), false, true, effects);
}

//===----------------------------------------------------------------------===//
// mprt.pool
//===----------------------------------------------------------------------===//

std::optional<unsigned> PoolOp::getKindNumber() {
  return llvm::StringSwitch<std::optional<unsigned>>(getKind())
      .Case("max_pool", MPRT_MAX_POOL)
      .Case("max_pool_grad", MPRT_MAX_POOL_GRAD)
      .Case("avg_pool", MPRT_AVG_POOL)
      .Case("avg_pool_grad", MPRT_AVG_POOL_GRAD)
      .Default(std::nullopt);
}

SlidingWindow PoolOp::getGeometry() {
  static constexpr int64_t kDense[] = {1, 1};
  return {getWindow(), getStrides(), getLow(),
          getHigh(),   kDense,       getChannelsLast()};
}

LogicalResult PoolOp::verify() {
  std::optional<unsigned> kind = getKindNumber(); // pool C1
  if (!kind)
    return emitOpError() << "does not know the kind '" << getKind() << "'";
  bool isMaxPoolGrad = *kind == MPRT_MAX_POOL_GRAD;
  if (failed(verifyOperands(*this, isMaxPoolGrad ? 2 : 1))) // pool C1, C2
    return failure();
  // The operands as the forward op has them.
  ShapedType input = typeOf(getInputs()[0]),
             output = typeOf(getOutputs().front());
  if (isMaxPoolGrad) { // pool C3
    ShapedType forward = typeOf(getInputs()[1]);
    if (forward.getShape() != output.getShape() ||
        forward.getElementType() != output.getElementType())
      return emitOpError() << "expects an output like " << forward << ", got "
                           << output;
  }
  if (*kind == MPRT_MAX_POOL_GRAD || *kind == MPRT_AVG_POOL_GRAD)
    std::swap(input, output);
  if (failed(verifyPool([&] { return emitOpError(); }, input, output,
                        getGeometry())))
    return failure();
  return verifySpans(*this); // pool C4
}

void PoolOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), false, true, effects);
}
