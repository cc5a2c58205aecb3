//===- CublasLt.cpp - cuBLASLt as a table of symbols ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/CublasLt.h"

#include "device/cuda/Library.h"

using namespace mprt;
using namespace mprt::cuda;

static Expected<CublasLt> loadTable() {
  Expected<Library> library = openLibrary(
      "matrix products on a CUDA device need cuBLASLt", "MPRT_CUBLASLT_LIBRARY",
      {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"});
  if (!library)
    return library.error();
  CublasLt table;
#define MPRT_CUBLASLT_SYMBOL(symbol, result, parameters)                       \
  if (Error error = findSymbol(*library, #symbol,                              \
                               reinterpret_cast<void **>(&table.symbol)))      \
    return error;
  MPRT_CUBLASLT_SYMBOLS(MPRT_CUBLASLT_SYMBOL)
#undef MPRT_CUBLASLT_SYMBOL
  return table;
}

Expected<const CublasLt *> CublasLt::load() {
  static const Expected<CublasLt> table = loadTable();
  if (!table)
    return table.error();
  return &*table;
}

Error CublasLt::check(int status, const char *call) const {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  mprt_status as = MPRT_INTERNAL;
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    as = MPRT_OUT_OF_MEMORY;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    as = MPRT_UNSUPPORTED;
  if (status == CUBLAS_STATUS_INVALID_VALUE)
    as = MPRT_INVALID_ARGUMENT;
  const char *name = cublasLtGetStatusName(status);
  return makeError(as, call, ": ", name ? name : "an unknown status");
}

int mprt::cuda::libraryType(uint8_t type) {
  switch (type) {
  case MPRT_F64:
    return CUDA_R_64F;
  case MPRT_F16:
    return CUDA_R_16F;
  case MPRT_BF16:
    return CUDA_R_16BF;
  case MPRT_F8E4M3:
    return CUDA_R_8F_E4M3;
  case MPRT_F8E5M2:
    return CUDA_R_8F_E5M2;
  default:
    return CUDA_R_32F;
  }
}
