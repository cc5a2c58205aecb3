//===- PoolKernels.h - pools for one instruction set ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_POOLKERNELS_H
#define MPCOMM_RUNTIME_DEVICE_HOST_POOLKERNELS_H

#include "mpcomm/Runtime/mprt.h"

#include <stddef.h>

namespace mprt::host {

/// A pool, its operands and scratch of poolScratchBytes(desc).
struct Pool {
  const mprt_window_desc *desc;
  const void *a, *b;
  void *c;
  void *scratch;
};

/// Rows of sums, as many as a window covers.
inline size_t poolScratchBytes(const mprt_window_desc &desc) {
  int64_t rows =
      desc.window[0] < desc.input[2] ? desc.window[0] : desc.input[2];
  return size_t(rows * desc.input[3] * desc.input[1]) *
         (desc.type == MPRT_F64 ? 8 : 4);
}

/// Pools of f64, f32, f16 and bf16; the latter are summed in f32.
void runPool(const Pool &pool);

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_POOLKERNELS_H
