//===- Pieces.h - what the collectives over Gloo are made of --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_PIECES_H
#define MPCOMM_RUNTIME_COMM_GLOO_PIECES_H

#include "comm/Reduce.h"
#include "comm/gloo/Links.h"
#include "support/DType.h"

#include <algorithm>
#include <cstring>

namespace mprt {

/// Bytes of an element; 0 for a barrier.
inline uint64_t widthOf(const mprt_collective &call) {
  return call.kind == MPRT_BARRIER ? 0 : sizeOf(mprt_dtype(call.type));
}

/// Some bytes, cut into chunks.
struct Cut {
  uint64_t bytes, chunk;
  uint64_t count() const { return (bytes + chunk - 1) / chunk; }
  uint64_t offset(uint64_t k) const { return k * chunk; }
  uint64_t size(uint64_t k) const { return std::min(chunk, bytes - k * chunk); }
};

/// What a rank tells its peers of a call.
GlooHeader headerOf(const mprt_collective &call, uint64_t chunkBytes);

/// Reduces `bytes` of each of `inputs`, in their order, to `output`.
inline void reduce(const mprt_collective &call,
                   const std::vector<const void *> &inputs, void *output,
                   uint64_t bytes) {
  auto type = mprt_dtype(call.type);
  findReduce(type, mprt_dtype(call.accumulate), mprt_reduction(call.reduction))(
      {inputs.data(), unsigned(inputs.size()), &output, 1,
       size_t(bytes / sizeOf(type)), unsigned(inputs.size())});
}

/// Copies between buffers that may be the same.
inline void copy(void *to, const void *from, uint64_t bytes) {
  if (to != from && bytes)
    memmove(to, from, bytes);
}

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_GLOO_PIECES_H
