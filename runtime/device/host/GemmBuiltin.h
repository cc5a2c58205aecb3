//===- GemmBuiltin.h - matrix products without a library ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small blocked product for what oneDNN cannot do (f64, odd strides) and for
// builds without it. Compiled for each instruction set; chosen when called.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_GEMMBUILTIN_H
#define MPCOMM_RUNTIME_DEVICE_HOST_GEMMBUILTIN_H

#include <stddef.h>
#include <stdint.h>

namespace mprt::host {

/// C[i, j] (+)= sum_k A[i, k] B[k, j]. Strides in elements, any; C's rows are
/// contiguous.
struct BuiltinGemm {
  int64_t m, n, k;
  const void *a;
  int64_t stridesA[2];
  const void *b;
  int64_t stridesB[2];
  void *c;
  int64_t strideC;
  bool accumulate;
  /// builtinWorkspaceBytes of scratch, aligned to 64 bytes.
  void *workspace;
};

constexpr size_t builtinWorkspaceBytes = 3u << 20;

void builtinGemmF32(const BuiltinGemm &gemm);
void builtinGemmF64(const BuiltinGemm &gemm);

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_GEMMBUILTIN_H
