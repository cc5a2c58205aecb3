//===- CudnnHandle.h - a handle of the emulated cuDNN -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_CUDNNHANDLE_H
#define MPCOMM_TEST_LIB_FAKECUDA_CUDNNHANDLE_H

#include "CudnnApi.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

#endif // MPCOMM_TEST_LIB_FAKECUDA_CUDNNHANDLE_H
