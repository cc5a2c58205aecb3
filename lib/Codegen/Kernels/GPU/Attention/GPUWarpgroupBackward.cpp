//===- GPUWarpgroupBackward.cpp - gradients of attention by warpgroups ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The backward kernels for sm_90a: GPUAttentionGrad.cpp's, but that a block is
// one warpgroup, which multiplies whole tiles. Its own rows, left operands, and
// twice the others are in shared memory. What the warps compute between
// products hides behind the next product:
//
//   S = own others^T, dP = own others^T  begin
//   S ends: P;   dv += P dout            begins, while dP is computed
//   dP ends: dS; dk or dq += dS others   begins, while dv is computed
//
// Own rows are not in registers, though for heads of 64 there are enough: in a
// loop with a branch, as that of a mask, ptxas of CUDA 12.8 and 13.0 (not of
// 13.5) gives registers of left operands that come from outside of the loop to
// other values, to dS for one, so that all turns but the first are wrong.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionBackward.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

namespace {
class WarpgroupBackward : public BackwardEmitter {
public:
  WarpgroupBackward(AttentionCode &code, bool ofRows)
      : BackwardEmitter(code, ofRows, kOwnRows),
        tileBytes(kOwnRows * code.size * 2) {}
  void run() override;

private:
  /// S or dP of a tile, from own rows of k and q (0) or of v and dout (1).
  void beginScores(int64_t which, SmallVector<Quad> &scores,
                   const WarpgroupTile &other);
  /// Adds the product of a tile's weights and its rows to a result.
  void accumulate(MutableArrayRef<Quad> sums, ArrayRef<Quad> weights,
                  const WarpgroupTile &other);
  Value numbersOf(Value stage);
  Carried tile(Value tile, Value stage, Value kind, const Carried &carried);
  /// The sums that result `which` is, of all that are carried.
  MutableArrayRef<Quad> sumsOf(int64_t which, SmallVector<Quad> &sums) {
    return MutableArrayRef<Quad>(sums).slice(which * 2 * slices, 2 * slices);
  }

  int64_t tileBytes;              ///< of own or other rows of one operand
  Value ownAt, stages, numbersAt; ///< in shared memory
};
} // namespace

void WarpgroupBackward::beginScores(int64_t which, SmallVector<Quad> &scores,
                                    const WarpgroupTile &other) {
  WarpgroupProduct product;
  WarpgroupTile own(code, code.advance(ownAt, which * tileBytes), kOwnRows);
  for (int64_t k = 0; k < slices; ++k) {
    product.tile.push_back(own.rows(0, k));
    product.right.push_back(other.rows(0, k));
  }
  multiply(code, scores, product, /*accumulates=*/false);
}

void WarpgroupBackward::accumulate(MutableArrayRef<Quad> sums,
                                   ArrayRef<Quad> weights,
                                   const WarpgroupTile &other) {
  WarpgroupProduct product;
  product.isAcross = true;
  for (int64_t k = 0; k < step / 16; ++k) {
    product.left.push_back(code.leftOf(weights[2 * k], weights[2 * k + 1]));
    product.right.push_back(other.across(k));
  }
  multiply(code, sums, product, /*accumulates=*/true);
}

Value WarpgroupBackward::numbersOf(Value stage) {
  return code.advance(numbersAt,
                      code.divide(stage, 2 * tileBytes / numberBytes()), 1);
}

BackwardEmitter::Carried WarpgroupBackward::tile(Value tile, Value stage,
                                                 Value kind,
                                                 const Carried &carried) {
  SmallVector<Quad> sums = quadsOf(carried);
  Value base = code.advance(stages, stage, 1);
  WarpgroupTile others[] = {
      WarpgroupTile(code, base, step),
      WarpgroupTile(code, code.advance(base, tileBytes), step)};
  Value partial = partialOf(kind, tile);
  Value bits = keptBits(partial, tile);
  auto loadNumbers = [&](Which which) {
    loadOtherNumbers(0, step / 8, numbersOf(stage), which);
  };
  loadNumbers(AtOnce);
  SmallVector<Quad> s(step / 8), dp(step / 8);
  beginScores(0, s, others[0]);
  beginScores(1, dp, others[1]);
  waitForProducts(code, 1, {MutableArrayRef<Quad>(s)});
  loadNumbers(ForShift);
  weigh(s, tile, partial, bits);
  // dv, the second result, comes before dk, which needs dP.
  if (!ofRows)
    accumulate(sumsOf(1, sums), s, others[1]);
  waitForProducts(code, ofRows ? 0 : 1, {MutableArrayRef<Quad>(dp)});
  loadNumbers(ForDifferentiate);
  for (auto [n, quad] : llvm::enumerate(dp))
    differentiate(quad, s[n], static_cast<int64_t>(n));
  accumulate(sumsOf(0, sums), dp, others[0]);
  waitForProducts(code, 0, {MutableArrayRef<Quad>(sums)});
  return valuesOf(sums);
}

/// Bytes of a block's tiles: own rows, two stages, and the numbers of both.
static int64_t bytesOfTiles(const AttentionCode &code, bool ofRows) {
  return 6 * kOwnRows * code.size * 2 +
         (ofRows ? 0 : 2 * kOwnRows * code.scratch.numberBytes);
}

int64_t sharedBytesOfBackward(const AttentionCode &code, bool ofRows) {
  int64_t bytes = bytesOfTiles(code, ofRows);
  return bytes > kDeclaredSharedBytes ? bytes + kSwizzleBytes : 0;
}

void WarpgroupBackward::run() {
  code.ofWarpgroups = true;
  int64_t stageBytes = 2 * tileBytes;
  stages = sharedBytesOfBackward(code, ofRows)
               ? code.launchShared(kSwizzleBytes)
               : code.shared(bytesOfTiles(code, ofRows), kSwizzleBytes);
  ownAt = code.advance(stages, 2 * stageBytes);
  numbersAt = code.advance(ownAt, stageBytes);
  open();
  Value numbers = code.numbers();
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
          copyNumbers(numbers, from, numbersOf(stage));
      },
      // The first tile is waited for together with own rows.
      [] {},
      [&](Value at, Value stage, Value kind, Carried carried) {
        return tile(at, stage, kind, carried);
      }));
}

void emitWarpgroupBackward(AttentionCode &code, bool ofRows) {
  WarpgroupBackward(code, ofRows).run();
}

} // namespace mpcomm::kernels
