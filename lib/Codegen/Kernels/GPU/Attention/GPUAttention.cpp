//===- GPUAttention.cpp - attention on tensor cores -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forward kernel, after FlashAttention-2 (Dao 2023, algorithm 1): a block
// has the rows of a tile of q in registers and goes through the columns, a warp
// with 16 or 32 rows of its own. Of each row it carries the largest score so
// far, m, the sum of exp(S - m), l, and the sum of exp(S - m) v, O, which are
// scaled down where m grows. P goes from the accumulators of S to the left
// operand of the second product without leaving its thread.
//
// exp(scale (S - m)) is 2^(c S - c m) with c = scale log2(e), one fused
// multiplication each. With a bias, S becomes scale S + bias, and exp(S - m) is
// 2^(log2(e) (S - m)): c m would exceed f32 where the bias is the least number,
// and S - m is exact where both are large and near each other.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionForward.h"
#include "Kernels/GPU/GPUReduce.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace mpcomm::kernels {

namespace {
/// The kernel whose warps multiply, with q in registers.
class WarpForward : public ForwardEmitter {
public:
  WarpForward(AttentionCode &code, const AttentionPlan &plan)
      : ForwardEmitter(code, plan), pitch(pitchOf(code.size)),
        slices(code.size / 16) {}

private:
  Carried overTiles(const State &state) override;
  void loadQ(Value from);
  Carried tile(Value tile, Value stage, Value kind, const Carried &carried);

  int64_t pitch, slices; ///< slices: of 16 elements of a row
  Value shared;
  SmallVector<SmallVector<Quad>> q; ///< by fragment and slice
};
} // namespace

//===----------------------------------------------------------------------===//
// What forward kernels share
//===----------------------------------------------------------------------===//

ForwardEmitter::ForwardEmitter(AttentionCode &code, const AttentionPlan &plan)
    : code(code), plan(plan),
      factor(code.op.getScale().convertToDouble() * kLog2E),
      // c times -infinity has to be -infinity.
      scaleFirst(!(factor > 1e-30 && factor < 1e30)) {}

ForwardEmitter::State::State(const AttentionPlan &plan, int64_t size)
    : sums(plan.fragments * size / 8), most(plan.fragments),
      total(plan.fragments) {}

ForwardEmitter::Carried ForwardEmitter::State::flatten() const {
  Carried values;
  for (const Quad &quad : sums)
    llvm::append_range(values, quad);
  for (const auto *pairs : {&most, &total})
    for (const std::array<Value, 2> &pair : *pairs)
      llvm::append_range(values, pair);
  return values;
}

void ForwardEmitter::State::assign(ArrayRef<Value> values) {
  for (Quad &quad : sums) {
    llvm::copy(values.take_front(4), quad.begin());
    values = values.drop_front(4);
  }
  for (auto *pairs : {&most, &total})
    for (std::array<Value, 2> &pair : *pairs) {
      llvm::copy(values.take_front(2), pair.begin());
      values = values.drop_front(2);
    }
}

Value ForwardEmitter::rowOf(int64_t fragment) {
  Value own = code.mul(code.warp, plan.rowsOfWarp());
  return code.add(
      code.add(firstRow, own),
      code.add(code.divide(code.lane, 4), fragment * plan.rowsOfFragment()));
}

void ForwardEmitter::forScores(Value tile, MutableArrayRef<SmallVector<Quad>> s,
                               int64_t first, MadeScores made) {
  for (int64_t from = 0; from < plan.step / 8; from += 2) {
    AttentionCode::Scores scores;
    SmallVector<Value> values;
    scores.row = rowOf(first);
    scores.column = code.add(code.mul(tile, plan.step),
                             code.mul(code.remainder(code.lane, 4), 2));
    scores.isInside =
        code.rows % plan.rows() == 0 && code.columns % plan.step == 0;
    for (auto [fragment, quads] : llvm::enumerate(s))
      for (int64_t n = from; n < from + 2; ++n)
        for (int64_t i = 0; i < 4; ++i) {
          values.push_back(quads[n][i]);
          scores.places.push_back(
              {static_cast<int64_t>(fragment) * plan.rowsOfFragment() +
                   i / 2 * 8,
               n * 8 + i % 2});
        }
    SmallVector<Value> all = made(scores, values);
    ArrayRef<Value> rest = all;
    for (SmallVector<Quad> &quads : s)
      for (int64_t n = from; n < from + 2; ++n) {
        llvm::copy(rest.take_front(4), quads[n].begin());
        rest = rest.drop_front(4);
      }
  }
}

void ForwardEmitter::weigh(Value partial, Value tile,
                           MutableArrayRef<SmallVector<Quad>> s,
                           int64_t first) {
  if (code.hasBias) {
    forScores(tile, s, first, [&](const auto &scores, ArrayRef<Value> values) {
      return code.addBias(scores, values);
    });
  } else if (scaleFirst) {
    Value scale = code.real(code.op.getScale().convertToDouble());
    for (SmallVector<Quad> &rows : s)
      for (Quad &quad : rows)
        for (Value &value : quad)
          value = code.mulF(value, scale);
  }
  if (!partial)
    return;
  Value otherwise = code.real(-std::numeric_limits<double>::infinity());
  forScores(tile, s, first, [&](const auto &scores, ArrayRef<Value> values) {
    return code.keep(partial, scores, values, otherwise);
  });
}

void ForwardEmitter::exponentiate(int64_t fragment, SmallVector<Quad> &s,
                                  State &state) {
  Value c = code.real(scaleFirst || code.hasBias ? kLog2E : factor);
  Value zero = code.real(0);
  for (int64_t half = 0; half < 2; ++half) {
    Value &most = state.most[fragment][half];
    Value &total = state.total[fragment][half];
    Value tileMost = s[0][2 * half];
    for (Quad &quad : s)
      for (int64_t i = 2 * half; i < 2 * half + 2; ++i)
        if (quad[i] != tileMost)
          tileMost = code.maxF(tileMost, quad[i]);
    Value next = code.maxF(most, code.maxOfRow(tileMost));
    // Of a row that nothing is kept of so far: 2^(-infinity - 0) is 0.
    Value isNothing = arith::CmpFOp::create(
        code.b, code.loc, arith::CmpFPredicate::OEQ, next,
        code.real(-std::numeric_limits<double>::infinity()));
    Value from = code.select(isNothing, zero, next);
    Value shift;
    if (!code.hasBias)
      shift = code.mulF(from, code.real(scaleFirst ? -kLog2E : -factor));
    auto power = [&](Value x) {
      return code.exp2(code.hasBias ? code.mulF(code.subF(x, from), c)
                                    : code.fma(x, c, shift));
    };
    Value shrink = power(most);
    most = next;
    Value sum;
    for (Quad &quad : s)
      for (int64_t i = 2 * half; i < 2 * half + 2; ++i) {
        quad[i] = power(quad[i]);
        sum = sum ? code.addF(sum, quad[i]) : quad[i];
      }
    total = code.fma(total, shrink, sum);
    for (Quad &quad : sumsOf(fragment, state))
      for (int64_t i = 2 * half; i < 2 * half + 2; ++i)
        quad[i] = code.mulF(quad[i], shrink);
  }
}

SmallVector<Quad> ForwardEmitter::leftOf(ArrayRef<Quad> p) {
  SmallVector<Quad> fragments;
  for (size_t k = 0; k < p.size(); k += 2)
    fragments.push_back(code.leftOf(p[k], p[k + 1]));
  return fragments;
}

MutableArrayRef<Quad> ForwardEmitter::sumsOf(int64_t fragment, State &state) {
  return MutableArrayRef<Quad>(state.sums)
      .slice(fragment * (code.size / 8), code.size / 8);
}

void ForwardEmitter::finish(const State &state) {
  GPURows out = code.rowsOf(code.op.getInputs().size());
  unsigned lseArgument = code.op.getInputs().size() + 1;
  Value lse = code.lse(lseArgument);
  auto lseType =
      cast<MemRefType>(code.function.getArgument(lseArgument).getType());
  SmallVector<int64_t> lseStrides = lseType.getStridesAndOffset().first;
  int64_t lseStride = lseStrides[2] * 4;
  Value isFirst = code.equal(code.remainder(code.lane, 4), 0);
  for (int64_t f = 0; f < plan.fragments; ++f) {
    std::array<Value, 2> scales;
    for (int64_t half = 0; half < 2; ++half) {
      Value total = code.sumOfRow(state.total[f][half]);
      scales[half] =
          arith::DivFOp::create(code.b, code.loc, code.real(1), total);
      if (code.op.getSafe()) {
        Value isNothing = arith::CmpFOp::create(
            code.b, code.loc, arith::CmpFPredicate::OEQ, total, code.real(0));
        scales[half] = code.select(isNothing, code.real(0), scales[half]);
      }
      Value most = state.most[f][half];
      Value log = code.log2(total);
      // m c + log2 l; m is 0 in it where it is -infinity, as l is.
      if (!code.hasBias)
        log = code.fma(most, code.real(scaleFirst ? kLog2E : factor), log);
      log = code.mulF(log, code.real(1 / kLog2E));
      Value row = code.add(rowOf(f), half * 8);
      Value isThere = code.both(isFirst, code.less(row, code.rows));
      emitIf(code.b, code.loc, isThere, [&] {
        Value to = code.advance(lse, row, lseStride);
        if (code.hasBias)
          code.store(most, to, 4);
        code.store(log, code.hasBias ? code.advance(to, lseStrides[3] * 4) : to,
                   4);
      });
    }
    ArrayRef<Quad> sums(state.sums);
    code.storeRows(out, rowOf(f),
                   sums.slice(f * (code.size / 8), code.size / 8), scales);
  }
}

void ForwardEmitter::run() {
  code.openBlock(llvm::divideCeil(code.rows, plan.rows()),
                 /*firstIsLongest=*/false);
  firstRow = code.mul(code.part, plan.rows());
  State state(plan, code.size);
  Value zero = code.real(0);
  Value lowest = code.real(-std::numeric_limits<double>::infinity());
  state.sums.assign(state.sums.size(), code.zeros());
  state.most.assign(plan.fragments, {lowest, lowest});
  state.total.assign(plan.fragments, {zero, zero});
  state.assign(overTiles(state));
  finish(state);
}

//===----------------------------------------------------------------------===//
// Warps that multiply
//===----------------------------------------------------------------------===//

ForwardEmitter::Carried WarpForward::tile(Value tile, Value stage, Value kind,
                                          const Carried &carried) {
  State state(plan, code.size);
  state.assign(carried);
  Value base = code.advance(shared, stage, 1);
  Value keys = code.advance(base, code.laneOfRight(pitch), 1);
  Value values = code.advance(code.advance(base, code.laneOfLeft(pitch), 1),
                              plan.step * pitch);
  // The fragments share what is read of k and v.
  SmallVector<SmallVector<Quad>> s(
      plan.fragments, SmallVector<Quad>(plan.step / 8, code.zeros()));
  for (int64_t k = 0; k < slices; ++k)
    for (int64_t n = 0; n < plan.step / 16; ++n) {
      Quad b = code.fragment(code.advance(keys, n * 16 * pitch + k * 32),
                             /*transposed=*/false);
      for (int64_t f = 0; f < plan.fragments; ++f)
        for (int64_t i = 0; i < 2; ++i)
          code.multiply(s[f][2 * n + i], q[f][k], b[2 * i], b[2 * i + 1]);
    }
  weigh(code.isPartial(kind, tile, plan.step), tile, s);
  SmallVector<SmallVector<Quad>> p;
  for (int64_t f = 0; f < plan.fragments; ++f) {
    exponentiate(f, s[f], state);
    p.push_back(leftOf(s[f]));
  }
  for (int64_t k = 0; k < plan.step / 16; ++k)
    for (int64_t n = 0; n < slices; ++n) {
      Quad b = code.fragment(code.advance(values, k * 16 * pitch + n * 32),
                             /*transposed=*/true);
      for (int64_t f = 0; f < plan.fragments; ++f)
        for (int64_t i = 0; i < 2; ++i)
          code.multiply(sumsOf(f, state)[2 * n + i], p[f][k], b[2 * i],
                        b[2 * i + 1]);
    }
  return state.flatten();
}

void WarpForward::loadQ(Value from) {
  from = code.advance(
      code.advance(from, code.mul(code.warp, plan.rowsOfWarp()), pitch),
      code.laneOfLeft(pitch), 1);
  for (int64_t f = 0; f < plan.fragments; ++f) {
    q.emplace_back();
    for (int64_t k = 0; k < slices; ++k)
      q.back().push_back(code.fragment(
          code.advance(from, f * plan.rowsOfFragment() * pitch + k * 32),
          /*transposed=*/false));
  }
}

ForwardEmitter::Carried WarpForward::overTiles(const State &state) {
  int64_t stageBytes = 2 * plan.step * pitch, qBytes = plan.rows() * pitch;
  shared = code.shared(std::max(2 * stageBytes, qBytes));
  bool isBeside = qBytes <= stageBytes;
  Value qAt = isBeside ? code.advance(shared, stageBytes) : shared;
  TileCopy(code, code.rowsOf(0), plan.rows()).issue(firstRow, qAt);
  code.commit();
  if (!isBeside) {
    code.wait(0);
    code.barrier();
    loadQ(qAt);
    code.barrier();
  }
  TileCopy kCopy(code, code.rowsOf(1), plan.step);
  TileCopy vCopy(code, code.rowsOf(2), plan.step);
  return code.overTiles(
      llvm::divideCeil(code.columns, plan.step), stageBytes, state.flatten(),
      [&](Value tile) { return std::pair(code.part, tile); },
      [&](Value tile, Value stage) {
        Value to = code.advance(shared, stage, 1);
        Value first = code.mul(tile, plan.step);
        kCopy.issue(first, to);
        vCopy.issue(first, code.advance(to, plan.step * pitch));
      },
      [&] {
        if (!isBeside)
          return;
        code.wait(1);
        code.barrier();
        loadQ(qAt);
      },
      [&](Value at, Value stage, Value kind, Carried carried) {
        return tile(at, stage, kind, carried);
      });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Blocks of a warpgroup, of heads of 64, that a multiprocessor is to have room
/// for: as many as registers allow without a spill.
static constexpr int64_t kBlocksOfWarpgroups = 3;

/// As many rows as leave no processor without a block; more rows of a warp read
/// k and v from shared memory less often, but take registers.
static AttentionPlan planFor(MemRefType q, bool hasBias, bool ofWarpgroups,
                             const GPULimits &limits) {
  int64_t rows = q.getDimSize(1), size = q.getDimSize(3);
  AttentionPlan plan;
  plan.step = stepOf(size);
  int64_t blocks =
      q.getDimSize(0) * q.getDimSize(2) * llvm::divideCeil(rows, 128);
  if (blocks >= limits.processors && rows > 64)
    (size <= 64 ? plan.fragments : plan.warps) *= 2;
  // The bias of 32 rows by 64 columns would take more registers than there are.
  if (hasBias && plan.fragments > 1)
    plan.step = 32;
  plan.ofWarpgroups = ofWarpgroups;
  if (ofWarpgroups)
    plan.step = kWarpgroupRows;
  return plan;
}

bool areTilesOfWarpgroups(mprt::AttentionOp op, ArrayRef<MemRefType> layouts,
                          ArrayRef<uint64_t> alignments) {
  // dout, q, k and v of a gradient, else q, k and v.
  for (unsigned i = 0; i < (op.isGradient() ? 4u : 3u); ++i)
    if ((layouts[i].getDimSize(3) != kPanel &&
         layouts[i].getDimSize(3) != 2 * kPanel) ||
        viewOf(layouts[i], alignments[i]).access != 16)
      return false;
  return true;
}

SmallVector<GPUKernel> emitGPUAttention(mprt::AttentionOp op,
                                        ArrayRef<MemRefType> layouts,
                                        ArrayRef<uint64_t> alignments,
                                        const GPULimits &limits, OpBuilder &b,
                                        StringRef name) {
  bool ofWarpgroups =
      limits.warpgroups && areTilesOfWarpgroups(op, layouts, alignments);
  if (op.isGradient())
    return emitGPUAttentionGrad(op, layouts, alignments, ofWarpgroups, limits,
                                b, name);
  AttentionPlan plan =
      planFor(layouts[0], op.getBias() != nullptr, ofWarpgroups, limits);
  AttentionScratch scratch;
  SmallVector<GPUKernel> kernels;
  if (op.getMask()) {
    scratch.setMask(layouts[0].getDimSize(1), layouts[1].getDimSize(1),
                    plan.rows(), plan.step);
    kernels.push_back(emitMaskClasses(op, layouts, alignments, scratch, b,
                                      (name + "_mask").str()));
  }
  GPUKernel kernel = createGPUKernel(b, op.getLoc(), name, layouts,
                                     plan.warps * kWarp, scratch.bytes);
  AttentionCode code(op, layouts, alignments, scratch, kernel);
  if (ofWarpgroups) {
    kernel.sharedBytes = sharedBytesOfForward(plan, code.size);
    if (code.size == kPanel && !code.hasBias)
      setLeastBlocks(kernel.function, kBlocksOfWarpgroups);
    emitWarpgroupForward(code, plan);
  } else {
    WarpForward(code, plan).run();
  }
  kernel.blocks = code.blocksOf(llvm::divideCeil(code.rows, plan.rows()));
  kernels.push_back(kernel);
  return kernels;
}

} // namespace mpcomm::kernels
