//===- CheckCudaApi.cpp - CudaApi.h against the toolkit's cuda.h ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles only if types and numbers are the same. Built where there is a
// toolkit; nothing of it is linked.
//
//===----------------------------------------------------------------------===//

#include <cuda.h>
#undef cuEventElapsedTime
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#define FAKE_CUDA_REAL_TYPES
#include "CudaApi.h"

// As the runtime and the fake have them.
static_assert(sizeof(CUDA_MEMSET_NODE_PARAMS) == 40);
static_assert(offsetof(CUDA_MEMSET_NODE_PARAMS, width) == 24);
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72);
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) == 40);

#define FAKE_NUMBER(name, number, ...) static_assert(int(name) == number);
FAKE_CUDA_ERRORS(FAKE_NUMBER)
FAKE_CUDA_NUMBERS(FAKE_NUMBER)
