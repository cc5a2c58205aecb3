//===- OpHelpers.cpp - what ops of the runtime have in common -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mpcomm::mprt;

LogicalResult mpcomm::mprt::verifyDestinationStyle(Operation *op,
                                                   ValueRange outputs) {
  bool tensors = false, buffers = false;
  for (Value operand : op->getOperands())
    (isa<TensorType>(operand.getType()) ? tensors : buffers) = true;
  if (tensors && buffers)
    return op->emitOpError("expects operands that are all tensors or all "
                           "buffers");
  if (!tensors && op->getNumResults())
    return op->emitOpError("expects no results on buffers");
  if (tensors && !llvm::equal(outputs.getTypes(), op->getResultTypes()))
    return op->emitOpError("expects results of its outputs' types");
  return success();
}

LogicalResult mpcomm::mprt::verifySpans(Operation *op) {
  for (Type operand : op->getOperandTypes())
    if (auto type = dyn_cast<MemRefType>(operand); type && !spanOf(type))
      return op->emitOpError() << "expects buffers of static strides that lie "
                                  "within 64 bits, got "
                               << type;
  return success();
}

void mpcomm::mprt::addEffects(MutableOperandRange operands, bool read,
                              bool write, Effects &effects) {
  for (OpOperand &operand : operands) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (read)
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
    if (write)
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}
