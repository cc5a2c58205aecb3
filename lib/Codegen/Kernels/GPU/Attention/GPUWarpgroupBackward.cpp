//===- GPUWarpgroupBackward.cpp - gradients of attention by warpgroups ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The backward kernels for sm_90a: GPUAttentionGrad.cpp's, but that a block is
// one warpgroup, which multiplies whole tiles. Its own rows are left operands
// in registers, twice the others are in shared memory. What the warps compute
// between products hides behind the next product:
//
//   S = own others^T, dP = own others^T  begin
//   S ends: P;   dv += P dout            begins, while dP is computed
//   dP ends: dS; dk or dq += dS others   begins, while dv is computed
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionBackward.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace mpcomm::kernels {

namespace {
class WarpgroupBackward : public BackwardEmitter {
public:
  using BackwardEmitter::BackwardEmitter;
  void run() override;

private:
  SmallVector<Quad> loadOwn(Value tile);
  Carried tile(Value tile, Value stage, Value kind, const Carried &carried);
  /// The sums that result `which` is, of all that are carried.
  MutableArrayRef<Quad> sumsOf(int64_t which, SmallVector<Quad> &sums) {
    return MutableArrayRef<Quad>(sums).slice(which * 2 * slices, 2 * slices);
  }

  Value stages, numbersAt;         ///< in shared memory
  SmallVector<Quad> first, second; ///< own rows of k and v; of q and dout
};
} // namespace

/// Bytes of lse' and delta of a row.
static constexpr int64_t kNumberBytes = 8;

SmallVector<Quad> WarpgroupBackward::loadOwn(Value tile) {
  Value row = code.add(code.mul(code.warp, 16), code.remainder(code.lane, 16));
  Value from = code.advance(tile, row, kPanelBytes);
  Value place = code.remainder(code.lane, kSwizzleRows);
  SmallVector<Quad> fragments;
  for (int64_t k = 0; k < slices; ++k) {
    Value chunk =
        code.exclusiveOr(code.add(code.divide(code.lane, 16), 2 * k), place);
    fragments.push_back(
        code.fragment(code.advance(from, chunk, 16), /*transposed=*/false));
  }
  return fragments;
}

BackwardEmitter::Carried WarpgroupBackward::tile(Value tile, Value stage,
                                                 Value kind,
                                                 const Carried &carried) {
  SmallVector<Quad> sums(carried.size() / 4);
  for (auto [i, value] : llvm::enumerate(carried))
    sums[i / 4][i % 4] = value;
  int64_t tileBytes = step * kPanelBytes;
  Value base = code.advance(stages, stage, 1);
  WarpgroupTile others[] = {WarpgroupTile(code, base),
                            WarpgroupTile(code, code.advance(base, tileBytes))};
  Value partial = partialOf(kind, tile);
  Value bits = keptBits(partial, tile);
  if (!ofRows)
    for (int64_t n = 0; n < step / 8; ++n)
      loadOtherNumbers(
          n,
          code.advance(numbersAt,
                       code.divide(stage, 2 * kPanelBytes / kNumberBytes), 1));
  SmallVector<Quad> s(step / 8), dp(step / 8);
  auto begin = [&](MutableArrayRef<Quad> scores, ArrayRef<Quad> own,
                   const WarpgroupTile &other) {
    WarpgroupProduct product;
    product.left.assign(own.begin(), own.end());
    for (int64_t k = 0; k < slices; ++k)
      product.right.push_back(other.rows(0, k));
    multiply(code, scores, product, /*accumulates=*/false);
  };
  begin(s, first, others[0]);
  begin(dp, second, others[1]);
  // From the weights of a tile and its rows, those of others[which].
  auto accumulate = [&](int64_t result, ArrayRef<Quad> weights,
                        const WarpgroupTile &other) {
    WarpgroupProduct product;
    product.isAcross = true;
    for (int64_t k = 0; k < step / 16; ++k) {
      product.left.push_back(code.leftOf(weights[2 * k], weights[2 * k + 1]));
      product.right.push_back(other.across(k));
    }
    multiply(code, sumsOf(result, sums), product, /*accumulates=*/true);
  };
  waitForProducts(code, 1, {MutableArrayRef<Quad>(s)});
  SmallVector<Value> exponents;
  for (auto [n, quad] : llvm::enumerate(s)) {
    shift(quad, static_cast<int64_t>(n));
    llvm::append_range(exponents, quad);
  }
  exponents =
      code.keepBits(partial, bits, 0, exponents,
                    code.real(-std::numeric_limits<double>::infinity()));
  for (auto [n, quad] : llvm::enumerate(s)) {
    llvm::copy(ArrayRef(exponents).slice(4 * n, 4), quad.begin());
    exponentiate(quad);
  }
  if (!ofRows)
    accumulate(1, s, others[1]);
  waitForProducts(code, ofRows ? 0 : 1, {MutableArrayRef<Quad>(dp)});
  for (auto [n, quad] : llvm::enumerate(dp))
    differentiate(quad, s[n], static_cast<int64_t>(n));
  accumulate(0, dp, others[0]);
  waitForProducts(code, 0, {MutableArrayRef<Quad>(sums)});
  Carried made;
  for (const Quad &quad : sums)
    llvm::append_range(made, quad);
  return made;
}

void WarpgroupBackward::run() {
  code.ofWarpgroups = true;
  int64_t tileBytes = step * kPanelBytes, stageBytes = 2 * tileBytes;
  assert(step == kOwnRows && "own rows fit into a stage");
  stages = code.shared(2 * stageBytes + (ofRows ? 0 : 2 * step * kNumberBytes),
                       kSwizzleBytes);
  numbersAt = code.advance(stages, 2 * stageBytes);
  open();
  Value numbers = code.numbers();
  // Own rows come through the second stage, which the first tile leaves alone.
  Value ownAt = code.advance(stages, stageBytes);
  for (int64_t i = 0; i < 2; ++i)
    TileCopy(code, own(i), kOwnRows, /*swizzled=*/true)
        .issue(firstOwn, code.advance(ownAt, i * tileBytes));
  code.commit();
  if (ofRows)
    loadOwnNumbers();
  TileCopy firstCopy(code, other(0), step, /*swizzled=*/true),
      secondCopy(code, other(1), step, /*swizzled=*/true);
  finish(code.overTiles(
      llvm::divideCeil(otherCount(), step), stageBytes, zeros(),
      [&](Value tile) { return classAt(tile); },
      [&](Value tile, Value stage) {
        Value to = code.advance(stages, stage, 1);
        Value from = code.mul(tile, step);
        firstCopy.issue(from, to);
        secondCopy.issue(from, code.advance(to, tileBytes));
        if (!ofRows)
          copyNumbers(
              numbers, from,
              code.advance(numbersAt,
                           code.divide(stage, 2 * kPanelBytes / kNumberBytes),
                           1));
      },
      [&] {
        code.wait(1);
        code.barrier();
        first = loadOwn(ownAt);
        second = loadOwn(code.advance(ownAt, tileBytes));
      },
      [&](Value at, Value stage, Value kind, Carried carried) {
        return tile(at, stage, kind, carried);
      }));
}

void emitWarpgroupBackward(AttentionCode &code, bool ofRows) {
  WarpgroupBackward(code, ofRows).run();
}

} // namespace mpcomm::kernels
