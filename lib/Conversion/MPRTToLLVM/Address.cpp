//===- Address.cpp - where a planned buffer is ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Address.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

int64_t mpcomm::elementBytes(Type type) {
  return mpcomm::detail::countBytes(
      RankedTensorType::get({1}, getElementTypeOrSelf(type)));
}

FailureOr<Address> mpcomm::resolveAddress(Value buffer, Operation *user) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> strides;
  Address address;
  if (failed(type.getStridesAndOffset(strides, address.offset)) ||
      ShapedType::isDynamic(address.offset))
    return user->emitOpError()
           << "expects buffers at static offsets, got " << type;
  // The type has the offset from the aligned pointer; views change only that,
  // but for memref.view, which moves the pointer.
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto view = dyn_cast<memref::ViewOp>(op)) {
      std::optional<int64_t> shift = getConstantIntValue(view.getByteShift());
      if (!shift)
        return user->emitOpError("expects buffers at constant offsets");
      address.bytes += *shift;
      buffer = view.getSource();
    } else if (auto view = dyn_cast<ViewLikeOpInterface>(op)) {
      buffer = view.getViewSource();
    } else {
      break;
    }
  }
  if (!isa<BlockArgument>(buffer) &&
      !buffer.getDefiningOp<memref::GetGlobalOp>())
    return user->emitOpError("uses a buffer that is neither an argument, nor "
                             "a constant, nor in the arena");
  address.base = buffer;
  return address;
}
