//===- Reduce.cpp - chooses reductions by instruction set -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Reduce.h"

#include "support/Cpu.h"

using namespace mprt;

using Selector = ReduceFunction(mprt_dtype, mprt_dtype, mprt_reduction);

extern "C" Selector mprt_reduce_baseline;
#ifdef MPRT_X86_KERNELS
extern "C" Selector mprt_reduce_avx2, mprt_reduce_avx512;
#endif

ReduceFunction mprt::findReduce(mprt_dtype type, mprt_dtype accumulate,
                                mprt_reduction reduction) {
#ifdef MPRT_X86_KERNELS
  static const Isa isa = hostIsa();
  if (isa == Isa::Avx512)
    return mprt_reduce_avx512(type, accumulate, reduction);
  if (isa == Isa::Avx2)
    return mprt_reduce_avx2(type, accumulate, reduction);
#endif
  return mprt_reduce_baseline(type, accumulate, reduction);
}
