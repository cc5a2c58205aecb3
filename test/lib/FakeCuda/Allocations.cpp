//===- Allocations.cpp - allocating and pinning memory --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "State.h"

#include <cstdlib>
#include <cstring>

using namespace fake;

static uint64_t addressOf(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  FAKE_ENTER(cuMemGetInfo_v2, Current);
  const DeviceMemory &memory = state().memory;
  *total = memory.total(entry.context->device);
  *free = *total - memory.used(entry.context->device);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  FAKE_ENTER(cuMemAlloc_v2, Current);
  if (!pointer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  *pointer = state().memory.allocate(entry.context->device, bytes, true);
  return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  FAKE_ENTER(cuMemFree_v2, Current);
  if (!pointer)
    return CUDA_SUCCESS;
  DeviceMemory::Allocation *allocation = state().memory.find(pointer);
  if (!allocation || allocation->freeing)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  // The real one waits for the device, or does not: this one does not.
  state().memory.free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle) {
  FAKE_ENTER(cuMemAllocAsync, Current);
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!pointer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->isCapturing()) {
    explain("memory nodes of graphs are not emulated");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *pointer = state().memory.allocate(entry.context->device, bytes, false);
  if (!*pointer)
    return CUDA_ERROR_OUT_OF_MEMORY;
  Work work;
  work.kind = Work::Device;
  work.name = "cuMemAllocAsync";
  work.run = [pointer = *pointer] {
    Lock lock(state().mutex);
    if (DeviceMemory::Allocation *allocation = state().memory.find(pointer))
      allocation->live = true;
    return CUDA_SUCCESS;
  };
  return enqueue(*stream, std::move(work));
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  FAKE_ENTER(cuMemFreeAsync, Current);
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  DeviceMemory::Allocation *allocation = state().memory.find(pointer);
  if (!allocation || allocation->freeing)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->isCapturing())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  allocation->freeing = true;
  Work work;
  work.kind = Work::Device;
  work.name = "cuMemFreeAsync";
  work.touched = {{pointer, 0}};
  work.run = [pointer] {
    Lock lock(state().mutex);
    state().memory.free(pointer);
    return CUDA_SUCCESS;
  };
  return enqueue(*stream, std::move(work));
}

static CUresult allocateHost(void **pointer, size_t bytes) {
  if (!pointer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  constexpr size_t page = 4096;
  *pointer = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!*pointer)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*pointer, 0xff, bytes);
  state().memory.pin(*pointer, bytes, true);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  FAKE_ENTER(cuMemHostAlloc, Current);
  return flags > 7 ? CUDA_ERROR_INVALID_VALUE : allocateHost(pointer, bytes);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  FAKE_ENTER(cuMemAllocHost_v2, Current);
  return allocateHost(pointer, bytes);
}

CUresult cuMemFreeHost(void *pointer) {
  FAKE_ENTER(cuMemFreeHost, Current);
  if (CUresult error = refuseWhileCapturing())
    return error;
  if (!state().memory.unpin(pointer, true))
    return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  FAKE_ENTER(cuMemHostRegister_v2, Current);
  if (!pointer || !bytes || flags > 15)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = refuseWhileCapturing())
    return error;
  return state().memory.pin(pointer, bytes, false)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void *pointer) {
  FAKE_ENTER(cuMemHostUnregister, Current);
  if (CUresult error = refuseWhileCapturing())
    return error;
  return state().memory.unpin(pointer, false)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer,
                                      unsigned flags) {
  FAKE_ENTER(cuMemHostGetDevicePointer_v2, Current);
  if (!device || flags || !state().memory.isPinned(addressOf(pointer), 1))
    return CUDA_ERROR_INVALID_VALUE;
  *device = addressOf(pointer);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  FAKE_ENTER(cuPointerGetAttribute, Current);
  const DeviceMemory &memory = state().memory;
  if (!value || int(attribute) != CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
      !memory.covers(pointer, 1, false))
    return CUDA_ERROR_INVALID_VALUE;
  *static_cast<unsigned *>(value) =
      memory.isDevice(pointer) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  return CUDA_SUCCESS;
}
