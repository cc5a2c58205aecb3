//===- GPUReduce.cpp - reductions across threads --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUReduce.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace mpcomm::kernels {

SmallVector<Value> delinearize(OpBuilder &b, Location loc, Value index,
                               ArrayRef<int64_t> sizes) {
  SmallVector<Value> coordinates(sizes.size());
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; --dim) {
    if (sizes[dim] == 1) {
      coordinates[dim] = indexConstant(b, loc, 0);
      continue;
    }
    bool isFirst = llvm::all_of(sizes.take_front(dim),
                                [](int64_t size) { return size == 1; });
    Value size = indexConstant(b, loc, sizes[dim]);
    coordinates[dim] =
        isFirst ? index : arith::RemUIOp::create(b, loc, index, size);
    if (!isFirst)
      index = arith::DivUIOp::create(b, loc, index, size);
  }
  return coordinates;
}

Value linearize(OpBuilder &b, Location loc, ValueRange coordinates,
                ArrayRef<int64_t> sizes) {
  Value index = indexConstant(b, loc, 0);
  int64_t stride = 1;
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; --dim) {
    index = addScaled(b, loc, index, coordinates[dim], stride);
    stride *= sizes[dim];
  }
  return index;
}

Value isLess(OpBuilder &b, Location loc, Value lhs, int64_t rhs) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, lhs,
                               indexConstant(b, loc, rhs));
}

Value isZero(OpBuilder &b, Location loc, Value index) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, index,
                               indexConstant(b, loc, 0));
}

Value both(OpBuilder &b, Location loc, Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return arith::AndIOp::create(b, loc, lhs, rhs);
}

Value selectValid(OpBuilder &b, Location loc, Value valid, Value value,
                  Value otherwise) {
  if (!valid)
    return value;
  return arith::SelectOp::create(b, loc, valid, value, otherwise);
}

void emitIf(OpBuilder &b, Location loc, Value condition,
            llvm::function_ref<void()> emit) {
  if (!condition)
    return emit();
  OpBuilder::InsertionGuard guard(b);
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

/// The same of a word of 32 bits.
static Value shuffleWord(OpBuilder &b, Location loc, Value word,
                         int64_t offset) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  return gpu::ShuffleOp::create(b, loc, word, constant(offset), constant(kWarp),
                                gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

Value shuffleXor(OpBuilder &b, Location loc, Value value, int64_t offset) {
  Type type = value.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  if (type.isF32() || type.isInteger(32))
    return shuffleWord(b, loc, value, offset);
  if (type.isIndex())
    return arith::IndexCastOp::create(
        b, loc, type,
        shuffleXor(b, loc, arith::IndexCastOp::create(b, loc, i64, value),
                   offset));
  if (auto floating = dyn_cast<FloatType>(type)) {
    Type bits = b.getIntegerType(floating.getWidth());
    Value word = arith::BitcastOp::create(b, loc, bits, value);
    return arith::BitcastOp::create(b, loc, type,
                                    shuffleXor(b, loc, word, offset));
  }
  if (type.getIntOrFloatBitWidth() < 32) {
    Value word = arith::ExtUIOp::create(b, loc, i32, value);
    return arith::TruncIOp::create(b, loc, type,
                                   shuffleWord(b, loc, word, offset));
  }
  Value half = arith::ConstantIntOp::create(b, loc, 32, 64);
  Value low = arith::TruncIOp::create(b, loc, i32, value);
  Value high = arith::TruncIOp::create(
      b, loc, i32, arith::ShRUIOp::create(b, loc, value, half));
  low = arith::ExtUIOp::create(b, loc, i64, shuffleWord(b, loc, low, offset));
  high = arith::ExtUIOp::create(b, loc, i64, shuffleWord(b, loc, high, offset));
  return arith::OrIOp::create(b, loc, low,
                              arith::ShLIOp::create(b, loc, high, half));
}

Value reduceLanes(OpBuilder &b, Location loc, Operation *combiner, Value value,
                  int64_t width) {
  for (int64_t offset = width / 2; offset > 0; offset /= 2)
    value = combine(b, loc, combiner, value, shuffleXor(b, loc, value, offset));
  return value;
}

Value addShared(gpu::GPUFuncOp function, Type type, int64_t count) {
  auto space = gpu::AddressSpaceAttr::get(function.getContext(),
                                          gpu::AddressSpace::Workgroup);
  return function.addWorkgroupAttribution(
      MemRefType::get({count}, memoryType(type), MemRefLayoutAttrInterface(),
                      space),
      function.getLoc());
}

Value launchShared(OpBuilder &b, Location loc, int64_t alignment) {
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  Value buffer = gpu::DynamicSharedMemoryOp::create(
      b, loc,
      MemRefType::get({ShapedType::kDynamic}, b.getI8Type(),
                      MemRefLayoutAttrInterface(), space));
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(b, loc, buffer);
  auto constant = [&](int64_t value) {
    return arith::ConstantIntOp::create(b, loc, value, 64);
  };
  address = arith::IndexCastUIOp::create(b, loc, b.getI64Type(), address);
  address = arith::AddIOp::create(b, loc, address, constant(alignment - 1));
  address = arith::AndIOp::create(b, loc, address, constant(-alignment));
  return LLVM::IntToPtrOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext(), /*shared*/ 3),
      address);
}

} // namespace mpcomm::kernels
