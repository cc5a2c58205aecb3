//===- Harness.cpp - one rank in the conformance suite --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"

#include <cstdio>

using namespace mprt;
using namespace mprt::cts;

Expected<std::unique_ptr<Rank>> Rank::create(Transport &transport,
                                             const ContextOptions &options,
                                             Transport *mover) {
  std::unique_ptr<Rank> rank(new Rank(transport));
  std::vector<unsigned> all, half;
  for (unsigned r = 0; r < transport.size(); ++r) {
    all.push_back(r);
    if (r % 2 == transport.rank() % 2)
      half.push_back(r);
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const std::vector<unsigned> &group : {all, half, all}) {
    Expected<std::unique_ptr<Communicator>> made =
        (mover ? *mover : transport).createCommunicator(group);
    if (!made)
      return made.error();
    rank->ranks[communicators.size()] = (*made)->rank();
    rank->sizes[communicators.size()] = (*made)->size();
    rank->communicators[communicators.size()] = &**made;
    communicators.push_back(made.take());
  }
  Expected<void *> arena = transport.allocate(arenaBytes);
  if (!arena)
    return arena.error();
  rank->arena = static_cast<uint8_t *>(*arena);
  if ((rank->theDevice = options.device)) {
    Expected<void *> memory = mover ? mover->allocate(2 * arenaBytes)
                                    : options.device->allocate(2 * arenaBytes);
    if (!memory)
      return memory.error();
    rank->deviceMemory = static_cast<uint8_t *>(*memory);
  }
  Expected<std::unique_ptr<Context>> context =
      Context::create(options, &transport, std::move(communicators));
  if (!context)
    return context.error();
  rank->theContext = context.take();
  return rank;
}

bool Rank::supports(const mprt_collective &collective) {
  if (!communicators[collective.communicator]->check(collective))
    return true;
  ++refused;
  return false;
}

void Rank::map(void *memory, uint64_t bytes) {
  if (!theDevice)
    return;
  auto *host = static_cast<uint8_t *>(memory);
  // At the same distance from what the device aligns to.
  uint64_t shift = reinterpret_cast<uintptr_t>(host) % 256;
  if (twinsEnd + shift + bytes > 2 * arenaBytes) {
    fail("the case takes more memory than there is");
    return;
  }
  twins.push_back({host, bytes, deviceMemory + twinsEnd + shift});
  twinsEnd = (twinsEnd + shift + bytes + 255) & ~uint64_t(255);
}

void *Rank::find(void *pointer) const {
  auto *host = static_cast<uint8_t *>(pointer);
  for (const Twin &twin : twins)
    if (host >= twin.host && host < twin.host + twin.bytes)
      return twin.device + (host - twin.host);
  return pointer;
}

void Rank::toDevice() {
  for (const Twin &twin : twins)
    if (Error error = theDevice->upload(twin.device, twin.host, twin.bytes))
      fail(error.message());
}

void Rank::fromDevice() {
  if (!theDevice || theContext->synchronize())
    return;
  for (const Twin &twin : twins)
    if (Error error = theDevice->download(twin.host, twin.device, twin.bytes))
      fail(error.message());
}

Error Rank::run(const mprt_collective &collective, const void *send,
                void *recv) {
  toDevice();
  Error error = theContext->run(collective, at(send), at(recv));
  fromDevice();
  return error;
}

void Rank::fail(const std::string &what) {
  // The first few say it all.
  if (++failures <= 20)
    fprintf(stderr, "FAILED rank %u: %s: %s\n", theTransport.rank(),
            current.c_str(), what.c_str());
}

bool Rank::healthy() {
  Error error = theContext->error();
  if (error)
    fail(std::string(nameOf(error.status())) + ": " + error.message());
  return !error;
}
