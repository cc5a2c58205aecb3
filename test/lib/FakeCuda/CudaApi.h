//===- CudaApi.h - the part of the CUDA driver's API that is emulated -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Types, numbers and prototypes as in cuda.h, so that the test double builds
// where no CUDA toolkit is. CheckCudaApi.cpp compares them with the toolkit's
// where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_CUDAAPI_H
#define MPCOMM_TEST_LIB_FAKECUDA_CUDAAPI_H

#include <stddef.h>
#include <stdint.h>

// F(name, number, what cuGetErrorString says)
#define FAKE_CUDA_ERRORS(F)                                                    \
  F(CUDA_SUCCESS, 0, "no error")                                               \
  F(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                           \
  F(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                              \
  F(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                     \
  F(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                       \
  F(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")           \
  F(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                  \
  F(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")           \
  F(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                 \
  F(CUDA_ERROR_NO_BINARY_FOR_GPU, 209,                                         \
    "no kernel image is available for execution on the device")                \
  F(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")               \
  F(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                 \
  F(CUDA_ERROR_ILLEGAL_STATE, 401,                                             \
    "the operation cannot be performed in the present state")                  \
  F(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                       \
  F(CUDA_ERROR_NOT_READY, 600, "device not ready")                             \
  F(CUDA_ERROR_ILLEGAL_ADDRESS, 700,                                           \
    "an illegal memory access was encountered")                                \
  F(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701,                                   \
    "too many resources requested for launch")                                 \
  F(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                            \
    "part or all of the requested memory range is already mapped")             \
  F(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                                \
    "pointer does not correspond to a registered memory region")               \
  F(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")               \
  F(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                  \
  F(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                  \
  F(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                                \
    "operation not permitted when stream is capturing")                        \
  F(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                \
    "operation failed due to a previous error during capture")                 \
  F(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                      \
    "operation would result in a merge of separate capture sequences")         \
  F(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                                  \
    "capture was not ended in the same stream as it began")                    \
  F(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904,                                   \
    "capturing stream has unjoined work")                                      \
  F(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                                  \
    "dependency created on uncaptured work in another stream")                 \
  F(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                   \
    "operation would make the legacy stream depend on a capturing blocking "   \
    "stream")                                                                  \
  F(CUDA_ERROR_CAPTURED_EVENT, 907,                                            \
    "operation not permitted on an event last recorded in a capturing stream") \
  F(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                               \
    "attempt to terminate a thread-local capture sequence from another "       \
    "thread")                                                                  \
  F(CUDA_ERROR_UNKNOWN, 999, "unknown error")

// F(name, number)
#define FAKE_CUDA_NUMBERS(F)                                                   \
  F(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                              \
  F(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2)                                    \
  F(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3)                                    \
  F(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4)                                    \
  F(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                     \
  F(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)                                     \
  F(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7)                                     \
  F(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)                        \
  F(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                         \
  F(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12)                           \
  F(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                        \
  F(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                              \
  F(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)                               \
  F(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)                                \
  F(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                        \
  F(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                     \
  F(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                 \
  F(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                           \
  F(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                     \
  F(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                    \
  F(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                \
  F(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                \
  F(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                          \
  F(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                          \
  F(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)                       \
  F(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)              \
  F(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82)                  \
  F(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                    \
  F(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)                                \
  F(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                 \
  F(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106)                    \
  F(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 111)                 \
  F(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                           \
  F(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                \
  F(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                    \
  F(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                                     \
  F(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                     \
  F(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                             \
  F(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                                          \
  F(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                       \
  F(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                        \
  F(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)                     \
  F(CU_STREAM_DEFAULT, 0)                                                      \
  F(CU_STREAM_NON_BLOCKING, 1)                                                 \
  F(CU_EVENT_DEFAULT, 0)                                                       \
  F(CU_EVENT_BLOCKING_SYNC, 1)                                                 \
  F(CU_EVENT_DISABLE_TIMING, 2)                                                \
  F(CU_EVENT_INTERPROCESS, 4)                                                  \
  F(CU_STREAM_WAIT_VALUE_GEQ, 0)                                               \
  F(CU_STREAM_WAIT_VALUE_EQ, 1)                                                \
  F(CU_STREAM_WAIT_VALUE_AND, 2)                                               \
  F(CU_STREAM_WAIT_VALUE_NOR, 3)                                               \
  F(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                          \
  F(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                        \
  F(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                   \
  F(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                          \
  F(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                    \
  F(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                         \
  F(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, 8)                          \
  F(CU_GRAPH_NODE_TYPE_KERNEL, 0)                                              \
  F(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                                              \
  F(CU_GRAPH_NODE_TYPE_MEMSET, 2)                                              \
  F(CU_GRAPH_NODE_TYPE_HOST, 3)                                                \
  F(CU_GRAPH_NODE_TYPE_EMPTY, 5)                                               \
  F(CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE, 1)                                       \
  F(CU_MEMHOSTALLOC_PORTABLE, 1)                                               \
  F(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                              \
  F(CU_MEMHOSTALLOC_WRITECOMBINED, 4)                                          \
  F(CU_JIT_INFO_LOG_BUFFER, 3)                                                 \
  F(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                                      \
  F(CU_JIT_ERROR_LOG_BUFFER, 5)                                                \
  F(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                     \
  F(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                       \
  F(CU_MEMORYTYPE_HOST, 1)                                                     \
  F(CU_MEMORYTYPE_DEVICE, 2)

#ifndef FAKE_CUDA_REAL_TYPES
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute,
    CUpointer_attribute, CUjit_option, CUstreamCaptureMode,
    CUstreamCaptureStatus, CUmemPool_attribute, CUgraphNodeType;
typedef unsigned long long CUdeviceptr;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;
typedef void (*CUhostFn)(void *);
typedef struct CUDA_MEMSET_NODE_PARAMS_st {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
      sharedMemBytes;
  void **kernelParams, **extra;
  void *kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
#define FAKE_NUMBER(name, number, ...) name = number,
enum { FAKE_CUDA_ERRORS(FAKE_NUMBER) FAKE_CUDA_NUMBERS(FAKE_NUMBER) };
#undef FAKE_NUMBER
#endif

#pragma GCC visibility push(default)
extern "C" {

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetErrorString(CUresult error, const char **text);

CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                               void *value);

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUresult cuCtxSynchronize(void);

CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuMemAllocHost_v2(void **pointer, size_t bytes);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *pointer);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer,
                                      unsigned flags);
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                               CUdeviceptr pointer);

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                          CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream);

CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                    int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                cuuint32_t value, unsigned flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                 cuuint32_t value, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data);

CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);

CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name);
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction function);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                            int value);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int threads,
                                                     size_t dynamicShared);
CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **operands, void **extra);

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                    size_t *count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
                                      size_t *count);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node,
                                    CUDA_MEMSET_NODE_PARAMS *parameters);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
                                 const CUgraphNode *before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                const CUgraphNode *to, size_t count);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                     unsigned long long flags);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphExecDestroy(CUgraphExec exec);

} // extern "C"
#pragma GCC visibility pop

#endif // MPCOMM_TEST_LIB_FAKECUDA_CUDAAPI_H
