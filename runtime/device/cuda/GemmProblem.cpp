//===- GemmProblem.cpp - a product as cuBLASLt wants it -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/GemmProblem.h"

#include <algorithm>

using namespace mprt;
using namespace mprt::cuda;

/// A matrix of rows by columns with these strides, as cuBLASLt stores one: a
/// row-major one is the transposed of a column-major one, and is transposed
/// already as operands change places.
static Expected<GemmProblem::Operand> storedAs(const char *name, int64_t rows,
                                               int64_t columns,
                                               const int64_t strides[2]) {
  if (columns == 1 || strides[1] == 1) {
    int64_t leading = rows > 1 ? strides[0] : columns;
    if (leading >= columns)
      return GemmProblem::Operand{false, columns, rows, leading, 0};
  }
  if (rows == 1 || strides[0] == 1) {
    int64_t leading = columns > 1 ? strides[1] : rows;
    if (leading >= rows)
      return GemmProblem::Operand{true, rows, columns, leading, 0};
  }
  return makeError(MPRT_UNSUPPORTED, name, " of ", rows, " by ", columns,
                   " has strides ", strides[0], " and ", strides[1],
                   "; expected one of them to be 1 and the other at least the "
                   "size that it steps over");
}

/// Takes away batch dimension `at`.
static void drop(mprt_gemm_desc &d, uint32_t at) {
  --d.batch_rank;
  for (; at < d.batch_rank; ++at) {
    d.batch[at] = d.batch[at + 1];
    d.batch_a[at] = d.batch_a[at + 1];
    d.batch_b[at] = d.batch_b[at + 1];
    d.batch_c[at] = d.batch_c[at + 1];
  }
}

/// Makes rows of a batch dimension over which B is the same.
static bool foldIntoRows(mprt_gemm_desc &d) {
  if (d.k > 1 && d.strides_a[1] != 1)
    return false;
  for (uint32_t i = 0; i < d.batch_rank; ++i) {
    int64_t rowA = d.m > 1 ? d.strides_a[0] : d.batch_a[i];
    int64_t rowC = d.m > 1 ? d.strides_c[0] : d.batch_c[i];
    if (d.batch_b[i] != 0 || rowA < d.k || rowC < d.n ||
        d.batch_a[i] != d.m * rowA || d.batch_c[i] != d.m * rowC)
      continue;
    d.strides_a[0] = rowA, d.strides_c[0] = rowC;
    d.m *= d.batch[i];
    drop(d, i);
    return true;
  }
  return false;
}

/// Makes one of two batch dimensions that are one in every operand.
static bool mergeBatch(mprt_gemm_desc &d) {
  for (uint32_t outer = 0; outer < d.batch_rank; ++outer)
    for (uint32_t inner = 0; inner < d.batch_rank; ++inner) {
      int64_t size = d.batch[inner];
      if (outer == inner || d.batch_a[outer] != size * d.batch_a[inner] ||
          d.batch_b[outer] != size * d.batch_b[inner] ||
          d.batch_c[outer] != size * d.batch_c[inner])
        continue;
      d.batch[inner] *= d.batch[outer];
      drop(d, outer);
      return true;
    }
  return false;
}

Expected<GemmProblem> mprt::cuda::makeGemmProblem(const mprt_gemm_desc &desc) {
  mprt_gemm_desc d = desc;
  for (uint32_t i = d.batch_rank; i-- > 0;)
    if (d.batch[i] == 1)
      drop(d, i);
  while (foldIntoRows(d) || mergeBatch(d)) {
  }
  Expected<GemmProblem::Operand> a = storedAs("a", d.m, d.k, d.strides_a);
  Expected<GemmProblem::Operand> b = storedAs("b", d.k, d.n, d.strides_b);
  Expected<GemmProblem::Operand> c = storedAs("c", d.m, d.n, d.strides_c);
  if (!a || !b || !c)
    return !a ? a.error() : !b ? b.error() : c.error();
  GemmProblem problem = {d.n, d.m, d.k, 1, *b, *a, *c, {}};
  constexpr int64_t most = INT32_MAX;
  for (int64_t size : {d.m, d.n, d.k})
    if (size > most)
      return makeError(MPRT_UNSUPPORTED, "a size of ", size, ", at most ", most,
                       " expected");
  // The library's batch is the largest one.
  uint32_t largest = d.batch_rank;
  for (uint32_t i = 0; i < d.batch_rank; ++i)
    if (d.batch[i] <= most &&
        (largest == d.batch_rank || d.batch[i] > d.batch[largest]))
      largest = i;
  if (largest < d.batch_rank) {
    problem.batch = d.batch[largest];
    problem.left.batchStride = d.batch_b[largest];
    problem.right.batchStride = d.batch_a[largest];
    problem.result.batchStride = d.batch_c[largest];
    drop(d, largest);
  }
  problem.loop = d;
  return problem;
}
