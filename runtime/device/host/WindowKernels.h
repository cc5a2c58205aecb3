//===- WindowKernels.h - pools for one instruction set --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_WINDOWKERNELS_H
#define MPCOMM_RUNTIME_DEVICE_HOST_WINDOWKERNELS_H

#include "mpcomm/Runtime/mprt.h"

#include <stddef.h>

namespace mprt::host {

/// A pool, its operands and scratch for poolScratchElements(desc) elements of
/// its type.
struct Pool {
  const mprt_window_desc *desc;
  const void *a, *b;
  void *c;
  void *scratch;
};

/// A row of channels, twice, and the plane of one sample.
inline size_t poolScratchElements(const mprt_window_desc &desc) {
  return size_t(desc.input[1]) * size_t(2 + desc.input[2] * desc.input[3]);
}

void poolF32(const Pool &pool);
void poolF64(const Pool &pool);

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_WINDOWKERNELS_H
