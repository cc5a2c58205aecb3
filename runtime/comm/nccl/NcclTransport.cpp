//===- NcclTransport.cpp - ranks whose memory NCCL moves ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranks have met already. Rank 0's id goes to all of them by the way they
// have met; the communicator of all ranks that comes of it serves the first
// group of all ranks, and is split for each other. A rank that cannot go on
// says so before any other waits for it in NCCL.
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/Nccl.h"
#include "comm/nccl/NcclCommunicator.h"

#include "support/Trace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

using namespace mprt;
using namespace mprt::nccl;

namespace {

/// What ranks tell one another before they meet in NCCL.
struct Endpoint {
  int32_t version = 0;
  uint8_t failed = 0;
  char reason[123] = {};
  ncclUniqueId id = {};
};

class NcclTransport : public Transport {
public:
  explicit NcclTransport(const MoverOptions &options);
  ~NcclTransport() override;

  unsigned rank() const override { return options.meeting->rank(); }
  unsigned size() const override { return options.meeting->size(); }
  unsigned localRanks() const override { return options.meeting->localRanks(); }
  const char *name() const override { return "nccl"; }
  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override;
  Expected<void *> allocate(uint64_t bytes) override;
  uint64_t deviceBytes() const override;
  void reportFailure(const Error &error) override {
    options.meeting->reportFailure(error);
  }
  std::optional<Error> reportedFailure() override {
    return options.meeting->reportedFailure();
  }
  std::optional<Error> examineRank(unsigned rank) override {
    return options.meeting->examineRank(rank);
  }

  Error join();

private:
  struct Allocation {
    void *pointer;
    uint64_t bytes;
    bool isNccls; ///< of ncclMemAlloc
  };

  Expected<std::vector<Endpoint>> exchange(Endpoint mine);
  Error clear(void *pointer, uint64_t bytes);
  bool becomesIdle();

  MoverOptions options;
  NcclWorld world;
  bool registers = true;
  /// What NCCL writes when a communicator is split, which may be after it was
  /// given up.
  struct Split {
    ncclComm_t made = nullptr;
    ncclConfig_t config = makeConfig();
  };
  std::vector<std::unique_ptr<Split>> splits;
  std::shared_ptr<Handle> everyone;
  /// Whether a communicator has it; it serves to split all the same.
  bool isLent = false;
  /// Of communicators that were made here, which own them.
  std::vector<std::weak_ptr<Handle>> handles;
  std::vector<Allocation> allocations;
  void *barriers = nullptr;
  uint32_t numBarriers = 0;
};

} // namespace

static bool isSet(const char *name, const char *value) {
  const char *text = getenv(name);
  return text && !strcmp(text, value);
}

/// How long memory waits for what uses it, when it is given back.
static constexpr double mostIdleSeconds = 10;
/// Numbers for barriers, each in a line of its own.
static constexpr uint32_t maxBarriers = 256, barrierBytes = 256;

NcclTransport::NcclTransport(const MoverOptions &options) : options(options) {
  world.meeting = options.meeting;
  world.device = options.device;
  world.timeoutSeconds = options.timeoutSeconds;
  world.takesNcclNumerics = isSet("MPRT_NCCL_NUMERICS", "nccl");
  registers = !isSet("MPRT_NCCL_REGISTER", "0");
}

/// Whether all that uses the memory comes to its end, soon.
bool NcclTransport::becomesIdle() {
  uint64_t begin = nowNanoseconds();
  for (uint32_t stream = 0; stream <= options.device->copyStream(); ++stream)
    while (true) {
      Expected<bool> done = options.device->finished(stream);
      if (!done || double(nowNanoseconds() - begin) * 1e-9 > mostIdleSeconds)
        return false;
      if (*done)
        break;
      std::this_thread::yield();
    }
  return true;
}

NcclTransport::~NcclTransport() {
  if (!world.api || options.device->enter())
    return;
  everyone.reset();
  // Else it goes with the process.
  if (allocations.empty() || !becomesIdle())
    return;
  for (const Allocation &allocation : allocations)
    if (allocation.isNccls)
      (void)world.api->ncclMemFree(allocation.pointer);
}

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

/// Every rank's endpoint, or the failure of one of them.
Expected<std::vector<Endpoint>> NcclTransport::exchange(Endpoint mine) {
  std::vector<Endpoint> all(size());
  if (Error error = options.gather(&mine, all.data(), sizeof(Endpoint)))
    return error;
  for (unsigned r = 0; r < size(); ++r)
    if (all[r].failed) {
      all[r].reason[sizeof(Endpoint::reason) - 1] = 0;
      return makeError(MPRT_UNSUPPORTED, "rank ", r, ": ", all[r].reason);
    }
  return all;
}

Error NcclTransport::join() {
  Endpoint mine;
  Error failure;
  Expected<const Api *> api = Api::load();
  if (!api)
    failure = api.error();
  else
    world.api = *api;
  if (!failure)
    failure = options.device->enter();
  if (!failure) {
    mine.version = world.api->version;
    if (rank() == 0)
      if (ncclResult_t result = world.api->ncclGetUniqueId(&mine.id))
        failure = world.api->failure(result, "ncclGetUniqueId", nullptr);
  }
  if (failure) {
    mine.failed = 1;
    strncpy(mine.reason, failure.message().c_str(), sizeof(mine.reason) - 1);
  }
  Expected<std::vector<Endpoint>> endpoints = exchange(mine);
  if (failure)
    return failure; // in full
  if (!endpoints)
    return endpoints.error();
  for (unsigned r = 1; r < size(); ++r)
    if ((*endpoints)[r].version != (*endpoints)[0].version)
      return makeError(MPRT_MISMATCH, "rank 0 has NCCL ",
                       describeVersion((*endpoints)[0].version), ", rank ", r,
                       " has NCCL ", describeVersion((*endpoints)[r].version),
                       ", expected the same on all ranks");
  std::vector<unsigned> all(size());
  std::iota(all.begin(), all.end(), 0u);
  everyone = std::make_shared<Handle>(world, all);
  ncclConfig_t config = makeConfig();
  if (Error error = everyone->run(
          "cannot connect rank " + std::to_string(rank()) +
              " with the others by NCCL " + describeVersion(world.api->version),
          [&](ncclComm_t &comm) {
            return world.api->ncclCommInitRankConfig(
                &comm, int(size()), (*endpoints)[0].id, int(rank()), &config);
          }))
    return error;
  Expected<void *> memory =
      options.device->allocate(uint64_t(maxBarriers) * barrierBytes);
  if (!memory)
    return memory.error();
  barriers = *memory;
  return {};
}

Expected<std::unique_ptr<Communicator>>
NcclTransport::createCommunicator(std::vector<unsigned> group) {
  auto position = std::find(group.begin(), group.end(), rank());
  if (position == group.end())
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", rank(),
                     " is not in the group of a communicator");
  auto place = unsigned(position - group.begin());
  if (Error error = options.device->enter())
    return error;
  auto handle = std::make_shared<Handle>(world, group);
  Error error;
  if (group.size() == size() && !isLent) {
    isLent = true;
    handle = everyone;
  } else {
    splits.push_back(std::make_unique<Split>());
    Split &split = *splits.back();
    const std::string what = "cannot split a communicator of NCCL";
    error = everyone->run(what, [&](ncclComm_t comm) {
      return world.api->ncclCommSplit(comm, int(group.front()), int(place),
                                      &split.made, &split.config);
    });
    // Then the new one is there, and connects.
    if (!error)
      error = handle->run(what, [&](ncclComm_t &comm) {
        comm = split.made;
        return comm ? ncclInProgress : ncclInternalError;
      });
  }
  if (error)
    return error;
  if (registers)
    for (const Allocation &allocation : allocations)
      handle->registerMemory(allocation.pointer, allocation.bytes);
  handles.push_back(handle);
  void *barrier = static_cast<uint8_t *>(barriers) +
                  uint64_t(numBarriers++ % maxBarriers) * barrierBytes;
  return std::unique_ptr<Communicator>(new NcclCommunicator(
      std::move(handle), std::move(group), place, barrier));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Error NcclTransport::clear(void *pointer, uint64_t bytes) {
  uint32_t stream = options.device->copyStream();
  if (Error error = options.device->zero(stream, pointer, bytes))
    return error;
  while (true) {
    Expected<bool> done = options.device->finished(stream);
    if (!done)
      return done.error();
    if (*done)
      return {};
    std::this_thread::yield();
  }
}

uint64_t NcclTransport::deviceBytes() const {
  uint64_t bytes = 0;
  for (const Allocation &allocation : allocations)
    bytes += allocation.isNccls ? allocation.bytes : 0;
  return bytes;
}

Expected<void *> NcclTransport::allocate(uint64_t bytes) {
  Allocation made{nullptr, bytes, false};
  if (Error error = options.device->enter())
    return error;
  // Memory that several GPUs can map is NCCL's own; where there is none, any
  // memory of the device does.
  if (registers && world.api->ncclMemAlloc && world.api->ncclMemFree &&
      world.api->ncclMemAlloc(&made.pointer, bytes) == ncclSuccess) {
    made.isNccls = true;
    if (Error error = clear(made.pointer, bytes))
      return error;
  } else {
    Expected<void *> memory = options.device->allocate(bytes);
    if (!memory)
      return memory;
    made.pointer = *memory;
  }
  allocations.push_back(made);
  if (registers)
    for (std::weak_ptr<Handle> &weak : handles)
      if (std::shared_ptr<Handle> handle = weak.lock())
        handle->registerMemory(made.pointer, bytes);
  return made.pointer;
}

Expected<std::unique_ptr<Transport>>
mprt::joinNccl(const MoverOptions &options) {
  auto transport = std::make_unique<NcclTransport>(options);
  if (Error error = transport->join())
    return error;
  return std::unique_ptr<Transport>(std::move(transport));
}

namespace mprt {
extern const Backend ncclBackend;
const Backend ncclBackend = {"nccl", 0, nullptr, nullptr, joinNccl};
} // namespace mprt
