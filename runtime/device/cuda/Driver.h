//===- Driver.h - the CUDA driver API as a table of symbols ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the runtime uses of the driver, declared here, so that it builds without
// CUDA's headers, and found in libcuda.so.1 (MPRT_CUDA_LIBRARY names another
// file) when a CUDA device is asked for. Types and values are those of cuda.h
// of CUDA 12 and 13; where the header maps a name to a later version of the
// function, the table has the version that CUDA 12.0 knows.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_DRIVER_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "support/Error.h"

#include <cstddef>
#include <cstdint>

namespace mprt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUgraphNode = struct CUgraphNode_st *;

/// CUDA_MEMSET_NODE_PARAMS: `width` elements of `elementSize` bytes, in
/// `height` rows.
struct CUmemsetNodeParams {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
};

/// CUDA_KERNEL_NODE_PARAMS_v2.
struct CUkernelNodeParams {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
      sharedMemBytes;
  void **kernelParams, **extra;
  void *kern;
  CUcontext ctx;
};

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600
};

/// Attributes of a device.
enum : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

/// Attributes of a function.
enum : int { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

enum : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

enum : unsigned {
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1
};

enum : int { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
enum : int { CU_STREAM_CAPTURE_STATUS_NONE = 0 };
enum : unsigned { CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8 };
enum : unsigned { CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE = 1 };
enum : int {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2
};

/// X(member, symbol, parameters) for each function.
#define MPRT_CUDA_SYMBOLS(X)                                                   \
  X(cuInit, cuInit, (unsigned flags))                                          \
  X(cuDriverGetVersion, cuDriverGetVersion, (int *version))                    \
  X(cuGetErrorName, cuGetErrorName, (CUresult result, const char **text))      \
  X(cuGetErrorString, cuGetErrorString, (CUresult result, const char **text))  \
  X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                          \
  X(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                \
  X(cuDeviceGetName, cuDeviceGetName,                                          \
    (char *name, int length, CUdevice device))                                 \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute,                                \
    (int *value, int attribute, CUdevice device))                              \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))   \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                        \
    (CUcontext * context, CUdevice device))                                    \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,                   \
    (CUdevice device))                                                         \
  X(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context))                     \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * context))                   \
  X(cuCtxSynchronize, cuCtxSynchronize, ())                                    \
  X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange,                  \
    (int *least, int *greatest))                                               \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx,                                    \
    (CUmodule * module, const void *image, unsigned count, int *options,       \
     void **values))                                                           \
  X(cuModuleUnload, cuModuleUnload, (CUmodule module))                         \
  X(cuModuleGetFunction, cuModuleGetFunction,                                  \
    (CUfunction * function, CUmodule module, const char *name))                \
  X(cuFuncSetAttribute, cuFuncSetAttribute,                                    \
    (CUfunction function, int attribute, int value))                           \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                               \
    cuOccupancyMaxActiveBlocksPerMultiprocessor,                               \
    (int *blocks, CUfunction function, int blockSize, size_t sharedBytes))     \
  X(cuLaunchKernel, cuLaunchKernel,                                            \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,      \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     CUstream stream, void **parameters, void **extra))                        \
  X(cuMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))              \
  X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))          \
  X(cuMemFree, cuMemFree_v2, (CUdeviceptr pointer))                            \
  X(cuMemHostAlloc, cuMemHostAlloc,                                            \
    (void **pointer, size_t bytes, unsigned flags))                            \
  X(cuMemFreeHost, cuMemFreeHost, (void *pointer))                             \
  X(cuMemcpyHtoD, cuMemcpyHtoD_v2,                                             \
    (CUdeviceptr target, const void *source, size_t bytes))                    \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2,                                             \
    (void *target, CUdeviceptr source, size_t bytes))                          \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                   \
    (CUdeviceptr target, const void *source, size_t bytes, CUstream stream))   \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                   \
    (void *target, CUdeviceptr source, size_t bytes, CUstream stream))         \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                   \
    (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream))   \
  X(cuMemsetD8Async, cuMemsetD8Async,                                          \
    (CUdeviceptr target, unsigned char value, size_t count, CUstream stream))  \
  X(cuMemsetD32Async, cuMemsetD32Async,                                        \
    (CUdeviceptr target, unsigned value, size_t count, CUstream stream))       \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority,                    \
    (CUstream * stream, unsigned flags, int priority))                         \
  X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                    \
  X(cuStreamQuery, cuStreamQuery, (CUstream stream))                           \
  X(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))               \
  X(cuStreamWaitEvent, cuStreamWaitEvent,                                      \
    (CUstream stream, CUevent event, unsigned flags))                          \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2,                             \
    (CUstream stream, int mode))                                               \
  X(cuStreamEndCapture, cuStreamEndCapture,                                    \
    (CUstream stream, CUgraph * graph))                                        \
  X(cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, int *status))  \
  X(cuEventCreate, cuEventCreate, (CUevent * event, unsigned flags))           \
  X(cuEventDestroy, cuEventDestroy_v2, (CUevent event))                        \
  X(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))            \
  X(cuEventQuery, cuEventQuery, (CUevent event))                               \
  X(cuEventSynchronize, cuEventSynchronize, (CUevent event))                   \
  X(cuEventElapsedTime, cuEventElapsedTime,                                    \
    (float *milliseconds, CUevent begin, CUevent end))                         \
  X(cuGraphGetNodes, cuGraphGetNodes,                                          \
    (CUgraph graph, CUgraphNode * nodes, size_t *count))                       \
  X(cuGraphNodeGetType, cuGraphNodeGetType, (CUgraphNode node, int *type))     \
  X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies,                    \
    (CUgraphNode node, CUgraphNode * nodes, size_t *count))                    \
  X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes,                \
    (CUgraphNode node, CUgraphNode * nodes, size_t *count))                    \
  X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams,                    \
    (CUgraphNode node, CUmemsetNodeParams * parameters))                       \
  X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2,                             \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,       \
     size_t count, const CUkernelNodeParams *parameters))                      \
  X(cuGraphAddDependencies, cuGraphAddDependencies,                            \
    (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,            \
     size_t count))                                                            \
  X(cuGraphDestroyNode, cuGraphDestroyNode, (CUgraphNode node))                \
  X(cuGraphDebugDotPrint, cuGraphDebugDotPrint,                                \
    (CUgraph graph, const char *path, unsigned flags))                         \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                  \
    (CUgraphExec * executable, CUgraph graph, unsigned long long flags))       \
  X(cuGraphUpload, cuGraphUpload, (CUgraphExec executable, CUstream stream))   \
  X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec executable, CUstream stream))   \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec executable))          \
  X(cuGraphDestroy, cuGraphDestroy, (CUgraph graph))

struct Driver {
#define MPRT_CUDA_MEMBER(member, symbol, parameters)                           \
  CUresult(*member) parameters = nullptr;
  MPRT_CUDA_SYMBOLS(MPRT_CUDA_MEMBER)
#undef MPRT_CUDA_MEMBER

  /// The driver's number of its version: 12040 for 12.4.
  int version = 0;

  /// Loads and initialises the driver, once a process; not before a fork. Fails
  /// with MPRT_UNSUPPORTED where there is none, where it is older than CUDA
  /// 12.0, or where it finds no device.
  static Expected<const Driver *> load();

  /// Success, or an error `call: CUDA_ERROR_X, what that means`.
  Error check(CUresult result, const char *call) const;
};

/// An address of the device as programs and as the driver have it.
inline CUdeviceptr addressOf(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_DRIVER_H
