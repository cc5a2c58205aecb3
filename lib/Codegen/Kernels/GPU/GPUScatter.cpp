//===- GPUScatter.cpp - slices combined by index on a GPU -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Combining with atomics would sum in another order each time. A *plane* is
// what the dimensions other than those of the indices and the slices choose: it
// has the indices of its batch. Two forms keep the order of the indices:
//
// - Short: a thread has one element of the slices of one plane, and goes
//   through the indices. For many planes, or few indices.
// - Search: several blocks share a plane; block b of n owns the slices whose
//   number is b modulo n. It looks through all indices with votes, and combines
//   what is its own in the order of the indices. Slices of few elements are
//   shared out further, to groups of threads. Time: indices / threads turns a
//   block to look through them, in the caches but for the first block, beside
//   the slices themselves.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/ScatterModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

static constexpr int64_t kThreads = 256;
/// Indices that a thread looks at in one turn.
static constexpr int64_t kIndicesAtATime = 8;
static constexpr int64_t kBlocksAtATime = 2;
/// Threads that a processor runs at a time.
static constexpr int64_t kResidentThreads = 2048;

namespace {

/// How blocks share a scatter.
struct ScatterSchedule {
  ScatterSchedule(const ScatterModel &model, ArrayRef<MemRefType> layouts,
                  ArrayRef<uint64_t> alignments, const GPULimits &limits);

  bool isShort;
  /// Search: blocks that share a plane, elements of a slice that a thread has
  /// at once, and threads that share a slice.
  int64_t owners, vector, threadsOfSlice;
  int64_t blocks;

  int64_t groups() const { return kThreads / threadsOfSlice; }
};

class GPUScatterEmitter {
public:
  using Dims = ArrayRef<ScatterModel::Dim>;

  GPUScatterEmitter(const ScatterModel &model, const ScatterSchedule &schedule,
                    gpu::GPUFuncOp function)
      : model(model), schedule(schedule), function(function),
        b(function.getBody().front().getTerminator()), loc(function.getLoc()),
        emitter(model, function.getArguments(), b, loc) {}
  void runShort();
  void runSearch();

private:
  using Offsets = ScatterEmitter::Offsets;
  Value number(int64_t value) { return indexConstant(b, loc, value); }
  /// `offsets`, moved to point `index` of `dims` in row-major order.
  Offsets moveTo(Offsets offsets, Value index, Dims dims);
  Offsets toPlane(Value plane);
  Value rowOf(Offsets offsets, Value *valid = nullptr);
  void combineSlice(Offsets plane, Value index);

  const ScatterModel &model;
  const ScatterSchedule &schedule;
  gpu::GPUFuncOp function;
  OpBuilder b;
  Location loc;
  ScatterEmitter emitter;
  Value thread, owner;
};

} // namespace

/// Elements that threads access at once: as many as divide everything.
static int64_t chooseVector(const ScatterModel &model,
                            ArrayRef<MemRefType> layouts,
                            ArrayRef<uint64_t> alignments) {
  unsigned target = *model.arguments[ScatterModel::Target];
  uint64_t bytes =
      llvm::divideCeil(layouts[target].getElementTypeBitWidth(), 8);
  auto fits = [&](int64_t vector) {
    const ScatterModel::Dim &columns = model.slice.back();
    if (columns.size % vector != 0)
      return false;
    for (ScatterModel::Tensor tensor :
         {ScatterModel::Target, ScatterModel::Updates}) {
      std::optional<unsigned> argument = model.arguments[tensor];
      if (!argument)
        continue;
      if (columns.strides[tensor] != 1 ||
          alignments[*argument] % (vector * bytes) != 0)
        return false;
      for (const ScatterModel::Dims *dims :
           {&model.batch, &model.planes, &model.indexed, &model.slice})
        for (const ScatterModel::Dim &dim : *dims)
          if (&dim != &columns && dim.strides[tensor] % vector != 0)
            return false;
    }
    return model.stride % vector == 0;
  };
  int64_t vector = static_cast<int64_t>(16 / bytes);
  while (vector > 1 && (model.slice.empty() || !fits(vector)))
    vector /= 2;
  return vector;
}

ScatterSchedule::ScatterSchedule(const ScatterModel &model,
                                 ArrayRef<MemRefType> layouts,
                                 ArrayRef<uint64_t> alignments,
                                 const GPULimits &limits) {
  int64_t planes = model.countPlanes();
  int64_t count = ScatterModel::count(model.indexed);
  int64_t slice = ScatterModel::count(model.slice);
  int64_t atATime = limits.processors * kBlocksAtATime;
  vector = chooseVector(model, layouts, alignments);
  int64_t chunks = llvm::divideCeil(slice, vector);
  threadsOfSlice = std::min<int64_t>(llvm::PowerOf2Ceil(chunks), kThreads);
  owners = std::clamp<int64_t>(atATime / planes, 1,
                               std::max<int64_t>(model.size, 1));
  blocks = planes * owners;
  // In the time that it takes to combine one element, of which a turn is two,
  // and a look at an index that another group has a tenth.
  double turns = llvm::divideCeil(count, kThreads * kIndicesAtATime);
  double own = llvm::divideCeil(count, owners);
  double search =
      llvm::divideCeil(blocks, atATime) *
      (2 * turns + own * std::max(0.1, static_cast<double>(
                                           llvm::divideCeil(chunks, kThreads)) /
                                           groups()));
  double rounds =
      llvm::divideCeil(planes * slice, limits.processors * kResidentThreads);
  isShort = count * rounds <= search;
  if (isShort)
    blocks = llvm::divideCeil(planes * slice, kThreads);
}

GPUScatterEmitter::Offsets GPUScatterEmitter::moveTo(Offsets offsets,
                                                     Value index, Dims dims) {
  SmallVector<int64_t> sizes;
  for (const ScatterModel::Dim &dim : dims)
    sizes.push_back(dim.size);
  for (auto [dim, coordinate] :
       llvm::zip(dims, delinearize(b, loc, index, sizes)))
    offsets = emitter.move(offsets, coordinate, dim);
  return offsets;
}

GPUScatterEmitter::Offsets GPUScatterEmitter::toPlane(Value plane) {
  ScatterModel::Dims dims = model.batch;
  llvm::append_range(dims, model.planes);
  return moveTo(emitter.origin(), plane, dims);
}

/// The element of the dimension that the index at `offsets` names, and where
/// asked for, whether its updates count.
Value GPUScatterEmitter::rowOf(Offsets offsets, Value *valid) {
  Value index = emitter.loadIndex(offsets);
  if (valid)
    *valid = emitter.isValid(index);
  return emitter.toElement(index);
}

void GPUScatterEmitter::runShort() {
  int64_t slice = ScatterModel::count(model.slice);
  Value thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  Value grid = gpu::GridDimOp::create(b, loc, gpu::Dimension::x);
  auto items =
      scf::ForOp::create(b, loc, addScaled(b, loc, thread, block, kThreads),
                         number(model.countPlanes() * slice),
                         arith::MulIOp::create(b, loc, grid, number(kThreads)));
  b.setInsertionPoint(items.getBody()->getTerminator());
  Value item = items.getInductionVar();
  Value plane = arith::DivUIOp::create(b, loc, item, number(slice));
  Value column = arith::RemUIOp::create(b, loc, item, number(slice));
  Offsets offsets = moveTo(toPlane(plane), column, model.slice);
  for (const ScatterModel::Dim &dim : model.indexed) {
    auto loop =
        scf::ForOp::create(b, loc, number(0), number(dim.size), number(1));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    offsets = emitter.move(offsets, loop.getInductionVar(), dim);
  }
  Value valid, row = rowOf(offsets, &valid);
  emitIf(b, loc, valid, [&] {
    Value &target = offsets[ScatterModel::Target];
    target = addScaled(b, loc, target, row, model.stride);
    emitter.update(offsets, {}, /*width=*/0, /*mask=*/{});
  });
}

/// Combines the slice of index number `index`, if it belongs to the thread.
void GPUScatterEmitter::combineSlice(Offsets plane, Value index) {
  Offsets offsets = moveTo(plane, index, model.indexed);
  Value row = rowOf(offsets), mine;
  int64_t threads = schedule.threadsOfSlice;
  Value own = thread;
  if (schedule.groups() > 1) {
    Value group = arith::DivUIOp::create(b, loc, thread, number(threads));
    own = arith::RemUIOp::create(b, loc, thread, number(threads));
    Value turn = arith::DivUIOp::create(b, loc, row, number(schedule.owners));
    turn = arith::RemUIOp::create(b, loc, turn, number(schedule.groups()));
    mine = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, turn, group);
  }
  emitIf(b, loc, mine, [&] {
    Value &target = offsets[ScatterModel::Target];
    target = addScaled(b, loc, target, row, model.stride);
    int64_t vector = schedule.vector;
    auto loop = scf::ForOp::create(
        b, loc, addScaled(b, loc, number(0), own, vector),
        number(ScatterModel::count(model.slice)), number(threads * vector));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    Offsets at = moveTo(offsets, loop.getInductionVar(), model.slice);
    ScatterModel::Dim columns{1, {1, 1, 0}};
    if (vector == 1)
      return emitter.update(at, columns, /*width=*/0, /*mask=*/{});
    unsigned argument = *model.arguments[ScatterModel::Target];
    auto type = cast<MemRefType>(function.getArgument(argument).getType());
    uint64_t bytes = type.getElementTypeBitWidth() / 8;
    emitter.update(at, columns, vector, /*mask=*/{},
                   llvm::MaybeAlign(vector * bytes));
  });
}

void GPUScatterEmitter::runSearch() {
  thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  owner = arith::RemUIOp::create(b, loc, block, number(schedule.owners));
  Offsets plane =
      toPlane(arith::DivUIOp::create(b, loc, block, number(schedule.owners)));
  int64_t count = ScatterModel::count(model.indexed);
  int64_t warps = kThreads / kWarp, words = warps * kIndicesAtATime;
  Type i32 = b.getI32Type();
  Value found = addShared(function, i32, 2 * words);
  Value warp = arith::DivUIOp::create(b, loc, thread, number(kWarp));
  Value lane = arith::RemUIOp::create(b, loc, thread, number(kWarp));
  Value all = arith::ConstantIntOp::create(b, loc, -1, 32);

  // In turns the words are in one half of the buffer and in the other: who is
  // late may still read those of the turn before.
  int64_t tile = kThreads * kIndicesAtATime;
  auto turns = scf::ForOp::create(b, loc, number(0), number(count),
                                  number(tile), number(0));
  b.setInsertionPointToEnd(turns.getBody());
  Value first = turns.getInductionVar(), half = turns.getRegionIterArgs()[0];
  for (int64_t i = 0; i < kIndicesAtATime; ++i) {
    Value index = addScaled(b, loc, addScaled(b, loc, first, thread, 1),
                            number(i * kThreads), 1);
    Value exists;
    if (count % tile != 0) {
      exists = isLess(b, loc, index, count);
      index = selectValid(b, loc, exists, index, number(0));
    }
    Value valid, row = rowOf(moveTo(plane, index, model.indexed), &valid);
    Value owns = arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::eq,
        arith::RemUIOp::create(b, loc, row, number(schedule.owners)), owner);
    owns = both(b, loc, both(b, loc, owns, valid), exists);
    Value votes = NVVM::VoteSyncOp::create(b, loc, i32, all, owns,
                                           NVVM::VoteSyncKind::ballot);
    emitIf(b, loc, isZero(b, loc, lane), [&] {
      Value place = addScaled(b, loc, addScaled(b, loc, half, warp, 1),
                              number(i * warps), 1);
      memref::StoreOp::create(b, loc, votes, found, place);
    });
  }
  gpu::BarrierOp::create(b, loc);
  // All threads read the same words, and go through their bits.
  auto each = scf::ForOp::create(b, loc, number(0), number(words), number(1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(each.getBody()->getTerminator());
    Value word = each.getInductionVar();
    Value bits = memref::LoadOp::create(
        b, loc, found, ValueRange(addScaled(b, loc, half, word, 1)));
    auto loop = scf::WhileOp::create(b, loc, TypeRange(i32), ValueRange(bits));
    Block *before = b.createBlock(&loop.getBefore(), {}, TypeRange(i32), loc);
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
    Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                       before->getArgument(0), zero);
    scf::ConditionOp::create(b, loc, more, before->getArguments());
    Block *after = b.createBlock(&loop.getAfter(), {}, TypeRange(i32), loc);
    Value rest = after->getArgument(0);
    Value bit = math::CountTrailingZerosOp::create(b, loc, rest);
    bit = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), bit);
    // Word i * warps + w: indices of round i, lanes of warp w.
    combineSlice(plane, addScaled(b, loc, addScaled(b, loc, first, bit, 1),
                                  word, kWarp));
    Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
    Value less = arith::SubIOp::create(b, loc, rest, one);
    scf::YieldOp::create(b, loc,
                         ValueRange(arith::AndIOp::create(b, loc, rest, less)));
  }
  scf::YieldOp::create(
      b, loc, ValueRange(arith::SubIOp::create(b, loc, number(words), half)));
}

LogicalResult emitGPUScatter(func::FuncOp tensorForm,
                             ArrayRef<MemRefType> layouts,
                             ArrayRef<uint64_t> alignments,
                             const GPULimits &limits, OpBuilder &b,
                             StringRef name,
                             SmallVectorImpl<GPUKernel> &kernels) {
  std::optional<ScatterModel> model = ScatterModel::build(tensorForm, layouts);
  if (!model)
    return failure();
  std::string own = name.str();
  if (model->initial) {
    KernelModel fill;
    fill.kernel = tensorForm;
    fill.layouts.assign(layouts.begin(), layouts.end());
    fill.alignments.assign(alignments.begin(), alignments.end());
    fill.fills.push_back(
        {*model->arguments[ScatterModel::Target], model->initial});
    llvm::append_range(
        kernels,
        emitGPUKernels(fill, GPUSchedule::compute(fill, limits), b, name));
    own += "_slices";
  }
  if (model->countUpdates() == 0 && model->initial)
    return success();
  GPUKernel kernel = createGPUKernel(b, tensorForm.getLoc(), own, layouts,
                                     kThreads, /*scratchBytes=*/0);
  if (model->countUpdates() > 0) {
    ScatterSchedule schedule(*model, layouts, alignments, limits);
    kernel.blocks = schedule.blocks;
    kernel.gridStride = schedule.isShort;
    GPUScatterEmitter emitter(*model, schedule, kernel.function);
    if (schedule.isShort)
      emitter.runShort();
    else
      emitter.runSearch();
  }
  kernels.push_back(kernel);
  return success();
}

} // namespace mpcomm::kernels
