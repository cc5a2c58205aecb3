//===- Copies.cpp - copies and fills of the fake driver -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Host memory that is not pinned is read while a copy to the device is
// enqueued, and a copy to it is over when the call returns; pinned memory is
// read and written when the copy's turn comes, which is all that the driver
// promises.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "State.h"

#include <cstring>

using namespace fake;

namespace {
enum class Place { Device, Host, Either };

struct Copy {
  const char *name;
  uint64_t to, from;
  size_t bytes;
  Place toPlace, fromPlace;
};
} // namespace

static uint64_t addressOf(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

/// Whether the bytes are where the call says.
static bool isAt(Place place, uint64_t address, size_t bytes) {
  const DeviceMemory &memory = state().memory;
  bool device = memory.isDevice(address);
  if (place == Place::Device || device)
    return place != Place::Host && memory.covers(address, bytes, false);
  return address != 0;
}

static CUresult enqueueCopy(Entry &entry, Stream &stream, const Copy &copy,
                            bool wait) {
  if (!copy.bytes)
    return CUDA_SUCCESS;
  DeviceMemory &memory = state().memory;
  if (!isAt(copy.toPlace, copy.to, copy.bytes) ||
      !isAt(copy.fromPlace, copy.from, copy.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.kind = Work::Device;
  work.name = copy.name;
  auto isPageable = [&](uint64_t address) {
    return !memory.isDevice(address) && !memory.isPinned(address, copy.bytes);
  };
  bool toPageable = isPageable(copy.to), fromPageable = isPageable(copy.from);
  if (!toPageable)
    work.touched.push_back({copy.to, copy.bytes});
  if (!fromPageable)
    work.touched.push_back({copy.from, copy.bytes});
  char *to = memory.translate(copy.to);
  const char *from = memory.translate(copy.from);
  std::shared_ptr<std::vector<char>> staged;
  if (fromPageable && !stream.isCapturing())
    staged = std::make_shared<std::vector<char>>(from, from + copy.bytes);
  work.run = [to, from, bytes = copy.bytes, staged] {
    std::memmove(to, staged ? staged->data() : from, bytes);
    return CUDA_SUCCESS;
  };
  std::shared_ptr<Node> node;
  if (CUresult error = enqueue(stream, std::move(work), &node))
    return error;
  if (node && (wait || toPageable)) {
    state().scheduler.waitFor(entry.lock, {node});
    return entry.context->error;
  }
  return CUDA_SUCCESS;
}

static CUresult copyNow(Entry &entry, const Copy &copy) {
  if (CUresult error = refuseWhileCapturing())
    return error;
  return enqueueCopy(entry, *entry.context->legacy, copy, true);
}

static CUresult copyLater(Entry &entry, CUstream handle, const Copy &copy) {
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  return stream ? enqueueCopy(entry, *stream, copy, false)
                : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  FAKE_ENTER(cuMemcpy, Current);
  return copyNow(entry,
                 {"cuMemcpy", to, from, bytes, Place::Either, Place::Either});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream) {
  FAKE_ENTER(cuMemcpyAsync, Current);
  return copyLater(
      entry, stream,
      {"cuMemcpyAsync", to, from, bytes, Place::Either, Place::Either});
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  FAKE_ENTER(cuMemcpyHtoD_v2, Current);
  return copyNow(entry, {"cuMemcpyHtoD", to, addressOf(from), bytes,
                         Place::Device, Place::Host});
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  FAKE_ENTER(cuMemcpyDtoH_v2, Current);
  return copyNow(entry, {"cuMemcpyDtoH", addressOf(to), from, bytes,
                         Place::Host, Place::Device});
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  FAKE_ENTER(cuMemcpyDtoD_v2, Current);
  return copyNow(
      entry, {"cuMemcpyDtoD", to, from, bytes, Place::Device, Place::Device});
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream) {
  FAKE_ENTER(cuMemcpyHtoDAsync_v2, Current);
  return copyLater(entry, stream,
                   {"cuMemcpyHtoDAsync", to, addressOf(from), bytes,
                    Place::Device, Place::Host});
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  FAKE_ENTER(cuMemcpyDtoHAsync_v2, Current);
  return copyLater(entry, stream,
                   {"cuMemcpyDtoHAsync", addressOf(to), from, bytes,
                    Place::Host, Place::Device});
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  FAKE_ENTER(cuMemcpyDtoDAsync_v2, Current);
  return copyLater(
      entry, stream,
      {"cuMemcpyDtoDAsync", to, from, bytes, Place::Device, Place::Device});
}

//===----------------------------------------------------------------------===//
// Fills
//===----------------------------------------------------------------------===//

template <typename T>
static CUresult fill(Stream &stream, const char *name, CUdeviceptr to, T value,
                     size_t count) {
  if (!count)
    return CUDA_SUCCESS;
  size_t bytes = count * sizeof(T);
  if (to % sizeof(T) || !state().memory.covers(to, bytes, false))
    return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.kind = Work::Device;
  work.name = name;
  work.touched = {{to, bytes}};
  work.filled = {to, sizeof(T), count, value};
  work.run = [at = state().memory.translate(to), value, count] {
    if (!mpfake_computes())
      return CUDA_SUCCESS;
    for (size_t i = 0; i < count; ++i)
      std::memcpy(at + i * sizeof(T), &value, sizeof(T));
    return CUDA_SUCCESS;
  };
  return enqueue(stream, std::move(work));
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  FAKE_ENTER(cuMemsetD8_v2, Current);
  if (CUresult error = refuseWhileCapturing())
    return error;
  return fill(*entry.context->legacy, "cuMemsetD8", to, value, count);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  FAKE_ENTER(cuMemsetD32_v2, Current);
  if (CUresult error = refuseWhileCapturing())
    return error;
  return fill(*entry.context->legacy, "cuMemsetD32", to, value, count);
}

template <typename T>
static CUresult fillLater(Entry &entry, const char *name, CUdeviceptr to,
                          T value, size_t count, CUstream handle) {
  std::shared_ptr<Stream> stream = findStream(entry, handle);
  return stream ? fill(*stream, name, to, value, count)
                : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  FAKE_ENTER(cuMemsetD8Async, Current);
  return fillLater(entry, "cuMemsetD8Async", to, value, count, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                          CUstream stream) {
  FAKE_ENTER(cuMemsetD16Async, Current);
  return fillLater(entry, "cuMemsetD16Async", to, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream) {
  FAKE_ENTER(cuMemsetD32Async, Current);
  return fillLater(entry, "cuMemsetD32Async", to, value, count, stream);
}
