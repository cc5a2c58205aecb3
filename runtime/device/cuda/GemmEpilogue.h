//===- GemmEpilogue.h - epilogues as cuBLASLt wants them --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_GEMMEPILOGUE_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_GEMMEPILOGUE_H

#include "device/Descriptors.h"
#include "device/cuda/CublasLt.h"

namespace mprt::cuda {

/// Sets the pointers of an epilogue, which may be others at each call; `kept`
/// is where what gelu is of goes. The library also reads off them how they are
/// aligned.
Error pointEpilogue(const CublasLt &lt, LtMatmulDesc operation,
                    const GemmEpilogue &epilogue, void *kept);

/// Says all of the epilogue of a product whose result, at `c`, is of `type` and
/// has this leading dimension.
Error describeEpilogue(const CublasLt &lt, LtMatmulDesc operation,
                       const GemmEpilogue &epilogue, uint8_t type,
                       int64_t leading, void *c);

/// Whether the library takes a second matrix with this leading dimension.
bool hasEpilogueLayout(const GemmEpilogue &epilogue, int64_t leading);

/// Whether an error says that the library cannot do what it was asked for: what
/// it does not know of an epilogue it refuses in more than one way.
bool isRefusal(const Error &error);

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_GEMMEPILOGUE_H
