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
// computed first.
//
// The two kernels are one with the roles exchanged. A block keeps the fragments
// of 64 `own` rows (of k and v; of q and dout) in registers and goes through
// tiles of the `other` rows (of q and dout; of k and v). A warp computes, for
// 16 of its own rows and 16 others at a time, S and dP or their transposes,
// and from their accumulators the left operands of products with the others'
// rows. Nothing but operands goes through shared memory.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionBackward.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace mpcomm::kernels {

/// Blocks that a multiprocessor is to have room for, of the kernels of dq and
/// of dk and dv, with a mask and for heads of at most so many elements: with
/// fewer registers a thread, but more warps (a tenth faster on an H200).
static constexpr int64_t kBlocksOfRows = 4, kBlocksOfColumns = 3;
static constexpr int64_t kSizeOfManyBlocks = 64;
/// Bytes of a warp's fragment.
static constexpr int64_t kFragmentBytes = kWarp * 16;
/// Threads of a block of the kernel of deltas.
static constexpr int64_t kDeltaThreads = 256;

namespace {
/// The kernels whose warps multiply, with own rows in registers.
class WarpBackward : public BackwardEmitter {
public:
  WarpBackward(AttentionCode &code, bool ofRows)
      : BackwardEmitter(code, ofRows, stepOf(code.size)),
        pitch(pitchOf(code.size)), parked(ofRows || code.size <= 96 ? 0
                                          : code.hasMask            ? 4
                                                                    : 2) {}
  void run() override;

private:
  SmallVector<Quad> loadOwn(Value tile);
  Carried tile(Value tile, Value stage, Value kind, Carried carried);
  /// P and dS (or their transposes) of 16 others from `chunk` on, two tiles of
  /// 8 each.
  void scores(Value tile, int64_t chunk, Value others, Value partial,
              Value bits, std::array<Quad, 2> &p, std::array<Quad, 2> &ds);

  int64_t pitch;
  /// Fragments of `second` for which registers do not suffice: each lane has
  /// its own part in shared memory.
  int64_t parked;
  Value shared, parkedAt, numbersAt; ///< of a tile's others
  SmallVector<Quad> first, second;   ///< own rows of k and v; of q and dout
};
} // namespace

//===----------------------------------------------------------------------===//
// What kernels of gradients share
//===----------------------------------------------------------------------===//

BackwardEmitter::BackwardEmitter(AttentionCode &code, bool ofRows, int64_t step)
    : code(code), ofRows(ofRows), slices(code.size / 16), step(step),
      factor(code.op.getScale().convertToDouble() * kLog2E),
      firstResult(code.op.getInputs().size()), otherNumbers(step / 8) {}

GPURows BackwardEmitter::own(int64_t which) {
  return which == 0 ? code.rowsOf(ofRows ? kQ : kK)
                    : code.rowsOf(ofRows ? kDout : kV);
}

GPURows BackwardEmitter::other(int64_t which) {
  return which == 0 ? code.rowsOf(ofRows ? kK : kQ)
                    : code.rowsOf(ofRows ? kV : kDout);
}

void BackwardEmitter::open() {
  // Of a causal mask the last rows and the first columns have most.
  code.openBlock(llvm::divideCeil(ownCount(), kOwnRows), !ofRows);
  setOwn();
}

void BackwardEmitter::setOwn() {
  firstOwn = code.mul(code.part, kOwnRows);
  ownRow = code.add(code.add(firstOwn, code.mul(code.warp, 16)),
                    code.divide(code.lane, 4));
}

void BackwardEmitter::loadOwnNumbers() {
  Value numbers = code.numbers();
  int64_t bytes = code.scratch.numberBytes;
  for (int64_t half = 0; half < 2; ++half) {
    Value all = code.load(
        VectorType::get({bytes / 4}, code.f32),
        code.advance(numbers, code.add(ownRow, half * 8), bytes), bytes);
    for (int64_t which = 0; which < (code.hasBias ? 3 : 2); ++which)
      ownNumbers[which][half] =
          vector::ExtractOp::create(code.b, code.loc, all, which);
  }
}

std::pair<Value, Value> BackwardEmitter::classAt(Value tile) {
  Value at = code.divide(tile, kOwnRows / step);
  return ofRows ? std::pair(code.part, at) : std::pair(at, code.part);
}

void BackwardEmitter::copyNumbers(Value numbers, Value first, Value target) {
  // 16 bytes a thread: the numbers of two rows, or of one.
  Value to = code.advance(target, code.thread, 16);
  emitIf(code.b, code.loc, code.less(code.thread, numberBytes() / 16), [&] {
    Value source =
        code.advance(code.advance(numbers, first, code.scratch.numberBytes),
                     code.thread, 16);
    code.copy16(source, to);
  });
}

void BackwardEmitter::loadOtherNumbers(int64_t first, int64_t count, Value from,
                                       Which which) {
  if (ofRows || code.hasBias != (which != AtOnce))
    return;
  for (int64_t tile = first; tile < first + count; ++tile)
    loadNumbersOfTile(tile, from, which);
}

void BackwardEmitter::loadNumbersOfTile(int64_t tile, Value from, Which which) {
  int64_t bytes = code.scratch.numberBytes;
  Value at =
      code.advance(from, code.mul(code.remainder(code.lane, 4), 2), bytes);
  at = code.advance(at, tile * 8 * bytes);
  Numbers &numbers = otherNumbers[tile];
  auto take = [&](Value place, int64_t count, auto target) {
    Value some =
        code.load(VectorType::get({count}, code.f32), place, count * 4);
    for (int64_t i = 0; i < count; ++i)
      target(i) = vector::ExtractOp::create(code.b, code.loc, some, i);
  };
  if (!code.hasBias) {
    // Of both rows, 16 bytes.
    take(at, 4, [&](int64_t i) -> Value & { return numbers[i % 2][i / 2]; });
    return;
  }
  for (int64_t row = 0; row < 2; ++row) {
    if (which == ForShift)
      take(code.advance(at, row * bytes), 2,
           [&](int64_t i) -> Value & { return numbers[i][row]; });
    if (which == ForDifferentiate)
      take(code.advance(at, row * bytes + 8), 1,
           [&](int64_t) -> Value & { return numbers[2][row]; });
  }
}

Value BackwardEmitter::numberOf(int64_t which, int64_t tile, int64_t i) {
  return ofRows ? ownNumbers[which][i / 2] : otherNumbers[tile][which][i % 2];
}

Value BackwardEmitter::partialOf(Value kind, Value tile) {
  // Columns beyond the last would add to dq; of dk and dv they are rows of
  // their own, which nobody stores.
  if (ofRows)
    return code.isPartial(kind, tile, step);
  return kind ? code.equal(kind, AttentionScratch::Some) : Value();
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

Value BackwardEmitter::keptBits(Value partial, Value tile) {
  return code.keptBits(partial, placesOf(tile, 0, step / 8));
}

void BackwardEmitter::shift(MutableArrayRef<Quad> s, Value tile, int64_t from) {
  auto count = static_cast<int64_t>(s.size());
  if (code.hasBias) {
    SmallVector<Value> values;
    for (const Quad &quad : s)
      llvm::append_range(values, quad);
    values = code.addBias(placesOf(tile, from, from + count), values);
    for (int64_t i = 0; i < 4 * count; ++i)
      s[i / 4][i % 4] = code.subF(values[i], numberOf(1, from + i / 4, i % 4));
  }
  Value c = code.real(code.hasBias ? kLog2E : factor);
  for (int64_t n = 0; n < count; ++n)
    for (int64_t i = 0; i < 4; ++i)
      s[n][i] = code.fma(
          s[n][i], c,
          arith::NegFOp::create(code.b, code.loc, numberOf(0, from + n, i)));
}

void BackwardEmitter::exponentiate(Quad &s) {
  for (Value &value : s)
    value = code.exp2(value);
}

void BackwardEmitter::weigh(MutableArrayRef<Quad> s, Value tile, Value partial,
                            Value bits) {
  for (size_t n = 0; n < s.size(); n += 2)
    shift(s.slice(n, 2), tile, static_cast<int64_t>(n));
  SmallVector<Value> exponents =
      code.keepBits(partial, bits, 0, valuesOf(s),
                    code.real(-std::numeric_limits<double>::infinity()));
  for (auto [n, quad] : llvm::enumerate(quadsOf(exponents))) {
    s[n] = quad;
    exponentiate(s[n]);
  }
}

void BackwardEmitter::differentiate(Quad &dp, const Quad &p, int64_t tile) {
  for (int64_t i = 0; i < 4; ++i)
    dp[i] = code.mulF(
        p[i], code.subF(dp[i], numberOf(code.hasBias ? 2 : 1, tile, i)));
}

BackwardEmitter::Carried BackwardEmitter::zeros() {
  Carried values;
  for (int64_t i = 0; i < results() * slices * 2; ++i)
    llvm::append_range(values, code.zeros());
  return values;
}

void BackwardEmitter::finish(ArrayRef<Value> carried) {
  Value scale = code.real(code.op.getScale().convertToDouble());
  for (int64_t result = 0; result < results(); ++result) {
    SmallVector<Quad> sums =
        quadsOf(carried.slice(result * slices * 8, slices * 8));
    Value factor = result == 0 ? scale : code.real(1);
    GPURows target = code.rowsOf(firstResult + (ofRows ? 0 : 1 + result));
    code.storeRows(target, ownRow, sums, {factor, factor});
  }
}

//===----------------------------------------------------------------------===//
// Warps that multiply
//===----------------------------------------------------------------------===//

SmallVector<Quad> WarpBackward::loadOwn(Value tile) {
  Value from = code.advance(code.advance(tile, code.mul(code.warp, 16), pitch),
                            code.laneOfLeft(pitch), 1);
  SmallVector<Quad> fragments;
  for (int64_t k = 0; k < slices; ++k)
    fragments.push_back(
        code.fragment(code.advance(from, k * 32), /*transposed=*/false));
  return fragments;
}

void WarpBackward::scores(Value tile, int64_t chunk, Value others,
                          Value partial, Value bits, std::array<Quad, 2> &p,
                          std::array<Quad, 2> &ds) {
  p = ds = {code.zeros(), code.zeros()};
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
  auto loadNumbers = [&](Which which) {
    loadOtherNumbers(chunk / 8, 2, numbersAt, which);
  };
  loadNumbers(AtOnce);
  multiply(p, first, 0);
  loadNumbers(ForShift);
  shift(p, tile, chunk / 8);
  SmallVector<Value> exponents =
      llvm::to_vector(llvm::concat<Value>(p[0], p[1]));
  exponents =
      code.keepBits(partial, bits, chunk / 2, exponents,
                    code.real(-std::numeric_limits<double>::infinity()));
  // After the branch, so that it need not hold both.
  multiply(ds, second, step * pitch);
  loadNumbers(ForDifferentiate);
  for (int64_t n = 0; n < 2; ++n) {
    llvm::copy(ArrayRef(exponents).slice(4 * n, 4), p[n].begin());
    exponentiate(p[n]);
    differentiate(ds[n], p[n], chunk / 8 + n);
  }
}

BackwardEmitter::Carried WarpBackward::tile(Value tile, Value stage, Value kind,
                                            Carried carried) {
  SmallVector<Quad> sums = quadsOf(carried);
  Value base = code.advance(shared, stage, 1);
  Value others = code.advance(base, code.laneOfRight(pitch), 1);
  Value across = code.advance(base, code.laneOfLeft(pitch), 1);
  Value partial = partialOf(kind, tile);
  Value bits = keptBits(partial, tile);
  numbersAt = code.advance(base, 2 * step * pitch);
  for (int64_t chunk = 0; chunk < step; chunk += 16) {
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
  return valuesOf(sums);
}

void WarpBackward::run() {
  int64_t stageBytes = 2 * step * pitch + (ofRows ? 0 : numberBytes());
  int64_t ownBytes = 2 * kOwnRows * pitch;
  int64_t tileBytes = std::max(2 * stageBytes, ownBytes);
  shared = code.shared(tileBytes + kWarpsOfGrad * parked * kFragmentBytes);
  parkedAt = code.advance(code.advance(shared, tileBytes), code.warp,
                          parked * kFragmentBytes);
  open();
  Value numbers = code.numbers();
  bool isBeside = ownBytes <= stageBytes;
  Value all = shared;
  Value ownAt = isBeside ? code.advance(all, stageBytes) : all;
  for (int64_t i = 0; i < 2; ++i)
    TileCopy(code, own(i), kOwnRows)
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
    loadOwnNumbers();

  TileCopy firstCopy(code, other(0), step), secondCopy(code, other(1), step);
  auto issue = [&](Value tile, Value stage) {
    Value to = code.advance(all, stage, 1);
    Value from = code.mul(tile, step);
    firstCopy.issue(from, to);
    secondCopy.issue(from, code.advance(to, step * pitch));
    if (!ofRows)
      copyNumbers(numbers, from, code.advance(to, 2 * step * pitch));
  };
  finish(code.overTiles(
      llvm::divideCeil(otherCount(), step), stageBytes, zeros(),
      [&](Value tile) { return classAt(tile); }, issue,
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

SmallVector<GPUKernel>
emitGPUAttentionGrad(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                     ArrayRef<uint64_t> alignments, bool ofWarpgroups,
                     const GPULimits &limits, OpBuilder &b, StringRef name) {
  int64_t batch = layouts[kQ].getDimSize(0), rows = layouts[kQ].getDimSize(1),
          heads = layouts[kQ].getDimSize(2),
          columns = layouts[kK].getDimSize(1);
  AttentionScratch scratch;
  scratch.setNumbers(batch * heads, rows, op.getBias() != nullptr);
  std::optional<BiasGradPlan> biasGrad;
  if (op.getBiasGrad()) {
    biasGrad.emplace(op, layouts, limits);
    scratch.setBiasSums(biasGrad->sumBytes());
  }
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
        kWarpsOfGrad * kWarp, scratch.bytes);
    AttentionCode code(op, layouts, alignments, scratch, kernel);
    if (ofWarpgroups) {
      kernel.sharedBytes = sharedBytesOfBackward(code, ofRows);
      emitWarpgroupBackward(code, ofRows);
    } else {
      if (code.hasMask && !code.hasBias && code.size <= kSizeOfManyBlocks)
        setLeastBlocks(kernel.function,
                       ofRows ? kBlocksOfRows : kBlocksOfColumns);
      WarpBackward(code, ofRows).run();
    }
    kernel.blocks =
        code.blocksOf(llvm::divideCeil(ofRows ? rows : columns, kOwnRows));
    kernels.push_back(kernel);
  }
  if (biasGrad)
    emitBiasGrad(op, layouts, alignments, scratch, *biasGrad, b,
                 (name + "_bias").str(), kernels);
  return kernels;
}

} // namespace mpcomm::kernels
