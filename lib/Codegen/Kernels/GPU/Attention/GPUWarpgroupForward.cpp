//===- GPUWarpgroupForward.cpp - attention by warpgroups ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forward kernel for sm_90a. A block is one warpgroup with one or two times
// 64 rows, its fragments, or, of heads of 128, two warpgroups with 64 rows
// each; q, and twice k and v of a tile, are in shared memory. While the tensor
// cores compute one fragment's products the warps exponentiate the other's
// scores:
//
//   S0 = q0 k^T, S1 = q1 k^T  begin
//   S0 ends: P0; O0 += P0 v   begins, while S1 is computed
//   S1 ends: P1; O1 += P1 v   begins, while O0 is computed
//
// and other blocks of the multiprocessor fill what is left.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/Attention/GPUAttentionForward.h"
#include "Kernels/GPU/GPUWarpgroup.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::kernels {

namespace {
class WarpgroupForward : public ForwardEmitter {
public:
  using ForwardEmitter::ForwardEmitter;

private:
  Carried overTiles(const State &state) override;
  Carried tile(Value tile, Value stage, Value kind, const Carried &carried);

  Value q, stages; ///< in shared memory; q: the warpgroup's first row
};
} // namespace

ForwardEmitter::Carried WarpgroupForward::tile(Value tile, Value stage,
                                               Value kind,
                                               const Carried &carried) {
  State state(plan, code.size);
  state.assign(carried);
  Value base = code.advance(stages, stage, 1);
  WarpgroupTile rows(code, q, plan.rows()), keys(code, base, plan.step),
      values(code, code.advance(base, plan.step * code.size * 2), plan.step);
  Value partial = code.isPartial(kind, tile, plan.step);
  SmallVector<SmallVector<Quad>> s(plan.fragments,
                                   SmallVector<Quad>(plan.step / 8));
  for (int64_t f = 0; f < plan.fragments; ++f) {
    WarpgroupProduct scores;
    for (int64_t k = 0; k < code.size / 16; ++k) {
      scores.tile.push_back(rows.rows(f * plan.rowsOfFragment(), k));
      scores.right.push_back(keys.rows(0, k));
    }
    multiply(code, s[f], scores, /*accumulates=*/false);
  }
  for (int64_t f = 0; f < plan.fragments; ++f) {
    // Later than these scores are those of the fragments after it, and the
    // sums of those before it.
    waitForProducts(code, plan.fragments - 1, {MutableArrayRef<Quad>(s[f])});
    weigh(partial, tile, s[f], f);
    exponentiate(f, s[f], state);
    WarpgroupProduct sums;
    sums.left = leftOf(s[f]);
    sums.isAcross = true;
    for (int64_t k = 0; k < plan.step / 16; ++k)
      sums.right.push_back(values.across(k));
    multiply(code, sumsOf(f, state), sums, /*accumulates=*/true);
  }
  waitForProducts(code, 0, {MutableArrayRef<Quad>(state.sums)});
  return state.flatten();
}

ForwardEmitter::Carried WarpgroupForward::overTiles(const State &state) {
  code.ofWarpgroups = true;
  int64_t tileBytes = plan.step * code.size * 2, stageBytes = 2 * tileBytes,
          qBytes = plan.rows() * code.size * 2;
  Value all = sharedBytesOfForward(plan, code.size)
                  ? code.launchShared(kSwizzleBytes)
                  : code.shared(qBytes + 2 * stageBytes, kSwizzleBytes);
  stages = code.advance(all, qBytes);
  TileCopy(code, code.rowsOf(0), plan.rows(), /*swizzled=*/true)
      .issue(firstRow, all);
  code.commit();
  q = code.advance(all, code.divide(code.warp, kWarpgroup / kWarp),
                   kWarpgroupRows * kPanelBytes);
  TileCopy kCopy(code, code.rowsOf(1), plan.step, /*swizzled=*/true);
  TileCopy vCopy(code, code.rowsOf(2), plan.step, /*swizzled=*/true);
  return code.overTiles(
      llvm::divideCeil(code.columns, plan.step), stageBytes, state.flatten(),
      [&](Value tile) { return std::pair(code.part, tile); },
      [&](Value tile, Value stage) {
        Value to = code.advance(stages, stage, 1);
        Value first = code.mul(tile, plan.step);
        kCopy.issue(first, to);
        vCopy.issue(first, code.advance(to, tileBytes));
      },
      // The first tile is waited for together with q.
      [] {},
      [&](Value at, Value stage, Value kind, Carried carried) {
        return tile(at, stage, kind, carried);
      });
}

int64_t sharedBytesOfForward(const AttentionPlan &plan, int64_t size) {
  int64_t bytes = (plan.rows() + 4 * plan.step) * size * 2;
  return bytes > kDeclaredSharedBytes ? bytes + kSwizzleBytes : 0;
}

void emitWarpgroupForward(AttentionCode &code, const AttentionPlan &plan) {
  WarpgroupForward(code, plan).run();
}

} // namespace mpcomm::kernels
