//===- GPUAttentionGrad.cpp - gradients of attention on tensor cores ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The backward kernels, after FlashAttention-2 (Dao 2023, algorithm 2) but for
// dq, which has a kernel of its own so that nothing is added in an order that
// varies:
//
//   P = 2^(c S - lse'), dP = dout v^T, dS = P (dP - delta),
//   dv = P^T dout, dk = scale dS^T q, dq = scale dS k,
//
// where lse' = lse log2(e) and delta, the sum of dout * out over a row, are
// computed first. With a bias, P = 2^(log2(e) (scale S + bias - m) - l'), where
// l' = log2(e) log l, for the reasons of the forward kernel.
//
// The two kernels are one with the roles exchanged. A block keeps the fragments
// of 64 `own` rows (of k and v; of q and dout) in registers and goes through
// tiles of the `other` rows (of q and dout; of k and v). A warp computes, for
// 16 of its own rows and 16 others at a time, S and dP or their transposes,
// and from their accumulators the left operands of products with the others'
// rows. Nothing but operands goes through shared memory.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttention.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace mpcomm::kernels {

/// Warps of a block, with 16 own rows each.
static constexpr int64_t kWarps = kOwnRows / 16;
/// Blocks that a multiprocessor is to have room for, of the kernels of dq and
/// of dk and dv, with a mask, no bias and for heads of at most so many
/// elements: with fewer registers a thread, but more warps (a tenth faster on
/// an H200).
static constexpr int64_t kBlocksOfRows = 4, kBlocksOfColumns = 3;
static constexpr int64_t kSizeOfManyBlocks = 64;
/// Bytes of a warp's fragment.
static constexpr int64_t kFragmentBytes = kWarp * 16;
/// Threads of a block of the kernel of deltas.
static constexpr int64_t kDeltaThreads = 256;

/// Operands.
enum : unsigned { kDout, kQ, kK, kV, kOut, kLse };

namespace {
class BackwardEmitter {
public:
  /// Emits the kernel of dk and dv, or (`ofRows`) that of dq.
  BackwardEmitter(AttentionCode &code, bool ofRows)
      : code(code), ofRows(ofRows), pitch(pitchOf(code.size)),
        slices(code.size / 16), step(stepOf(code.size)),
        factor(code.op.getScale().convertToDouble() * kLog2E),
        firstResult(code.op.getInputs().size()),
        parked(ofRows || code.size <= 96 ? 0
               : code.hasBias            ? 6
               : code.hasMask            ? 4
                                         : 2) {}
  void run();

private:
  using Carried = AttentionCode::Carried;
  /// Products that a warp carries from tile to tile: dq, or dk and dv.
  int64_t results() const { return ofRows ? 1 : 2; }

  SmallVector<Quad> loadOwn(Value tile);
  Carried tile(Value tile, Value stage, Value kind, Carried carried);
  /// P and dS (or their transposes) of 16 others from `chunk` on, two tiles of
  /// 8 each.
  void scores(Value tile, int64_t chunk, Value others, Value partial,
              Value bits, std::array<Quad, 2> &p, std::array<Quad, 2> &ds);
  /// The thread's scores of others `from` to `to` of a tile, of 8 each.
  AttentionCode::Scores placesOf(Value tile, int64_t from, int64_t to);
  /// Loads numbers of others; with a bias, `count` of each row, where they are
  /// needed, since few registers are left.
  void loadNumbers();
  void loadNumbers(int64_t from, int64_t count);
  void finish(ArrayRef<Value> carried);

  AttentionCode &code;
  bool ofRows;
  int64_t pitch, slices, step;
  double factor;
  unsigned firstResult;
  /// Fragments of `second` for which registers do not suffice: each lane has
  /// its own part in shared memory.
  int64_t parked;
  Value shared, ownRow, parkedAt;
  SmallVector<Quad> first, second; ///< own rows of k and v; of q and dout
  /// Of two rows: lse' and delta; with a bias l', m and delta.
  using Numbers = std::array<std::array<Value, 2>, 3>;
  Numbers ownNumbers;                  ///< of own rows g, g + 8 (`ofRows`)
  std::array<Numbers, 2> otherNumbers; ///< by tile of 8 others, of 2t, 2t + 1
  Value numbersAt; ///< in shared memory, those of a tile's 16 others
};
} // namespace

SmallVector<Quad> BackwardEmitter::loadOwn(Value tile) {
  Value from = code.advance(code.advance(tile, code.mul(code.warp, 16), pitch),
                            code.laneOfLeft(pitch), 1);
  SmallVector<Quad> fragments;
  for (int64_t k = 0; k < slices; ++k)
    fragments.push_back(
        code.fragment(code.advance(from, k * 32), /*transposed=*/false));
  return fragments;
}

/// Of the two rows of each tile of 8 others, 16 bytes at a time.
void BackwardEmitter::loadNumbers() {
  for (int64_t n = 0; n < 2; ++n) {
    Value both = code.load(VectorType::get({4}, code.f32),
                           code.advance(numbersAt, n * 8 * 8), 16);
    for (int64_t i = 0; i < 4; ++i)
      otherNumbers[n][i % 2][i / 2] =
          vector::ExtractOp::create(code.b, code.loc, both, i);
  }
}

void BackwardEmitter::loadNumbers(int64_t from, int64_t count) {
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t row = 0; row < 2; ++row) {
      Value some = code.load(
          VectorType::get({count}, code.f32),
          code.advance(numbersAt, (n * 8 + row) * 16 + from * 4), count * 4);
      for (int64_t i = 0; i < count; ++i)
        otherNumbers[n][from + i][row] =
            vector::ExtractOp::create(code.b, code.loc, some, i);
    }
}

void BackwardEmitter::scores(Value tile, int64_t chunk, Value others,
                             Value partial, Value bits, std::array<Quad, 2> &p,
                             std::array<Quad, 2> &ds) {
  p = {code.zeros(), code.zeros()};
  std::array<Quad, 2> dp = p;
  Value from = code.advance(others, chunk * pitch);
  auto multiply = [&](std::array<Quad, 2> &sums, ArrayRef<Quad> own,
                      int64_t offset) {
    for (int64_t k = 0; k < slices; ++k) {
      Quad b = code.fragment(code.advance(from, offset + k * 32),
                             /*transposed=*/false);
      Quad a = k < static_cast<int64_t>(own.size())
                   ? own[k]
                   : code.take(code.advance(parkedAt, (k + parked - slices) *
                                                          kFragmentBytes));
      for (int64_t n = 0; n < 2; ++n)
        code.multiply(sums[n], a, b[2 * n], b[2 * n + 1]);
    }
  };
  multiply(p, first, 0);
  auto numberOf = [&](int64_t which, int64_t n, int64_t i) {
    return ofRows ? ownNumbers[which][i / 2] : otherNumbers[n][which][i % 2];
  };
  SmallVector<Value> exponents;
  Value c = code.real(code.hasBias ? kLog2E : factor);
  if (code.hasBias) {
    if (!ofRows)
      loadNumbers(0, 2);
    SmallVector<Value> all =
        code.addBias(placesOf(tile, chunk / 8, chunk / 8 + 2),
                     llvm::to_vector(llvm::concat<Value>(p[0], p[1])));
    for (int64_t i = 0; i < 8; ++i)
      p[i / 4][i % 4] = code.subF(all[i], numberOf(1, i / 4, i % 4));
  }
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 4; ++i)
      exponents.push_back(
          code.fma(p[n][i], c,
                   arith::NegFOp::create(code.b, code.loc, numberOf(0, n, i))));
  exponents =
      code.keepBits(partial, bits, chunk / 2, exponents,
                    code.real(-std::numeric_limits<double>::infinity()));
  // After the branch, so that it need not hold both.
  multiply(dp, second, step * pitch);
  if (code.hasBias && !ofRows)
    loadNumbers(2, 1);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 4; ++i) {
      Value delta = numberOf(code.hasBias ? 2 : 1, n, i);
      p[n][i] = code.exp2(exponents[4 * n + i]);
      ds[n][i] = code.mulF(p[n][i], code.subF(dp[n][i], delta));
    }
}

AttentionCode::Scores BackwardEmitter::placesOf(Value tile, int64_t from,
                                                int64_t to) {
  Value other =
      code.add(code.mul(tile, step), code.mul(code.remainder(code.lane, 4), 2));
  AttentionCode::Scores scores;
  scores.row = ofRows ? ownRow : other;
  scores.column = ofRows ? other : ownRow;
  scores.isInside = code.rows % kOwnRows == 0 && code.columns % kOwnRows == 0;
  for (int64_t n = from; n < to; ++n)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t own = i / 2 * 8, at = n * 8 + i % 2;
      scores.places.push_back(ofRows ? std::pair(own, at) : std::pair(at, own));
    }
  return scores;
}

BackwardEmitter::Carried BackwardEmitter::tile(Value tile, Value stage,
                                               Value kind, Carried carried) {
  SmallVector<Quad> sums(carried.size() / 4);
  for (auto [i, value] : llvm::enumerate(carried))
    sums[i / 4][i % 4] = value;
  Value base = code.advance(shared, stage, 1);
  Value others = code.advance(base, code.laneOfRight(pitch), 1);
  Value across = code.advance(base, code.laneOfLeft(pitch), 1);
  // Columns beyond the last would add to dq; of dk and dv they are rows of
  // their own, which nobody stores.
  Value partial = ofRows ? code.isPartial(kind, tile, step)
                  : kind ? code.equal(kind, AttentionScratch::Some)
                         : Value();
  // Which are kept, while few registers are in use.
  Value bits = code.keptBits(partial, placesOf(tile, 0, step / 8));
  for (int64_t chunk = 0; chunk < step; chunk += 16) {
    if (!ofRows) {
      int64_t bytes = code.scratch.numberBytes;
      numbersAt =
          code.advance(code.advance(base, 2 * step * pitch),
                       code.mul(code.remainder(code.lane, 4), 2), bytes);
      numbersAt = code.advance(numbersAt, chunk * bytes);
      if (!code.hasBias)
        loadNumbers();
    }
    std::array<Quad, 2> p, ds;
    scores(tile, chunk, others, partial, bits, p, ds);
    // dq from dS and k, which is the first of the others; dk from dS and q,
    // the first; dv from P and dout, the second.
    for (int64_t result = 0; result < results(); ++result) {
      const std::array<Quad, 2> &weights = result == 0 ? ds : p;
      Quad a = code.leftOf(weights[0], weights[1]);
      for (int64_t n = 0; n < slices; ++n) {
        Quad b = code.fragment(
            code.advance(across, (result * step + chunk) * pitch + n * 32),
            /*transposed=*/true);
        for (int64_t i = 0; i < 2; ++i)
          code.multiply(sums[result * slices * 2 + 2 * n + i], a, b[2 * i],
                        b[2 * i + 1]);
      }
    }
  }
  Carried made;
  for (const Quad &quad : sums)
    llvm::append_range(made, quad);
  return made;
}

void BackwardEmitter::finish(ArrayRef<Value> carried) {
  Value scale = code.real(code.op.getScale().convertToDouble());
  for (int64_t result = 0; result < results(); ++result) {
    SmallVector<Quad> sums(slices * 2);
    for (int64_t i = 0; i < slices * 8; ++i)
      sums[i / 4][i % 4] = carried[result * slices * 8 + i];
    Value factor = result == 0 ? scale : code.real(1);
    GPURows target = code.rowsOf(firstResult + (ofRows ? 0 : 1 + result));
    code.storeRows(target, ownRow, sums, {factor, factor});
  }
}

void BackwardEmitter::run() {
  int64_t ownCount = ofRows ? code.rows : code.columns;
  int64_t otherCount = ofRows ? code.columns : code.rows;
  int64_t perNumber = code.scratch.numberBytes;
  int64_t numberBytes = ofRows ? 0 : step * perNumber;
  int64_t stageBytes = 2 * step * pitch + numberBytes;
  int64_t ownBytes = 2 * kOwnRows * pitch;
  int64_t tileBytes = std::max(2 * stageBytes, ownBytes);
  shared = code.shared(tileBytes + kWarps * parked * kFragmentBytes);
  parkedAt = code.advance(code.advance(shared, tileBytes), code.warp,
                          parked * kFragmentBytes);
  // Of a causal mask the last rows and the first columns have most.
  code.openBlock(llvm::divideCeil(ownCount, kOwnRows), !ofRows);
  Value firstOwn = code.mul(code.part, kOwnRows);
  ownRow = code.add(code.add(firstOwn, code.mul(code.warp, 16)),
                    code.divide(code.lane, 4));

  GPURows own[] = {code.rowsOf(ofRows ? kQ : kK),
                   code.rowsOf(ofRows ? kDout : kV)};
  GPURows other[] = {code.rowsOf(ofRows ? kK : kQ),
                     code.rowsOf(ofRows ? kV : kDout)};
  Value numbers = code.numbers();
  bool isBeside = ownBytes <= stageBytes;
  Value all = shared;
  Value ownAt = isBeside ? code.advance(all, stageBytes) : all;
  for (int64_t i = 0; i < 2; ++i)
    TileCopy(code, own[i], kOwnRows)
        .issue(firstOwn, code.advance(ownAt, i * kOwnRows * pitch));
  code.commit();
  auto takeOwn = [&] {
    code.wait(isBeside ? 1 : 0);
    code.barrier();
    first = loadOwn(ownAt);
    second = loadOwn(code.advance(ownAt, kOwnRows * pitch));
    for (int64_t i = 0; i < parked; ++i)
      code.put(second[slices - parked + i],
               code.advance(parkedAt, i * kFragmentBytes));
    second.resize(slices - parked);
    if (!isBeside)
      code.barrier();
  };
  if (!isBeside)
    takeOwn();
  if (ofRows)
    for (int64_t half = 0; half < 2; ++half) {
      Value both = code.load(
          VectorType::get({perNumber / 4}, code.f32),
          code.advance(numbers, code.add(ownRow, half * 8), perNumber),
          perNumber);
      for (int64_t which = 0; which < (code.hasBias ? 3 : 2); ++which)
        ownNumbers[which][half] =
            vector::ExtractOp::create(code.b, code.loc, both, which);
    }

  TileCopy firstCopy(code, other[0], step), secondCopy(code, other[1], step);
  auto issue = [&](Value tile, Value stage) {
    Value to = code.advance(all, stage, 1);
    Value from = code.mul(tile, step);
    firstCopy.issue(from, to);
    secondCopy.issue(from, code.advance(to, step * pitch));
    if (ofRows)
      return;
    // 16 bytes a thread: the numbers of two rows, or of one.
    to = code.advance(code.advance(to, 2 * step * pitch), code.thread, 16);
    emitIf(code.b, code.loc, code.less(code.thread, numberBytes / 16), [&] {
      Value source =
          code.advance(code.advance(numbers, from, perNumber), code.thread, 16);
      code.copy16(source, to);
    });
  };
  // The mask's tiles are as large as those of own rows.
  auto classAt = [&](Value tile) {
    Value at = code.divide(tile, kOwnRows / step);
    return ofRows ? std::pair(code.part, at) : std::pair(at, code.part);
  };
  Carried zeros;
  for (int64_t i = 0; i < results() * slices * 2; ++i)
    llvm::append_range(zeros, code.zeros());
  finish(code.overTiles(
      llvm::divideCeil(otherCount, step), stageBytes, zeros, classAt, issue,
      [&] {
        if (isBeside)
          takeOwn();
      },
      [&](Value at, Value stage, Value kind, Carried carried) {
        return tile(at, stage, kind, std::move(carried));
      }));
}

//===----------------------------------------------------------------------===//
// lse' and delta
//===----------------------------------------------------------------------===//

/// Each row belongs to as many lanes as it has 16 bytes.
static GPUKernel emitDeltas(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                            ArrayRef<uint64_t> alignments,
                            const AttentionScratch &scratch, OpBuilder &b,
                            StringRef name) {
  GPUKernel kernel = createGPUKernel(b, op.getLoc(), name, layouts,
                                     kDeltaThreads, scratch.bytes);
  AttentionCode code(op, layouts, alignments, scratch, kernel);
  OpBuilder &at = code.b;
  Location loc = code.loc;
  int64_t chunks = code.size / 8;
  int64_t lanes = static_cast<int64_t>(llvm::PowerOf2Ceil(chunks));
  int64_t perBlock = kDeltaThreads / lanes;
  int64_t parts = llvm::divideCeil(scratch.paddedRows, perBlock);
  kernel.blocks = code.blocksOf(parts);
  Value head = code.divide(code.block, parts);
  code.batchIndex = code.divide(head, code.heads);
  code.headIndex = code.remainder(head, code.heads);
  Value row = code.add(code.mul(code.remainder(code.block, parts), perBlock),
                       code.divide(code.thread, lanes));
  Value chunk = code.remainder(code.thread, lanes);
  Value isThere = code.less(row, code.rows);
  if (chunks != lanes)
    isThere = code.both(isThere, code.less(chunk, chunks));
  auto sum = scf::IfOp::create(at, loc, TypeRange(code.f32), isThere, true);
  {
    OpBuilder::InsertionGuard guard(at);
    at.setInsertionPointToStart(sum.elseBlock());
    scf::YieldOp::create(at, loc, ValueRange(code.real(0)));
    at.setInsertionPointToStart(sum.thenBlock());
    SmallVector<Value> terms[2];
    for (auto [values, argument] :
         {std::pair(&terms[0], kDout), std::pair(&terms[1], kOut)}) {
      GPURows rows = code.rowsOf(argument);
      Value from = code.advance(code.advance(rows.base, row, rows.rowBytes),
                                chunk, 8 * rows.elementBytes);
      int64_t width = rows.access / 2;
      for (int64_t i = 0; i < 8; i += width) {
        Value place = code.advance(from, i * rows.elementBytes);
        if (width == 1) {
          values->push_back(code.load(code.element, place, 2));
          continue;
        }
        Value some = code.load(VectorType::get({width}, code.element), place,
                               rows.access);
        for (int64_t j = 0; j < width; ++j)
          values->push_back(vector::ExtractOp::create(at, loc, some, j));
      }
      for (Value &value : *values)
        value = arith::ExtFOp::create(at, loc, code.f32, value);
    }
    Value total = code.mulF(terms[0][0], terms[1][0]);
    for (unsigned i = 1; i < 8; ++i)
      total = code.fma(terms[0][i], terms[1][i], total);
    scf::YieldOp::create(at, loc, ValueRange(total));
  }
  Value delta = sum.getResult(0);
  for (int64_t offset = 1; offset < lanes; offset *= 2)
    delta = code.addF(delta, code.shuffleXor(delta, offset));
  Value isWritten =
      code.both(code.equal(chunk, 0), code.less(row, scratch.paddedRows));
  emitIf(at, loc, isWritten, [&] {
    SmallVector<int64_t> strides = layouts[kLse].getStridesAndOffset().first;
    Value from = code.advance(code.lse(kLse), code.least(row, code.rows - 1),
                              strides[2] * 4);
    // With a bias, m comes first.
    Value lse = code.load(code.f32, from, 4), log = lse;
    if (code.hasBias)
      log = code.load(code.f32, code.advance(from, strides[3] * 4), 4);
    Value infinity = code.real(std::numeric_limits<double>::infinity());
    // Rows that nothing is kept of, and those after the last, are as if of
    // zeros; with a bias their P is 0.
    Value isReal =
        code.both(code.less(row, code.rows),
                  arith::CmpFOp::create(
                      at, loc, arith::CmpFPredicate::UNE, lse,
                      code.real(-std::numeric_limits<double>::infinity())));
    Value zero = code.real(0);
    Value exponent = code.mulF(log, code.real(kLog2E));
    SmallVector<Value> numbers{code.select(isReal, exponent, zero)};
    if (code.hasBias)
      numbers.push_back(code.select(isReal, lse, infinity));
    numbers.push_back(code.select(isReal, delta, zero));
    if (code.hasBias)
      numbers.push_back(zero);
    code.store(
        vector::FromElementsOp::create(
            at, loc,
            VectorType::get({static_cast<int64_t>(numbers.size())}, code.f32),
            numbers),
        code.advance(code.numbers(), row, scratch.numberBytes),
        scratch.numberBytes);
  });
  return kernel;
}

SmallVector<GPUKernel> emitGPUAttentionGrad(mprt::AttentionOp op,
                                            ArrayRef<MemRefType> layouts,
                                            ArrayRef<uint64_t> alignments,
                                            OpBuilder &b, StringRef name) {
  int64_t batch = layouts[kQ].getDimSize(0), rows = layouts[kQ].getDimSize(1),
          heads = layouts[kQ].getDimSize(2),
          columns = layouts[kK].getDimSize(1);
  AttentionScratch scratch;
  scratch.setNumbers(batch * heads, rows, op.getBias() != nullptr);
  SmallVector<GPUKernel> kernels;
  if (op.getMask()) {
    scratch.setMask(rows, columns, kOwnRows, kOwnRows);
    kernels.push_back(emitMaskClasses(op, layouts, alignments, scratch, b,
                                      (name + "_mask").str()));
  }
  kernels.push_back(emitDeltas(op, layouts, alignments, scratch, b,
                               (name + "_deltas").str()));
  for (bool ofRows : {false, true}) {
    GPUKernel kernel = createGPUKernel(
        b, op.getLoc(), (name + (ofRows ? "_rows" : "_columns")).str(), layouts,
        kWarps * kWarp, scratch.bytes);
    AttentionCode code(op, layouts, alignments, scratch, kernel);
    if (code.hasMask && !code.hasBias && code.size <= kSizeOfManyBlocks)
      setLeastBlocks(kernel.function,
                     ofRows ? kBlocksOfRows : kBlocksOfColumns);
    BackwardEmitter(code, ofRows).run();
    kernel.blocks =
        code.blocksOf(llvm::divideCeil(ofRows ? rows : columns, kOwnRows));
    kernels.push_back(kernel);
  }
  return kernels;
}

} // namespace mpcomm::kernels
