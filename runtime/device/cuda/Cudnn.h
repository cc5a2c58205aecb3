//===- Cudnn.h - cuDNN as a table of symbols ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the runtime uses of cuDNN 9 (8 has the same), declared here, so that it
// builds without the library's headers. The graph API, by which attention is
// described, is the functions of cudnn_graph.h; its numbers are in
// CudnnGraphNumbers.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUDNN_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUDNN_H

#include "device/cuda/Driver.h"

namespace mprt::cuda {

using DnnHandle = struct cudnnContext *;
using DnnTensor = struct cudnnTensorStruct *;
using DnnFilter = struct cudnnFilterStruct *;
using DnnConvolution = struct cudnnConvolutionStruct *;
using DnnDescriptor = void *;

/// An algorithm as the library's heuristics rank it, the same for a
/// convolution and for its gradients.
struct DnnRanked {
  int algorithm;
  int status;
  float time;
  size_t workspaceBytes;
  int determinism;
  int mathType;
  int reserved[3];
};

enum : int {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DEFAULT_MATH = 0,
  CUDNN_TENSOR_OP_MATH = 1,
  CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
  CUDNN_FMA_MATH = 3,
  CUDNN_TENSOR_NCHW = 0,
  CUDNN_TENSOR_NHWC = 1,
  CUDNN_CROSS_CORRELATION = 1,
  CUDNN_NON_DETERMINISTIC = 0
};

/// Algorithms that multiply and add what the definition does. The others, by
/// Fourier transforms and Winograd's, lose digits on the way.
enum : int {
  CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3
};

/// X(symbol, result, parameters) for each function.
#define MPRT_CUDNN_SYMBOLS(X)                                                  \
  X(cudnnGetVersion, size_t, ())                                               \
  X(cudnnGetErrorString, const char *, (int status))                           \
  X(cudnnCreate, int, (DnnHandle * handle))                                    \
  X(cudnnDestroy, int, (DnnHandle handle))                                     \
  X(cudnnSetStream, int, (DnnHandle handle, CUstream stream))                  \
  X(cudnnCreateTensorDescriptor, int, (DnnTensor * tensor))                    \
  X(cudnnDestroyTensorDescriptor, int, (DnnTensor tensor))                     \
  X(cudnnSetTensor4dDescriptorEx, int,                                         \
    (DnnTensor tensor, int type, int n, int c, int h, int w, int strideN,      \
     int strideC, int strideH, int strideW))                                   \
  X(cudnnTransformTensor, int,                                                 \
    (DnnHandle handle, const void *alpha, DnnTensor from, const void *source,  \
     const void *beta, DnnTensor to, void *target))                            \
  X(cudnnCreateFilterDescriptor, int, (DnnFilter * filter))                    \
  X(cudnnDestroyFilterDescriptor, int, (DnnFilter filter))                     \
  X(cudnnSetFilter4dDescriptor, int,                                           \
    (DnnFilter filter, int type, int format, int k, int c, int h, int w))      \
  X(cudnnCreateConvolutionDescriptor, int, (DnnConvolution * convolution))     \
  X(cudnnDestroyConvolutionDescriptor, int, (DnnConvolution convolution))      \
  X(cudnnSetConvolution2dDescriptor, int,                                      \
    (DnnConvolution convolution, int padH, int padW, int strideH, int strideW, \
     int dilationH, int dilationW, int mode, int computeType))                 \
  X(cudnnSetConvolutionGroupCount, int,                                        \
    (DnnConvolution convolution, int groups))                                  \
  X(cudnnSetConvolutionMathType, int,                                          \
    (DnnConvolution convolution, int mathType))                                \
  X(cudnnGetConvolutionForwardAlgorithm_v7, int,                               \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,   \
     DnnTensor y, int wanted, int *found, DnnRanked *results))                 \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7, int,                          \
    (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConvolution convolution,  \
     DnnTensor dx, int wanted, int *found, DnnRanked *results))                \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7, int,                        \
    (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConvolution convolution,  \
     DnnFilter dw, int wanted, int *found, DnnRanked *results))                \
  X(cudnnGetConvolutionForwardWorkspaceSize, int,                              \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,   \
     DnnTensor y, int algorithm, size_t *bytes))                               \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize, int,                         \
    (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConvolution convolution,  \
     DnnTensor dx, int algorithm, size_t *bytes))                              \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize, int,                       \
    (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConvolution convolution,  \
     DnnFilter dw, int algorithm, size_t *bytes))                              \
  X(cudnnConvolutionForward, int,                                              \
    (DnnHandle handle, const void *alpha, DnnTensor layoutX, const void *x,    \
     DnnFilter layoutW, const void *w, DnnConvolution convolution,             \
     int algorithm, void *workspace, size_t workspaceBytes, const void *beta,  \
     DnnTensor layoutY, void *y))                                              \
  X(cudnnConvolutionBackwardData, int,                                         \
    (DnnHandle handle, const void *alpha, DnnFilter layoutW, const void *w,    \
     DnnTensor layoutDy, const void *dy, DnnConvolution convolution,           \
     int algorithm, void *workspace, size_t workspaceBytes, const void *beta,  \
     DnnTensor layoutDx, void *dx))                                            \
  X(cudnnConvolutionBackwardFilter, int,                                       \
    (DnnHandle handle, const void *alpha, DnnTensor layoutX, const void *x,    \
     DnnTensor layoutDy, const void *dy, DnnConvolution convolution,           \
     int algorithm, void *workspace, size_t workspaceBytes, const void *beta,  \
     DnnFilter layoutDw, void *dw))                                            \
  X(cudnnBackendCreateDescriptor, int, (int type, DnnDescriptor *descriptor))  \
  X(cudnnBackendDestroyDescriptor, int, (DnnDescriptor descriptor))            \
  X(cudnnBackendSetAttribute, int,                                             \
    (DnnDescriptor descriptor, int attribute, int type, int64_t count,         \
     const void *values))                                                      \
  X(cudnnBackendGetAttribute, int,                                             \
    (DnnDescriptor descriptor, int attribute, int type, int64_t wanted,        \
     int64_t *found, void *values))                                            \
  X(cudnnBackendFinalize, int, (DnnDescriptor descriptor))                     \
  X(cudnnBackendExecute, int,                                                  \
    (DnnHandle handle, DnnDescriptor plan, DnnDescriptor variantPack))

struct Cudnn {
#define MPRT_CUDNN_MEMBER(symbol, result, parameters)                          \
  result(*symbol) parameters = nullptr;
  MPRT_CUDNN_SYMBOLS(MPRT_CUDNN_MEMBER)
#undef MPRT_CUDNN_MEMBER

  /// Loads the library, once a process.
  static Expected<const Cudnn *> load();

  /// Success, or an error `call: CUDNN_STATUS_X`.
  Error check(int status, const char *call) const;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUDNN_H
