//===- CublasLt.h - cuBLASLt as a table of symbols ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the runtime uses of cuBLASLt 11 to 13, declared here, so that it builds
// without the library's headers. Numbers are those of cublasLt.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUBLASLT_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUBLASLT_H

#include "device/cuda/Driver.h"

namespace mprt::cuda {

using LtHandle = struct cublasLtContext *;
using LtMatmulDesc = struct LtMatmulDescOpaque *;
using LtLayout = struct LtLayoutOpaque *;
using LtPreference = struct LtPreferenceOpaque *;

struct LtAlgorithm {
  uint64_t data[8];
};

struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspaceBytes;
  int status;
  float waves;
  int reserved[4];
};

enum : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};

enum : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};

enum : int32_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

/// Attributes.
enum : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

/// Partial sums are added in the type in which they are computed.
enum : uint32_t { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };

/// What is done with a product before it is stored. The library's bias has an
/// element a row of its result, which is a column of ours; its gelu is the
/// approximation by tanh; AUX keeps what gelu is of, which DGELU multiplies by
/// the derivative at. BGRADA and BGRADB sum up an operand over k, which makes
/// an element a row of the result and one a column.
enum : uint32_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512
};

/// The library's number of an mprt_dtype that it multiplies.
int libraryType(uint8_t type);

/// X(symbol, result, parameters) for each function.
#define MPRT_CUBLASLT_SYMBOLS(X)                                               \
  X(cublasLtGetVersion, size_t, ())                                            \
  X(cublasLtGetStatusName, const char *, (int status))                         \
  X(cublasLtCreate, int, (LtHandle * handle))                                  \
  X(cublasLtDestroy, int, (LtHandle handle))                                   \
  X(cublasLtMatmulDescCreate, int,                                             \
    (LtMatmulDesc * desc, int computeType, int scaleType))                     \
  X(cublasLtMatmulDescDestroy, int, (LtMatmulDesc desc))                       \
  X(cublasLtMatmulDescSetAttribute, int,                                       \
    (LtMatmulDesc desc, int attribute, const void *value, size_t bytes))       \
  X(cublasLtMatrixLayoutCreate, int,                                           \
    (LtLayout * layout, int type, uint64_t rows, uint64_t columns,             \
     int64_t leading))                                                         \
  X(cublasLtMatrixLayoutDestroy, int, (LtLayout layout))                       \
  X(cublasLtMatrixLayoutSetAttribute, int,                                     \
    (LtLayout layout, int attribute, const void *value, size_t bytes))         \
  X(cublasLtMatmulPreferenceCreate, int, (LtPreference * preference))          \
  X(cublasLtMatmulPreferenceDestroy, int, (LtPreference preference))           \
  X(cublasLtMatmulPreferenceSetAttribute, int,                                 \
    (LtPreference preference, int attribute, const void *value, size_t bytes)) \
  X(cublasLtMatmulAlgoGetHeuristic, int,                                       \
    (LtHandle handle, LtMatmulDesc desc, LtLayout a, LtLayout b, LtLayout c,   \
     LtLayout d, LtPreference preference, int wanted, LtHeuristic *results,    \
     int *found))                                                              \
  X(cublasLtMatmul, int,                                                       \
    (LtHandle handle, LtMatmulDesc desc, const void *alpha, const void *a,     \
     LtLayout layoutA, const void *b, LtLayout layoutB, const void *beta,      \
     const void *c, LtLayout layoutC, void *d, LtLayout layoutD,               \
     const LtAlgorithm *algorithm, void *workspace, size_t workspaceBytes,     \
     CUstream stream))

struct CublasLt {
#define MPRT_CUBLASLT_MEMBER(symbol, result, parameters)                       \
  result(*symbol) parameters = nullptr;
  MPRT_CUBLASLT_SYMBOLS(MPRT_CUBLASLT_MEMBER)
#undef MPRT_CUBLASLT_MEMBER

  /// Loads the library, once a process.
  static Expected<const CublasLt *> load();

  /// Success, or an error `call: CUBLAS_STATUS_X`.
  Error check(int status, const char *call) const;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUBLASLT_H
