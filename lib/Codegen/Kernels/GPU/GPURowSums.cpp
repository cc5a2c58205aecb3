//===- GPURowSums.cpp - sums over the rows of a block ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How GPUEmitter begins the sums over rows of a kernel, and ends those of a
// block.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitterImpl.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace mpcomm::kernels {

void GPUEmitter::openAccumulators() {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind != ResultKind::Accumulate)
      continue;
    Accumulator sum;
    sum.tensor = value;
    sum.result = &result;
    sum.keepsColumn = result.dims.test(model.column());
    sum.overColumn = loopsOverColumn(model, result.op);
    if (!sum.overColumn)
      sum.totals.push_back(neutral(result));
    else if (!sum.keepsColumn || !schedule.sumsInScratch)
      sum.totals.assign(sum.keepsColumn ? schedule.chunks : 1,
                        neutralLanes(result));
    accumulators.push_back(std::move(sum));
  }
}

/// Each thread clears what it will add to, so that no barrier is needed.
void GPUEmitter::clearScratchSums() {
  GPURow row;
  overColumns(row, {}, [&](ValueRange) {
    for (Accumulator &sum : accumulators)
      for (Piece &piece : row.pieces)
        if (sum.keepsColumn) {
          Value place =
              sums.placeOf(eval.code, loc, sum.tensor, {split, columnBlock},
                           keptCoordinates, piece.chunk.start);
          sums.store(
              eval.code, loc, sum.tensor, place,
              splat(eval.code, loc, neutral(*sum.result), schedule.vector));
        }
    return SmallVector<Value>();
  });
}

void GPUEmitter::closeAccumulators() {
  int64_t vector = schedule.vector, size = schedule.group;
  int64_t groups = schedule.groups(), threads = schedule.threads;
  int64_t columns = schedule.chunks * size * vector; // of a block
  bool hasBarrier = false;
  Value columnBase = addScaled(eval.code, loc, number(0), columnBlock, columns);
  for (Accumulator &sum : accumulators) {
    const KernelResult &result = *sum.result;
    Operation *combiner = result.combiner;
    auto finish = [&](Value value, Value column, Value condition) {
      emitIf(eval.code, loc, condition, [&] {
        sums.finish(eval, sum.tensor, value, {split, columnBlock},
                    keptCoordinates, column);
      });
    };
    if (sum.keepsColumn && schedule.sumsInScratch)
      continue;
    Type type = getElementTypeOrSelf(sum.totals[0]);
    if (!sum.keepsColumn) {
      Value total = sum.totals[0];
      if (sum.overColumn)
        total = foldLanes(eval.code, loc, combiner, total, 1);
      total = reduceLanes(eval.code, loc, combiner, total, kWarp);
      int64_t warps = threads / kWarp;
      if (warps > 1) {
        Value buffer = addShared(function, type, warps);
        emitIf(eval.code, loc, isZero(eval.code, loc, warpLane), [&] {
          memref::StoreOp::create(eval.code, loc,
                                  toMemory(eval.code, loc, total, type), buffer,
                                  warp);
        });
        gpu::BarrierOp::create(eval.code, loc);
        Value other =
            arith::RemUIOp::create(eval.code, loc, warpLane, number(warps));
        Value raw = memref::LoadOp::create(eval.code, loc, buffer, other);
        total = reduceLanes(eval.code, loc, combiner,
                            fromMemory(eval.code, loc, raw, type), warps);
      }
      finish(total, Value(), isZero(eval.code, loc, thread));
      continue;
    }
    if (groups == 1 || schedule.sumsOfGroups) {
      for (auto [i, total] : llvm::enumerate(sum.totals))
        for (int64_t v = 0; v < vector; ++v) {
          Value column = addScaled(eval.code, loc,
                                   number(i * size * vector + v), lane, vector);
          column = add(column, columnBase);
          Value valid;
          if (columns * schedule.columnBlocks != model.columns())
            valid = isLess(eval.code, loc, column, model.columns());
          finish(vector::ExtractOp::create(eval.code, loc, total, v), column,
                 valid);
        }
      continue;
    }
    // Each group's columns side by side in shared memory, then one thread a
    // column.
    if (hasBarrier) // the buffer of the sum before was read
      gpu::BarrierOp::create(eval.code, loc);
    hasBarrier = true;
    Value &buffer = sharedSums[type];
    if (!buffer)
      buffer = addShared(function, type, groups * columns);
    for (auto [i, total] : llvm::enumerate(sum.totals)) {
      Value at =
          addScaled(eval.code, loc, number(i * size * vector), lane, vector);
      at = addScaled(eval.code, loc, at, group, columns);
      // By scalars: vectors have no patterns for shared memory.
      for (int64_t v = 0; v < vector; ++v) {
        Value one = vector::ExtractOp::create(eval.code, loc, total, v);
        memref::StoreOp::create(eval.code, loc,
                                toMemory(eval.code, loc, one, type), buffer,
                                ValueRange(add(at, number(v))));
      }
    }
    gpu::BarrierOp::create(eval.code, loc);
    for (int64_t from = 0; from < columns; from += threads) {
      Value within = add(thread, number(from));
      Value column = add(within, columnBase);
      Value valid;
      if (from + threads > columns)
        valid = isLess(eval.code, loc, within, columns);
      if (columns * schedule.columnBlocks != model.columns())
        valid = both(eval.code, loc, valid,
                     isLess(eval.code, loc, column, model.columns()));
      emitIf(eval.code, loc, valid, [&] {
        Value total;
        for (int64_t g = 0; g < groups; ++g) {
          Value raw = memref::LoadOp::create(
              eval.code, loc, buffer,
              ValueRange(add(within, number(g * columns))));
          Value term = fromMemory(eval.code, loc, raw, type);
          total = total ? combine(eval.code, loc, combiner, total, term) : term;
        }
        sums.finish(eval, sum.tensor, total, {split, columnBlock},
                    keptCoordinates, column);
      });
    }
  }
}

} // namespace mpcomm::kernels
