//===- Scatter.cpp - slices combined by index -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The destination is filled, or has values; then the slice of each index is
// combined with that which the index names, in order, so that a sum does not
// depend on anything but its terms. Vectors run along the slices.
//
//===----------------------------------------------------------------------===//

#include "Kernels/CPU/KernelEmitter.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/ScatterModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace mpcomm::kernels {

/// Moves `offsets` through loops over `dims`, into which `b` goes.
static void loopOver(OpBuilder &b, Location loc, ScatterEmitter &emitter,
                     ArrayRef<ScatterModel::Dim> dims,
                     ScatterEmitter::Offsets &offsets) {
  for (const ScatterModel::Dim &dim : dims) {
    auto loop = scf::ForOp::create(b, loc, emitter.number(0),
                                   emitter.number(dim.size), emitter.number(1));
    b.setInsertionPointToStart(loop.getBody());
    offsets = emitter.move(offsets, loop.getInductionVar(), dim);
  }
}

void emitScatter(const ScatterModel &model, unsigned vectorBits,
                 func::FuncOp function) {
  Block &block = function.getBody().front();
  OpBuilder b(block.getTerminator());
  Location loc = function.getLoc();
  unsigned target = *model.arguments[ScatterModel::Target];
  auto type = cast<MemRefType>(block.getArgument(target).getType());
  int64_t lanes =
      std::max(1u, vectorBits / std::max(8u, type.getElementTypeBitWidth()));
  ScatterEmitter emitter(model, block.getArguments(), b, loc);
  if (model.initial) {
    Value initial = emitter.constantInMemory(model.initial);
    forEachChunk(b, loc, type, lanes * 4, lanes,
                 [&](OpBuilder &inner, Value at, Value, int64_t stride,
                     int64_t width, Value mask) {
                   storeLanes(inner, loc, emitter.getTarget(), at, stride,
                              splat(inner, loc, initial, width), mask);
                 });
  }
  if (model.countUpdates() == 0)
    return;
  ScatterEmitter::Offsets offsets = emitter.origin();
  for (ArrayRef<ScatterModel::Dim> dims :
       {ArrayRef(model.batch), ArrayRef(model.planes), ArrayRef(model.indexed)})
    loopOver(b, loc, emitter, dims, offsets);
  Value index = emitter.loadIndex(offsets);
  if (Value valid = emitter.isValid(index)) {
    auto branch = scf::IfOp::create(b, loc, valid, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  Value &first = offsets[ScatterModel::Target];
  first = addScaled(b, loc, first, emitter.toElement(index), model.stride);
  if (model.slice.empty() || model.slice.back().size < lanes / 2) {
    loopOver(b, loc, emitter, model.slice, offsets);
    emitter.update(offsets, {}, /*width=*/0, /*mask=*/{});
    return;
  }
  loopOver(b, loc, emitter, ArrayRef(model.slice).drop_back(), offsets);
  ScatterModel::Dim columns = model.slice.back();
  forEachChunk(b, loc, MemRefType::get({columns.size}, type.getElementType()),
               lanes * 4, lanes,
               [&](OpBuilder &, Value column, Value, int64_t, int64_t width,
                   Value mask) {
                 emitter.update(emitter.move(offsets, column, columns), columns,
                                width, mask);
               });
}

} // namespace mpcomm::kernels
