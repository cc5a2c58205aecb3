//===- KernelEmitter.cpp - loops of a kernel ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops over rows; in each, one pass after the other over chunks of columns.
//
// Invariants: all values that go to memory at a chunk (at a row) are computed
// before the first of them is stored, and elements are stored in the last pass,
// so that a result may replace an operand. A row reduction has one accumulator
// of the width of a chunk, folded when chunks get narrower and at the end.
//
//===----------------------------------------------------------------------===//

#include "Kernels/CPU/KernelEmitter.h"
#include "Kernels/Model/Evaluator.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace mpcomm::kernels {

/// Bytes of stack for sums of columns in half precision.
static constexpr int64_t kMaxScratchBytes = 1 << 18;

namespace {
class KernelEmitter {
public:
  KernelEmitter(const KernelModel &model, const Schedule &schedule,
                func::FuncOp function)
      : model(model), schedule(schedule), function(function),
        eval(model, schedule, function.getBody().front(),
             function.getBody().front().getArguments()),
        loc(function.getLoc()) {}
  LogicalResult run();

private:
  /// A row reduction while its pass runs: its terms so far.
  struct Sum {
    Value tensor;
    const KernelResult *result;
    SmallVector<Value> perRow;
  };
  /// Where a result that is summed over rows lies until the end.
  struct Target {
    Value flat;
    Type element;
    KernelAccess access;
  };

  LogicalResult prepareTargets();
  void fill(Value flat, unsigned argument, TypedAttr value, bool scratch);
  void emitRows();
  /// Moves where code of rows goes; without rows, that of the entry too.
  void setRow(const OpBuilder &b) {
    eval.row = b;
    if (model.rows().empty())
      eval.entry = b;
  }
  void emitBlock(MutableArrayRef<Row> rows);
  void emitPass(MutableArrayRef<Row> rows);
  void emitChunk(MutableArrayRef<Row> rows, MutableArrayRef<Chunk> chunks,
                 MutableArrayRef<Sum> sums);
  void emitPiece(MutableArrayRef<Row> rows, const Piece &piece,
                 MutableArrayRef<Sum> sums);
  void emitRowEnd(MutableArrayRef<Row> rows);
  void storeBuffers(Row &row, Chunk &chunk);
  /// Calls `emit` for a store, under a condition if only one row may do it.
  void storeOnce(const Store &store, Row &row, llvm::function_ref<void()> emit);
  void storeElements(Row &row, Chunk &chunk);
  /// Adds to a sum over rows: a scalar, or the columns of a chunk.
  void addToTarget(Value tensor, Row &row, Value term);
  void addToColumns(Value tensor, Row &row, Chunk &chunk, Value total);
  void finishTargets();
  Value termOf(const KernelResult &result, Row &row, Chunk &chunk);
  void roundTarget(unsigned argument, const Target &target);
  void eachOf(ResultKind kind,
              llvm::function_ref<void(Value, const KernelResult &)> f);

  const KernelModel &model;
  const Schedule &schedule;
  func::FuncOp function;
  Evaluator eval;
  Location loc;
  llvm::DenseMap<Value, Target> targets;
  /// Chunks of the present row, by first column, where the row is kept.
  llvm::DenseMap<int64_t, SmallVector<Chunk, 1>> kept;
};
} // namespace

void KernelEmitter::eachOf(
    ResultKind kind, llvm::function_ref<void(Value, const KernelResult &)> f) {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind == kind)
      f(value, result);
  }
}

void KernelEmitter::fill(Value flat, unsigned argument, TypedAttr value,
                         bool scratch) {
  MemRefType layout = model.layouts[argument];
  Value scalar = eval.constant(value);
  if (!scratch)
    scalar = toMemory(eval.code, loc, scalar, layout.getElementType());
  forEachChunk(eval.code, loc, layout, schedule.width, schedule.lanes,
               [&](OpBuilder &b, Value index, Value place, int64_t stride,
                   int64_t width, Value mask) {
                 storeLanes(b, loc, flat, scratch ? place : index,
                            scratch ? 1 : stride, splat(b, loc, scalar, width),
                            mask);
               });
}

LogicalResult KernelEmitter::prepareTargets() {
  LogicalResult status = success();
  eachOf(ResultKind::Accumulate, [&](Value value, const KernelResult &result) {
    const Store *store = model.storeOf(value);
    unsigned argument = store->access.argument;
    MemRefType layout = model.layouts[argument];
    Type element = layout.getElementType();
    Target target{eval.flat(argument), element, store->access};
    TypedAttr init =
        matchUniformTensor(result.op.getDpsInitOperand(result.index)->get());
    if (schedule.sumsInBlock) {
      targets[value] = target;
      return;
    }
    bool scratch = computeType(element) != element;
    if (scratch) {
      Type type = computeType(element);
      int64_t count = layout.getNumElements();
      auto [strides, offset] = layout.getStridesAndOffset();
      if (!init || count * 4 > kMaxScratchBytes ||
          !MemRefType::get(layout.getShape(), element)
               .getLayout()
               .isIdentity() ||
          ArrayRef(strides) !=
              ArrayRef(MemRefType::get(layout.getShape(), element)
                           .getStridesAndOffset()
                           .first)) {
        status = emitError(result.op->getLoc())
                 << "in kernel '" << model.kernel.getSymName()
                 << "': a sum over rows in " << element
                 << " needs a fill and a contiguous destination of at most "
                 << kMaxScratchBytes / 4 << " elements";
        return;
      }
      auto buffer = memref::AllocaOp::create(eval.code, loc,
                                             MemRefType::get({count}, type));
      buffer.setAlignment(64);
      target.flat = buffer;
      target.element = type;
    }
    targets[value] = target;
    if (init)
      fill(target.flat, argument, init, scratch);
  });
  return status;
}

Value KernelEmitter::termOf(const KernelResult &result, Row &row,
                            Chunk &chunk) {
  Value term =
      eval.lanes(eval.body(result.op, result.term, row, &chunk), row, chunk);
  if (!chunk.mask || !result.reduced.test(model.column()))
    return term;
  Value neutral =
      eval.lanes(eval.constant(neutralOf(result.combiner)), row, chunk);
  return arith::SelectOp::create(eval.code, loc, chunk.mask, term, neutral);
}

void KernelEmitter::addToTarget(Value tensor, Row &row, Value term) {
  const Target &target = targets[tensor];
  const KernelResult &result = model.results.find(tensor)->second;
  Value at = eval.base(target.access, row);
  Value old = memref::LoadOp::create(eval.code, loc, target.flat, at);
  old = fromMemory(eval.code, loc, old, target.element);
  Value sum =
      combine(eval.code, loc, result.combiner, old, term, result.comparesBits);
  memref::StoreOp::create(eval.code, loc,
                          toMemory(eval.code, loc, sum, target.element),
                          target.flat, at);
}

void KernelEmitter::addToColumns(Value tensor, Row &row, Chunk &chunk,
                                 Value total) {
  const Target &target = targets[tensor];
  const KernelResult &result = model.results.find(tensor)->second;
  Value at = eval.indexAt(target.access, row, chunk);
  int64_t stride = target.access.strides[model.column()];
  Value old;
  if (schedule.sumsInBlock) {
    TypedAttr start =
        matchUniformTensor(result.op.getDpsInitOperand(result.index)->get());
    if (!isNeutral(start, result.combiner))
      old = eval.lanes(eval.constant(start), row, chunk);
  } else {
    old = loadLanes(eval.code, loc, target.flat, at, stride, chunk.width,
                    chunk.mask);
    old = fromMemory(eval.code, loc, old, target.element);
  }
  Value sum = old ? combine(eval.code, loc, result.combiner, old, total,
                            result.comparesBits)
                  : total;
  storeLanes(eval.code, loc, target.flat, at, stride,
             toMemory(eval.code, loc, sum, target.element), chunk.mask);
}

void KernelEmitter::storeBuffers(Row &row, Chunk &chunk) {
  for (Value value : model.order) {
    auto buffered = schedule.bufferedIn.find(value);
    if (buffered == schedule.bufferedIn.end() || buffered->second != eval.pass)
      continue;
    Value lanes = eval.lanes(eval.result(value, row, &chunk), row, chunk);
    Type element = computeType(getElementTypeOrSelf(value));
    storeLanes(eval.code, loc, eval.bufferOf(value),
               eval.bufferIndex(row, chunk), 1,
               toMemory(eval.code, loc, lanes, element), Value());
  }
}

void KernelEmitter::storeOnce(const Store &store, Row &row,
                              llvm::function_ref<void()> emit) {
  OpBuilder::InsertionGuard guard(eval.code);
  Value first;
  for (int dim : store.onceOver) {
    Value here = arith::CmpIOp::create(eval.code, loc, arith::CmpIPredicate::eq,
                                       row.coordinates[dim],
                                       indexConstant(eval.code, loc, 0));
    first = first ? arith::AndIOp::create(eval.code, loc, first, here) : here;
  }
  if (first) {
    auto branch = scf::IfOp::create(eval.code, loc, first, false);
    eval.code.setInsertionPointToStart(branch.thenBlock());
  }
  emit();
}

void KernelEmitter::storeElements(Row &row, Chunk &chunk) {
  SmallVector<std::pair<const Store *, Value>> stores;
  for (const Store &store : model.stores)
    if (model.results.find(store.value)->second.kind == ResultKind::Element)
      stores.push_back(
          {&store,
           eval.lanes(eval.result(store.value, row, &chunk), row, chunk)});
  for (auto [store, value] : stores) {
    const KernelAccess &access = store->access;
    Value raw =
        toMemory(eval.code, loc, value, eval.elementOf(access.argument));
    Value at = eval.indexAt(access, row, chunk);
    storeOnce(*store, row, [&] {
      storeLanes(eval.code, loc, eval.flat(access.argument), at,
                 access.strides[model.column()], raw, chunk.mask);
    });
  }
}

void KernelEmitter::emitChunk(MutableArrayRef<Row> rows,
                              MutableArrayRef<Chunk> chunks,
                              MutableArrayRef<Sum> sums) {
  SmallVector<std::pair<Value, const KernelResult *>> columnSums;
  eachOf(ResultKind::Accumulate, [&](Value value, const KernelResult &result) {
    if (result.dims.test(model.column()) &&
        schedule.pass.lookup(value) == eval.pass)
      columnSums.push_back({value, &result});
  });
  SmallVector<Value> totals(columnSums.size()), earlier(columnSums.size());
  for (auto [row, chunk] : llvm::zip(rows, chunks)) {
    for (Sum &sum : sums) {
      Operation *combiner = sum.result->combiner;
      bool comparesBits = sum.result->comparesBits;
      Value term = termOf(*sum.result, row, chunk);
      Value &total = sum.perRow[row.inBlock];
      if (total)
        total = foldLanes(eval.code, loc, combiner, total, chunk.width,
                          comparesBits);
      total = total
                  ? combine(eval.code, loc, combiner, total, term, comparesBits)
                  : term;
    }
    // A sum in memory takes as many terms at a time.
    if (schedule.sumsInBlock && !schedule.permutesRows() &&
        row.inBlock == Schedule::kRowsAtATime &&
        rows.size() == 2 * Schedule::kRowsAtATime)
      earlier = std::exchange(totals, SmallVector<Value>(columnSums.size()));
    for (auto [total, columnSum] : llvm::zip(totals, columnSums)) {
      auto [tensor, result] = columnSum;
      Value term = termOf(*result, row, chunk);
      // Rows of a block go to one sum only if it reduces the innermost row.
      if (!model.rows().empty() && result->dims.test(schedule.innermostRow()))
        addToColumns(tensor, row, chunk, term);
      else
        total = total ? combine(eval.code, loc, result->combiner, total, term,
                                result->comparesBits)
                      : term;
    }
    storeBuffers(row, chunk);
    if (eval.pass == schedule.lastPass())
      storeElements(row, chunk);
  }
  for (auto [total, before, columnSum] :
       llvm::zip(totals, earlier, columnSums)) {
    if (before)
      total = combine(eval.code, loc, columnSum.second->combiner, before, total,
                      columnSum.second->comparesBits);
    if (total)
      addToColumns(columnSum.first, rows[0], chunks[0], total);
  }
}

void KernelEmitter::emitPiece(MutableArrayRef<Row> rows, const Piece &piece,
                              MutableArrayRef<Sum> sums) {
  auto run = [&](Value start, MutableArrayRef<Chunk> chunks) {
    LoadMemo shared;
    TileMemo tiles;
    bool tiled = schedule.tiled &&
                 static_cast<int64_t>(rows.size()) == schedule.rowBlock;
    for (Chunk &chunk : chunks) {
      chunk.active = piece.active;
      chunk.tiles = tiled ? &tiles : nullptr;
      chunk.start = start;
      chunk.width = piece.width;
      chunk.shared = &shared;
      if (piece.active != piece.width && !chunk.mask)
        chunk.mask = maskOf(eval.row, loc, piece.active, piece.width);
    }
    emitChunk(rows, chunks, sums);
    for (Chunk &chunk : chunks) {
      chunk.shared = nullptr;
      chunk.tiles = nullptr;
    }
  };
  if (piece.count == 1 || schedule.keepRow) {
    for (int64_t i = 0; i < piece.count; ++i) {
      int64_t start = piece.start + i * piece.width;
      SmallVector<Chunk, 1> fresh(rows.size());
      SmallVector<Chunk, 1> &chunks =
          schedule.keepRow ? kept.try_emplace(start, fresh).first->second
                           : fresh;
      run(indexConstant(eval.row, loc, start), chunks);
    }
    return;
  }
  // A loop that carries the accumulators.
  SmallVector<Value> carried;
  for (Sum &sum : sums)
    for (Value &total : sum.perRow) {
      if (!total)
        total =
            splat(eval.code, loc,
                  eval.constant(neutralOf(sum.result->combiner)), piece.width);
      carried.push_back(total);
    }
  auto loop = scf::ForOp::create(
      eval.code, loc, indexConstant(eval.code, loc, piece.start),
      indexConstant(eval.code, loc, piece.start + piece.count * piece.width),
      indexConstant(eval.code, loc, piece.width), carried);
  OpBuilder after = eval.code;
  OpBuilder before = after;
  before.setInsertionPoint(loop);
  setRow(before);
  Block *body = loop.getBody();
  if (carried.empty())
    eval.code.setInsertionPoint(body->getTerminator());
  else
    eval.code.setInsertionPointToEnd(body);
  unsigned next = 0;
  for (Sum &sum : sums)
    for (Value &total : sum.perRow)
      total = loop.getRegionIterArgs()[next++];
  SmallVector<Chunk, 1> chunks(rows.size());
  run(loop.getInductionVar(), chunks);
  SmallVector<Value> yielded;
  for (Sum &sum : sums)
    llvm::append_range(yielded, sum.perRow);
  if (!carried.empty())
    scf::YieldOp::create(eval.code, loc, yielded);
  next = 0;
  for (Sum &sum : sums)
    for (Value &total : sum.perRow)
      total = loop.getResult(next++);
  eval.code = after;
  setRow(after);
}

void KernelEmitter::emitPass(MutableArrayRef<Row> rows) {
  SmallVector<Sum> sums;
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.reduced.any() && result.reduced.test(model.column()) &&
        schedule.pass.lookup(value) == eval.pass)
      sums.push_back({value, &result, SmallVector<Value>(rows.size())});
  }
  for (const Piece &piece :
       cutColumns(model.columns(), schedule.width, schedule.lanes))
    emitPiece(rows, piece, sums);
  for (Sum &sum : sums) {
    for (auto [row, lanes] : llvm::zip(rows, sum.perRow)) {
      Operation *combiner = sum.result->combiner;
      OpOperand &init = *sum.result->op.getDpsInitOperand(sum.result->index);
      bool isAccumulated = sum.result->kind == ResultKind::Accumulate;
      if (!lanes) { // no columns: the start stays
        if (!isAccumulated)
          row.values[sum.tensor] = eval.operand(init, row, nullptr);
        continue;
      }
      bool comparesBits = sum.result->comparesBits;
      Value total = foldLanes(eval.code, loc, combiner, lanes, 1, comparesBits);
      if (isAccumulated) {
        addToTarget(sum.tensor, row, total);
        continue;
      }
      if (!isNeutral(matchUniformTensor(init.get()), combiner))
        total = combine(eval.code, loc, combiner,
                        eval.operand(init, row, nullptr), total, comparesBits);
      row.values[sum.tensor] = total;
    }
  }
}

void KernelEmitter::emitRowEnd(MutableArrayRef<Row> rows) {
  for (Row &row : rows) {
    SmallVector<std::pair<const Store *, Value>> stores;
    for (const Store &store : model.stores) {
      ResultKind kind = model.results.find(store.value)->second.kind;
      if (kind == ResultKind::RowScalar || kind == ResultKind::RowReduce)
        stores.push_back({&store, eval.result(store.value, row, nullptr)});
    }
    // Terms read what the stores may replace.
    SmallVector<std::pair<Value, Value>> terms;
    eachOf(ResultKind::Accumulate,
           [&](Value value, const KernelResult &result) {
             if (!loopsOverColumn(model, result.op))
               terms.push_back(
                   {value, eval.body(result.op, result.term, row, nullptr)});
           });
    for (auto [store, value] : stores) {
      const KernelAccess &access = store->access;
      Value raw =
          toMemory(eval.code, loc, value, eval.elementOf(access.argument));
      Value at = eval.base(access, row);
      storeOnce(*store, row, [&] {
        memref::StoreOp::create(eval.code, loc, raw, eval.flat(access.argument),
                                at);
      });
    }
    for (auto [value, term] : terms)
      addToTarget(value, row, term);
  }
}

void KernelEmitter::emitBlock(MutableArrayRef<Row> rows) {
  kept.clear();
  for (eval.pass = 0; eval.pass < schedule.passes; ++eval.pass)
    emitPass(rows);
  emitRowEnd(rows);
}

void KernelEmitter::emitRows() {
  ArrayRef<int64_t> sizes = model.rows();
  if (sizes.empty()) {
    Row row;
    emitBlock(row);
    return;
  }
  OpBuilder end = eval.code;
  SmallVector<Value> coordinates(sizes.size());
  auto open = [&](int64_t from, int64_t to, int64_t step) {
    auto loop = scf::ForOp::create(
        eval.code, loc, indexConstant(eval.code, loc, from),
        indexConstant(eval.code, loc, to), indexConstant(eval.code, loc, step));
    if (eval.entry.getInsertionBlock() == loop->getBlock() &&
        eval.entry.getInsertionPoint() == end.getInsertionPoint())
      eval.entry.setInsertionPoint(loop);
    eval.code.setInsertionPoint(loop.getBody()->getTerminator());
    setRow(eval.code);
    return loop.getInductionVar();
  };
  for (int dim : ArrayRef(schedule.rowOrder).drop_back())
    coordinates[dim] = open(0, sizes[dim], 1);
  OpBuilder innermost = eval.code;
  int64_t size = sizes[schedule.innermostRow()];
  int64_t inBlocks = size / schedule.rowBlock * schedule.rowBlock;
  for (auto [from, to, step] :
       {std::tuple(int64_t(0), inBlocks, schedule.rowBlock),
        std::tuple(inBlocks, size, int64_t(1))}) {
    if (from == to)
      continue;
    eval.code = innermost;
    Value first = open(from, to, step);
    SmallVector<Row, 1> rows(step);
    for (auto [i, row] : llvm::enumerate(rows)) {
      row.inBlock = i;
      row.coordinates = coordinates;
      row.coordinates[schedule.innermostRow()] =
          addScaled(eval.code, loc, first, indexConstant(eval.code, loc, i), 1);
    }
    emitBlock(rows);
  }
  eval.code = end;
  eval.row = end;
  eval.entry = end;
}

void KernelEmitter::roundTarget(unsigned argument, const Target &target) {
  Type element = eval.elementOf(argument);
  forEachChunk(
      eval.code, loc, model.layouts[argument], schedule.width, schedule.lanes,
      [&](OpBuilder &b, Value index, Value place, int64_t stride, int64_t width,
          Value mask) {
        Value sum = loadLanes(b, loc, target.flat, place, 1, width, mask);
        storeLanes(b, loc, eval.flat(argument), index, stride,
                   toMemory(b, loc, sum, element), mask);
      });
}

void KernelEmitter::finishTargets() {
  eachOf(ResultKind::Accumulate, [&](Value value, const KernelResult &) {
    const Target &target = targets[value];
    if (target.flat != eval.flat(target.access.argument))
      roundTarget(target.access.argument, target);
  });
  // Uniform results, once; all are computed before one is stored.
  Row row;
  SmallVector<std::pair<unsigned, Value>> values;
  for (const Store &store : model.stores)
    if (model.results.find(store.value)->second.kind == ResultKind::Uniform)
      values.push_back(
          {store.access.argument, eval.result(store.value, row, nullptr)});
  for (auto [argument, value] : values)
    memref::StoreOp::create(
        eval.code, loc,
        toMemory(eval.code, loc, value, eval.elementOf(argument)),
        eval.flat(argument), indexConstant(eval.code, loc, 0));
}

LogicalResult KernelEmitter::run() {
  for (auto [argument, value] : model.fills)
    fill(eval.flat(argument), argument, value, /*scratch=*/false);
  if (failed(prepareTargets()))
    return failure();
  if (model.hasColumn())
    emitRows();
  finishTargets();
  return success();
}

LogicalResult emitKernel(const KernelModel &model, const Schedule &schedule,
                         func::FuncOp function) {
  return KernelEmitter(model, schedule, function).run();
}

} // namespace mpcomm::kernels
