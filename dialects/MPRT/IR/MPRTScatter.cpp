//===- MPRTScatter.cpp - slices combined by index -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm::mprt;

LogicalResult ScatterOp::verify() {
  std::optional<mpcomm::Reduction> reduction =
      mpcomm::symbolizeReduction(getKind());
  if (getKind() != "replace" &&
      (!reduction || *reduction == mpcomm::Reduction::Mean)) // scatter C1
    return emitOpError() << "does not know the kind '" << getKind() << "'";
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto updates = cast<RankedTensorType>(getUpdates().getType());
  mpcomm::IndexedSlices slices{
      operand, cast<RankedTensorType>(getIndices().getType()),
      static_cast<int64_t>(getDim()), static_cast<int64_t>(getBatchDims())};
  if (failed(slices.verify([&] { return emitOpError(); }, getClamp()))) // C2
    return failure();
  RankedTensorType type = slices.getSlicesType();
  if (updates.getShape() != type.getShape()) // scatter C2
    return emitOpError() << "expects updates of shape "
                         << type.clone(updates.getElementType()) << ", got "
                         << updates;
  if (updates.getElementType() != operand.getElementType()) // scatter C3
    return emitOpError() << "expects one element type, got "
                         << operand.getElementType() << " and "
                         << updates.getElementType();
  if (auto skipped = getSkippedAttr();
      skipped && skipped.getInt() < 0) // scatter C4
    return emitOpError() << "expects 'skipped' of at least 0, got "
                         << skipped.getInt();
  return success();
}
