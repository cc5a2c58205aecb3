//===- DeviceEmitter.cpp - kernels for a GPU ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Invariants: what a thread stores of a chunk it has computed before, so that a
// result may replace an operand. Threads without work compute what some other
// thread does too, at the first column or row, and store nothing: no branch
// surrounds loads or shuffles. A barrier stands in a loop only where all
// threads of the block take as many turns.
//
//===----------------------------------------------------------------------===//

#include "DeviceEmitter.h"
#include "DeviceReduce.h"
#include "DeviceSums.h"
#include "Evaluator.h"
#include "LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace mpcomm::kernels {

DeviceKernel createDeviceKernel(OpBuilder &b, Location loc, StringRef name,
                                ArrayRef<MemRefType> layouts, int64_t threads,
                                int64_t scratchBytes) {
  SmallVector<Type> arguments;
  for (MemRefType layout : layouts)
    arguments.push_back(MemRefType::get(layout.getShape(),
                                        memoryType(layout.getElementType()),
                                        layout.getLayout()));
  if (scratchBytes)
    arguments.push_back(MemRefType::get({scratchBytes}, b.getI8Type()));
  auto function = gpu::GPUFuncOp::create(
      b, loc, name, FunctionType::get(b.getContext(), arguments, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  // Else ptxas spills where that makes room for one block more.
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    b.getI32IntegerAttr(1));
  OpBuilder body = OpBuilder::atBlockEnd(&function.getBody().front());
  gpu::ReturnOp::create(body, loc);
  DeviceKernel kernel;
  kernel.function = function;
  kernel.threads = threads;
  kernel.scratchBytes = scratchBytes;
  return kernel;
}

/// A destination of one value, which the kernel reads too.
static bool replacesScalar(const KernelModel &model, const Store &store) {
  return llvm::any_of(model.accesses, [&](const auto &entry) {
    return entry.second.argument == store.access.argument;
  });
}

static bool isUniform(const KernelModel &model, const Store &store) {
  return model.results.find(store.value)->second.kind == Kind::Uniform;
}

namespace {
class DeviceEmitter {
public:
  DeviceEmitter(const KernelModel &model, const DeviceSchedule &schedule,
                DeviceSums &sums, gpu::GPUFuncOp function)
      : model(model), schedule(schedule), sums(sums), function(function),
        eval(model, schedule.passes, function.getBody().front(),
             function.getArguments().take_front(model.layouts.size())),
        loc(function.getLoc()) {}
  /// The whole kernel; uniform results too, unless `storesUniform` is false.
  void run(bool storesUniform);
  /// Uniform results alone.
  void runUniform();

private:
  /// A chunk of a row and whether its thread has it (null: yes).
  struct Piece {
    Chunk chunk;
    Value valid;
  };
  /// A row of a group.
  struct DeviceRow {
    Row row;
    Value valid;
    /// The pieces that are there in the present pass; in registers, in all.
    SmallVector<Piece, 1> pieces;
  };
  /// A reduction along rows while its pass runs.
  struct RowSum {
    Value tensor;
    const Result *result;
    SmallVector<Value> perRow;
  };
  /// A sum over rows while they run: of each of the thread's chunks, or one.
  struct Accumulator {
    Value tensor;
    const Result *result;
    bool keepsColumn, overColumn;
    SmallVector<Value> totals;
  };

  Value number(int64_t value) { return indexConstant(eval.code, loc, value); }
  Value add(Value lhs, Value rhs) {
    return addScaled(eval.code, loc, lhs, rhs, 1);
  }
  void setGeometry();
  /// A loop from `begin` in steps; emits its body with what it carries, which
  /// it returns.
  SmallVector<Value>
  loop(Value begin, int64_t end, Value step, ValueRange carried,
       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);

  void storeUniform();
  void emitFills();
  void emitItems();
  void emitRows();
  void emitBlock(MutableArrayRef<DeviceRow> rows);
  void emitPass(MutableArrayRef<DeviceRow> rows);
  void openPieces(MutableArrayRef<DeviceRow> rows, Value base);
  void emitPieces(MutableArrayRef<DeviceRow> rows,
                  MutableArrayRef<RowSum> sums);
  void emitRowEnd(MutableArrayRef<DeviceRow> rows);
  void reduceGroups(MutableArrayRef<DeviceRow> rows,
                    MutableArrayRef<RowSum> sums);
  void openAccumulators();
  void clearScratchSums();
  void closeAccumulators();
  void storeElements(MutableArrayRef<DeviceRow *> rows);
  void storeScalar(const Store &store, DeviceRow &row, Value value,
                   Value condition);
  Value termOf(const Result &result, DeviceRow &row, Piece &piece);
  Value neutral(const Result &result) {
    return eval.constant(neutralOf(result.combiner));
  }
  Value neutralLanes(const Result &result) {
    return splat(eval.row, loc, neutral(result), schedule.vector);
  }
  /// Whether barriers of one reduction alone are in the loop over rows.
  bool hasOneReduction() const;
  SmallVector<int64_t> keptSizes() const;
  /// True where there are no rows because a dimension that sums keep is empty.
  bool keepsNothing() const { return llvm::is_contained(keptSizes(), 0); }

  const KernelModel &model;
  const DeviceSchedule &schedule;
  DeviceSums &sums;
  gpu::GPUFuncOp function;
  Evaluator eval;
  Location loc;

  Value thread, block, lane, group, warpLane, warp;
  Value columnBlock, split;
  SmallVector<Value> keptCoordinates;
  SmallVector<Accumulator> accumulators;
  /// Where the buffers of row reductions are in this turn.
  Value turn;
  /// By type: sums of columns of all groups of the block.
  DenseMap<Type, Value> sharedSums;
};
} // namespace

void DeviceEmitter::setGeometry() {
  OpBuilder &b = eval.code;
  thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  if (schedule.mapping == DeviceSchedule::Items || !model.hasColumn())
    return;
  Value size = number(schedule.group), width = number(kWarp);
  lane = thread;
  group = number(0);
  if (schedule.group < schedule.threads) {
    lane = arith::RemUIOp::create(b, loc, thread, size);
    group = arith::DivUIOp::create(b, loc, thread, size);
  }
  warpLane = arith::RemUIOp::create(b, loc, thread, width);
  warp = arith::DivUIOp::create(b, loc, thread, width);
  split = block;
  columnBlock = number(0);
  if (schedule.spreads || keepsNothing())
    return;
  // Blocks: splits, then kept rows, then columns.
  SmallVector<int64_t> sizes{schedule.splits};
  llvm::append_range(sizes, keptSizes());
  sizes.push_back(schedule.columnBlocks);
  SmallVector<Value> place = delinearize(b, loc, block, sizes);
  split = place.front();
  columnBlock = place.back();
  keptCoordinates.assign(place.begin() + 1, place.end() - 1);
}

SmallVector<int64_t> DeviceEmitter::keptSizes() const {
  SmallVector<int64_t> sizes;
  for (int dim : schedule.kept)
    sizes.push_back(model.sizes[dim]);
  return sizes;
}

SmallVector<Value> DeviceEmitter::loop(
    Value begin, int64_t end, Value step, ValueRange carried,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op =
      scf::ForOp::create(eval.code, loc, begin, number(end), step, carried);
  OpBuilder after = eval.code;
  OpBuilder before = after;
  before.setInsertionPoint(op);
  bool isOutermost =
      eval.entry.getInsertionBlock() == op->getBlock() &&
      eval.entry.getInsertionPoint() == after.getInsertionPoint();
  if (isOutermost)
    eval.entry = before;
  // What is of the row and first asked for in a loop over columns.
  eval.row = before;
  if (carried.empty())
    eval.code.setInsertionPoint(op.getBody()->getTerminator());
  else
    eval.code.setInsertionPointToEnd(op.getBody());
  SmallVector<Value> yielded =
      body(op.getInductionVar(), op.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(eval.code, loc, yielded);
  eval.code = after;
  eval.row = after;
  if (isOutermost)
    eval.entry = after;
  return llvm::to_vector(ValueRange(op.getResults()));
}

//===----------------------------------------------------------------------===//
// Fills and items
//===----------------------------------------------------------------------===//

void DeviceEmitter::emitFills() {
  for (auto [argument, value] : model.fills) {
    MemRefType layout = model.layouts[argument];
    int64_t elements = layout.getNumElements();
    if (elements == 0)
      continue;
    Type element = eval.elementOf(argument);
    Value raw = toMemory(eval.code, loc, eval.constant(value), element);
    auto [strides, offset] = layout.getStridesAndOffset();
    bool isFlat = MemRefType::get(layout.getShape(), element)
                      .getStridesAndOffset()
                      .first == strides;
    int64_t width = 128 / memoryType(element).getIntOrFloatBitWidth();
    uint64_t known = model.alignments.empty() ? 1 : model.alignments[argument];
    if (!isFlat || elements % width != 0 || known < 16)
      width = 1;
    Value begin = addScaled(eval.code, loc, thread, block, schedule.threads);
    Value step = arith::MulIOp::create(
        eval.code, loc,
        gpu::GridDimOp::create(eval.code, loc, gpu::Dimension::x),
        number(schedule.threads));
    loop(begin, elements / width, step, {}, [&](Value item, ValueRange) {
      Value at = addScaled(eval.code, loc, number(0), item, width);
      if (!isFlat) {
        Value place = number(0);
        for (auto [coordinate, stride] : llvm::zip(
                 delinearize(eval.code, loc, item, layout.getShape()), strides))
          place = addScaled(eval.code, loc, place, coordinate, stride);
        at = place;
      }
      storeLanes(eval.code, loc, eval.flat(argument), at, 1,
                 splat(eval.code, loc, raw, width), Value(),
                 width > 1 ? llvm::MaybeAlign(16) : llvm::MaybeAlign());
      return SmallVector<Value>();
    });
  }
}

void DeviceEmitter::emitItems() {
  int64_t perRow = model.columns() / schedule.vector;
  int64_t items = perRow;
  for (int64_t size : model.rows())
    items *= size;
  if (items == 0)
    return;
  int64_t tile = schedule.threads * schedule.unroll;
  Value grid = gpu::GridDimOp::create(eval.code, loc, gpu::Dimension::x);
  loop(
      block, llvm::divideCeil(items, tile), grid, {},
      [&](Value turn, ValueRange) {
        eval.row = eval.code;
        eval.pass = schedule.passes.lastPass();
        SmallVector<DeviceRow, 1> rows(schedule.unroll);
        SmallVector<DeviceRow *> pointers;
        Value first = addScaled(eval.code, loc, thread, turn, tile);
        for (auto [u, row] : llvm::enumerate(rows)) {
          Value item = add(first, number(u * schedule.threads));
          if (items % tile != 0) {
            row.valid = isLess(eval.code, loc, item, items);
            item = selectValid(eval.code, loc, row.valid, item, number(0));
          }
          SmallVector<int64_t> sizes(model.rows());
          sizes.push_back(perRow);
          row.row.coordinates = delinearize(eval.code, loc, item, sizes);
          Value chunk = row.row.coordinates.pop_back_val();
          Piece piece;
          piece.valid = row.valid;
          piece.chunk.start =
              addScaled(eval.code, loc, number(0), chunk, schedule.vector);
          piece.chunk.width = piece.chunk.active = schedule.vector;
          row.pieces.push_back(std::move(piece));
          pointers.push_back(&row);
        }
        // All results before the first of them is stored.
        SmallVector<std::tuple<const Store *, DeviceRow *, Value>> scalars;
        for (DeviceRow &row : rows)
          for (const Store &store : model.stores)
            if (model.results.find(store.value)->second.kind == Kind::RowScalar)
              scalars.push_back(
                  {&store, &row, eval.result(store.value, row.row, nullptr)});
        storeElements(pointers);
        for (auto &[store, row, value] : scalars)
          storeScalar(*store, *row, value,
                      both(eval.code, loc, row->valid,
                           isZero(eval.code, loc, row->pieces[0].chunk.start)));
        return SmallVector<Value>();
      });
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// True at the rows that may store: see Store::onceOver.
static Value isFirstOf(OpBuilder &b, Location loc, const Store &store,
                       const Row &row) {
  Value first;
  for (int dim : store.onceOver)
    first = both(b, loc, first, isZero(b, loc, row.coordinates[dim]));
  return first;
}

void DeviceEmitter::storeElements(MutableArrayRef<DeviceRow *> rows) {
  struct Ready {
    const Store *store;
    Value raw, at, condition;
  };
  SmallVector<Ready> ready;
  for (DeviceRow *row : rows)
    for (Piece &piece : row->pieces)
      for (const Store &store : model.stores) {
        if (model.results.find(store.value)->second.kind != Kind::Element)
          continue;
        Value value =
            eval.lanes(eval.result(store.value, row->row, &piece.chunk),
                       row->row, piece.chunk);
        Value raw = toMemory(eval.code, loc, value,
                             eval.elementOf(store.access.argument));
        Value at = eval.indexAt(store.access, row->row, piece.chunk);
        ready.push_back({&store, raw, at,
                         both(eval.code, loc, piece.valid,
                              isFirstOf(eval.code, loc, store, row->row))});
      }
  for (const Ready &one : ready)
    emitIf(eval.code, loc, one.condition, [&] {
      const Access &access = one.store->access;
      storeLanes(eval.code, loc, eval.flat(access.argument), one.at,
                 access.strides[model.column()], one.raw, Value(),
                 eval.alignmentOf(access, schedule.vector));
    });
}

void DeviceEmitter::storeScalar(const Store &store, DeviceRow &row, Value value,
                                Value condition) {
  const Access &access = store.access;
  Value raw = toMemory(eval.code, loc, value, eval.elementOf(access.argument));
  Value at = eval.base(access, row.row);
  condition = both(eval.code, loc, condition,
                   isFirstOf(eval.code, loc, store, row.row));
  emitIf(eval.code, loc, condition, [&] {
    memref::StoreOp::create(eval.code, loc, raw, eval.flat(access.argument),
                            at);
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

bool DeviceEmitter::hasOneReduction() const {
  llvm::SmallDenseSet<int> passes;
  for (Value value : model.order)
    if (model.results.find(value)->second.kind == Kind::RowReduce)
      passes.insert(schedule.passes.pass.lookup(value));
  return passes.size() == 1;
}

Value DeviceEmitter::termOf(const Result &result, DeviceRow &row,
                            Piece &piece) {
  Value term =
      eval.lanes(eval.body(result.op, result.term, row.row, &piece.chunk),
                 row.row, piece.chunk);
  return selectValid(eval.code, loc, piece.valid, term, neutralLanes(result));
}

/// The pieces of each row from column `base` on (null: the row's first). Rows
/// without columns have none: there is no first column to read.
void DeviceEmitter::openPieces(MutableArrayRef<DeviceRow> rows, Value base) {
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
    for (DeviceRow &row : rows) {
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
void DeviceEmitter::emitPieces(MutableArrayRef<DeviceRow> rows,
                               MutableArrayRef<RowSum> rowSums) {
  auto addTo = [&](Value &total, const Result &result, Value term) {
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
    SmallVector<DeviceRow *> pointers;
    for (DeviceRow &row : rows)
      pointers.push_back(&row);
    storeElements(pointers);
  }
}

/// What each thread of a group has becomes the row's, in all of them.
void DeviceEmitter::reduceGroups(MutableArrayRef<DeviceRow> rows,
                                 MutableArrayRef<RowSum> rowSums) {
  struct Partial {
    RowSum *sum;
    DeviceRow *row;
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
    const Result &result = *one.sum->result;
    OpOperand &init = *result.op.getDpsInitOperand(result.index);
    if (!startsNeutral(result, init.get()))
      one.total = combine(eval.code, loc, result.combiner,
                          eval.operand(init, one.row->row, nullptr), one.total);
    one.row->row.values[one.sum->tensor] = one.total;
  }
}

void DeviceEmitter::emitPass(MutableArrayRef<DeviceRow> rows) {
  SmallVector<RowSum> rowSums;
  for (Value value : model.order) {
    const Result &result = model.results.find(value)->second;
    if (result.kind == Kind::RowReduce &&
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
  auto eachTotal = [&](llvm::function_ref<void(Value &, const Result &)> f) {
    for (RowSum &sum : rowSums)
      for (Value &total : sum.perRow)
        f(total, *sum.result);
    for (Accumulator &sum : accumulators)
      if (!sum.keepsColumn && sum.overColumn)
        f(sum.totals[0], *sum.result);
  };
  eachTotal([&](Value &total, const Result &result) {
    if (!total)
      total = neutralLanes(result);
    carried.push_back(total);
  });
  int64_t step = schedule.chunks * schedule.group * schedule.vector;
  SmallVector<Value> left = loop(number(0), model.columns(), number(step),
                                 carried, [&](Value base, ValueRange inside) {
                                   unsigned next = 0;
                                   eachTotal([&](Value &total, const Result &) {
                                     total = inside[next++];
                                   });
                                   // Values of the row stay in front of the
                                   // loop.
                                   for (DeviceRow &row : rows)
                                     row.pieces.clear();
                                   openPieces(rows, base);
                                   emitPieces(rows, rowSums);
                                   SmallVector<Value> yielded;
                                   eachTotal([&](Value &total, const Result &) {
                                     yielded.push_back(total);
                                   });
                                   return yielded;
                                 });
  unsigned next = 0;
  eachTotal([&](Value &total, const Result &) { total = left[next++]; });
  for (DeviceRow &row : rows)
    row.pieces.clear();
  reduceGroups(rows, rowSums);
}

void DeviceEmitter::emitRowEnd(MutableArrayRef<DeviceRow> rows) {
  struct Ready {
    const Store *store;
    DeviceRow *row;
    Value value;
  };
  SmallVector<Ready> ready;
  bool replaces = false;
  for (DeviceRow &row : rows)
    for (const Store &store : model.stores) {
      Kind kind = model.results.find(store.value)->second.kind;
      if (kind != Kind::RowScalar && kind != Kind::RowReduce)
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
      for (DeviceRow &row : rows) {
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

void DeviceEmitter::emitBlock(MutableArrayRef<DeviceRow> rows) {
  for (eval.pass = 0; eval.pass < schedule.passes.passes; ++eval.pass)
    emitPass(rows);
  emitRowEnd(rows);
}

void DeviceEmitter::openAccumulators() {
  for (Value value : model.order) {
    const Result &result = model.results.find(value)->second;
    if (result.kind != Kind::Accumulate)
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
void DeviceEmitter::clearScratchSums() {
  int64_t step = schedule.chunks * schedule.group * schedule.vector;
  loop(number(0), model.columns(), number(step), {},
       [&](Value base, ValueRange) {
         DeviceRow row;
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

void DeviceEmitter::emitRows() {
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
  if (schedule.spreads)
    stride = arith::MulIOp::create(
        eval.code, loc,
        gpu::GridDimOp::create(eval.code, loc, gpu::Dimension::x),
        number(groups));
  Value step = arith::MulIOp::create(eval.code, loc, stride, number(atATime));
  bool isEven =
      !schedule.spreads && rowCount % (groups * schedule.splits * atATime) == 0;
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
        SmallVector<DeviceRow, 1> rows(atATime);
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

void DeviceEmitter::closeAccumulators() {
  int64_t vector = schedule.vector, size = schedule.group;
  int64_t groups = schedule.groups(), threads = schedule.threads;
  int64_t columns = schedule.chunks * size * vector; // of a block
  bool hasBarrier = false;
  Value columnBase = addScaled(eval.code, loc, number(0), columnBlock, columns);
  for (Accumulator &sum : accumulators) {
    const Result &result = *sum.result;
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

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void DeviceEmitter::runUniform() {
  setGeometry();
  storeUniform();
}

void DeviceEmitter::storeUniform() {
  Row row;
  SmallVector<std::pair<unsigned, Value>> values;
  for (const Store &store : model.stores)
    if (isUniform(model, store))
      values.push_back(
          {store.access.argument, eval.result(store.value, row, nullptr)});
  Value isFirst = isZero(eval.code, loc, thread);
  emitIf(eval.code, loc,
         both(eval.code, loc, isFirst, isZero(eval.code, loc, block)), [&] {
           for (auto [argument, value] : values)
             memref::StoreOp::create(
                 eval.code, loc,
                 toMemory(eval.code, loc, value, eval.elementOf(argument)),
                 eval.flat(argument), number(0));
         });
}

void DeviceEmitter::run(bool storesUniform) {
  setGeometry();
  if (sums.scratchBytes())
    sums.open(eval.code, loc, function.getArguments()[model.layouts.size()]);
  emitFills();
  if (model.hasColumn()) {
    if (schedule.mapping == DeviceSchedule::Items)
      emitItems();
    else if (!keepsNothing())
      emitRows();
  }
  if (storesUniform && llvm::any_of(model.stores, [&](const Store &store) {
        return isUniform(model, store);
      }))
    storeUniform();
}

SmallVector<DeviceKernel> emitDeviceKernels(const KernelModel &model,
                                            const DeviceSchedule &schedule,
                                            OpBuilder &b, StringRef name) {
  Location loc = model.kernel.getLoc();
  SmallVector<DeviceKernel> kernels;
  DeviceSums sums(model, schedule);
  // Other threads may not have read yet what a scalar replaces.
  bool separate =
      model.hasColumn() && llvm::any_of(model.stores, [&](const Store &store) {
        return isUniform(model, store) && replacesScalar(model, store);
      });
  DeviceKernel main = createDeviceKernel(b, loc, name, model.layouts,
                                         schedule.threads, sums.scratchBytes());
  main.blocks = schedule.blocks;
  main.spreads = schedule.spreads;
  DeviceEmitter(model, schedule, sums, main.function).run(!separate);
  kernels.push_back(main);
  if (sums.scratchBytes()) {
    DeviceKernel kernel =
        createDeviceKernel(b, loc, (name + "_sums").str(), model.layouts,
                           kSumThreads, sums.scratchBytes());
    sums.emit(kernel);
    kernels.push_back(kernel);
  }
  if (separate) {
    DeviceKernel kernel = createDeviceKernel(b, loc, (name + "_scalars").str(),
                                             model.layouts, kWarp, 0);
    DeviceEmitter(model, schedule, sums, kernel.function).runUniform();
    kernels.push_back(kernel);
  }
  return kernels;
}

} // namespace mpcomm::kernels
