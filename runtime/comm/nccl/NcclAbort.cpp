//===- NcclAbort.cpp - the end of communicators that hang -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ncclCommAbort lets go of what is on the stream, and then waits for all of the
// device, on which another communicator may hang just as well. So all of a
// rank's are let go of before any is waited for: in one group, as NCCL can from
// 2.22 on, else on a thread of each. There is no end to be sure of even then:
// threads of their own wait for it, and are left alone after a while.
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/NcclHandle.h"

#include "device/Device.h"
#include "support/Trace.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <thread>

using namespace mprt;
using namespace mprt::nccl;

/// How long the end of communicators that hang is waited for, if not shorter by
/// the time-out.
static constexpr double mostAbortSeconds = 30;
/// From here on a group of aborts is ended at once.
static constexpr int groupsAborts = 22200;

namespace {

/// What the threads share; it lives as long as the last of them.
struct Ending {
  const Api *api = nullptr;
  Device *device = nullptr;
  std::vector<ncclComm_t> comms;
  std::mutex mutex;
  std::condition_variable changed;
  /// Threads that have not yet come to the device, and to their end.
  size_t outside = 0, running = 0;
};

} // namespace

/// Ends `count` communicators from `first` on, as one of the threads.
static void endSome(Ending &ending, size_t first, size_t count) {
  (void)ending.device->enter();
  {
    // Who waits in NCCL may keep others from the device.
    std::unique_lock<std::mutex> guard(ending.mutex);
    --ending.outside;
    ending.changed.notify_all();
    ending.changed.wait(guard, [&] { return ending.outside == 0; });
  }
  const Api &api = *ending.api;
  if (count > 1)
    (void)api.ncclGroupStart();
  for (size_t i = first; i < first + count; ++i)
    (void)api.ncclCommAbort(ending.comms[i]);
  if (count > 1)
    (void)api.ncclGroupEnd();
  std::lock_guard<std::mutex> guard(ending.mutex);
  --ending.running;
  ending.changed.notify_all();
}

Error NcclWorld::abort() const {
  isLost.store(true, std::memory_order_relaxed);
  if (isStuck.load(std::memory_order_relaxed))
    return {};
  double limit = std::min(timeoutSeconds, mostAbortSeconds);
  uint64_t begin = nowNanoseconds();
  uint64_t deadline = begin + uint64_t(limit * 1e9);
  auto ending = std::make_shared<Ending>();
  ending->api = api;
  ending->device = device;
  bool isLate = false;
  {
    std::lock_guard<std::mutex> guard(mutex);
    for (Handle *handle : handles) {
      Expected<ncclComm_t> comm = handle->surrender(deadline);
      isLate |= !comm;
      if (comm && *comm)
        ending->comms.push_back(*comm);
    }
  }
  size_t count = ending->comms.size();
  size_t each = api && api->version >= groupsAborts ? count : 1;
  ending->outside = ending->running = count ? count / each : 0;
  for (size_t first = 0; first < count; first += each)
    std::thread([ending, first, each] {
      endSome(*ending, first, each);
    }).detach();
  std::unique_lock<std::mutex> guard(ending->mutex);
  auto left = std::chrono::nanoseconds(
      std::max<int64_t>(0, int64_t(deadline - nowNanoseconds())));
  isLate |= !ending->changed.wait_for(guard, left,
                                      [&] { return ending->running == 0; });
  if (!isLate)
    return {};
  isStuck.store(true, std::memory_order_relaxed);
  return makeError(MPRT_TIMEOUT,
                   "NCCL did not end its communicators (ncclCommAbort) within ",
                   limit, " s, what is on the GPU is left as it is");
}
