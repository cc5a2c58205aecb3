//===- GemmProblem.h - a product as cuBLASLt wants it ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices are column-major, ours have rows: C = A B in rows is
// C' = B' A' in columns, so the operands change places. One batch dimension is
// the library's, further ones are a loop around it. Batch dimensions that are
// one in memory are taken together first, and those that share B (as a layer's
// weights) become rows of A.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_GEMMPROBLEM_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_GEMMPROBLEM_H

#include "support/Error.h"

namespace mprt::cuda {

/// D[m, n] = op(left)[m, k] * op(right)[k, n] in columns, `batch` times. Left
/// is the descriptor's b, right its a.
struct GemmProblem {
  struct Operand {
    bool transposed;
    int64_t rows, columns; // as stored
    int64_t leading;
    int64_t batchStride;
  };
  int64_t m, n, k, batch;
  Operand left, right, result;
  /// The batch dimensions that are looped over: only its batch fields count.
  mprt_gemm_desc loop;
};

/// The problem for a descriptor that check() has found good, with no size 0.
/// Fails with MPRT_UNSUPPORTED for strides that the library cannot have.
Expected<GemmProblem> makeGemmProblem(const mprt_gemm_desc &desc);

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_GEMMPROBLEM_H
