//===- GPUScatterAdd.cpp - rows added to rows on a GPU --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient of a table that rows are looked up in. Adding with atomics would
// sum in another order each time. Here block b owns the rows of the table whose
// number is b modulo the blocks: it looks through all ids, and adds what is its
// own in the order of the ids, each thread the same columns. Time: ids /
// threads turns a block to look through them, in the caches but for the first
// block, beside the rows themselves.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/Model/LaneOps.h"
#include "Kernels/Model/ScatterAdd.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace mpcomm::kernels {

static constexpr int64_t kThreads = 256;
/// Ids that a thread looks at in one turn.
static constexpr int64_t kIdsAtATime = 8;
static constexpr int64_t kBlocksAtATime = 2;

static Value flatten(OpBuilder &b, Location loc, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t span = *mprt::spanOf(type); // layouts have known strides
  return memref::ReinterpretCastOp::create(
      b, loc, MemRefType::get({span}, type.getElementType()), buffer, 0,
      ArrayRef<int64_t>{span}, ArrayRef<int64_t>{1});
}

namespace {
class RowAdder {
public:
  RowAdder(gpu::GPUFuncOp function, int64_t skipped,
           ArrayRef<uint64_t> alignments, int64_t blocks)
      : function(function), b(function.getBody().front().getTerminator()),
        loc(function.getLoc()), skipped(skipped), alignments(alignments),
        blocks(blocks) {}
  void run();

private:
  Value number(int64_t value) { return indexConstant(b, loc, value); }
  /// The row of the table that id `index` names, and whether it counts.
  std::pair<Value, Value> rowOf(Value index);
  void addRow(Value index);
  Value loadId(Value index, Value &base);

  gpu::GPUFuncOp function;
  OpBuilder b;
  Location loc;
  int64_t skipped;
  ArrayRef<uint64_t> alignments;
  int64_t blocks;

  MemRefType dyType, idsType, toType;
  Value dy, ids, to, thread, block;
};
} // namespace

/// Id `index` in row-major order; `base` is where its row of dy begins.
Value RowAdder::loadId(Value index, Value &base) {
  auto [idStrides, idOffset] = idsType.getStridesAndOffset();
  auto [dyStrides, dyOffset] = dyType.getStridesAndOffset();
  Value at = number(0);
  base = number(0);
  for (auto [coordinate, idStride, dyStride] :
       llvm::zip(delinearize(b, loc, index, idsType.getShape()), idStrides,
                 dyStrides)) {
    at = addScaled(b, loc, at, coordinate, idStride);
    base = addScaled(b, loc, base, coordinate, dyStride);
  }
  return memref::LoadOp::create(b, loc, ids, at);
}

std::pair<Value, Value> RowAdder::rowOf(Value index) {
  Value base, id = loadId(index, base), counts;
  if (skipped >= 0) {
    Value skip = arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(id.getType(), skipped));
    counts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, id, skip);
  }
  Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), id);
  row = arith::MaxSIOp::create(b, loc, row, number(0));
  row = arith::MinSIOp::create(b, loc, row, number(toType.getShape()[0] - 1));
  return {row, counts};
}

void RowAdder::addRow(Value index) {
  auto [dyStrides, dyOffset] = dyType.getStridesAndOffset();
  auto [toStrides, toOffset] = toType.getStridesAndOffset();
  Value base;
  loadId(index, base);
  Value row = rowOf(index).first;
  Value target = addScaled(b, loc, number(0), row, toStrides[0]);
  int64_t columns = toType.getShape()[1];
  uint64_t bytes = toType.getElementTypeBitWidth() / 8;
  int64_t vector = static_cast<int64_t>(16 / bytes);
  auto fits = [&] {
    uint64_t wide = vector * bytes;
    bool isAligned = alignments[0] % wide == 0 && alignments[2] % wide == 0 &&
                     toStrides[0] % vector == 0;
    for (int64_t stride : ArrayRef(dyStrides).drop_back())
      isAligned &= stride % vector == 0;
    return isAligned && columns % vector == 0 && toStrides[1] == 1 &&
           dyStrides.back() == 1;
  };
  while (vector > 1 && !fits())
    vector /= 2;
  llvm::MaybeAlign align(vector * bytes);
  auto loop =
      scf::ForOp::create(b, loc, addScaled(b, loc, number(0), thread, vector),
                         number(columns), number(kThreads * vector));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value column = loop.getInductionVar();
  Value at = addScaled(b, loc, target, column, toStrides[1]);
  Value from = addScaled(b, loc, base, column, dyStrides.back());
  Value old = loadLanes(b, loc, to, at, 1, vector, Value(), align);
  Value term = loadLanes(b, loc, dy, from, 1, vector, Value(), align);
  storeLanes(b, loc, to, at, 1, arith::AddFOp::create(b, loc, old, term),
             Value(), align);
}

void RowAdder::run() {
  dyType = cast<MemRefType>(function.getArgumentTypes()[0]);
  idsType = cast<MemRefType>(function.getArgumentTypes()[1]);
  toType = cast<MemRefType>(function.getArgumentTypes()[2]);
  dy = flatten(b, loc, function.getArguments()[0]);
  ids = flatten(b, loc, function.getArguments()[1]);
  to = flatten(b, loc, function.getArguments()[2]);
  thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  int64_t count = idsType.getNumElements();
  int64_t warps = kThreads / kWarp, words = warps * kIdsAtATime;
  Type i32 = b.getI32Type();
  Value found = addShared(function, i32, 2 * words);
  Value warp = arith::DivUIOp::create(b, loc, thread, number(kWarp));
  Value lane = arith::RemUIOp::create(b, loc, thread, number(kWarp));
  Value all = arith::ConstantIntOp::create(b, loc, -1, 32);

  // In turns the words are in one half of the buffer and in the other: who is
  // late may still read those of the turn before.
  int64_t tile = kThreads * kIdsAtATime;
  auto turns = scf::ForOp::create(b, loc, number(0), number(count),
                                  number(tile), number(0));
  b.setInsertionPointToEnd(turns.getBody());
  Value first = turns.getInductionVar(), half = turns.getRegionIterArgs()[0];
  for (int64_t i = 0; i < kIdsAtATime; ++i) {
    Value index = addScaled(b, loc, addScaled(b, loc, first, thread, 1),
                            number(i * kThreads), 1);
    Value valid;
    if (count % tile != 0) {
      valid = isLess(b, loc, index, count);
      index = selectValid(b, loc, valid, index, number(0));
    }
    auto [row, counts] = rowOf(index);
    Value owner = arith::RemUIOp::create(b, loc, row, number(blocks));
    Value mine =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, owner, block);
    mine = both(b, loc, both(b, loc, mine, counts), valid);
    Value votes = NVVM::VoteSyncOp::create(b, loc, i32, all, mine,
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
    // Word i * warps + w: ids of turn i, lanes of warp w.
    Value index =
        addScaled(b, loc, addScaled(b, loc, first, bit, 1), word, kWarp);
    addRow(index);
    Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
    Value less = arith::SubIOp::create(b, loc, rest, one);
    scf::YieldOp::create(b, loc,
                         ValueRange(arith::AndIOp::create(b, loc, rest, less)));
  }
  scf::YieldOp::create(
      b, loc, ValueRange(arith::SubIOp::create(b, loc, number(words), half)));
}

LogicalResult emitGPUScatterAdd(func::FuncOp tensorForm, int64_t skipped,
                                ArrayRef<MemRefType> layouts,
                                ArrayRef<uint64_t> alignments,
                                const GPULimits &limits, OpBuilder &b,
                                StringRef name,
                                SmallVectorImpl<GPUKernel> &kernels) {
  if (failed(checkScatterAdd(tensorForm, skipped)))
    return failure();
  Location loc = tensorForm.getLoc();
  Type element = layouts[2].getElementType();
  KernelModel fill;
  fill.kernel = tensorForm;
  fill.layouts.assign(layouts.begin(), layouts.end());
  fill.alignments.assign(alignments.begin(), alignments.end());
  fill.fills.push_back({2, cast<TypedAttr>(b.getZeroAttr(element))});
  llvm::append_range(
      kernels,
      emitGPUKernels(fill, GPUSchedule::compute(fill, limits), b, name));
  if (layouts[0].getNumElements() == 0)
    return success();
  GPUKernel rows =
      createGPUKernel(b, loc, (name + "_rows").str(), layouts, kThreads, 0);
  rows.blocks = std::min<int64_t>(limits.processors * kBlocksAtATime,
                                  layouts[2].getShape()[0]);
  RowAdder(rows.function, skipped, alignments, rows.blocks).run();
  kernels.push_back(rows);
  return success();
}

} // namespace mpcomm::kernels
