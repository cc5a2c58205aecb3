//===- Scratch.cpp - memory and clocks for calls of libraries -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Scratch.h"

#include <cstdlib>
#include <cstring>

using namespace mprt;
using namespace mprt::cuda;

ScratchBuffer::ScratchBuffer(const Driver &driver, uint64_t bytes)
    : driver(driver) {
  if (driver.cuMemAlloc(&pointer, bytes) != CUDA_SUCCESS)
    pointer = 0;
}

ScratchBuffer::~ScratchBuffer() {
  if (pointer)
    driver.cuMemFree(pointer);
}

Workspaces::~Workspaces() {
  for (const auto &[stream, kept] : pieces)
    if (kept.piece.data)
      driver.cuMemFree(addressOf(kept.piece.data));
  for (CUdeviceptr pointer : outgrown)
    driver.cuMemFree(pointer);
}

Workspaces::Piece Workspaces::get(CUstream stream, uint64_t bytes,
                                  bool captured) {
  Kept &kept = pieces[stream];
  if (kept.piece.bytes >= bytes || captured) {
    kept.inGraphs |= captured;
    return kept.piece;
  }
  if (kept.piece.data && kept.inGraphs) {
    outgrown.push_back(addressOf(kept.piece.data));
  } else if (kept.piece.data) {
    driver.cuStreamSynchronize(stream);
    driver.cuMemFree(addressOf(kept.piece.data));
    total -= kept.piece.bytes;
  }
  kept = {};
  constexpr uint64_t grain = 2 << 20;
  bytes = (bytes + grain - 1) / grain * grain;
  CUdeviceptr pointer = 0;
  if (driver.cuMemAlloc(&pointer, bytes) != CUDA_SUCCESS)
    return kept.piece;
  total += bytes;
  kept.piece = {reinterpret_cast<void *>(pointer), bytes};
  return kept.piece;
}

Expected<bool> mprt::cuda::isCaptured(const Driver &driver, CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (Error error = driver.check(driver.cuStreamIsCapturing(stream, &status),
                                 "cuStreamIsCapturing"))
    return error;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool isSet(const char *variable, const char *value) {
  const char *text = std::getenv(variable);
  return text && std::strcmp(text, value) == 0;
}

bool mprt::cuda::tunes() { return !isSet("MPRT_CUDA_TUNE", "0"); }

bool mprt::cuda::allowsTf32() { return isSet("MPRT_TF32", "1"); }

Expected<float> mprt::cuda::timeRuns(const Driver &driver, CUstream stream,
                                     const std::function<Error()> &run) {
  struct Events {
    const Driver &driver;
    CUevent begin = nullptr, end = nullptr;
    ~Events() {
      for (CUevent event : {begin, end})
        if (event)
          driver.cuEventDestroy(event);
    }
  } events{driver};
  auto check = [&](CUresult result, const char *call) {
    return driver.check(result, call);
  };
  for (CUevent *event : {&events.begin, &events.end})
    if (Error error = check(driver.cuEventCreate(event, CU_EVENT_DEFAULT),
                            "cuEventCreate"))
      return error;
  if (Error error = run()) // loads the code
    return error;
  if (Error error =
          check(driver.cuEventRecord(events.begin, stream), "cuEventRecord"))
    return error;
  for (int repeat = 0; repeat < 3; ++repeat)
    if (Error error = run())
      return error;
  float milliseconds = 0;
  if (Error error =
          check(driver.cuEventRecord(events.end, stream), "cuEventRecord"))
    return error;
  if (Error error =
          check(driver.cuEventSynchronize(events.end), "cuEventSynchronize"))
    return error;
  if (Error error = check(
          driver.cuEventElapsedTime(&milliseconds, events.begin, events.end),
          "cuEventElapsedTime"))
    return error;
  return milliseconds;
}

Expected<size_t>
mprt::cuda::findFastest(const Driver &driver, CUstream stream, size_t count,
                        const std::function<Error(size_t)> &run) {
  size_t best = count;
  float least = 0;
  Error failure(MPRT_UNSUPPORTED, "the library offers no algorithm");
  for (size_t i = 0; i < count; ++i) {
    Error failed;
    Expected<float> taken =
        timeRuns(driver, stream, [&] { return failed = run(i); });
    if (failed) {
      failure = failed;
      continue;
    }
    if (!taken)
      return taken.error();
    if (best == count || *taken < least)
      best = i, least = *taken;
  }
  if (best == count)
    return failure;
  return best;
}
