//===- Loopback.cpp - a world of one process ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rank, whose collectives are copies. Without segments or processes, it
// runs where shared memory may not be had.
//
//===----------------------------------------------------------------------===//

#include "comm/Registry.h"
#include "support/DType.h"

#include <cstring>
#include <deque>
#include <memory>

using namespace mprt;

namespace {

class LoopbackCommunicator : public Communicator {
public:
  using Communicator::Communicator;

  Error check(const mprt_collective &c) const override {
    if (c.kind == MPRT_SEND || c.kind == MPRT_RECV)
      return makeError(MPRT_UNSUPPORTED, "a rank cannot send to itself");
    return {};
  }
  bool accepts() const override { return true; }
  Error start(const mprt_collective &c, const void *send,
              void *recv) override {
    uint64_t bytes = c.count * sizeOf(mprt_dtype(c.type));
    if (c.kind == MPRT_PERMUTE && c.targets[0] != 0)
      memset(recv, 0, bytes);
    else if (c.kind != MPRT_BARRIER && send != recv)
      memcpy(recv, send, bytes);
    ++finished;
    moved = true;
    return {};
  }
  Error progress(bool &any) override {
    any |= moved;
    moved = false;
    return {};
  }

private:
  bool moved = false;
};

class LoopbackTransport : public Transport {
public:
  unsigned rank() const override { return 0; }
  unsigned size() const override { return 1; }
  unsigned localRanks() const override { return 1; }
  const char *name() const override { return "loopback"; }
  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override {
    return std::unique_ptr<Communicator>(
        new LoopbackCommunicator(std::move(group), 0));
  }
  Expected<void *> allocate(uint64_t bytes) override {
    uint64_t rounded = (bytes + 4095) / 4096 * 4096;
    void *memory = rounded < bytes ? nullptr : std::aligned_alloc(4096, rounded);
    if (rounded && !memory)
      return makeError(MPRT_OUT_OF_MEMORY, "no memory for ", bytes, " bytes");
    memory = memory ? memset(memory, 0, rounded) : nullptr;
    blocks.emplace_back(memory, std::free);
    return memory;
  }
  void reportFailure(const Error &) override {}

private:
  std::deque<std::unique_ptr<void, void (*)(void *)>> blocks;
};

class LoopbackRanks : public LocalRanks {
  Expected<std::unique_ptr<Transport>> join(unsigned) override {
    return std::unique_ptr<Transport>(new LoopbackTransport);
  }
};

} // namespace

static Expected<std::unique_ptr<LocalRanks>> prepare(unsigned ranks, double) {
  if (ranks != 1)
    return makeError(MPRT_INVALID_ARGUMENT, "expected one rank, got ", ranks);
  return std::unique_ptr<LocalRanks>(new LoopbackRanks);
}

namespace mprt {
extern const Backend loopbackBackend;
const Backend loopbackBackend = {"loopback", 1, prepare, nullptr, nullptr};
} // namespace mprt
