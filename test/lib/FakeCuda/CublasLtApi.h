//===- CublasLtApi.h - the part of cuBLASLt's API that is emulated --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As in cublasLt.h; CheckCublasLtApi.cpp compares the two.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_CUBLASLTAPI_H
#define MPCOMM_TEST_LIB_FAKECUDA_CUBLASLTAPI_H

#include <stddef.h>
#include <stdint.h>

// F(name, number)
#define FAKE_CUBLAS_STATUSES(F)                                                \
  F(CUBLAS_STATUS_SUCCESS, 0)                                                  \
  F(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                          \
  F(CUBLAS_STATUS_ALLOC_FAILED, 3)                                             \
  F(CUBLAS_STATUS_INVALID_VALUE, 7)                                            \
  F(CUBLAS_STATUS_EXECUTION_FAILED, 13)                                        \
  F(CUBLAS_STATUS_INTERNAL_ERROR, 14)                                          \
  F(CUBLAS_STATUS_NOT_SUPPORTED, 15)

#define FAKE_CUBLAS_NUMBERS(F)                                                 \
  F(CUDA_R_32F, 0)                                                             \
  F(CUDA_R_64F, 1)                                                             \
  F(CUDA_R_16F, 2)                                                             \
  F(CUDA_R_16BF, 14)                                                           \
  F(CUDA_R_8F_E4M3, 28)                                                        \
  F(CUDA_R_8F_E5M2, 29)                                                        \
  F(CUBLAS_COMPUTE_32F, 68)                                                    \
  F(CUBLAS_COMPUTE_64F, 70)                                                    \
  F(CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                          \
  F(CUBLAS_OP_N, 0)                                                            \
  F(CUBLAS_OP_T, 1)                                                            \
  F(CUBLASLT_ORDER_COL, 0)                                                     \
  F(CUBLASLT_ORDER_ROW, 1)                                                     \
  F(CUBLASLT_EPILOGUE_DEFAULT, 1)                                              \
  F(CUBLASLT_EPILOGUE_BIAS, 4)                                                 \
  F(CUBLASLT_EPILOGUE_GELU_BIAS, 36)                                           \
  F(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)                                      \
  F(CUBLASLT_EPILOGUE_DGELU, 192)                                              \
  F(CUBLASLT_EPILOGUE_BGRADA, 256)                                             \
  F(CUBLASLT_EPILOGUE_BGRADB, 512)                                             \
  F(CUBLASLT_MATRIX_LAYOUT_ORDER, 1)                                           \
  F(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                     \
  F(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                            \
  F(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                            \
  F(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                            \
  F(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                          \
  F(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                      \
  F(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)                             \
  F(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12)                                  \
  F(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 17)                                  \
  F(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 18)                                  \
  F(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26)                                   \
  F(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                 \
  F(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                               \
  F(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                             \
  F(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                             \
  F(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                             \
  F(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                             \
  F(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

#ifndef FAKE_CUBLAS_REAL_TYPES
typedef int cublasStatus_t, cublasComputeType_t, cudaDataType_t, cudaDataType,
    cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
    cublasLtMatmulPreferenceAttributes_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#define FAKE_NUMBER(name, number) name = number,
enum { FAKE_CUBLAS_STATUSES(FAKE_NUMBER) FAKE_CUBLAS_NUMBERS(FAKE_NUMBER) };
#undef FAKE_NUMBER
#endif

#pragma GCC visibility push(default)
extern "C" {

size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusName(cublasStatus_t status);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t computeType,
                                        cudaDataType_t scaleType);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes);

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes);

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes);

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found);

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t layoutA,
               const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,
               const void *c, cublasLtMatrixLayout_t layoutC, void *d,
               cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspaceBytes, cudaStream_t stream);

} // extern "C"
#pragma GCC visibility pop

#endif // MPCOMM_TEST_LIB_FAKECUDA_CUBLASLTAPI_H
