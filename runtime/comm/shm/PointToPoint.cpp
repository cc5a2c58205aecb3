//===- PointToPoint.cpp - sends and receives over shared memory -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each ordered pair of ranks has a channel of two parts. A message is cut into
// parts; a send is finished when its last part is in the channel. A message
// that is larger than one part and lies in a shared arena is not cut: its
// address is sent, and the send is finished when the receiver has copied it.
//
//===----------------------------------------------------------------------===//

#include "comm/Validate.h"
#include "comm/shm/ShmCommunicator.h"

#include <algorithm>
#include <cstring>

using namespace mprt;
using namespace mprt::shm;

void ShmCommunicator::startSend() {
  uint64_t bytes = call->count * width;
  rendezvous =
      bytes > channelBytes && segment.inArena(group[groupRank], send, bytes);
  numParts =
      rendezvous
          ? 1
          : std::max<uint64_t>(1, (bytes + channelBytes - 1) / channelBytes);
  doneParts = 0;
  phase = Phase::Sending;
}

void ShmCommunicator::startReceive() {
  numParts = 0; // known when the first part is there
  doneParts = 0;
  phase = Phase::Receiving;
}

bool ShmCommunicator::progressSend() {
  Channel &channel =
      segment.channel(slot, group[groupRank], group[unsigned(call->peer)]);
  uint64_t bytes = call->count * width;
  bool moved = false;
  while (doneParts < numParts) {
    uint64_t w = channel.written.load(std::memory_order_relaxed);
    // Part w goes where part w - 2 was: that one must have been taken.
    if (w >= 2 && channel.taken.load(std::memory_order_acquire) < w - 1)
      return moved;
    Posting &posting = channel.postings[w % 2];
    describePosting(posting);
    posting.sendShared = rendezvous;
    uint64_t first = doneParts * channelBytes;
    if (!rendezvous && bytes != 0)
      memcpy(channel.data[w % 2], send + first,
             std::min(channelBytes, bytes - first));
    channel.written.store(w + 1, std::memory_order_release);
    ++doneParts;
    moved = true;
  }
  uint64_t last = channel.written.load(std::memory_order_relaxed);
  if (rendezvous && channel.taken.load(std::memory_order_acquire) < last)
    return moved;
  finish();
  return true;
}

Error ShmCommunicator::progressReceive(bool &moved) {
  auto peer = unsigned(call->peer);
  Channel &channel = segment.channel(slot, group[peer], group[groupRank]);
  uint64_t bytes = call->count * width;
  do {
    uint64_t t = channel.taken.load(std::memory_order_relaxed);
    if (channel.written.load(std::memory_order_acquire) <= t)
      return {};
    const Posting &posting = channel.postings[t % 2];
    if (doneParts == 0) {
      const Signature &theirs = posting.signature;
      if (!theirs.carriesSame(Signature(*call)))
        return mismatch(peer, theirs, posting.text);
      numParts = posting.sendShared
                     ? 1
                     : std::max<uint64_t>(1, (bytes + channelBytes - 1) /
                                                 channelBytes);
    }
    uint64_t first = doneParts * channelBytes;
    if (posting.sendShared)
      memcpy(recv, posting.send, bytes);
    else if (bytes != 0)
      memcpy(recv + first, channel.data[t % 2],
             std::min(channelBytes, bytes - first));
    channel.taken.store(t + 1, std::memory_order_release);
    ++doneParts;
    moved = true;
  } while (doneParts < numParts);
  finish();
  return {};
}
