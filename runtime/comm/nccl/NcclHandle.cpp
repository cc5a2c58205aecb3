//===- NcclHandle.cpp - one communicator of NCCL --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/NcclHandle.h"

#include "device/Device.h"
#include "support/Backoff.h"
#include "support/Trace.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

using namespace mprt;
using namespace mprt::nccl;

/// How long the end of a communicator is waited for.
static constexpr double mostFinalizeSeconds = 10;

ncclConfig_t mprt::nccl::makeConfig() {
  ncclConfig_t config;
  config.blocking = 0;
  return config;
}

std::string Handle::describeMissing() const {
  std::string text;
  for (unsigned r : group)
    if (r != world.meeting->rank())
      text += (text.empty() ? "" : ", ") + std::to_string(r);
  if (text.empty())
    return "it has no peers";
  return group.size() > 2 ? "waits for some of ranks " + text +
                                ", NCCL does not tell for which"
                          : "waits for rank " + text;
}

Handle::Handle(const NcclWorld &world, std::vector<unsigned> group)
    : world(world), group(std::move(group)) {
  std::lock_guard<std::mutex> guard(world.mutex);
  world.handles.push_back(this);
}

Error Handle::settle(ncclResult_t result, const std::string &what) {
  const Api &api = *world.api;
  Backoff backoff(world.meeting->localRanks());
  uint64_t begin = nowNanoseconds();
  // Success may mean no more than that the call was taken in, as of
  // ncclCommSplit: the communicator knows when it is done.
  while ((result == ncclInProgress || result == ncclSuccess) && comm) {
    ncclResult_t state = ncclSuccess;
    if (ncclResult_t failed = api.ncclCommGetAsyncError(comm, &state))
      return api.failure(failed, what, comm);
    if (state != ncclInProgress) {
      result = state;
      break;
    }
    if (aborting.load(std::memory_order_acquire))
      return Error(MPRT_INTERNAL, what + ": the communicator was aborted");
    if (!backoff.pause())
      continue;
    std::optional<Error> failure = world.meeting->reportedFailure();
    for (unsigned r : group)
      if (!failure && r != world.meeting->rank())
        failure = world.meeting->examineRank(r);
    if (failure)
      return failure->withContext(what + ": ");
    double waited = double(nowNanoseconds() - begin) * 1e-9;
    if (waited >= world.timeoutSeconds)
      return makeError(MPRT_TIMEOUT, what, ": timed out: nothing moved for ",
                       world.timeoutSeconds, " s; ", describeMissing());
  }
  if (result != ncclSuccess)
    return api.failure(result, what, comm);
  return {};
}

void Handle::registerMemory(void *pointer, uint64_t bytes) {
  if (!world.api->ncclCommRegister || !world.api->ncclCommDeregister)
    return;
  void *registration = nullptr;
  Error error = run("ncclCommRegister", [&](ncclComm_t comm) {
    return world.api->ncclCommRegister(comm, pointer, bytes, &registration);
  });
  if (!error && registration)
    registrations.push_back(registration);
}

Error Handle::examine(const std::string &what) {
  std::unique_lock<std::mutex> guard(mutex, std::try_to_lock);
  if (!guard.owns_lock() || !comm || aborting.load(std::memory_order_acquire))
    return {};
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = world.api->ncclCommGetAsyncError(comm, &state);
  if (result == ncclSuccess)
    result = state;
  if (result == ncclSuccess || result == ncclInProgress)
    return {};
  return world.api->failure(result, what, comm);
}

Expected<ncclComm_t> Handle::surrender(uint64_t deadline) {
  aborting.store(true, std::memory_order_release);
  std::unique_lock<std::mutex> guard(mutex, std::try_to_lock);
  while (!guard.owns_lock()) {
    if (nowNanoseconds() >= deadline)
      return Error(MPRT_TIMEOUT, "a call of NCCL does not return");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)guard.try_lock();
  }
  return std::exchange(comm, nullptr);
}

bool Handle::finish() {
  std::lock_guard<std::mutex> guard(mutex);
  if (!comm)
    return true;
  if (world.isLost.load(std::memory_order_relaxed))
    return false;
  (void)world.device->enter();
  const Api &api = *world.api;
  for (void *registration : registrations)
    (void)api.ncclCommDeregister(comm, registration);
  ncclResult_t result = api.ncclCommFinalize(comm);
  double limit = std::min(world.timeoutSeconds, mostFinalizeSeconds);
  Backoff backoff(world.meeting->localRanks());
  uint64_t begin = nowNanoseconds();
  while (result == ncclInProgress &&
         double(nowNanoseconds() - begin) * 1e-9 < limit &&
         !world.meeting->reportedFailure()) {
    backoff.pause();
    ncclResult_t state = ncclSuccess;
    result = api.ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess)
      result = state;
  }
  if (result != ncclSuccess)
    return false;
  (void)api.ncclCommDestroy(comm);
  comm = nullptr;
  return true;
}

Handle::~Handle() {
  if (!finish())
    (void)world.abort();
  std::lock_guard<std::mutex> guard(world.mutex);
  std::erase(world.handles, this);
}
