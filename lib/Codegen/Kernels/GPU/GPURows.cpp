//===- GPURows.cpp - rows of a kernel of a GPU ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups of threads go from row to row: passes over a row, and its reductions.
// GPURowSums.cpp has what rows are summed up to.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitterImpl.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace mpcomm::kernels {

bool GPUEmitter::hasOneReduction() const {
  llvm::SmallDenseSet<int> passes;
  for (Value value : model.order)
    if (model.results.find(value)->second.kind == ResultKind::RowReduce &&
        !pickedPlace(value))
      passes.insert(schedule.passes.pass.lookup(value));
  return passes.size() == 1;
}

/// `term` as it was before it was extended from `narrow`.
static Value narrowed(OpBuilder &b, Location loc, Value term, Type narrow) {
  Type type = withLanesOf(narrow, term.getType());
  auto extended = term.getDefiningOp<arith::ExtFOp>();
  return extended && extended.getIn().getType() == type
             ? extended.getIn()
             : arith::TruncFOp::create(b, loc, type, term);
}

/// The type of 16 bits that all terms of a greatest or least element have been
/// extended from, without being changed; null if there is none. Two of them
/// are compared at a time, and need no conversion before.
static Type narrowTypeOf(const KernelModel &model, const KernelResult &result) {
  if (!isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
           arith::MinNumFOp>(result.combiner))
    return {};
  auto isNarrow = [](Type type) { return type.isBF16() || type.isF16(); };
  Value value = result.term;
  while (true) {
    if (auto extended = value.getDefiningOp<arith::ExtFOp>()) {
      value = extended.getIn();
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    auto op =
        argument
            ? dyn_cast<linalg::LinalgOp>(argument.getOwner()->getParentOp())
            : nullptr;
    if (!op)
      return {};
    Value tensor = op.getMatchingOpOperand(argument)->get();
    if (isa<BlockArgument>(tensor)) {
      Type element = getElementTypeOrSelf(tensor);
      return isNarrow(element) ? element : Type();
    }
    auto known = model.results.find(tensor);
    if (known == model.results.end() || known->second.reduced.any())
      return {};
    linalg::LinalgOp source = known->second.op;
    value = source.getBlock()->getTerminator()->getOperand(known->second.index);
  }
}

Value GPUEmitter::neutralLanes(const KernelResult &result, Type narrow) {
  Value start = neutral(result);
  if (narrow) {
    auto number = cast<FloatAttr>(neutralOf(result.combiner));
    start = arith::ConstantOp::create(
        eval.row, loc,
        eval.row.getFloatAttr(narrow, number.getValueAsDouble()));
  }
  return splat(eval.row, loc, start, schedule.vector);
}

Value GPUEmitter::termOf(const KernelResult &result, GPURow &row, Piece &piece,
                         Type narrow) {
  Value term =
      eval.lanes(eval.body(result.op, result.term, row.row, &piece.chunk),
                 row.row, piece.chunk);
  if (narrow)
    term = narrowed(eval.code, loc, term, narrow);
  return selectValid(eval.code, loc, piece.valid, term,
                     neutralLanes(result, narrow));
}

/// Opens a piece of each row at column `start`, where that is `valid`.
void GPUEmitter::openPiece(MutableArrayRef<GPURow> rows, Value start,
                           Value valid) {
  for (GPURow &row : rows) {
    Piece piece;
    piece.chunk.start = start;
    piece.chunk.width = piece.chunk.active = schedule.vector;
    piece.valid = both(eval.code, loc, row.valid, valid);
    row.pieces.push_back(std::move(piece));
  }
}

/// The pieces of each row that are kept in registers or, if `base` is given,
/// those of a turn from there on, which all exist. Rows without columns have
/// none: there is no first column to read.
void GPUEmitter::openPieces(MutableArrayRef<GPURow> rows, Value base) {
  if (model.columns() == 0)
    return;
  int64_t vector = schedule.vector, group = schedule.group;
  int64_t all = schedule.chunks * group * vector * schedule.columnBlocks;
  for (int64_t i = 0; i < schedule.chunks; ++i) {
    Value place = add(lane, number(i * group));
    if (schedule.columnBlocks > 1)
      place = addScaled(eval.code, loc, place, columnBlock,
                        schedule.chunks * group);
    Value start = addScaled(eval.code, loc, number(0), place, vector);
    bool isThere = schedule.columnBlocks == 1
                       ? (i + 1) * group * vector <= model.columns()
                       : all == model.columns();
    Value valid;
    if (base) {
      start = add(start, base);
    } else if (!isThere) {
      valid = isLess(eval.code, loc, start, model.columns());
      start = selectValid(eval.code, loc, valid, start, number(0));
    }
    openPiece(rows, start, valid);
  }
}

/// Two loops over the columns of rows that are not kept: one whose turns have
/// all chunks of all threads, and one in which a thread goes on chunk by chunk
/// as far as it has some. So nothing is asked of a chunk, and none is computed
/// in vain. `body` gets what is carried, and the pieces in `rows`.
SmallVector<Value> GPUEmitter::overColumns(
    MutableArrayRef<GPURow> rows, ValueRange carried,
    llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  int64_t chunk = schedule.group * schedule.vector;
  int64_t turn = schedule.chunks * chunk;
  int64_t whole = model.columns() / turn * turn;
  auto clear = [&] {
    // Values of the row stay before the loop.
    for (GPURow &row : rows)
      row.pieces.clear();
  };
  SmallVector<Value> values = llvm::to_vector(carried);
  if (whole > 0)
    values = loop(number(0), whole, number(turn), values,
                  [&](Value base, ValueRange inside) {
                    clear();
                    openPieces(rows, base);
                    return body(inside);
                  });
  if (whole < model.columns()) {
    Value first =
        addScaled(eval.code, loc, number(whole), lane, schedule.vector);
    values = loop(first, model.columns(), number(chunk), values,
                  [&](Value start, ValueRange inside) {
                    clear();
                    openPiece(rows, start, Value());
                    return body(inside);
                  });
  }
  clear();
  return values;
}

/// Where a chunk of a row is in shared memory.
Value GPUEmitter::placeInShared(const GPUSchedule::SharedRow &row,
                                const Chunk &chunk) {
  Type element = memoryType(eval.elementOf(row.access.argument));
  Value at = addScaled(eval.code, loc, number(row.offset), chunk.start,
                       element.getIntOrFloatBitWidth() / 8);
  Type i64 = eval.code.getI64Type();
  return LLVM::GEPOp::create(
      eval.code, loc, sharedBase.getType(), eval.code.getI8Type(), sharedBase,
      ArrayRef<LLVM::GEPArg>{
          arith::IndexCastUIOp::create(eval.code, loc, i64, at).getResult()});
}

/// Integers of the size of a chunk's elements: LLVM has no floats of 8 bits.
static VectorType integersLike(VectorType chunk) {
  return VectorType::get(
      chunk.getShape(),
      IntegerType::get(chunk.getContext(), chunk.getElementTypeBitWidth()));
}

/// Of a chunk; the rows begin at multiples of kAccessBytes.
static unsigned alignmentInShared(VectorType chunk) {
  int64_t bytes = chunk.getElementTypeBitWidth() / 8 * chunk.getNumElements();
  return static_cast<unsigned>(std::min(bytes, kAccessBytes));
}

/// What the first pass has put there is known of the piece.
void GPUEmitter::readShared(Piece &piece) {
  for (const GPUSchedule::SharedRow &row : schedule.sharedRows) {
    Type element = eval.elementOf(row.access.argument);
    auto type = VectorType::get({schedule.vector}, memoryType(element));
    Value raw = LLVM::LoadOp::create(eval.code, loc, integersLike(type),
                                     placeInShared(row, piece.chunk),
                                     alignmentInShared(type));
    if (raw.getType() != type)
      raw = arith::BitcastOp::create(eval.code, loc, type, raw);
    piece.chunk.loads.push_back(
        {row.access, fromMemory(eval.code, loc, raw, element)});
  }
}

/// Puts there what the first pass reads of the piece.
void GPUEmitter::writeShared(GPURow &row, Piece &piece) {
  for (const GPUSchedule::SharedRow &shared : schedule.sharedRows) {
    Value value = eval.load(shared.access, row.row, &piece.chunk);
    Value raw =
        toMemory(eval.code, loc, value, eval.elementOf(shared.access.argument));
    auto type = cast<VectorType>(raw.getType());
    if (integersLike(type) != type)
      raw = arith::BitcastOp::create(eval.code, loc, integersLike(type), raw);
    LLVM::StoreOp::create(eval.code, loc, raw,
                          placeInShared(shared, piece.chunk),
                          alignmentInShared(type));
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
      if (eval.pass > 0)
        readShared(piece);
      for (RowSum &sum : rowSums)
        addTo(sum.perRow[r], *sum.result,
              termOf(*sum.result, row, piece, sum.narrow));
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
  if (eval.pass == 0)
    for (GPURow &row : rows)
      for (Piece &piece : row.pieces)
        writeShared(row, piece);
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
      if (sum.narrow)
        total = arith::ExtFOp::create(eval.code, loc, computeType(sum.narrow),
                                      total);
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
    if (result.kind != ResultKind::RowReduce ||
        schedule.passes.pass.lookup(value) != eval.pass)
      continue;
    if (Value place = pickedPlace(value))
      pickColumn(value, place, rows);
    else
      rowSums.push_back({value, &result, narrowTypeOf(model, result),
                         SmallVector<Value>(rows.size())});
  }
  if (schedule.keepsRow) {
    if (eval.pass == 0)
      openPieces(rows, Value());
    // What only the last pass needs would wait for the reductions before it.
    if (eval.pass == 0 && schedule.passes.passes > 1)
      for (GPURow &row : rows)
        for (Piece &piece : row.pieces)
          eval.loadAll(row.row, piece.chunk);
    emitPieces(rows, rowSums);
    reduceGroups(rows, rowSums);
    return;
  }
  // Loops over columns that carry the sums.
  SmallVector<Value> carried;
  auto eachTotal =
      [&](llvm::function_ref<void(Value &, const KernelResult &, Type)> f) {
        for (RowSum &sum : rowSums)
          for (Value &total : sum.perRow)
            f(total, *sum.result, sum.narrow);
        for (Accumulator &sum : accumulators)
          if (!sum.keepsColumn && sum.overColumn)
            f(sum.totals[0], *sum.result, Type());
      };
  eachTotal([&](Value &total, const KernelResult &result, Type narrow) {
    if (!total)
      total = neutralLanes(result, narrow);
    carried.push_back(total);
  });
  SmallVector<Value> left = overColumns(rows, carried, [&](ValueRange inside) {
    unsigned next = 0;
    eachTotal([&](Value &total, const KernelResult &, Type) {
      total = inside[next++];
    });
    emitPieces(rows, rowSums);
    SmallVector<Value> yielded;
    eachTotal([&](Value &total, const KernelResult &, Type) {
      yielded.push_back(total);
    });
    return yielded;
  });
  unsigned next = 0;
  eachTotal(
      [&](Value &total, const KernelResult &, Type) { total = left[next++]; });
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

void GPUEmitter::emitRows() {
  int64_t rowCount = schedule.rowsOfBlock(model);
  int64_t perWarp = std::max<int64_t>(kWarp / schedule.group, 1);
  int64_t groups = schedule.groups(), atATime = schedule.rowsAtATime;
  openAccumulators();
  if (schedule.sharedRowBytes)
    sharedBase = launchShared(eval.code, loc, kAccessBytes);
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
  if (schedule.sumsOfGroups)
    begin = within = number(0), stride = number(1), groups = perWarp = 1;
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

} // namespace mpcomm::kernels
