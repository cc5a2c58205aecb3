//===- GPUAttentionBiasGrad.cpp - the gradient of a bias of scores --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient of the bias is the sum of dS = P (dP - delta) over the batches
// and heads for which the bias is the same. A block has a tile of it, 64 rows
// by 64 columns, in registers, goes through these batches and heads, and writes
// the tile once: no scores are stored, and the order of the sum is fixed. A
// warp has 16 of the rows and all columns. Of few tiles (Swin's windows of 49
// rows have one a head), blocks have parts of the batches and heads, and leave
// their tiles in scratch, which a second kernel adds up.
//
// S = q k^T and dP = dout v^T are the two products of the kernel of dq. Here
// both operands of each are other ones in each step of the loop, so that all
// come through shared memory, in pairs: (q, k), then (dout, v), each in one or
// two pieces of its depth. While one pair is multiplied, the next is copied.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionBackward.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

/// Columns of a tile; its rows are kOwnRows.
static constexpr int64_t kTileColumns = 64;
static constexpr int64_t kTileBytes = kOwnRows * kTileColumns * 4;
/// Blocks that a processor is to have, if there is work for so many.
static constexpr int64_t kBlocksOfProcessor = 2;
/// Threads of a block that adds up elements of tiles.
static constexpr int64_t kSumThreads = 256;
/// The most elements of rows of which two pairs of 64 fit what a kernel can
/// declare, and a piece where rows have more.
static constexpr int64_t kMostOfOnePiece = 80, kPiece = 64;

BiasGradPlan::BiasGradPlan(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                           const GPULimits &limits) {
  MemRefType q = layouts[kQ], bias = layouts[op.getInputs().size() + 3];
  rowTiles = llvm::divideCeil(bias.getDimSize(2), kOwnRows);
  columnTiles = llvm::divideCeil(bias.getDimSize(3), kTileColumns);
  tiles = bias.getDimSize(0) * bias.getDimSize(1) * rowTiles * columnTiles;
  count = q.getDimSize(0) / bias.getDimSize(0) *
          (q.getDimSize(2) / bias.getDimSize(1));
  parts = std::clamp<int64_t>(
      llvm::divideCeil(kBlocksOfProcessor * limits.processors, tiles), 1,
      count);
  perPart = llvm::divideCeil(count, parts);
  parts = llvm::divideCeil(count, perPart);
}

int64_t BiasGradPlan::sumBytes() const {
  return parts == 1 ? 0 : parts * tiles * kTileBytes;
}

namespace {

class BiasGradEmitter : public BackwardEmitter {
public:
  BiasGradEmitter(AttentionCode &code, const BiasGradPlan &plan,
                  MemRefType layout, uint64_t alignment)
      : BackwardEmitter(code, /*ofRows=*/true, kTileColumns), plan(plan),
        layout(layout), alignment(alignment) {
    for (int64_t from = 0; from < code.size;) {
      int64_t size = code.size <= kMostOfOnePiece
                         ? code.size
                         : std::min(kPiece, code.size - from);
      pieces.push_back({from, size});
      from += size;
    }
  }
  void run() override;
  /// The kernel that adds up what blocks of parts have left.
  void runSums();

private:
  int64_t ofBias(unsigned dim) const { return layout.getDimSize(dim); }
  /// Gives the block tile `tile`.
  void openTile(Value tile);
  /// Goes to the batch and head of step `i`.
  void enter(Value i);
  /// Copies of the pair of operands that half-step `which` of `i` multiplies.
  void issue(Value i, size_t which);
  void multiplyPair(size_t which, MutableArrayRef<Quad> sums);
  /// Where the gradient of the tile's batch and head begins.
  Value target();
  void store(ArrayRef<Quad> sums);
  void leave(ArrayRef<Quad> sums, Value tile, Value part);

  size_t pairs() const { return 2 * pieces.size(); }
  Value stageOf(size_t which) {
    return code.advance(shared, static_cast<int64_t>(which % 2) * stageBytes);
  }
  GPURows pieceOf(GPURows rows, size_t which);

  /// An element of the depth that a piece begins with, and how many it has.
  struct Piece {
    int64_t from, size;
  };

  const BiasGradPlan &plan;
  MemRefType layout; ///< of the gradient
  uint64_t alignment;
  SmallVector<Piece, 2> pieces;
  int64_t stageBytes = 0;
  Value shared, columnTile, biasBatch, biasHead;
};

} // namespace

void BiasGradEmitter::openTile(Value tile) {
  columnTile = code.remainder(tile, plan.columnTiles);
  Value rest = code.divide(tile, plan.columnTiles);
  code.part = code.remainder(rest, plan.rowTiles);
  rest = code.divide(rest, plan.rowTiles);
  biasBatch = code.divide(rest, ofBias(1));
  biasHead = code.remainder(rest, ofBias(1));
  setOwn();
}

void BiasGradEmitter::enter(Value i) {
  int64_t heads = code.heads / ofBias(1);
  code.batchIndex = ofBias(0) == code.batch ? biasBatch : code.divide(i, heads);
  code.headIndex =
      ofBias(1) == code.heads ? biasHead : code.remainder(i, heads);
}

GPURows BiasGradEmitter::pieceOf(GPURows rows, size_t which) {
  const Piece &piece = pieces[which % pieces.size()];
  rows.base = code.advance(rows.base, piece.from * rows.elementBytes);
  rows.size = piece.size;
  return rows;
}

void BiasGradEmitter::issue(Value i, size_t which) {
  enter(i);
  auto product = static_cast<int64_t>(which / pieces.size());
  int64_t pitch = pitchOf(pieces[which % pieces.size()].size);
  Value to = stageOf(which);
  TileCopy(code, pieceOf(own(product), which), kOwnRows).issue(firstOwn, to);
  TileCopy(code, pieceOf(other(product), which), kTileColumns)
      .issue(code.mul(columnTile, kTileColumns),
             code.advance(to, kOwnRows * pitch));
}

void BiasGradEmitter::multiplyPair(size_t which, MutableArrayRef<Quad> sums) {
  int64_t size = pieces[which % pieces.size()].size, pitch = pitchOf(size);
  Value stage = stageOf(which);
  Value left = code.advance(code.advance(stage, code.mul(code.warp, 16), pitch),
                            code.laneOfLeft(pitch), 1);
  Value right = code.advance(code.advance(stage, code.laneOfRight(pitch), 1),
                             kOwnRows * pitch);
  for (int64_t k = 0; k < size / 16; ++k) {
    Quad a = code.fragment(code.advance(left, k * 32), /*transposed=*/false);
    for (int64_t n = 0; n < kTileColumns / 16; ++n) {
      Quad b = code.fragment(code.advance(right, n * 16 * pitch + k * 32),
                             /*transposed=*/false);
      for (int64_t i = 0; i < 2; ++i)
        code.multiply(sums[2 * n + i], a, b[2 * i], b[2 * i + 1]);
    }
  }
}

Value BiasGradEmitter::target() {
  SmallVector<int64_t> strides = layout.getStridesAndOffset().first;
  Value base = code.global(code.op.getInputs().size() + 3);
  base = code.advance(base, biasBatch, strides[0] * 4);
  return code.advance(base, biasHead, strides[1] * 4);
}

void BiasGradEmitter::store(ArrayRef<Quad> sums) {
  SmallVector<int64_t> strides = layout.getStridesAndOffset().first;
  Value base = target();
  bool inPairs = strides[3] == 1 && alignment % 8 == 0 && code.columns % 2 == 0;
  for (unsigned dim = 0; dim < 3; ++dim)
    inPairs &= layout.getDimSize(dim) == 1 || strides[dim] % 2 == 0;
  Value first = code.add(code.mul(columnTile, kTileColumns),
                         code.mul(code.remainder(code.lane, 4), 2));
  auto storeAt = [&](Value row, Value column, ArrayRef<Value> values) {
    Value isThere;
    if (code.columns % kTileColumns != 0)
      isThere = code.less(column, code.columns);
    auto write = [&] {
      Value to = code.advance(row, column, strides[3] * 4);
      Value stored = values[0];
      if (values.size() > 1)
        stored = vector::FromElementsOp::create(
            code.b, code.loc, VectorType::get({2}, code.f32), values);
      code.store(stored, to, 4 * static_cast<int64_t>(values.size()));
    };
    if (isThere)
      emitIf(code.b, code.loc, isThere, write);
    else
      write();
  };
  for (int64_t half = 0; half < 2; ++half) {
    Value row = code.add(ownRow, half * 8);
    emitIf(code.b, code.loc, code.less(row, code.rows), [&] {
      Value to = code.advance(base, row, strides[2] * 4);
      for (auto [n, quad] : llvm::enumerate(sums)) {
        Value column = code.add(first, static_cast<int64_t>(n) * 8);
        ArrayRef<Value> pair = ArrayRef<Value>(quad).slice(2 * half, 2);
        if (inPairs) {
          storeAt(to, column, pair);
          continue;
        }
        storeAt(to, column, pair[0]);
        storeAt(to, code.add(column, 1), pair[1]);
      }
    });
  }
}

void BiasGradEmitter::leave(ArrayRef<Quad> sums, Value tile, Value part) {
  Value to = code.scratchAt(code.scratch.biasSums);
  to = code.advance(to, part, plan.tiles * kTileBytes);
  to = code.advance(to, tile, kTileBytes);
  to = code.advance(to, code.sub(ownRow, firstOwn), kTileColumns * 4);
  to = code.advance(to, code.remainder(code.lane, 4), 8);
  for (auto [n, quad] : llvm::enumerate(sums))
    for (int64_t half = 0; half < 2; ++half) {
      int64_t place =
          (half * 8 * kTileColumns + static_cast<int64_t>(n) * 8) * 4;
      Value pair = vector::FromElementsOp::create(
          code.b, code.loc, VectorType::get({2}, code.f32),
          ArrayRef<Value>(quad).slice(2 * half, 2));
      code.store(pair, code.advance(to, place), 8);
    }
}

void BiasGradEmitter::runSums() {
  OpBuilder &b = code.b;
  Location loc = code.loc;
  int64_t elements = kTileBytes / 4, perTile = elements / kSumThreads;
  Value tile = code.divide(code.block, perTile);
  openTile(tile);
  Value element = code.add(
      code.mul(code.remainder(code.block, perTile), kSumThreads), code.thread);
  Value row = code.add(firstOwn, code.divide(element, kTileColumns));
  Value column = code.add(code.mul(columnTile, kTileColumns),
                          code.remainder(element, kTileColumns));
  Value isThere =
      code.both(code.less(row, code.rows), code.less(column, code.columns));
  emitIf(b, loc, isThere, [&] {
    Value from = code.scratchAt(code.scratch.biasSums);
    from = code.advance(code.advance(from, tile, kTileBytes), element, 4);
    auto loop =
        scf::ForOp::create(b, loc, code.number(0), code.number(plan.parts),
                           code.number(1), ValueRange(code.real(0)));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value sum = code.load(
          code.f32,
          code.advance(from, loop.getInductionVar(), plan.tiles * kTileBytes),
          4);
      sum = code.addF(loop.getRegionIterArgs()[0], sum);
      scf::YieldOp::create(b, loc, ValueRange(sum));
    }
    SmallVector<int64_t> strides = layout.getStridesAndOffset().first;
    Value to = code.advance(target(), row, strides[2] * 4);
    code.store(loop.getResult(0), code.advance(to, column, strides[3] * 4), 4);
  });
}

void BiasGradEmitter::run() {
  OpBuilder &b = code.b;
  Location loc = code.loc;
  stageBytes = (kOwnRows + kTileColumns) * pitchOf(pieces.front().size);
  shared = code.shared(2 * stageBytes);
  Value tile = code.remainder(code.block, plan.tiles);
  Value part = code.divide(code.block, plan.tiles);
  openTile(tile);
  Value begin = code.mul(part, plan.perPart);
  Value end = code.least(code.add(begin, plan.perPart), plan.count);
  Value partial, bits;
  if (code.hasMask) {
    // A mask is the same for all batches and heads.
    Value kind = code.classOf(code.part, columnTile);
    end = code.select(code.equal(kind, AttentionScratch::None), begin, end);
    partial = code.equal(kind, AttentionScratch::Some);
    bits = keptBits(partial, columnTile);
  }
  auto issueFirst = [&](Value i) {
    emitIf(b, loc, code.less(i, end), [&] { issue(i, 0); });
    code.commit();
  };
  issueFirst(begin);
  SmallVector<Quad> zero(kTileColumns / 8, code.zeros());
  auto loop =
      scf::ForOp::create(b, loc, begin, end, code.number(1), valuesOf(zero));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value i = loop.getInductionVar();
    enter(i);
    loadOwnNumbers();
    SmallVector<Quad> products[2] = {zero, zero};
    for (size_t which = 0; which < pairs(); ++which) {
      // One barrier: the pair is there, and nobody reads the one before it.
      code.wait(0);
      code.barrier();
      if (which + 1 < pairs()) {
        issue(i, which + 1);
        code.commit();
      } else {
        issueFirst(code.add(i, 1));
      }
      enter(i);
      multiplyPair(which, products[which / pieces.size()]);
      if (which + 1 == pieces.size())
        weigh(products[0], columnTile, partial, bits);
    }
    SmallVector<Quad> sums =
        quadsOf(SmallVector<Value>(loop.getRegionIterArgs()));
    for (auto [n, ds] : llvm::enumerate(products[1])) {
      differentiate(ds, products[0][n], static_cast<int64_t>(n));
      for (auto [sum, value] : llvm::zip_equal(sums[n], ds))
        sum = code.addF(sum, value);
    }
    scf::YieldOp::create(b, loc, valuesOf(sums));
  }
  SmallVector<Quad> sums = quadsOf(SmallVector<Value>(loop.getResults()));
  if (plan.parts == 1)
    store(sums);
  else
    leave(sums, tile, part);
}

void emitBiasGrad(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                  ArrayRef<uint64_t> alignments,
                  const AttentionScratch &scratch, const BiasGradPlan &plan,
                  OpBuilder &b, StringRef name,
                  SmallVectorImpl<GPUKernel> &kernels) {
  unsigned argument = op.getInputs().size() + 3;
  auto emit = [&](StringRef name, int64_t threads, int64_t blocks,
                  llvm::function_ref<void(BiasGradEmitter &)> run) {
    GPUKernel kernel =
        createGPUKernel(b, op.getLoc(), name, layouts, threads, scratch.bytes);
    AttentionCode code(op, layouts, alignments, scratch, kernel);
    BiasGradEmitter emitter(code, plan, layouts[argument],
                            alignments[argument]);
    run(emitter);
    kernel.blocks = blocks;
    kernels.push_back(kernel);
  };
  emit(name, kWarpsOfGrad * kWarp, plan.parts * plan.tiles,
       [](BiasGradEmitter &emitter) { emitter.run(); });
  if (plan.parts > 1)
    emit((name + "_sums").str(), kSumThreads,
         plan.tiles * (kTileBytes / 4 / kSumThreads),
         [](BiasGradEmitter &emitter) { emitter.runSums(); });
}

} // namespace mpcomm::kernels
