//===- Device.cpp - devices and contexts of the fake driver ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Faults.h"
#include "Modules.h"
#include "State.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace fake;

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

CUresult cuInit(unsigned flags) {
  FAKE_ENTER(cuInit, Nothing);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  if (s.initialised)
    return s.process == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (s.options.devices < 1)
    return CUDA_ERROR_NO_DEVICE;
  for (int i = 0; i < s.options.devices; ++i) {
    if (!s.memory.addDevice(s.options.memory, s.options.guard))
      return CUDA_ERROR_OUT_OF_MEMORY;
    auto context = std::make_shared<Context>();
    context->device = i;
    context->handle = s.contexts.add(context);
  }
  s.devices.resize(size_t(s.options.devices));
  for (const auto &[handle, context] : s.contexts)
    s.devices[size_t(context->device)] = context.get();
  s.process = getpid();
  s.initialised = true;
  installFaultHandler();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  FAKE_ENTER(cuDriverGetVersion, Nothing);
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
#define FAKE_NAME(code, number, text)                                          \
  case code:                                                                   \
    return *name = #code, CUDA_SUCCESS;
  switch (int(error)) {
    FAKE_CUDA_ERRORS(FAKE_NAME)
  default:
    return *name = nullptr, CUDA_ERROR_INVALID_VALUE;
  }
#undef FAKE_NAME
}

CUresult cuGetErrorString(CUresult error, const char **text) {
#define FAKE_TEXT(code, number, description)                                   \
  case code:                                                                   \
    return *text = description, CUDA_SUCCESS;
  switch (int(error)) {
    FAKE_CUDA_ERRORS(FAKE_TEXT)
  default:
    return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
  }
#undef FAKE_TEXT
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

static bool isDevice(CUdevice device) {
  return device >= 0 && device < state().options.devices;
}

#define FAKE_DEVICE(device)                                                    \
  if (!isDevice(device))                                                       \
  return CUDA_ERROR_INVALID_DEVICE

CUresult cuDeviceGetCount(int *count) {
  FAKE_ENTER(cuDeviceGetCount, Initialised);
  *count = state().options.devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  FAKE_ENTER(cuDeviceGet, Initialised);
  FAKE_DEVICE(ordinal);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  FAKE_ENTER(cuDeviceGetName, Initialised);
  FAKE_DEVICE(device);
  if (length < 1)
    return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, size_t(length), "Fake sm_%d", state().options.chip);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  FAKE_ENTER(cuDeviceGetUuid_v2, Initialised);
  FAKE_DEVICE(device);
  std::memset(uuid, 0, sizeof *uuid);
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "fake %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  FAKE_ENTER(cuDeviceGetPCIBusId, Initialised);
  FAKE_DEVICE(device);
  if (length < 13)
    return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, size_t(length), "0000:%02X:00.0", unsigned(device + 1));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  FAKE_ENTER(cuDeviceTotalMem_v2, Initialised);
  FAKE_DEVICE(device);
  *bytes = state().memory.total(device);
  return CUDA_SUCCESS;
}

int fake::sharedBytesOfSm() {
  int chip = state().options.chip;
  if (chip == 80 || chip == 87)
    return 164 << 10;
  if (chip == 86 || chip == 89 || chip == 120)
    return 100 << 10;
  return 228 << 10;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device) {
  FAKE_ENTER(cuDeviceGetAttribute, Initialised);
  FAKE_DEVICE(device);
  const Options &options = state().options;
  struct {
    int attribute, value;
  } known[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, options.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device + 1},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, options.chip / 10},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, options.chip % 10},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       sharedBytesOfSm()},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       sharedBytesOfSm() - 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1}};
  for (const auto &entry : known)
    if (entry.attribute == int(attribute)) {
      *value = entry.value;
      return CUDA_SUCCESS;
    }
  explain("attribute %d of a device is not emulated", int(attribute));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  FAKE_ENTER(cuDeviceCanAccessPeer, Initialised);
  FAKE_DEVICE(device);
  FAKE_DEVICE(peer);
  *can = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  FAKE_ENTER(cuDeviceGetDefaultMemPool, Initialised);
  FAKE_DEVICE(device);
  *pool = reinterpret_cast<CUmemoryPool>(uintptr_t(device) + 1);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute,
                               void *value) {
  FAKE_ENTER(cuMemPoolSetAttribute, Initialised);
  auto number = reinterpret_cast<uintptr_t>(pool);
  bool good = number >= 1 && isDevice(int(number) - 1) && value;
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  FAKE_ENTER(cuDevicePrimaryCtxRetain, Initialised);
  FAKE_DEVICE(device);
  Context &primary = *state().devices[size_t(device)];
  if (primary.references++ == 0) {
    primary.error = CUDA_SUCCESS;
    primary.legacy = std::make_shared<Stream>(
        Stream{&primary, CU_STREAM_DEFAULT, 0, state().groups++, {}});
  }
  *context = static_cast<CUcontext>(primary.handle);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  FAKE_ENTER(cuDevicePrimaryCtxRelease_v2, Initialised);
  FAKE_DEVICE(device);
  State &s = state();
  Context &primary = *s.devices[size_t(device)];
  if (!primary.references)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.references)
    return CUDA_SUCCESS;
  s.scheduler.waitForAll(entry.lock, primary);
  auto ours = [&](const auto &object) { return object.context == &primary; };
  s.streams.eraseIf(ours);
  s.events.eraseIf(ours);
  s.graphs.eraseIf(ours);
  s.execs.eraseIf(
      [&](const GraphExec &exec) { return exec.graph->context == &primary; });
  forgetModules(primary);
  s.memory.freeAll(device);
  s.options.writeLog();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) {
  FAKE_ENTER(cuDevicePrimaryCtxSetFlags_v2, Initialised);
  FAKE_DEVICE(device);
  return CUDA_SUCCESS;
}

/// Null for a null handle.
static bool findContext(CUcontext handle, Context *&context) {
  context = nullptr;
  if (!handle)
    return true;
  context = state().contexts.find(handle).get();
  return context && context->references;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  FAKE_ENTER(cuCtxSetCurrent, Initialised);
  Context *context;
  if (!findContext(handle, context))
    return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<Context *> &stack = contextStack();
  if (!stack.empty())
    stack.pop_back();
  if (context)
    stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *handle) {
  FAKE_ENTER(cuCtxGetCurrent, Initialised);
  *handle =
      entry.context ? static_cast<CUcontext>(entry.context->handle) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  FAKE_ENTER(cuCtxPushCurrent_v2, Initialised);
  Context *context;
  if (!findContext(handle, context) || !context)
    return CUDA_ERROR_INVALID_CONTEXT;
  contextStack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle) {
  FAKE_ENTER(cuCtxPopCurrent_v2, Initialised);
  if (!entry.context)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (handle)
    *handle = static_cast<CUcontext>(entry.context->handle);
  contextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  FAKE_ENTER(cuCtxGetDevice, Current);
  *device = entry.context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  FAKE_ENTER(cuCtxGetStreamPriorityRange, Current);
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  FAKE_ENTER(cuCtxSynchronize, Current);
  if (CUresult error = refuseWhileCapturing())
    return error;
  state().scheduler.waitForAll(entry.lock, *entry.context);
  return entry.context->error;
}
