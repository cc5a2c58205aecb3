//===- Collectives.cpp - headers, and data that fit next to them ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs on the communicator's thread. Each collective begins with the headers;
// large ones go on in Reductions.cpp and Moves.cpp.
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/GlooCommunicator.h"

#include "comm/Validate.h"
#include "comm/gloo/Pieces.h"

using namespace mprt;

GlooHeader mprt::headerOf(const mprt_collective &call, uint64_t chunkBytes) {
  GlooHeader header;
  header.signature = Signature(call);
  header.words = CallWords(call);
  header.chunkBytes = chunkBytes;
  return header;
}

void GlooCommunicator::checkHeader(const Job &job, unsigned peer,
                                   const GlooHeader &theirs) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    lastCalls[peer] = describe(theirs.signature, theirs.words);
  }
  headers[peer].fetch_add(1);
  Signature mine(*job.call);
  bool paired = job.call->kind == MPRT_SEND || job.call->kind == MPRT_RECV;
  bool agrees =
      paired ? mine.carriesSame(theirs.signature) : mine == theirs.signature;
  if (!agrees)
    throw makeMismatch(*job.call, group[groupRank], group[peer],
                       theirs.signature, theirs.words);
  if (links->chunk() != theirs.chunkBytes)
    throw makeError(MPRT_MISMATCH, "rank ", group[groupRank], " has ",
                    links->chunk(), " bytes as MPRT_GLOO_CHUNK, rank ",
                    group[peer], " ", theirs.chunkBytes);
}

void GlooCommunicator::runAlone(const Job &job) {
  const mprt_collective &call = *job.call;
  uint64_t bytes = call.count * widthOf(call);
  if (call.kind == MPRT_BARRIER || bytes == 0)
    return;
  if (reduces(call))
    reduce(call, {job.send}, job.recv, bytes);
  else if (isSource(call, 0))
    copy(job.recv, job.send, bytes);
  else
    clearUnreached(call, 1, 0, job.recv);
}

/// Sends the header and, if it fits, the data; runs the collective if so.
void GlooCommunicator::runSmall(const Job &job) {
  const mprt_collective &call = *job.call;
  uint64_t bytes = call.count * widthOf(call);
  GlooHeader header = headerOf(call, links->chunk());
  for (unsigned i = 1; i < size(); ++i) {
    std::optional<Block> block = blockBetween(call, groupRank, peerAt(i));
    links->sendHeader(Lane::Header, peerAt(i), header,
                      block ? job.send + block->sent * bytes : nullptr,
                      block ? bytes : 0);
  }
  std::vector<const uint8_t *> data(size());
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = true;
  paired = false;
  arriving = true;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    checkHeader(job, p, links->receiveHeader(Lane::Header, p, data[p]));
    awaited[p] = false;
  }
  arriving = false;
  if (bytes != 0) {
    if (auto own = blockBetween(call, groupRank, groupRank))
      data[groupRank] = job.send + own->sent * bytes;
    if (reduces(call) && isTarget(call, groupRank))
      reduce(call, {data.begin(), data.end()}, job.recv, bytes);
    for (unsigned r = 0; r < size() && !reduces(call); ++r)
      if (auto block = blockBetween(call, r, groupRank))
        copy(job.recv + block->received * bytes, data[r], bytes);
    clearUnreached(call, size(), groupRank, job.recv);
  }
  for (unsigned i = 1; i < size(); ++i)
    links->releaseHeader(Lane::Header, peerAt(i));
}

void GlooCommunicator::exchangeHeaders(const Job &job) {
  GlooHeader header = headerOf(*job.call, links->chunk());
  for (unsigned i = 1; i < size(); ++i)
    links->sendHeader(Lane::Header, peerAt(i), header, nullptr, 0);
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = true;
  paired = false;
  arriving = true;
  const uint8_t *data = nullptr;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    checkHeader(job, p, links->receiveHeader(Lane::Header, p, data));
    links->releaseHeader(Lane::Header, p);
    awaited[p] = false;
  }
  arriving = false;
}

void GlooCommunicator::run(const Job &job) {
  const mprt_collective &call = *job.call;
  if (call.kind == MPRT_SEND)
    return sendToPeer(job);
  if (call.kind == MPRT_RECV)
    return receiveFromPeer(job);
  uint64_t bytes = call.kind == MPRT_BARRIER ? 0 : call.count * widthOf(call);
  if (bytes <= GlooLinks::inlineBytes)
    return runSmall(job);
  exchangeHeaders(job);
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = true;
  switch (call.kind) {
  case MPRT_ALL_REDUCE:
    if (size() == 2)
      exchangeWhole(job);
    else
      reduceDirectly(job);
    break;
  case MPRT_REDUCE_SCATTER:
  case MPRT_REDUCE:
    reduceDirectly(job);
    break;
  case MPRT_ALL_TO_ALL:
    if (job.send == job.recv)
      exchangeBlocksInPlace(job);
    else
      exchangeBlocks(job);
    break;
  case MPRT_BROADCAST:
    broadcast(job);
    break;
  default:
    exchangeBlocks(job);
    break;
  }
  clearUnreached(call, size(), groupRank, job.recv);
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = false;
}
