//===- BufferLoops.cpp - loops over one buffer ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs over all elements of a buffer in chunks: fills, and the rounding of sums
// to half precision.
//
//===----------------------------------------------------------------------===//

#include "Kernels/CPU/KernelEmitter.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace mpcomm::kernels {

SmallVector<Piece> cutColumns(int64_t columns, int64_t width, int64_t lanes) {
  SmallVector<Piece> pieces;
  int64_t start = 0;
  for (; width >= lanes; width /= 2) {
    int64_t count = (columns - start) / width;
    if (count > 0)
      pieces.push_back({start, width, count, width});
    start += count * width;
    if (width == 1)
      break;
  }
  if (start < columns)
    pieces.push_back({start, lanes, 1, columns - start});
  return pieces;
}

void forEachChunk(
    OpBuilder &b, Location loc, MemRefType layout, int64_t width, int64_t lanes,
    llvm::function_ref<void(OpBuilder &, Value, Value, int64_t, int64_t, Value)>
        visit) {
  OpBuilder::InsertionGuard guard(b);
  // Neighbours that lie together, as one.
  SmallVector<std::pair<int64_t, int64_t>> dims;
  auto [strides, offset] = layout.getStridesAndOffset();
  for (auto [size, stride] : llvm::zip(layout.getShape(), strides)) {
    if (size == 0)
      return;
    if (size == 1)
      continue;
    if (!dims.empty() && dims.back().second == size * stride)
      dims.back() = {dims.back().first * size, stride};
    else
      dims.push_back({size, stride});
  }
  if (dims.empty())
    dims.push_back({1, 1});
  Value index = indexConstant(b, loc, 0), place = index;
  auto loop = [&](int64_t from, int64_t to, int64_t step) {
    auto loop = scf::ForOp::create(b, loc, indexConstant(b, loc, from),
                                   indexConstant(b, loc, to),
                                   indexConstant(b, loc, step));
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  };
  for (auto [i, dim] : llvm::enumerate(ArrayRef(dims).drop_back())) {
    Value coordinate = loop(0, dim.first, 1).getInductionVar();
    int64_t places = 1;
    for (const auto &inner : ArrayRef(dims).drop_front(i + 1))
      places *= inner.first;
    index = addScaled(b, loc, index, coordinate, dim.second);
    place = addScaled(b, loc, place, coordinate, places);
  }
  auto [size, stride] = dims.back();
  for (const Piece &piece : cutColumns(size, width, lanes)) {
    OpBuilder::InsertionGuard inner(b);
    Value start = indexConstant(b, loc, piece.start);
    if (piece.count > 1)
      start = loop(piece.start, piece.start + piece.count * piece.width,
                   piece.width)
                  .getInductionVar();
    Value mask = piece.active == piece.width
                     ? Value()
                     : maskOf(b, loc, piece.active, piece.width);
    visit(b, addScaled(b, loc, index, start, stride),
          addScaled(b, loc, place, start, 1), stride, piece.width, mask);
  }
}

} // namespace mpcomm::kernels
