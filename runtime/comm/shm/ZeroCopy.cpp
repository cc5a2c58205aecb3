//===- ZeroCopy.cpp - collectives on buffers in shared arenas -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ranks have posted, so that every input is complete; nobody returns before
// all have finished here. In between each byte is written by one rank, and no
// rank reads what another writes.
//
//===----------------------------------------------------------------------===//

#include "ShmCommunicator.h"

#include <algorithm>
#include <cstring>

using namespace mprt;
using namespace mprt::shm;

ShmCommunicator::Slice ShmCommunicator::sliceOf(unsigned r,
                                                uint64_t count) const {
  // Whole cache lines, so that no line has two writers.
  uint64_t grain = 64 / width;
  uint64_t length = (count + size() - 1) / size();
  length = (length + grain - 1) / grain * grain;
  uint64_t begin = std::min(count, r * length);
  return {begin, std::min(length, count - begin)};
}

bool ShmCommunicator::isShared(const Posting &posting) const {
  // Peers write into the result of an all_reduce; otherwise they only read.
  return posting.sendShared &&
         (call->kind != MPRT_ALL_REDUCE || posting.recvShared);
}

bool ShmCommunicator::canShare() const {
  if (call->kind == MPRT_BROADCAST)
    return isShared(postingOf(unsigned(call->peer)));
  unsigned shared = 0, inPlace = 0;
  for (unsigned r = 0; r < size(); ++r) {
    shared += isShared(postingOf(r));
    inPlace += postingOf(r).inPlace;
  }
  bool mixed = call->kind == MPRT_ALL_TO_ALL && inPlace % size() != 0;
  return shared == size() && !mixed;
}

void ShmCommunicator::runShared() {
  switch (call->kind) {
  case MPRT_ALL_REDUCE:
    return shareAllReduce();
  case MPRT_REDUCE_SCATTER:
    return shareReduceScatter();
  case MPRT_ALL_GATHER:
    return shareAllGather();
  case MPRT_ALL_TO_ALL:
    return shareAllToAll();
  case MPRT_BROADCAST:
    return shareBroadcast();
  default:
    return;
  }
}

static const uint8_t *sendOf(const Posting &posting) {
  return static_cast<const uint8_t *>(posting.send);
}
static uint8_t *recvOf(const Posting &posting) {
  return static_cast<uint8_t *>(posting.recv);
}

void ShmCommunicator::shareAllReduce() {
  Slice slice = sliceOf(groupRank, call->count);
  uint64_t offset = slice.begin * width;
  for (unsigned r = 0; r < size(); ++r) {
    inputs[r] = sendOf(postingOf(r)) + offset;
    // Starting with the own buffer, so that ranks do not all write to the same.
    outputs[r] = recvOf(postingOf((groupRank + r) % size())) + offset;
  }
  reduceFunction(
      {inputs.data(), size(), outputs.data(), size(), slice.length, size()});
}

void ShmCommunicator::shareReduceScatter() {
  uint64_t offset = groupRank * call->count * width;
  for (unsigned r = 0; r < size(); ++r)
    inputs[r] = sendOf(postingOf(r)) + offset;
  outputs[0] = recv;
  reduceFunction(
      {inputs.data(), size(), outputs.data(), 1, call->count, size()});
}

void ShmCommunicator::shareAllGather() {
  uint64_t block = call->count * width;
  for (unsigned i = 0; i < size(); ++i) {
    unsigned r = (groupRank + i) % size();
    uint8_t *to = recv + r * block;
    if (const uint8_t *from = sendOf(postingOf(r)); to != from)
      memcpy(to, from, block);
  }
}

/// Exchanges two blocks that do not overlap.
static void swapBlocks(uint8_t *a, uint8_t *b, uint64_t bytes) {
  uint8_t buffer[4096];
  for (uint64_t done = 0; done < bytes;) {
    uint64_t part = std::min<uint64_t>(bytes - done, sizeof(buffer));
    memcpy(buffer, a + done, part);
    memcpy(a + done, b + done, part);
    memcpy(b + done, buffer, part);
    done += part;
  }
}

void ShmCommunicator::shareAllToAll() {
  uint64_t block = call->count * width;
  if (send != recv) {
    for (unsigned i = 0; i < size(); ++i) {
      unsigned r = (groupRank + i) % size();
      memcpy(recv + r * block, sendOf(postingOf(r)) + groupRank * block, block);
    }
    return;
  }
  // In place: block r of this rank and block `rank` of rank r change places,
  // by the one of the two whose turn it is: each does half of its pairs.
  for (unsigned r = 0; r < size(); ++r) {
    bool lowersTurn = (r + groupRank) % 2 == 1;
    if (r == groupRank || (groupRank < r) != lowersTurn)
      continue;
    swapBlocks(recv + r * block, recvOf(postingOf(r)) + groupRank * block,
               block);
  }
}

void ShmCommunicator::shareBroadcast() {
  const uint8_t *from = sendOf(postingOf(unsigned(call->peer)));
  if (recv != from)
    memcpy(recv, from, call->count * width);
}
