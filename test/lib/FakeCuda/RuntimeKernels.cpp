//===- RuntimeKernels.cpp - the kernels that the runtime has as PTX -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Those of GraphFills.cpp: zeros from the first word, or 16 bytes, to the last.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#pragma GCC visibility push(default)
extern "C" {
extern const int32_t mpemu_operands_mprt_zero_words,
    mpemu_operands_mprt_zero_vectors;
void mprt_zero_words(void *const *args);
void mprt_zero_vectors(void *const *args);
}
#pragma GCC visibility pop

const int32_t mpemu_operands_mprt_zero_words = 2;
const int32_t mpemu_operands_mprt_zero_vectors = 2;

template <typename T> static void zero(void *const *args) {
  T *first = static_cast<T *>(args[0]), *last = static_cast<T *>(args[1]);
  int64_t at = int64_t(mpemu_index(1)) * mpemu_index(2) + mpemu_index(0);
  if (at <= last - first)
    first[at] = {};
}

void mprt_zero_words(void *const *args) { zero<uint32_t>(args); }

void mprt_zero_vectors(void *const *args) {
  struct Vector {
    uint32_t words[4];
  };
  zero<Vector>(args);
}
