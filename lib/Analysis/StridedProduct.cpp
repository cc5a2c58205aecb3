//===- StridedProduct.cpp - what a strided matrix product can do ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/StridedProduct.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace mpcomm;

ProductLoops::ProductLoops(DotGeneralOp op) {
  auto lhsType = cast<RankedTensorType>(op.getLhs().getType());
  auto rhsType = cast<RankedTensorType>(op.getRhs().getType());
  lhs.resize(lhsType.getRank());
  rhs.resize(rhsType.getRank());
  auto paired = [&](ArrayRef<int64_t> left, ArrayRef<int64_t> right) {
    for (auto [l, r] : llvm::zip_equal(left, right)) {
      lhs[l] = rhs[r] = sizes.size();
      sizes.push_back(lhsType.getDimSize(l));
    }
  };
  paired(op.getLhsBatchingDims(), op.getRhsBatchingDims());
  for (int64_t d : op.getLhsFreeDims()) {
    lhs[d] = sizes.size();
    sizes.push_back(lhsType.getDimSize(d));
  }
  for (int64_t d : op.getRhsFreeDims()) {
    rhs[d] = sizes.size();
    sizes.push_back(rhsType.getDimSize(d));
  }
  numParallel = sizes.size();
  result = llvm::to_vector(llvm::seq<int64_t>(0, numParallel));
  paired(op.getLhsContractingDims(), op.getRhsContractingDims());
}

/// The most batch dimensions of a matrix product of the runtime.
static constexpr unsigned kMaxBatch = MPRT_GEMM_MAX_BATCH;

using List = SmallVector<int64_t>;

/// Drops from `lists` a loop that follows another one wherever either occurs;
/// returns false where there is none.
static bool mergeOnce(SmallVector<List, 3> &lists, size_t numLoops) {
  for (size_t outer = 0; outer < numLoops; ++outer) {
    // What follows `outer` in all of its lists.
    int64_t inner = -1;
    bool same = true;
    for (const List &list : lists) {
      const auto *it = llvm::find(list, static_cast<int64_t>(outer));
      if (it == list.end())
        continue;
      int64_t next = it + 1 == list.end() ? -1 : *(it + 1);
      same &= next >= 0 && (inner < 0 || inner == next);
      inner = next;
    }
    if (inner < 0 || !same)
      continue;
    auto occursWithout = [&](const List &list) {
      return llvm::is_contained(list, inner) &&
             !llvm::is_contained(list, static_cast<int64_t>(outer));
    };
    if (llvm::any_of(lists, occursWithout))
      continue;
    for (List &list : lists)
      llvm::erase(list, static_cast<int64_t>(outer));
    return true;
  }
  return false;
}

bool mpcomm::isStridedProduct(ArrayRef<int64_t> sizes, ArrayRef<int64_t> a,
                              ArrayRef<int64_t> b, ArrayRef<int64_t> c) {
  SmallVector<List, 3> lists;
  for (ArrayRef<int64_t> loops : {a, b, c}) {
    lists.emplace_back();
    for (int64_t loop : loops)
      if (sizes[loop] != 1)
        lists.back().push_back(loop);
  }
  while (mergeOnce(lists, sizes.size()))
    ;
  List &la = lists[0], &lb = lists[1], &lc = lists[2];
  auto in = [](ArrayRef<int64_t> list, int64_t loop) {
    return llvm::is_contained(list, loop);
  };
  unsigned numBatch = 0, numA = 0, numB = 0, numSummed = 0;
  for (int64_t loop : lc) {
    if (in(la, loop) && in(lb, loop))
      ++numBatch;
    else if (in(la, loop))
      ++numA;
    else
      ++numB;
  }
  for (int64_t loop : la)
    numSummed += !in(lc, loop);
  if (numSummed > 1)
    return false;
  unsigned leftOver = (numA ? numA - 1 : 0) + (numB ? numB - 1 : 0);
  if (numBatch + leftOver > kMaxBatch)
    return false;
  auto isBatch = [&](int64_t loop) {
    return in(la, loop) && in(lb, loop) && in(lc, loop);
  };
  // C's rows are contiguous: its last loop is the one of A or B that the
  // product steps through, so the other loops of that operand cannot be last.
  bool hasMatrixLoop = numA + numB > 0;
  if (hasMatrixLoop && isBatch(lc.back()))
    return false;
  auto reads = [&](const List &list) {
    if (list.empty())
      return true;
    int64_t last = list.back();
    if (isBatch(last))
      return list.size() == numBatch; // one number per batch
    if (!in(lc, last))
      return true; // summed
    bool ownsRowsOfC = in(list, lc.back());
    return !ownsRowsOfC || last == lc.back();
  };
  return reads(la) && reads(lb);
}
