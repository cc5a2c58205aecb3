//===- GPUEmitter.cpp - kernels for a GPU ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all kernels of a GPU need: geometry, fills, stores; and kernels without
// reductions.
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

void setLeastBlocks(gpu::GPUFuncOp function, int64_t blocks) {
  function->setAttr(
      NVVM::NVVMDialect::getMinctasmAttrName(),
      OpBuilder(function).getI32IntegerAttr(static_cast<int32_t>(blocks)));
}

GPUKernel createGPUKernel(OpBuilder &b, Location loc, StringRef name,
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
  // Of large blocks so many that 1,024 threads have room. Else one: ptxas
  // spills where that makes room for one block more.
  setLeastBlocks(function, threads >= 512 ? 1024 / threads : 1);
  OpBuilder body = OpBuilder::atBlockEnd(&function.getBody().front());
  gpu::ReturnOp::create(body, loc);
  GPUKernel kernel;
  kernel.function = function;
  kernel.threads = threads;
  kernel.scratchBytes = scratchBytes;
  return kernel;
}

bool replacesScalar(const KernelModel &model, const Store &store) {
  return llvm::any_of(model.accesses, [&](const auto &entry) {
    return entry.second.argument == store.access.argument;
  });
}

static bool isUniform(const KernelModel &model, const Store &store) {
  return model.results.find(store.value)->second.kind == ResultKind::Uniform;
}

void GPUEmitter::setGeometry() {
  OpBuilder &b = eval.code;
  thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  if (schedule.mapping == GPUSchedule::Items || !model.hasColumn())
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
  if (schedule.gridStride || keepsNothing())
    return;
  if (schedule.sumsOfGroups) {
    Value blocks = number(schedule.columnBlocks);
    columnBlock = arith::RemUIOp::create(b, loc, block, blocks);
    split = number(0);
    Value first = arith::DivUIOp::create(b, loc, block, blocks);
    keptCoordinates =
        delinearize(b, loc, addScaled(b, loc, group, first, schedule.groups()),
                    keptSizes());
    return;
  }
  // Blocks: splits, then kept rows, then columns.
  SmallVector<int64_t> sizes{schedule.splits};
  llvm::append_range(sizes, keptSizes());
  sizes.push_back(schedule.columnBlocks);
  SmallVector<Value> place = delinearize(b, loc, block, sizes);
  split = place.front();
  columnBlock = place.back();
  keptCoordinates.assign(place.begin() + 1, place.end() - 1);
}

SmallVector<int64_t> GPUEmitter::keptSizes() const {
  SmallVector<int64_t> sizes;
  for (int dim : schedule.kept)
    sizes.push_back(model.sizes[dim]);
  return sizes;
}

SmallVector<Value> GPUEmitter::loop(
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

void GPUEmitter::emitFills() {
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

void GPUEmitter::emitItems() {
  int64_t perRow = model.columns() / schedule.vector;
  int64_t items = perRow;
  for (int64_t size : model.rows())
    items *= size;
  if (items == 0)
    return;
  int64_t tile = schedule.threads * schedule.unroll;
  Value grid = gpu::GridDimOp::create(eval.code, loc, gpu::Dimension::x);
  loop(block, llvm::divideCeil(items, tile), grid, {},
       [&](Value turn, ValueRange) {
         eval.row = eval.code;
         eval.pass = schedule.passes.lastPass();
         SmallVector<GPURow, 1> rows(schedule.unroll);
         SmallVector<GPURow *> pointers;
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
         SmallVector<std::tuple<const Store *, GPURow *, Value>> scalars;
         for (GPURow &row : rows)
           for (const Store &store : model.stores)
             if (model.results.find(store.value)->second.kind ==
                 ResultKind::RowScalar)
               scalars.push_back(
                   {&store, &row, eval.result(store.value, row.row, nullptr)});
         storeElements(pointers);
         for (auto &[store, row, value] : scalars)
           storeScalar(
               *store, *row, value,
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

void GPUEmitter::storeElements(MutableArrayRef<GPURow *> rows) {
  struct Ready {
    const Store *store;
    Value raw, at, condition;
  };
  SmallVector<Ready> ready;
  for (GPURow *row : rows)
    for (Piece &piece : row->pieces) {
      SmallVector<Value> elements = usualElementsOf(*row, piece);
      const Value *next = elements.begin();
      for (const Store &store : model.stores)
        if (model.results.find(store.value)->second.kind == ResultKind::Element)
          ready.push_back({&store, *next++,
                           eval.indexAt(store.access, row->row, piece.chunk),
                           both(eval.code, loc, piece.valid,
                                isFirstOf(eval.code, loc, store, row->row))});
    }
  for (const Ready &one : ready)
    emitIf(eval.code, loc, one.condition, [&] {
      const KernelAccess &access = one.store->access;
      storeLanes(eval.code, loc, eval.flat(access.argument), one.at,
                 access.strides[model.column()], one.raw, Value(),
                 eval.alignmentOf(access, schedule.vector));
    });
}

void GPUEmitter::storeScalar(const Store &store, GPURow &row, Value value,
                             Value condition) {
  const KernelAccess &access = store.access;
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
// Kernels
//===----------------------------------------------------------------------===//

void GPUEmitter::runUniform() {
  setGeometry();
  storeUniform();
}

void GPUEmitter::storeUniform() {
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

void GPUEmitter::run(bool storesUniform) {
  setGeometry();
  if (sums.scratchBytes())
    sums.open(eval.code, loc, function.getArguments()[model.layouts.size()]);
  emitFills();
  if (model.hasColumn()) {
    findRareCases();
    if (schedule.mapping == GPUSchedule::Items)
      emitItems();
    else if (!keepsNothing())
      emitRows();
  }
  if (storesUniform && llvm::any_of(model.stores, [&](const Store &store) {
        return isUniform(model, store);
      }))
    storeUniform();
}

SmallVector<GPUKernel> emitGPUKernels(const KernelModel &model,
                                      const GPUSchedule &schedule, OpBuilder &b,
                                      StringRef name) {
  Location loc = model.kernel.getLoc();
  SmallVector<GPUKernel> kernels;
  GPUSums sums(model, schedule);
  // Other threads may not have read yet what a scalar replaces.
  bool separate =
      model.hasColumn() && llvm::any_of(model.stores, [&](const Store &store) {
        return isUniform(model, store) && replacesScalar(model, store);
      });
  GPUKernel main = createGPUKernel(b, loc, name, model.layouts,
                                   schedule.threads, sums.scratchBytes());
  main.blocks = schedule.blocks;
  main.gridStride = schedule.gridStride;
  main.sharedBytes = schedule.sharedRowBytes;
  main.movedBytes = countMovedBytes(model) + sums.scratchBytes();
  GPUEmitter(model, schedule, sums, main.function).run(!separate);
  kernels.push_back(main);
  if (sums.scratchBytes()) {
    GPUKernel kernel =
        createGPUKernel(b, loc, (name + "_sums").str(), model.layouts,
                        kSumThreads, sums.scratchBytes());
    sums.emit(kernel);
    kernel.movedBytes = sums.scratchBytes();
    kernels.push_back(kernel);
  }
  if (separate) {
    GPUKernel kernel = createGPUKernel(b, loc, (name + "_scalars").str(),
                                       model.layouts, kWarp, 0);
    GPUEmitter(model, schedule, sums, kernel.function).runUniform();
    kernel.movedBytes = 0;
    kernels.push_back(kernel);
  }
  return kernels;
}

} // namespace mpcomm::kernels
