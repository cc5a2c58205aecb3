//===- GemmBatch.h - walking over a batch of products ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_GEMMBATCH_H
#define MPCOMM_RUNTIME_DEVICE_HOST_GEMMBATCH_H

#include "mpcomm/Runtime/mprt.h"

namespace mprt::host {

/// Offsets, in elements, of the matrices of one element of the batch after the
/// other. The last batch dimension runs fastest. None of the sizes is zero.
class BatchWalk {
public:
  explicit BatchWalk(const mprt_gemm_desc &desc) : desc(desc) {}

  int64_t a = 0, b = 0, c = 0;

  /// Goes to the next element; false after the last.
  bool next() {
    for (uint32_t d = desc.batch_rank; d-- > 0;) {
      a += desc.batch_a[d], b += desc.batch_b[d], c += desc.batch_c[d];
      if (++index[d] < desc.batch[d])
        return true;
      a -= desc.batch[d] * desc.batch_a[d];
      b -= desc.batch[d] * desc.batch_b[d];
      c -= desc.batch[d] * desc.batch_c[d];
      index[d] = 0;
    }
    return false;
  }

private:
  const mprt_gemm_desc &desc;
  int64_t index[MPRT_GEMM_MAX_BATCH] = {};
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_GEMMBATCH_H
