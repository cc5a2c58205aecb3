//===- CheckCudnnApi.cpp - CudnnApi.h against the library's header --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles only if types and numbers are the same. Nothing of it is linked.
//
//===----------------------------------------------------------------------===//

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>
#define FAKE_CUDNN_REAL_TYPES
#include "CudnnApi.h"

#define FAKE_NUMBER(name, number) static_assert(int(name) == number);
FAKE_CUDNN_STATUSES(FAKE_NUMBER)
FAKE_CUDNN_NUMBERS(FAKE_NUMBER)
MPRT_CUDNN_GRAPH_NUMBERS(FAKE_NUMBER)
