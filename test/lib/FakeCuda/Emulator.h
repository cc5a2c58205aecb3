//===- Emulator.h - kernels, thread by thread, on the host ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks run one after the other in a random order. The threads of a block are
// fibres: each runs until it waits for others, and then a random one of those
// that can go on does. So a missing barrier changes results with the seed. What
// is not found is a race between two threads neither of which waits between its
// own accesses.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_EMULATOR_H
#define MPCOMM_TEST_LIB_FAKECUDA_EMULATOR_H

#include "CudaApi.h"

namespace fake {

using EmulatedKernel = void (*)(void *const *operands);

/// Runs the grid, on the worker's thread. CUDA_ERROR_LAUNCH_FAILED where
/// threads wait for others that never come.
CUresult runKernel(const char *name, EmulatedKernel kernel,
                   void *const *operands, uint32_t blocks, uint32_t threads,
                   uint32_t staticShared, uint32_t dynamicShared);

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_EMULATOR_H
