//===- CudaDevice.cpp - memory, streams and work of a GPU -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/CudaDevice.h"

#include <cstdio>
#include <cstring>

using namespace mprt;
using namespace mprt::cuda;

/// The context that is the calling thread's, as far as this file has made it.
static thread_local CUcontext entered = nullptr;

static std::string gigabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), bytes < 100'000'000 ? "%.4f GB" : "%.1f GB",
                double(bytes) * 1e-9);
  return text;
}

//===----------------------------------------------------------------------===//
// Begin and end
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Device>>
CudaDevice::create(const DeviceOptions &options) {
  Expected<const Driver *> loaded = Driver::load();
  if (!loaded)
    return loaded.error();
  const Driver &driver = **loaded;
  int count = 0, major = 0, minor = 0, multiprocessors = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  char name[256] = "";
  size_t bytes = 0;
  auto attribute = [&](int which, int &value) {
    return driver.check(driver.cuDeviceGetAttribute(&value, which, device),
                        "cuDeviceGetAttribute");
  };
  if (Error error =
          driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"))
    return error;
  if (count < 1)
    return Error(MPRT_UNSUPPORTED, "no CUDA device");
  if (Error error = driver.check(
          driver.cuDeviceGet(&device, int(options.localRank % unsigned(count))),
          "cuDeviceGet"))
    return error;
  if (Error error =
          attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major))
    return error;
  if (Error error =
          attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor))
    return error;
  if (Error error =
          attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, multiprocessors))
    return error;
  if (Error error =
          driver.check(driver.cuDeviceGetName(name, sizeof(name) - 1, device),
                       "cuDeviceGetName"))
    return error;
  if (Error error = driver.check(driver.cuDeviceTotalMem(&bytes, device),
                                 "cuDeviceTotalMem"))
    return error;
  if (Error error =
          driver.check(driver.cuDevicePrimaryCtxRetain(&context, device),
                       "cuDevicePrimaryCtxRetain"))
    return error;
  Chip chip;
  chip.number = unsigned(major * 10 + minor);
  chip.multiprocessors = unsigned(multiprocessors);
  std::string text = std::string(name) + ", sm_" + std::to_string(chip.number) +
                     ", " + gigabytes(bytes);
  auto made = std::make_unique<CudaDevice>(driver, device, context, text, chip,
                                           options.rank);
  if (Error error = made->prepare(options.communicators, options.images,
                                  options.scratchBytes))
    return error;
  return std::unique_ptr<Device>(std::move(made));
}

Error CudaDevice::prepare(uint32_t communicators, const mprt_image *images,
                          uint64_t scratchWanted) {
  if (Error error = enter())
    return error;
  int least = 0, greatest = 0;
  if (Error error = check(driver.cuCtxGetStreamPriorityRange(&least, &greatest),
                          "cuCtxGetStreamPriorityRange"))
    return error;
  // Computing, one a communicator, copying.
  for (uint32_t i = 0; i < communicators + 2; ++i) {
    bool communicates = i >= 1 && i <= communicators;
    CUstream stream = nullptr;
    if (Error error = check(
            driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
                                              communicates ? greatest : least),
            "cuStreamCreateWithPriority"))
      return error;
    streams.push_back(stream);
  }
  if (Error error = check(driver.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING),
                          "cuEventCreate"))
    return error;
  if (Error error = kernels->load(images))
    return error;
  if (Error error = attentions->checkMode())
    return error;
  if (scratchWanted == 0)
    return {};
  // Each stream has its own, at addresses that any vector load takes.
  scratchBytes = (scratchWanted + 255) & ~uint64_t(255);
  Expected<void *> memory = allocate(scratchBytes * programStreams());
  if (!memory)
    return memory.error();
  scratch = addressOf(*memory);
  return {};
}

CudaDevice::~CudaDevice() {
  if (!enter()) {
    // What still runs may use all of it.
    driver.cuCtxSynchronize();
    attentions.reset();
    fills.reset();
    convolutions.reset();
    products.reset();
    kernels.reset();
    for (CUevent event : events)
      driver.cuEventDestroy(event);
    for (CUevent event : marks)
      driver.cuEventDestroy(event);
    for (CUevent event : {fork, base})
      if (event)
        driver.cuEventDestroy(event);
    for (CUstream stream : streams)
      driver.cuStreamDestroy(stream);
    for (CUdeviceptr pointer : allocations)
      driver.cuMemFree(pointer);
    for (void *pointer : pinned)
      driver.cuMemFreeHost(pointer);
    driver.cuCtxSetCurrent(nullptr);
    entered = nullptr;
  }
  driver.cuDevicePrimaryCtxRelease(device);
}

Error CudaDevice::enter() {
  if (entered == context)
    return {};
  if (Error error = check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent"))
    return error;
  entered = context;
  return {};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Expected<void *> CudaDevice::allocate(uint64_t bytes) {
  if (Error error = enter())
    return error;
  CUdeviceptr pointer = 0;
  uint64_t wanted = bytes ? bytes : 1;
  if (CUresult result = driver.cuMemAlloc(&pointer, wanted);
      result == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free = 0, total = 0;
    if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
      free = total = 0;
    return makeError(MPRT_OUT_OF_MEMORY, "no ", gigabytes(wanted),
                     " of device memory: ", gigabytes(free), " of ",
                     gigabytes(total), " are free");
  } else if (Error error = check(result, "cuMemAlloc")) {
    return error;
  }
  {
    std::lock_guard<std::mutex> guard(memoryMutex);
    allocations.push_back(pointer);
  }
  allocated += wanted;
  if (Error error =
          check(driver.cuMemsetD8Async(pointer, 0, wanted, streams[0]),
                "cuMemsetD8Async"))
    return error;
  if (Error error =
          check(driver.cuStreamSynchronize(streams[0]), "cuStreamSynchronize"))
    return error;
  return reinterpret_cast<void *>(pointer);
}

Expected<void *> CudaDevice::allocatePinned(uint64_t bytes) {
  if (Error error = enter())
    return error;
  void *pointer = nullptr;
  uint64_t wanted = bytes ? bytes : 1;
  if (Error error = check(
          driver.cuMemHostAlloc(&pointer, wanted, CU_MEMHOSTALLOC_PORTABLE),
          "cuMemHostAlloc"))
    return makeError(error.status(), gigabytes(wanted),
                     " of pinned host memory: ", error.message());
  {
    std::lock_guard<std::mutex> guard(memoryMutex);
    pinned.push_back(pointer);
  }
  memset(pointer, 0, wanted);
  return pointer;
}

uint64_t CudaDevice::memoryBytes() const {
  size_t bytes = 0;
  return driver.cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS ? bytes : 0;
}

uint64_t CudaDevice::allocatedBytes() const {
  return allocated + products->deviceBytes() + convolutions->deviceBytes() +
         attentions->deviceBytes();
}

Error CudaDevice::upload(void *target, const void *source, uint64_t bytes) {
  if (Error error = attentions->checkUpload(target, source, bytes))
    return error;
  if (Error error =
          copy(copyStream(), target, source, bytes, CopyKind::ToDevice))
    return error;
  return check(driver.cuStreamSynchronize(streams[copyStream()]),
               "cuStreamSynchronize");
}

Error CudaDevice::download(void *target, const void *source, uint64_t bytes) {
  if (Error error = copy(copyStream(), target, source, bytes, CopyKind::ToHost))
    return error;
  return check(driver.cuStreamSynchronize(streams[copyStream()]),
               "cuStreamSynchronize");
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

Error CudaDevice::launch(uint32_t stream, const mprt_kernel &kernel,
                         void *const *args) {
  if (Error error = enter())
    return error;
  return kernels->launch(streams[stream], kernel, args, scratchOf(stream),
                         scratchBytes);
}

Error CudaDevice::gemm(uint32_t stream, const mprt_gemm_desc &desc,
                       const void *a, const void *b, void *c) {
  if (Error error = enter())
    return error;
  return products->run(desc, streams[stream], a, b, c);
}

Expected<uint32_t>
CudaDevice::gemmWithEpilogue(uint32_t stream, const mprt_gemm_desc &desc,
                             const void *a, const void *b, void *c,
                             const mprt_epilogue &epilogue, void *const *args) {
  if (Error error = mprt::check(epilogue))
    return error;
  if (Error error = enter())
    return error;
  auto kind = mprt_epilogue_kind(epilogue.kind);
  auto biasType = mprt_dtype(epilogue.bias_type);
  void *bias = GemmEpilogue::hasBias(kind) ? args[epilogue.bias] : nullptr;
  void *matrix =
      GemmEpilogue::hasMatrix(kind) ? args[epilogue.matrix] : nullptr;
  GemmEpilogue pointed = {kind, biasType, bias, matrix};
  for (uint32_t i = 0; i < epilogue.scale_count; ++i)
    pointed.scales[i] = args[epilogue.scales[i]];
  Expected<bool> taken =
      products->runWithEpilogue(desc, streams[stream], a, b, c, pointed);
  if (!taken)
    return taken.error();
  if (*taken)
    return 0u;
  return Device::gemmWithEpilogue(stream, desc, a, b, c, epilogue, args);
}

Error CudaDevice::convolveOrPool(uint32_t stream, const mprt_window_desc &desc,
                                 const void *a, const void *b, void *c) {
  if (Error error = enter())
    return error;
  return convolutions->run(desc, streams[stream], a, b, c);
}

Expected<uint32_t> CudaDevice::attention(uint32_t stream,
                                         const mprt_attention_desc &desc,
                                         void *const *args) {
  if (Error error = mprt::check(desc))
    return error;
  if (Error error = enter())
    return error;
  Expected<bool> taken = attentions->run(desc, streams[stream], args, [&] {
    return Device::attention(stream, desc, args).error();
  });
  if (!taken)
    return taken.error();
  if (*taken)
    return 0u;
  return Device::attention(stream, desc, args);
}

Error CudaDevice::copy(uint32_t stream, void *target, const void *source,
                       uint64_t bytes, CopyKind kind) {
  if (bytes == 0)
    return {};
  if (Error error = enter())
    return error;
  CUstream to = streams[stream];
  switch (kind) {
  case CopyKind::OnDevice:
    return check(driver.cuMemcpyDtoDAsync(addressOf(target), addressOf(source),
                                          bytes, to),
                 "cuMemcpyDtoDAsync");
  case CopyKind::ToDevice:
    return check(driver.cuMemcpyHtoDAsync(addressOf(target), source, bytes, to),
                 "cuMemcpyHtoDAsync");
  case CopyKind::ToHost:
    return check(driver.cuMemcpyDtoHAsync(target, addressOf(source), bytes, to),
                 "cuMemcpyDtoHAsync");
  }
  return Error(MPRT_INTERNAL, "no such copy");
}

Error CudaDevice::zero(uint32_t stream, void *target, uint64_t bytes) {
  if (bytes == 0)
    return {};
  if (Error error = enter())
    return error;
  CUdeviceptr at = addressOf(target);
  if ((at | bytes) % 4 == 0)
    return check(driver.cuMemsetD32Async(at, 0, bytes / 4, streams[stream]),
                 "cuMemsetD32Async");
  return check(driver.cuMemsetD8Async(at, 0, bytes, streams[stream]),
               "cuMemsetD8Async");
}

Expected<uint32_t> CudaDevice::createEvent() {
  if (Error error = enter())
    return error;
  CUevent event = nullptr;
  if (Error error = check(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
                          "cuEventCreate"))
    return error;
  events.push_back(event);
  return uint32_t(events.size() - 1);
}

Error CudaDevice::record(uint32_t stream, uint32_t event) {
  if (Error error = enter())
    return error;
  return check(driver.cuEventRecord(events[event], streams[stream]),
               "cuEventRecord");
}

Error CudaDevice::wait(uint32_t stream, uint32_t event) {
  if (Error error = enter())
    return error;
  return check(driver.cuStreamWaitEvent(streams[stream], events[event], 0),
               "cuStreamWaitEvent");
}

Expected<bool> CudaDevice::finished(uint32_t stream) {
  if (Error error = enter())
    return error;
  CUresult result = driver.cuStreamQuery(streams[stream]);
  if (result == CUDA_ERROR_NOT_READY)
    return false;
  if (Error error = check(result, "cuStreamQuery"))
    return error;
  return true;
}
