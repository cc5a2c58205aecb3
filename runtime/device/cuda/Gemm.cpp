//===- Gemm.cpp - matrix products on a CUDA device ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

using namespace mprt;
using namespace mprt::cuda;

struct Gemm::State {};

Gemm::Gemm(const Driver &) {}

Gemm::~Gemm() = default;

Error Gemm::run(const mprt_gemm_desc &, CUstream, const void *, const void *,
                void *) {
  return Error(MPRT_UNSUPPORTED, "products on a CUDA device need cuBLASLt");
}

Expected<std::string> Gemm::describePlan(const mprt_gemm_desc &) {
  return Error(MPRT_UNSUPPORTED, "products on a CUDA device need cuBLASLt");
}

uint64_t Gemm::deviceBytes() const { return 0; }
