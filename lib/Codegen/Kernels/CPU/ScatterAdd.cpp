//===- ScatterAdd.cpp - adding rows to rows -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient of an embedding: the destination is zeroed, then each row of
// `dy` is added to the row that its id names, in order, so that the sum does
// not depend on anything but its terms. Ids out of range are clamped.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Model/ScatterAdd.h"
#include "Kernels/CPU/KernelEmitter.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

LogicalResult checkScatterAdd(func::FuncOp kernel, int64_t skipped) {
  auto fail = [&](const Twine &what) {
    return kernel.emitError()
           << "in kernel '" << kernel.getSymName() << "': " << what;
  };
  if (kernel.getNumArguments() != 3)
    return fail("expected rows, ids and a destination to add rows to");
  auto dy = dyn_cast<RankedTensorType>(kernel.getArgumentTypes()[0]);
  auto ids = dyn_cast<RankedTensorType>(kernel.getArgumentTypes()[1]);
  auto to = dyn_cast<RankedTensorType>(kernel.getArgumentTypes()[2]);
  if (!dy || !ids || !to || to.getRank() != 2 ||
      dy.getRank() != ids.getRank() + 1 ||
      dy.getShape().drop_back() != ids.getShape() ||
      dy.getShape().back() != to.getShape()[1] || to.getShape()[0] < 1)
    return fail("expected rows [..., C], ids [...] and a destination [V, C]");
  if (!::mpcomm::detail::isCountable(dy) || !::mpcomm::detail::isCountable(to))
    return fail("expected tensors of at most 2^48 elements");
  if (dy.getElementType() != to.getElementType() ||
      !(to.getElementType().isF32() || to.getElementType().isF64()) ||
      !isa<IntegerType>(ids.getElementType()))
    return fail("expected rows of f32 or f64 and integer ids");
  if (!llvm::isIntN(ids.getElementTypeBitWidth(), skipped))
    return fail("expected to leave out an id of " +
                Twine(ids.getElementTypeBitWidth()) + " bits, got " +
                Twine(skipped));
  return success();
}

LogicalResult emitScatterAdd(func::FuncOp tensorForm, int64_t skipped,
                             unsigned vectorBits, func::FuncOp function) {
  if (failed(checkScatterAdd(tensorForm, skipped)))
    return failure();
  Block &block = function.getBody().front();
  OpBuilder b(block.getTerminator());
  Location loc = function.getLoc();
  Value dy = block.getArgument(0), ids = block.getArgument(1),
        to = block.getArgument(2);
  auto dyType = cast<MemRefType>(dy.getType());
  auto toType = cast<MemRefType>(to.getType());
  auto flatten = [&](Value buffer) -> Value {
    auto type = cast<MemRefType>(buffer.getType());
    int64_t span = *mprt::spanOf(type); // layouts have known strides
    return memref::ReinterpretCastOp::create(
        b, loc, MemRefType::get({span}, type.getElementType()), buffer, 0,
        ArrayRef<int64_t>{span}, ArrayRef<int64_t>{1});
  };
  Value from = flatten(dy), target = flatten(to);
  Type element = toType.getElementType();
  int64_t lanes = std::max(1u, vectorBits / element.getIntOrFloatBitWidth());
  int64_t columns = toType.getShape()[1];
  Value zero = arith::ConstantOp::create(
      b, loc, cast<TypedAttr>(b.getZeroAttr(element)));
  forEachChunk(b, loc, toType, lanes * 4, lanes,
               [&](OpBuilder &b, Value index, Value, int64_t stride,
                   int64_t width, Value mask) {
                 storeLanes(b, loc, target, index, stride,
                            splat(b, loc, zero, width), mask);
               });
  if (dyType.getNumElements() == 0)
    return success();
  // The rows.
  auto [dyStrides, dyOffset] = dyType.getStridesAndOffset();
  auto [toStrides, toOffset] = toType.getStridesAndOffset();
  SmallVector<Value> coordinates;
  Value dyBase = indexConstant(b, loc, 0);
  for (auto [size, stride] :
       llvm::zip(dyType.getShape().drop_back(), dyStrides)) {
    auto loop = scf::ForOp::create(b, loc, indexConstant(b, loc, 0),
                                   indexConstant(b, loc, size),
                                   indexConstant(b, loc, 1));
    b.setInsertionPointToStart(loop.getBody());
    coordinates.push_back(loop.getInductionVar());
    dyBase = addScaled(b, loc, dyBase, loop.getInductionVar(), stride);
  }
  Value id = memref::LoadOp::create(b, loc, ids, coordinates);
  if (skipped >= 0) {
    Value skip = arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(id.getType(), skipped));
    Value taken =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, id, skip);
    auto branch = scf::IfOp::create(b, loc, taken, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), id);
  row = arith::MaxSIOp::create(b, loc, row, indexConstant(b, loc, 0));
  row = arith::MinSIOp::create(b, loc, row,
                               indexConstant(b, loc, toType.getShape()[0] - 1));
  Value toBase = addScaled(b, loc, indexConstant(b, loc, 0), row, toStrides[0]);
  forEachChunk(
      b, loc, MemRefType::get({columns}, element), lanes * 4, lanes,
      [&](OpBuilder &b, Value column, Value, int64_t, int64_t width,
          Value mask) {
        Value at = addScaled(b, loc, toBase, column, toStrides[1]);
        Value old = loadLanes(b, loc, target, at, toStrides[1], width, mask);
        Value term = loadLanes(
            b, loc, from, addScaled(b, loc, dyBase, column, dyStrides.back()),
            dyStrides.back(), width, mask);
        storeLanes(b, loc, target, at, toStrides[1],
                   arith::AddFOp::create(b, loc, old, term), mask);
      });
  return success();
}

} // namespace mpcomm::kernels
