//===- MPRTWindow.cpp - convolutions and pools as runtime calls -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/Windows.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

std::optional<unsigned> WindowOp::getKindNumber() {
  int number =
      llvm::StringSwitch<int>(getKind())
          .Case("convolution", MPRT_CONVOLUTION)
          .Case("convolution_input_grad", MPRT_CONVOLUTION_INPUT_GRAD)
          .Case("convolution_filter_grad", MPRT_CONVOLUTION_FILTER_GRAD)
          .Case("max_pool", MPRT_MAX_POOL)
          .Case("max_pool_grad", MPRT_MAX_POOL_GRAD)
          .Case("avg_pool", MPRT_AVG_POOL)
          .Case("avg_pool_grad", MPRT_AVG_POOL_GRAD)
          .Default(-1);
  if (number < 0)
    return std::nullopt;
  return number;
}

/// C3: the operands in the order input, filter, output of the forward op.
static LogicalResult verifyShapes(WindowOp op, unsigned kind) {
  auto emitError = [&] { return op.emitOpError(); };
  SmallVector<ShapedType> types;
  for (Type type : op->getOperandTypes())
    types.push_back(cast<ShapedType>(type));
  Windows windows{op.getWindow(), op.getStrides(),  op.getLow(),
                  op.getHigh(),   op.getDilation(), op.getChannelsLast()};
  if (kind <= MPRT_CONVOLUTION_FILTER_GRAD) {
    ShapedType input = types[0], filter = types[1], output = types[2];
    if (kind == MPRT_CONVOLUTION_INPUT_GRAD)
      std::swap(input, output);
    if (kind == MPRT_CONVOLUTION_FILTER_GRAD)
      std::tie(output, input, filter) =
          std::tuple(types[0], types[1], types[2]);
    if (filter.getRank() != 4 ||
        op.getWindow() != filter.getShape().take_back(2))
      return emitError() << "expects a window of the size of its filter "
                         << filter;
    return verifyConvolution(emitError, input, filter, output, windows,
                             op.getGroups());
  }
  if (op.getGroups() != 1 ||
      llvm::any_of(op.getDilation(), [](int64_t d) { return d != 1; }))
    return emitError() << "expects one group and no dilation for '"
                       << op.getKind() << "'";
  switch (kind) {
  case MPRT_MAX_POOL:
  case MPRT_AVG_POOL:
    return verifyPool(emitError, types[0], types[1], windows);
  case MPRT_AVG_POOL_GRAD:
    return verifyPool(emitError, types[1], types[0], windows);
  default:
    if (types[1].getShape() != types[2].getShape() ||
        types[1].getElementType() != types[2].getElementType())
      return emitError() << "expects an output like " << types[1] << ", got "
                         << types[2];
    return verifyPool(emitError, types[1], types[0], windows);
  }
}

LogicalResult WindowOp::verify() {
  std::optional<unsigned> kind = getKindNumber(); // window C1
  if (!kind)
    return emitOpError() << "does not know the kind '" << getKind() << "'";
  bool one = *kind == MPRT_MAX_POOL || *kind == MPRT_AVG_POOL ||
             *kind == MPRT_AVG_POOL_GRAD;
  size_t expected = one ? 1 : 2;
  if (getInputs().size() != expected || getOutputs().size() != 1)
    return emitOpError() << "expects " << expected << " inputs and one output "
                         << "for '" << getKind() << "', got "
                         << getInputs().size() << " and "
                         << getOutputs().size();
  bool tensors = isa<TensorType>(getOutputs().front().getType());
  for (Value operand : getOperands()) // window C2
    if (isa<TensorType>(operand.getType()) != tensors)
      return emitOpError("expects operands that are all tensors or all "
                         "buffers");
  if (!tensors && getNumResults())
    return emitOpError("expects no results on buffers");
  if (tensors && !llvm::equal(getOutputs().getTypes(), getResultTypes()))
    return emitOpError("expects results of its outputs' types");
  if (failed(verifyShapes(*this, *kind))) // window C3
    return failure();
  return verifySpans(*this); // window C4
}

void WindowOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), false, true, effects);
}
