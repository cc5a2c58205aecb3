//===- ContractionPlan.cpp - contractions as matrix products --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Contraction/ContractionPlan.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace mpcomm;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

/// The most batch dimensions of mprt_gemm_desc.
static constexpr size_t kMaxBatch = MPRT_GEMM_MAX_BATCH;
/// More products than this for one contraction are refused.
static constexpr int64_t kMaxProducts = 4096;

/// Merges pairs (outer, inner) for which stepping `outer` equals stepping past
/// the end of `inner` in all three operands.
static void mergeDims(SmallVector<ContractionDim> &dims) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < dims.size() && !changed; ++i)
      for (size_t j = 0; j < dims.size() && !changed; ++j) {
        ContractionDim &outer = dims[i], &inner = dims[j];
        if (i == j || outer.a != inner.a * inner.size ||
            outer.b != inner.b * inner.size || outer.c != inner.c * inner.size)
          continue;
        inner.size *= outer.size;
        dims.erase(dims.begin() + i);
        changed = true;
      }
  }
}

namespace {

/// The four kinds of dimensions, merged.
struct Classified {
  SmallVector<ContractionDim> m, n, k, batch;
};

} // namespace

static Classified classify(llvm::ArrayRef<ContractionDim> dims) {
  Classified result;
  for (const ContractionDim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (dim.a && dim.b && dim.c)
      result.batch.push_back(dim);
    else if (dim.a && dim.c)
      result.m.push_back(dim);
    else if (dim.b && dim.c)
      result.n.push_back(dim);
    else
      result.k.push_back(dim);
  }
  for (auto *list : {&result.m, &result.n, &result.k, &result.batch})
    mergeDims(*list);
  return result;
}

/// Takes the dimension for which `prefer` is true (the largest such), else the
/// largest, out of `dims`; size 1 where there is none.
template <typename Prefer>
static ContractionDim take(SmallVector<ContractionDim> &dims, Prefer prefer) {
  if (dims.empty())
    return {};
  auto better = [&](const ContractionDim &x, const ContractionDim &y) {
    return std::pair(prefer(x), x.size) < std::pair(prefer(y), y.size);
  };
  auto *best = std::max_element(dims.begin(), dims.end(), better);
  ContractionDim dim = *best;
  dims.erase(best);
  return dim;
}

/// A stride that a dimension of size 1 may take is any: the natural one.
static int64_t strideOr(const ContractionDim &dim, int64_t stride,
                        int64_t natural) {
  return dim.size == 1 ? natural : stride;
}

bool mpcomm::planContraction(llvm::ArrayRef<ContractionDim> dims,
                             bool accumulate,
                             SmallVectorImpl<StridedGemm> &products,
                             std::string &reason) {
  Classified kinds = classify(dims);
  StridedGemm base;
  base.accumulate = accumulate;
  // C needs a unit stride along N; where it has it along M, C's transpose is
  // the product of the transposes, in the other order.
  auto unitC = [](const ContractionDim &d) { return d.c == 1; };
  if (llvm::none_of(kinds.n, unitC) && llvm::any_of(kinds.m, unitC)) {
    base.swapped = true;
    std::swap(kinds.m, kinds.n);
    for (auto *list : {&kinds.m, &kinds.n, &kinds.k, &kinds.batch})
      for (ContractionDim &dim : *list)
        std::swap(dim.a, dim.b);
  }
  base.n = take(kinds.n, unitC);
  base.k = take(
      kinds.k, [](const ContractionDim &d) { return (d.a == 1) + (d.b == 1); });
  base.m = take(kinds.m, [&](const ContractionDim &d) {
    return base.k.a != 1 && d.a == 1;
  });
  // Natural strides of a matrix dimension that is not there.
  base.k.a = strideOr(base.k, base.k.a, 1);
  base.k.b = strideOr(base.k, base.k.b, base.n.size);
  base.n.b = strideOr(base.n, base.n.b, base.k.b == 1 ? base.k.size : 1);
  base.n.c = strideOr(base.n, base.n.c, 1);
  base.m.a = strideOr(base.m, base.m.a, base.k.a == 1 ? base.k.size : 1);
  base.m.c = strideOr(base.m, base.m.c, base.n.size);
  if (base.n.c != 1) {
    reason = "its result has no unit stride";
    return false;
  }
  if (base.m.a != 1 && base.k.a != 1) {
    reason = base.swapped ? "its second operand has no unit stride"
                          : "its first operand has no unit stride";
    return false;
  }
  if (base.k.b != 1 && base.n.b != 1) {
    reason = base.swapped ? "its first operand has no unit stride"
                          : "its second operand has no unit stride";
    return false;
  }
  // What is left: parallel dimensions are batches; sums come last, each value
  // of them a product of its own that adds to the ones before.
  SmallVector<ContractionDim> batch = kinds.batch;
  batch.append(kinds.m.begin(), kinds.m.end());
  batch.append(kinds.n.begin(), kinds.n.end());
  llvm::sort(batch, [](const ContractionDim &x, const ContractionDim &y) {
    return x.size > y.size;
  });
  size_t kept = std::min(batch.size(), kMaxBatch);
  base.batch.assign(batch.begin(), batch.begin() + kept);
  SmallVector<ContractionDim> unrolled(batch.begin() + kept, batch.end());
  unrolled.append(kinds.k.begin(), kinds.k.end());

  products.assign(1, base);
  for (const ContractionDim &dim : unrolled) {
    SmallVector<StridedGemm, 0> next;
    if (static_cast<int64_t>(products.size()) > kMaxProducts / dim.size) {
      reason = "it would take more than 4096 matrix products";
      return false;
    }
    for (int64_t i = 0; i < dim.size; ++i)
      for (StridedGemm product : products) {
        product.offsetA += i * dim.a;
        product.offsetB += i * dim.b;
        product.offsetC += i * dim.c;
        product.accumulate |= dim.c == 0 && i > 0;
        next.push_back(product);
      }
    products.assign(next.begin(), next.end());
  }
  return true;
}

std::optional<int64_t>
mpcomm::countProducts(llvm::ArrayRef<ContractionDim> dims) {
  if (llvm::any_of(dims, [](const ContractionDim &d) { return d.size == 0; }))
    return 0;
  SmallVector<StridedGemm, 0> products;
  std::string reason;
  if (!planContraction(dims, /*accumulate=*/false, products, reason))
    return std::nullopt;
  return products.size();
}
