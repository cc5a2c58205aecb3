//===- GPUSums.cpp - sums over the rows of many blocks --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See GPUSums.h.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUSums.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/Model/LaneOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

/// Where each sum's part of scratch is aligned to.
static constexpr int64_t kScratchAlignment = 256;

int64_t GPUSums::Sum::width() const {
  return std::min<int64_t>(llvm::PowerOf2Ceil(std::max<int64_t>(elements, 1)),
                           kWarp);
}

GPUSums::GPUSums(const KernelModel &model, const GPUSchedule &schedule)
    : model(model), schedule(schedule) {
  for (Value value : model.order) {
    const KernelResult &result = model.results.find(value)->second;
    if (result.kind != ResultKind::Accumulate)
      continue;
    Sum sum;
    sum.result = &result;
    sum.store = model.storeOf(value);
    sum.type = computeType(getElementTypeOrSelf(value));
    sum.keepsColumn = result.dims.test(model.column());
    for (auto [i, dim] : llvm::enumerate(schedule.kept)) {
      bool isOwn = result.dims.test(dim);
      (isOwn ? sum.own : sum.dropped).push_back(i);
      (isOwn ? sum.ownSizes : sum.droppedSizes).push_back(model.sizes[dim]);
    }
    // Blocks side by side add to other columns of what keeps them.
    sum.droppedSizes.push_back(sum.keepsColumn ? 1 : schedule.columnBlocks);
    sum.terms = schedule.splits;
    for (int64_t size : sum.droppedSizes)
      sum.terms *= size;
    for (int64_t size : sum.ownSizes)
      sum.elements *= size;
    if (sum.keepsColumn)
      sum.elements *= model.columns();
    sum.isDirect =
        sum.elements == 0 ||
        (sum.terms == 1 && !(sum.keepsColumn && schedule.sumsInScratch));
    if (!sum.isDirect) {
      sum.offset = llvm::alignTo(bytes, kScratchAlignment);
      int64_t width =
          llvm::divideCeil(memoryType(sum.type).getIntOrFloatBitWidth(), 8);
      // Without terms, too, elements get what they start with.
      bytes =
          sum.offset + std::max<int64_t>(sum.terms * sum.elements, 1) * width;
    }
    sums[value] = std::move(sum);
  }
}

void GPUSums::open(OpBuilder &b, Location loc, Value scratch) {
  for (auto &entry : sums) {
    Sum &sum = entry.second;
    if (!sum.isDirect)
      sum.view = memref::ViewOp::create(
          b, loc,
          MemRefType::get({sum.terms * sum.elements}, memoryType(sum.type)),
          scratch, indexConstant(b, loc, sum.offset), ValueRange());
  }
}

Value GPUSums::placeOf(OpBuilder &b, Location loc, Value tensor,
                       std::array<Value, 2> blocks, ValueRange kept,
                       Value column) const {
  const Sum &sum = of(tensor);
  SmallVector<Value> terms{blocks[0]}, own;
  SmallVector<int64_t> termSizes{schedule.splits};
  for (unsigned i : sum.dropped)
    terms.push_back(kept[i]);
  llvm::append_range(termSizes, sum.droppedSizes);
  terms.push_back(sum.keepsColumn ? indexConstant(b, loc, 0) : blocks[1]);
  for (unsigned i : sum.own)
    own.push_back(kept[i]);
  SmallVector<int64_t> ownSizes(sum.ownSizes);
  if (sum.keepsColumn) {
    own.push_back(column);
    ownSizes.push_back(model.columns());
  }
  Value place = linearize(b, loc, own, ownSizes);
  return addScaled(b, loc, place, linearize(b, loc, terms, termSizes),
                   sum.elements);
}

Value GPUSums::load(OpBuilder &b, Location loc, Value tensor, Value place,
                    int64_t width) const {
  const Sum &sum = of(tensor);
  return fromMemory(
      b, loc, loadLanes(b, loc, sum.view, place, 1, width, Value()), sum.type);
}

void GPUSums::store(OpBuilder &b, Location loc, Value tensor, Value place,
                    Value lanes) const {
  const Sum &sum = of(tensor);
  storeLanes(b, loc, sum.view, place, 1, toMemory(b, loc, lanes, sum.type),
             Value());
}

void GPUSums::storeTotal(Evaluator &eval, const Sum &sum, Value value,
                         ValueRange own, Value column) const {
  OpBuilder &b = eval.code;
  Location loc = eval.loc;
  const KernelAccess &access = sum.store->access;
  Value at = indexConstant(b, loc, access.offset);
  for (auto [i, coordinate] : llvm::zip(sum.own, own))
    at = addScaled(b, loc, at, coordinate, access.strides[schedule.kept[i]]);
  if (sum.keepsColumn)
    at = addScaled(b, loc, at, column, access.strides[model.column()]);
  Value flat = eval.flat(access.argument);
  Type element = eval.elementOf(access.argument);
  const KernelResult &result = *sum.result;
  Value init = result.op.getDpsInitOperand(result.index)->get();
  if (TypedAttr start = matchUniformTensor(init)) {
    if (!isNeutral(start, result.combiner))
      value = combine(b, loc, result.combiner, eval.constant(start), value);
  } else {
    Value old = memref::LoadOp::create(b, loc, flat, at);
    value = combine(b, loc, result.combiner, fromMemory(b, loc, old, element),
                    value);
  }
  memref::StoreOp::create(b, loc, toMemory(b, loc, value, element), flat, at);
}

void GPUSums::finish(Evaluator &eval, Value tensor, Value value,
                     std::array<Value, 2> blocks, ValueRange kept,
                     Value column) const {
  const Sum &sum = of(tensor);
  if (sum.isDirect) {
    SmallVector<Value> own;
    for (unsigned i : sum.own)
      own.push_back(kept[i]);
    storeTotal(eval, sum, value, own, column);
    return;
  }
  Value place = placeOf(eval.code, eval.loc, tensor, blocks, kept, column);
  memref::StoreOp::create(eval.code, eval.loc,
                          toMemory(eval.code, eval.loc, value, sum.type),
                          sum.view, place);
}

int64_t GPUSums::blocks() const {
  int64_t blocks = 0;
  for (const auto &entry : sums)
    if (!entry.second.isDirect)
      blocks += llvm::divideCeil(entry.second.elements, entry.second.width());
  return std::max<int64_t>(blocks, 1);
}

void GPUSums::emit(GPUKernel &kernel) {
  gpu::GPUFuncOp function = kernel.function;
  kernel.blocks = blocks();
  Evaluator eval(model, schedule.passes, function.getBody().front(),
                 function.getArguments().take_front(model.layouts.size()));
  OpBuilder &b = eval.code;
  Location loc = eval.loc;
  open(b, loc, function.getArguments()[model.layouts.size()]);
  Value thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
  int64_t firstBlock = 0;
  DenseMap<Type, Value> buffers;
  for (auto &entry : sums) {
    const Sum &sum = entry.second;
    if (sum.isDirect || sum.elements == 0)
      continue;
    int64_t width = sum.width(), height = kSumThreads / width;
    int64_t blocksOfSum = llvm::divideCeil(sum.elements, width);
    Value &buffer = buffers[sum.type];
    if (!buffer)
      buffer = addShared(function, sum.type, kSumThreads);
    // All threads of a block are at one sum: barriers may be inside.
    Value isHere;
    if (blocksOfSum != kernel.blocks) {
      Value before =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, block,
                                indexConstant(b, loc, firstBlock));
      isHere =
          both(b, loc, before, isLess(b, loc, block, firstBlock + blocksOfSum));
    }
    int64_t from = firstBlock;
    firstBlock += blocksOfSum;
    emitIf(b, loc, isHere, [&] {
      Operation *combiner = sum.result->combiner;
      Value own =
          arith::SubIOp::create(b, loc, block, indexConstant(b, loc, from));
      Value x =
          arith::RemUIOp::create(b, loc, thread, indexConstant(b, loc, width));
      Value y =
          arith::DivUIOp::create(b, loc, thread, indexConstant(b, loc, width));
      Value element = addScaled(b, loc, x, own, width);
      Value valid;
      if (sum.elements % width != 0) {
        valid = isLess(b, loc, element, sum.elements);
        element = selectValid(b, loc, valid, element, indexConstant(b, loc, 0));
      }
      Value neutral = eval.constant(neutralOf(combiner));
      auto loop =
          scf::ForOp::create(b, loc, y, indexConstant(b, loc, sum.terms),
                             indexConstant(b, loc, height), neutral);
      Value total = loop.getResult(0);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(loop.getBody());
        Value at =
            addScaled(b, loc, element, loop.getInductionVar(), sum.elements);
        Value raw = memref::LoadOp::create(b, loc, sum.view, at);
        Value next = combine(b, loc, combiner, loop.getRegionIterArgs()[0],
                             fromMemory(b, loc, raw, sum.type));
        scf::YieldOp::create(b, loc, next);
      }
      auto put = [&](Value value) {
        memref::StoreOp::create(b, loc, toMemory(b, loc, value, sum.type),
                                buffer, thread);
      };
      auto get = [&](Value at) {
        Value raw = memref::LoadOp::create(b, loc, buffer, at);
        return fromMemory(b, loc, raw, sum.type);
      };
      put(total);
      for (int64_t half = height / 2; half > 0; half /= 2) {
        gpu::BarrierOp::create(b, loc);
        emitIf(b, loc, isLess(b, loc, y, half), [&] {
          Value other =
              addScaled(b, loc, thread, indexConstant(b, loc, half * width), 1);
          put(combine(b, loc, combiner, get(thread), get(other)));
        });
      }
      emitIf(b, loc, both(b, loc, valid, isZero(b, loc, y)), [&] {
        SmallVector<int64_t> sizes(sum.ownSizes);
        if (sum.keepsColumn)
          sizes.push_back(model.columns());
        SmallVector<Value> place = delinearize(b, loc, element, sizes);
        Value column = sum.keepsColumn ? place.pop_back_val() : Value();
        storeTotal(eval, sum, get(thread), place, column);
      });
    });
  }
}

} // namespace mpcomm::kernels
