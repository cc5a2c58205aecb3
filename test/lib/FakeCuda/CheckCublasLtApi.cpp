//===- CheckCublasLtApi.cpp - CublasLtApi.h against the toolkit's ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles only if types and numbers are the same. Nothing of it is linked.
//
//===----------------------------------------------------------------------===//

#include <cublasLt.h>
#define FAKE_CUBLAS_REAL_TYPES
#include "CublasLtApi.h"

#define FAKE_NUMBER(name, number) static_assert(int(name) == number);
FAKE_CUBLAS_STATUSES(FAKE_NUMBER)
FAKE_CUBLAS_NUMBERS(FAKE_NUMBER)
