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

#include "comm/shm/ShmCommunicator.h"

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

bool ShmCommunicator::isShared(unsigned r) const {
  // Peers write into the results of reductions; otherwise they only read.
  bool isWritten = call->kind == MPRT_ALL_REDUCE ||
                   (call->kind == MPRT_REDUCE && r == unsigned(call->peer));
  const Posting &posting = postingOf(r);
  return posting.sendShared && (!isWritten || posting.recvShared);
}

bool ShmCommunicator::canShare() const {
  unsigned inPlace = 0;
  for (unsigned r = 0; r < size(); ++r) {
    if (isSource(*call, r) && !isShared(r))
      return false;
    inPlace += postingOf(r).inPlace;
  }
  return call->kind != MPRT_ALL_TO_ALL || inPlace % size() == 0;
}

static const uint8_t *sendOf(const Posting &posting) {
  return static_cast<const uint8_t *>(posting.send);
}
static uint8_t *recvOf(const Posting &posting) {
  return static_cast<uint8_t *>(posting.recv);
}

void ShmCommunicator::runShared() {
  switch (call->kind) {
  case MPRT_ALL_REDUCE:
    return shareAllReduce();
  case MPRT_REDUCE_SCATTER:
    return shareReduceScatter();
  case MPRT_REDUCE:
    return shareReduce();
  case MPRT_ALL_TO_ALL:
    if (send == recv)
      return exchangeInPlace();
    [[fallthrough]];
  default:
    takeBlocks([&](unsigned r) { return sendOf(postingOf(r)); });
    clearUnreached(*call, size(), groupRank, recv);
  }
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

/// Each rank reduces its slice into the root's buffer.
void ShmCommunicator::shareReduce() {
  Slice slice = sliceOf(groupRank, call->count);
  uint64_t offset = slice.begin * width;
  for (unsigned r = 0; r < size(); ++r)
    inputs[r] = sendOf(postingOf(r)) + offset;
  outputs[0] = recvOf(postingOf(unsigned(call->peer))) + offset;
  reduceFunction(
      {inputs.data(), size(), outputs.data(), 1, slice.length, size()});
  clearUnreached(*call, size(), groupRank, recv);
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

/// Block r of this rank and block `rank` of rank r change places, by the one of
/// the two whose turn it is: each does half of its pairs.
void ShmCommunicator::exchangeInPlace() {
  uint64_t block = call->count * width;
  for (unsigned r = 0; r < size(); ++r) {
    bool lowersTurn = (r + groupRank) % 2 == 1;
    if (r == groupRank || (groupRank < r) != lowersTurn)
      continue;
    swapBlocks(recv + r * block, recvOf(postingOf(r)) + groupRank * block,
               block);
  }
}
