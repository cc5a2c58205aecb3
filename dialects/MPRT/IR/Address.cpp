//===- Address.cpp - where a planned buffer is ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
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

FailureOr<SmallVector<Access, 4>> mpcomm::accessesOf(Operation *op) {
  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(op).getEffects(effects);
  llvm::SmallDenseSet<Value> written;
  for (const MemoryEffects::EffectInstance &effect : effects)
    if (isa<MemoryEffects::Write>(effect.getEffect()))
      written.insert(effect.getValue());
  SmallVector<Access, 4> accesses;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<MemRefType>(operand.getType());
    if (!type)
      return op->emitOpError() << "expects buffers, got " << operand.getType();
    FailureOr<Address> address = resolveAddress(operand, op);
    if (failed(address))
      return failure();
    SmallVector<int64_t> strides;
    int64_t offset, last = 0, size = elementBytes(type);
    int64_t begin = address->bytes + address->offset * size;
    bool writes = written.contains(operand);
    if (type.getNumElements() == 0) { // whatever its strides
      accesses.push_back({address->base, begin, begin, writes});
      continue;
    }
    if (failed(type.getStridesAndOffset(strides, offset)))
      return failure();
    for (auto [extent, stride] : llvm::zip_equal(type.getShape(), strides)) {
      if (ShapedType::isDynamic(stride) || stride < 0)
        return op->emitOpError()
               << "expects static strides that are not negative, got " << type;
      last += (extent - 1) * stride;
    }
    accesses.push_back(
        {address->base, begin, begin + (last + 1) * size, writes});
  }
  return accesses;
}
