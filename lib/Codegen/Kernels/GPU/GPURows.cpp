//===- GPURows.cpp - rows of a kernel of a GPU ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups of threads go from row to row: passes over a row, its reductions, and
// the sums over rows until a block has ended its own.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitterImpl.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace mpcomm::kernels {

bool GPUEmitter::hasOneReduction() const {
  llvm::SmallDenseSet<int> passes;
  for (Value value : model.order)
    if (model.results.find(value)->second.kind == ResultKind::RowReduce)
      passes.insert(schedule.passes.pass.lookup(value));
  return passes.size() == 1;
}

Value GPUEmitter::termOf(const KernelResult &result, GPURow &row,
                         Piece &piece) {
  Value term =
      eval.lanes(eval.body(result.op, result.term, row.row, &piece.chunk),
                 row.row, piece.chunk);
  return selectValid(eval.code, loc, piece.valid, term, neutralLanes(result));
}

/// The pieces of each row from column `base` on (null: the row's first). Rows
/// without columns have none: there is no first column to read.
void GPUEmitter::openPieces(MutableArrayRef<GPURow> rows, Value base) {
  if (model.columns() == 0)
    return;
  int64_t vector = schedule.vector, group = schedule.group;
  int64_t turnColumns = schedule.chunks * group * vector;
  int64_t all = turnColumns * schedule.columnBlocks;
  for (int64_t i = 0; i < schedule.chunks; ++i) {
    Value place = add(lane, number(i * group));
    if (schedule.columnBlocks > 1)
      place = addScaled(eval.code, loc, place, columnBlock,
                        schedule.chunks * group);
    Value start = addScaled(eval.code, loc, number(0), place, vector);
    bool isThere = schedule.columnBlocks == 1 && !base &&
                   (i + 1) * group * vector <= model.columns();
    if (base) {
      start = add(start, base);
      isThere = model.columns() % turnColumns == 0;
    } else if (schedule.columnBlocks > 1) {
      isThere = all == model.columns();
    }
    Value valid;
    if (!isThere) {
      valid = isLess(eval.code, loc, start, model.columns());
      start = selectValid(eval.code, loc, valid, start, number(0));
    }
    for (GPURow &row : rows) {
      Piece piece;
      piece.chunk.start = start;
      piece.chunk.width = piece.chunk.active = vector;
      piece.valid = both(eval.code, loc, row.valid, valid);
      row.pieces.push_back(std::move(piece));
    }
  }
}

/// Adds the terms of the pieces that are there to what `rowSums` and the
/// accumulators have, and stores elements in the last pass.
void GPUEmitter::emitPieces(MutableArrayRef<GPURow> rows,
                            MutableArrayRef<RowSum> rowSums) {
  auto addTo = [&](Value &total, const KernelResult &result, Value term) {
    total =
        total ? combine(eval.code, loc, result.combiner, total, term) : term;
  };
  for (auto [r, row] : llvm::enumerate(rows))
    for (auto [i, piece] : llvm::enumerate(row.pieces)) {
      for (RowSum &sum : rowSums)
        addTo(sum.perRow[r], *sum.result, termOf(*sum.result, row, piece));
      for (Accumulator &sum : accumulators) {
        if (!sum.overColumn ||
            schedule.passes.pass.lookup(sum.tensor) != eval.pass)
          continue;
        Value term = termOf(*sum.result, row, piece);
        if (!sum.keepsColumn) {
          addTo(sum.totals[0], *sum.result, term);
        } else if (!schedule.sumsInScratch) {
          addTo(sum.totals[i], *sum.result, term);
        } else {
          Value place =
              sums.placeOf(eval.code, loc, sum.tensor, {split, columnBlock},
                           keptCoordinates, piece.chunk.start);
          emitIf(eval.code, loc, piece.valid, [&] {
            Value old =
                sums.load(eval.code, loc, sum.tensor, place, schedule.vector);
            sums.store(
                eval.code, loc, sum.tensor, place,
                combine(eval.code, loc, sum.result->combiner, old, term));
          });
        }
      }
    }
  if (eval.pass == schedule.passes.lastPass()) {
    SmallVector<GPURow *> pointers;
    for (GPURow &row : rows)
      pointers.push_back(&row);
    storeElements(pointers);
  }
}

/// What each thread of a group has becomes the row's, in all of them.
void GPUEmitter::reduceGroups(MutableArrayRef<GPURow> rows,
                              MutableArrayRef<RowSum> rowSums) {
  struct Partial {
    RowSum *sum;
    GPURow *row;
    Value total, buffer;
  };
  SmallVector<Partial> partials;
  for (RowSum &sum : rowSums)
    for (auto [row, lanes] : llvm::zip(rows, sum.perRow)) {
      if (!lanes) { // no columns
        row.row.values[sum.tensor] =
            eval.operand(*sum.result->op.getDpsInitOperand(sum.result->index),
                         row.row, nullptr);
        continue;
      }
      Value total = foldLanes(eval.code, loc, sum.result->combiner, lanes, 1);
      total = reduceLanes(eval.code, loc, sum.result->combiner, total,
                          std::min(schedule.group, kWarp));
      partials.push_back({&sum, &row, total, Value()});
    }
  int64_t warps = schedule.group / kWarp;
  if (warps > 1 && !partials.empty()) {
    // With one reduction a turn the next writes elsewhere: it may find warps
    // that have not read yet.
    int64_t turns = hasOneReduction() ? 2 : 1;
    Value own = add(turn, warp);
    Value isWriter = isZero(eval.code, loc, warpLane);
    for (Partial &one : partials)
      one.buffer = addShared(function, one.total.getType(), warps * turns);
    emitIf(eval.code, loc, isWriter, [&] {
      for (Partial &one : partials)
        memref::StoreOp::create(
            eval.code, loc,
            toMemory(eval.code, loc, one.total, one.total.getType()),
            one.buffer, own);
    });
    gpu::BarrierOp::create(eval.code, loc);
    Value other = add(
        turn, arith::RemUIOp::create(eval.code, loc, warpLane, number(warps)));
    for (Partial &one : partials) {
      Type type = one.total.getType();
      Value raw = memref::LoadOp::create(eval.code, loc, one.buffer, other);
      one.total = reduceLanes(eval.code, loc, one.sum->result->combiner,
                              fromMemory(eval.code, loc, raw, type), warps);
    }
  }
  for (Partial &one : partials) {
    const KernelResult &result = *one.sum->result;
    OpOperand &init = *result.op.getDpsInitOperand(result.index);
    if (!isNeutral(matchUniformTensor(init.get()), result.combiner))
      one.total = combine(eval.code, loc, result.combiner,
                          eval.operand(init, one.row->row, nullptr), one.total);
    one.row->row.values[one.sum->tensor] = one.total;
  }
}

void GPUEmitter::emitPass(MutableArrayRef<GPURow> rows) {
  SmallVector<RowSum> rowSums;
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind == ResultKind::RowReduce &&
        schedule.passes.pass.lookup(value) == eval.pass)
      rowSums.push_back({value, &result, SmallVector<Value>(rows.size())});
  }
  if (schedule.keepsRow) {
    if (eval.pass == 0)
      openPieces(rows, Value());
    emitPieces(rows, rowSums);
    reduceGroups(rows, rowSums);
    return;
  }
  // A loop over columns that carries the sums.
  SmallVector<Value> carried;
  auto eachTotal =
      [&](llvm::function_ref<void(Value &, const KernelResult &)> f) {
        for (RowSum &sum : rowSums)
          for (Value &total : sum.perRow)
            f(total, *sum.result);
        for (Accumulator &sum : accumulators)
          if (!sum.keepsColumn && sum.overColumn)
            f(sum.totals[0], *sum.result);
      };
  eachTotal([&](Value &total, const KernelResult &result) {
    if (!total)
      total = neutralLanes(result);
    carried.push_back(total);
  });
  int64_t step = schedule.chunks * schedule.group * schedule.vector;
  SmallVector<Value> left =
      loop(number(0), model.columns(), number(step), carried,
           [&](Value base, ValueRange inside) {
             unsigned next = 0;
             eachTotal([&](Value &total, const KernelResult &) {
               total = inside[next++];
             });
             // Values of the row stay before the
             // loop.
             for (GPURow &row : rows)
               row.pieces.clear();
             openPieces(rows, base);
             emitPieces(rows, rowSums);
             SmallVector<Value> yielded;
             eachTotal([&](Value &total, const KernelResult &) {
               yielded.push_back(total);
             });
             return yielded;
           });
  unsigned next = 0;
  eachTotal([&](Value &total, const KernelResult &) { total = left[next++]; });
  for (GPURow &row : rows)
    row.pieces.clear();
  reduceGroups(rows, rowSums);
}

void GPUEmitter::emitRowEnd(MutableArrayRef<GPURow> rows) {
  struct Ready {
    const Store *store;
    GPURow *row;
    Value value;
  };
  SmallVector<Ready> ready;
  bool replaces = false;
  for (GPURow &row : rows)
    for (const Store &store : model.stores) {
      ResultKind kind = model.results.find(store.value)->second.kind;
      if (kind != ResultKind::RowScalar && kind != ResultKind::RowReduce)
        continue;
      ready.push_back(
          {&store, &row, eval.result(store.value, row.row, nullptr)});
      replaces |= replacesScalar(model, store);
    }
  Value isFirst = isZero(eval.code, loc, lane);
  if (schedule.columnBlocks > 1)
    isFirst =
        both(eval.code, loc, isFirst, isZero(eval.code, loc, columnBlock));
  for (Accumulator &sum : accumulators)
    if (!sum.overColumn)
      for (GPURow &row : rows) {
        Value term =
            eval.body(sum.result->op, sum.result->term, row.row, nullptr);
        term = selectValid(eval.code, loc,
                           both(eval.code, loc, isFirst, row.valid), term,
                           neutral(*sum.result));
        sum.totals[0] =
            combine(eval.code, loc, sum.result->combiner, sum.totals[0], term);
      }
  // The other threads of the row have read by now what is replaced.
  if (replaces && schedule.group > kWarp)
    gpu::BarrierOp::create(eval.code, loc);
  else if (replaces && schedule.group > 1)
    NVVM::SyncWarpOp::create(
        eval.code, loc, arith::ConstantIntOp::create(eval.code, loc, -1, 32));
  for (Ready &one : ready)
    storeScalar(*one.store, *one.row, one.value,
                both(eval.code, loc, isFirst, one.row->valid));
}

void GPUEmitter::emitBlock(MutableArrayRef<GPURow> rows) {
  for (eval.pass = 0; eval.pass < schedule.passes.passes; ++eval.pass)
    emitPass(rows);
  emitRowEnd(rows);
}

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
  int64_t step = schedule.chunks * schedule.group * schedule.vector;
  loop(number(0), model.columns(), number(step), {},
       [&](Value base, ValueRange) {
         GPURow row;
         openPieces(row, base);
         for (Accumulator &sum : accumulators)
           for (Piece &piece : row.pieces)
             if (sum.keepsColumn)
               emitIf(eval.code, loc, piece.valid, [&] {
                 Value place = sums.placeOf(eval.code, loc, sum.tensor,
                                            {split, columnBlock},
                                            keptCoordinates, piece.chunk.start);
                 sums.store(eval.code, loc, sum.tensor, place,
                            splat(eval.code, loc, neutral(*sum.result),
                                  schedule.vector));
               });
         return SmallVector<Value>();
       });
}

void GPUEmitter::emitRows() {
  int64_t rowCount = schedule.rowsOfBlock(model);
  int64_t perWarp = std::max<int64_t>(kWarp / schedule.group, 1);
  int64_t groups = schedule.groups(), atATime = schedule.rowsAtATime;
  openAccumulators();
  if (schedule.sumsInScratch)
    clearScratchSums();
  // Warps go together: the first of a warp's rows says how long.
  Value warpGroup = group, within = number(0);
  if (perWarp > 1) {
    within = arith::RemUIOp::create(eval.code, loc, group, number(perWarp));
    warpGroup = arith::SubIOp::create(eval.code, loc, group, within);
  }
  Value begin = addScaled(eval.code, loc, warpGroup, split, groups);
  Value stride = number(groups * schedule.splits);
  if (schedule.gridStride)
    stride = arith::MulIOp::create(
        eval.code, loc,
        gpu::GridDimOp::create(eval.code, loc, gpu::Dimension::x),
        number(groups));
  Value step = arith::MulIOp::create(eval.code, loc, stride, number(atATime));
  bool isEven = !schedule.gridStride &&
                rowCount % (groups * schedule.splits * atATime) == 0;
  bool isWhole = isEven || (atATime == 1 && rowCount % perWarp == 0);

  bool toggles = hasOneReduction() && schedule.group > kWarp;
  SmallVector<Value> carried;
  auto eachTotal = [&](llvm::function_ref<void(Value &)> f) {
    for (Accumulator &sum : accumulators)
      for (Value &total : sum.totals)
        f(total);
  };
  eachTotal([&](Value &total) { carried.push_back(total); });
  turn = number(0);
  if (toggles)
    carried.push_back(turn);
  SmallVector<int64_t> rowSizes;
  SmallVector<int> rowDims;
  for (auto [dim, size] : llvm::enumerate(model.rows()))
    if (!llvm::is_contained(schedule.kept, static_cast<int>(dim))) {
      rowSizes.push_back(size);
      rowDims.push_back(dim);
    }
  if (rowCount == 0)
    return closeAccumulators();
  SmallVector<Value> left =
      loop(begin, rowCount, step, carried, [&](Value first, ValueRange inside) {
        eval.row = eval.code;
        unsigned next = 0;
        eachTotal([&](Value &total) { total = inside[next++]; });
        if (toggles)
          turn = inside[next];
        SmallVector<GPURow, 1> rows(atATime);
        for (auto [r, row] : llvm::enumerate(rows)) {
          Value index = addScaled(eval.code, loc, add(first, within), stride,
                                  static_cast<int64_t>(r));
          if (!isWhole) {
            row.valid = isLess(eval.code, loc, index, rowCount);
            index = selectValid(eval.code, loc, row.valid, index, number(0));
          }
          row.row.inBlock = static_cast<int64_t>(r);
          row.row.coordinates.assign(model.rows().size(), Value());
          for (auto [dim, coordinate] :
               llvm::zip(rowDims, delinearize(eval.code, loc, index, rowSizes)))
            row.row.coordinates[dim] = coordinate;
          for (auto [dim, coordinate] :
               llvm::zip(schedule.kept, keptCoordinates))
            row.row.coordinates[dim] = coordinate;
        }
        emitBlock(rows);
        SmallVector<Value> yielded;
        eachTotal([&](Value &total) { yielded.push_back(total); });
        if (toggles)
          yielded.push_back(arith::SubIOp::create(
              eval.code, loc, number(schedule.group / kWarp), turn));
        return yielded;
      });
  unsigned next = 0;
  eachTotal([&](Value &total) { total = left[next++]; });
  closeAccumulators();
}

//===----------------------------------------------------------------------===//
// The end of sums
//===----------------------------------------------------------------------===//

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
    if (groups == 1) {
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
