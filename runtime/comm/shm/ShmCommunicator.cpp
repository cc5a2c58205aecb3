//===- ShmCommunicator.cpp - collectives over shared memory ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Posting, comparing, the inline way, and the words for messages.
//
//===----------------------------------------------------------------------===//

#include "comm/shm/ShmCommunicator.h"

#include "comm/Validate.h"
#include "support/DType.h"

#include <cstring>

using namespace mprt;
using namespace mprt::shm;

static void copyBytes(void *to, const void *from, uint64_t bytes) {
  if (bytes != 0 && to != from)
    memmove(to, from, bytes);
}

ShmCommunicator::ShmCommunicator(Segment &segment, unsigned slot,
                                 std::vector<unsigned> group, unsigned rank)
    : Communicator(std::move(group), rank), segment(segment), slot(slot),
      seen(size()), inputs(size()), outputs(size() + 1) {
  for (unsigned r : worldRanks())
    members.push_back(&segment.member(slot, r));
}

//===----------------------------------------------------------------------===//
// Posting
//===----------------------------------------------------------------------===//

uint32_t ShmCommunicator::publishText() {
  uint32_t index = call->id % numTexts;
  std::array<const void *, 3> key{call, call->name, call->location};
  if (publishedTexts[index] == key)
    return index;
  publishedTexts[index] = key;
  self().texts[index] = CallWords(*call);
  return index;
}

void ShmCommunicator::publishCall() {
  uint64_t next = self().calls.load(std::memory_order_relaxed) + 1;
  self().lastCalls[next % 2] = {Signature(*call), publishText()};
  self().calls.store(next, std::memory_order_release);
}

void ShmCommunicator::describePosting(Posting &posting) {
  posting.signature = Signature(*call);
  posting.send = send;
  posting.recv = recv;
  unsigned world = group[groupRank];
  posting.sendShared =
      segment.inArena(world, send, sendElements(*call, size()) * width);
  posting.recvShared =
      segment.inArena(world, recv, recvElements(*call, size()) * width);
  posting.inPlace = send == recv;
  posting.inlined = false;
  posting.text = publishText();
}

Error ShmCommunicator::start(const mprt_collective &collective,
                             const void *sendBuffer, void *recvBuffer) {
  call = &collective;
  send = static_cast<const uint8_t *>(sendBuffer);
  recv = static_cast<uint8_t *>(recvBuffer);
  width = call->kind == MPRT_BARRIER ? 1 : sizeOf(mprt_dtype(call->type));
  reduceFunction = nullptr;
  if (reduces(*call))
    reduceFunction =
        findReduce(mprt_dtype(call->type), mprt_dtype(call->accumulate),
                   mprt_reduction(call->reduction));
  publishCall();
  if (call->kind == MPRT_SEND) {
    startSend();
    return {};
  }
  if (call->kind == MPRT_RECV) {
    startReceive();
    return {};
  }
  if (size() == 1) {
    runAlone();
    ++finished;
    return {};
  }

  ++number;
  ShmMember &mine = self();
  Posting &posting = mine.postings[number % 2];
  describePosting(posting);
  uint64_t bytes =
      isSource(*call, groupRank) ? sendElements(*call, size()) * width : 0;
  posting.inlined =
      bytes <= (isShared(groupRank) ? segment.inlineLimit : inlineBytes);
  if (posting.inlined)
    copyBytes(mine.inlineData[number % 2], send, bytes);
  mine.posted.store(number, std::memory_order_release);
  seen.assign(size(), 0);
  seen[groupRank] = 1;
  numSeen = 1;
  phase = Phase::Arriving;
  return {};
}

bool ShmCommunicator::allReached(Counter counter, uint64_t value) const {
  for (ShmMember *m : members)
    if ((m->*counter).load(std::memory_order_acquire) < value)
      return false;
  return true;
}

void ShmCommunicator::finish() {
  phase = Phase::Idle;
  ++finished;
}

//===----------------------------------------------------------------------===//
// Moving on
//===----------------------------------------------------------------------===//

Error ShmCommunicator::arrive(bool &moved) {
  for (unsigned r = 0; r < size(); ++r) {
    if (seen[r] || member(r).posted.load(std::memory_order_acquire) < number)
      continue;
    const Posting &theirs = postingOf(r);
    if (!(theirs.signature == postingOf(groupRank).signature))
      return mismatch(r, theirs.signature, theirs.text);
    seen[r] = 1;
    ++numSeen;
    moved = true;
  }
  if (numSeen < size())
    return {};
  moved = true;
  bool inlined = true;
  for (unsigned r = 0; r < size(); ++r)
    inlined &= postingOf(r).inlined;
  if (inlined) {
    runInline();
    finish();
  } else if (canShare()) {
    runShared();
    self().finished.store(number, std::memory_order_release);
    phase = Phase::Finishing;
  } else {
    beginStaged();
    phase = Phase::Staged;
  }
  return {};
}

Error ShmCommunicator::progress(bool &moved) {
  if (phase == Phase::Arriving)
    if (Error error = arrive(moved))
      return error;
  switch (phase) {
  case Phase::Idle:
  case Phase::Arriving:
    break;
  case Phase::Staged:
    if (progressStaged())
      moved = true;
    if (consumed == numChunks && copied == numChunks) {
      chunkBase += numChunks;
      finish();
    }
    break;
  case Phase::Finishing:
    if (allReached(&ShmMember::finished, number)) {
      moved = true;
      finish();
    }
    break;
  case Phase::Sending:
    if (progressSend())
      moved = true;
    break;
  case Phase::Receiving:
    return progressReceive(moved);
  }
  return {};
}

void ShmCommunicator::runAlone() {
  if (isSource(*call, 0))
    copyBytes(recv, send, call->count * width);
  else
    clearUnreached(*call, 1, 0, recv);
}

void ShmCommunicator::runInline() {
  uint64_t block = call->count * width;
  auto data = [&](unsigned r) -> const uint8_t * {
    return member(r).inlineData[number % 2];
  };
  switch (call->kind) {
  case MPRT_ALL_REDUCE:
  case MPRT_REDUCE_SCATTER:
  case MPRT_REDUCE: {
    if (!isTarget(*call, groupRank))
      break;
    uint64_t offset = call->kind == MPRT_REDUCE_SCATTER ? groupRank * block : 0;
    for (unsigned r = 0; r < size(); ++r)
      inputs[r] = data(r) + offset;
    outputs[0] = recv;
    reduceFunction(
        {inputs.data(), size(), outputs.data(), 1, call->count, size()});
    break;
  }
  case MPRT_BARRIER:
    break;
  default:
    takeBlocks(data);
    break;
  }
  clearUnreached(*call, size(), groupRank, recv);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::string ShmCommunicator::lastCallOf(unsigned peer) const {
  const ShmMember &theirs = member(peer);
  uint64_t calls = theirs.calls.load(std::memory_order_acquire);
  if (calls == 0)
    return "has called no collective here yet";
  const Called &last = theirs.lastCalls[calls % 2];
  return "last called " +
         describe(last.signature, theirs.texts[last.text % numTexts]);
}

Error ShmCommunicator::mismatch(unsigned peer, const Signature &theirs,
                                uint32_t text) const {
  return makeMismatch(*call, group[groupRank], group[peer], theirs,
                      member(peer).texts[text % numTexts]);
}

std::vector<unsigned> ShmCommunicator::waitingFor() const {
  std::vector<unsigned> ranks;
  auto lagging = [&](Counter counter, uint64_t value) {
    for (unsigned r = 0; r < size(); ++r)
      if ((member(r).*counter).load(std::memory_order_acquire) < value)
        ranks.push_back(group[r]);
  };
  switch (phase) {
  case Phase::Idle:
    break;
  case Phase::Arriving:
    lagging(&ShmMember::posted, number);
    break;
  case Phase::Staged:
    // Whoever has not yet done all of what this rank has done.
    for (unsigned r = 0; r < size(); ++r)
      if (r != groupRank && member(r).copied.load(std::memory_order_acquire) <
                                chunkBase + numChunks)
        ranks.push_back(group[r]);
    break;
  case Phase::Finishing:
    lagging(&ShmMember::finished, number);
    break;
  case Phase::Sending:
  case Phase::Receiving:
    ranks.push_back(group[unsigned(call->peer)]);
    break;
  }
  return ranks;
}

std::string ShmCommunicator::describePeers() const {
  std::vector<unsigned> missing = waitingFor();
  bool arriving = phase == Phase::Arriving;
  bool isPaired = phase == Phase::Sending || phase == Phase::Receiving;
  std::string present, absent;
  size_t next = 0;
  for (unsigned r = 0; r < size(); ++r) {
    unsigned world = group[r];
    if (next == missing.size() || missing[next] != world) {
      if (!isPaired || r == groupRank)
        present += (present.empty() ? "" : ", ") + std::to_string(world);
      continue;
    }
    ++next;
    absent += (absent.empty() ? "" : ", ") + std::to_string(world);
    bool isAbsent = segment.rank(world).phase.load(std::memory_order_acquire) ==
                    RankPhase::Absent;
    // Who is in the middle of the same one has nothing else to tell.
    if (isAbsent)
      absent += " (has not started)";
    else if (arriving || isPaired)
      absent += " (" + lastCallOf(r) + ")";
  }
  return "ranks that arrived: " + present +
         (arriving ? "; ranks that did not arrive: "
                   : "; ranks that did not finish: ") +
         absent;
}
