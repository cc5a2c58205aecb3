//===- CudnnApi.h - the part of cuDNN's API that is emulated --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As in cudnn.h of version 9; CheckCudnnApi.cpp compares the two. The numbers
// of the graph API are the runtime's, which it compares too.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_CUDNNAPI_H
#define MPCOMM_TEST_LIB_FAKECUDA_CUDNNAPI_H

#include "device/cuda/CudnnGraphNumbers.h"

#include <stddef.h>
#include <stdint.h>

// F(name, number)
#define FAKE_CUDNN_STATUSES(F)                                                 \
  F(CUDNN_STATUS_SUCCESS, 0)                                                   \
  F(CUDNN_STATUS_BAD_PARAM, 2000)                                              \
  F(CUDNN_STATUS_NOT_SUPPORTED, 3000)                                          \
  F(CUDNN_STATUS_INTERNAL_ERROR, 4000)                                         \
  F(CUDNN_STATUS_EXECUTION_FAILED, 5000)

#define FAKE_CUDNN_NUMBERS(F)                                                  \
  F(CUDNN_DATA_FLOAT, 0)                                                       \
  F(CUDNN_DATA_DOUBLE, 1)                                                      \
  F(CUDNN_DATA_HALF, 2)                                                        \
  F(CUDNN_DATA_BFLOAT16, 9)                                                    \
  F(CUDNN_DEFAULT_MATH, 0)                                                     \
  F(CUDNN_TENSOR_OP_MATH, 1)                                                   \
  F(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 2)                                  \
  F(CUDNN_FMA_MATH, 3)                                                         \
  F(CUDNN_TENSOR_NCHW, 0)                                                      \
  F(CUDNN_TENSOR_NHWC, 1)                                                      \
  F(CUDNN_CROSS_CORRELATION, 1)                                                \
  F(CUDNN_NON_DETERMINISTIC, 0)                                                \
  F(CUDNN_DETERMINISTIC, 1)                                                    \
  F(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, 3)                                      \
  F(CUDNN_CONVOLUTION_FWD_ALGO_FFT, 4)                                         \
  F(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, 0)                                      \
  F(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 1)                                      \
  F(CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, 2)                                    \
  F(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, 0)                                    \
  F(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 1)                                    \
  F(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, 2)                                  \
  F(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, 3)

#ifndef FAKE_CUDNN_REAL_TYPES
typedef int cudnnStatus_t, cudnnDataType_t, cudnnTensorFormat_t,
    cudnnConvolutionMode_t, cudnnMathType_t, cudnnDeterminism_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t,
    cudnnConvolutionBwdFilterAlgo_t, cudnnBackendDescriptorType_t,
    cudnnBackendAttributeName_t, cudnnBackendAttributeType_t;
typedef void *cudnnBackendDescriptor_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct {
  int algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t,
    cudnnConvolutionBwdFilterAlgoPerf_t;
#define FAKE_NUMBER(name, number) name = number,
enum {
  FAKE_CUDNN_STATUSES(FAKE_NUMBER) FAKE_CUDNN_NUMBERS(FAKE_NUMBER)
      MPRT_CUDNN_GRAPH_NUMBERS(FAKE_NUMBER)
};
#undef FAKE_NUMBER
#endif

#pragma GCC visibility push(default)
extern "C" {

size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnDataType_t type, int n, int c,
                                           int h, int w, int strideN,
                                           int strideC, int strideH,
                                           int strideW);
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void *alpha,
                                   cudnnTensorDescriptor_t from,
                                   const void *source, const void *beta,
                                   cudnnTensorDescriptor_t to, void *target);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k,
                                         int c, int h, int w);
cudnnStatus_t
cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convolution);
cudnnStatus_t
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution);
cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution, int padH, int padW, int strideH,
    int strideW, int dilationH, int dilationW, cudnnConvolutionMode_t mode,
    cudnnDataType_t computeType);
cudnnStatus_t
cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution,
                              int groups);
cudnnStatus_t
cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                            cudnnMathType_t mathType);

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y, const int wanted, int *found,
    cudnnConvolutionFwdAlgoPerf_t *results);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx, const int wanted, int *found,
    cudnnConvolutionBwdDataAlgoPerf_t *results);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw, const int wanted, int *found,
    cudnnConvolutionBwdFilterAlgoPerf_t *results);

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
    size_t *bytes);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    size_t *bytes);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm,
    size_t *bytes);

cudnnStatus_t
cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                        const cudnnTensorDescriptor_t layoutX, const void *x,
                        const cudnnFilterDescriptor_t layoutW, const void *w,
                        const cudnnConvolutionDescriptor_t convolution,
                        cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                        size_t workspaceBytes, const void *beta,
                        const cudnnTensorDescriptor_t layoutY, void *y);
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha,
    const cudnnFilterDescriptor_t layoutW, const void *w,
    const cudnnTensorDescriptor_t layoutDy, const void *dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
    size_t workspaceBytes, const void *beta,
    const cudnnTensorDescriptor_t layoutDx, void *dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha,
    const cudnnTensorDescriptor_t layoutX, const void *x,
    const cudnnTensorDescriptor_t layoutDy, const void *dy,
    const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace,
    size_t workspaceBytes, const void *beta,
    const cudnnFilterDescriptor_t layoutDw, void *dw);

cudnnStatus_t
cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                             cudnnBackendDescriptor_t *descriptor);
cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values);
cudnnStatus_t
cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t wanted,
                         int64_t *found, void *values);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variantPack);

} // extern "C"
#pragma GCC visibility pop

#endif // MPCOMM_TEST_LIB_FAKECUDA_CUDNNAPI_H
