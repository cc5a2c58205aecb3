//===- Moves.cpp - collectives that move data -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs on the communicator's thread. Both sides of a connection cut data into
// the same chunks, since their headers agree; so each lane carries the same
// messages in the same order as they are waited for.
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/GlooCommunicator.h"

#include "comm/Validate.h"
#include "comm/gloo/Pieces.h"

using namespace mprt;

void GlooCommunicator::exchangeBlocks(const Job &job) {
  const mprt_collective &call = *job.call;
  Cut cut{call.count * widthOf(call), links->chunk()};
  Regions from, to;
  from.reserve(size());
  to.reserve(size());
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    if (auto block = blockBetween(call, p, groupRank)) {
      from.emplace_back(*links, p, job.recv + block->received * cut.bytes,
                        cut.bytes);
      for (uint64_t k = 0; k < cut.count(); ++k)
        from.back().receive(Lane::Direct, cut.offset(k), cut.size(k));
    }
    if (auto block = blockBetween(call, groupRank, p))
      to.emplace_back(*links, p, job.send + block->sent * cut.bytes, cut.bytes);
  }
  for (uint64_t k = 0; k < cut.count(); ++k)
    for (GlooLinks::Region &region : to)
      region.send(Lane::Direct, cut.offset(k), cut.size(k));
  if (auto own = blockBetween(call, groupRank, groupRank))
    copy(job.recv + own->received * cut.bytes, job.send + own->sent * cut.bytes,
         cut.bytes);
  for (GlooLinks::Region &region : from)
    region.waitReceived(cut.count());
  for (GlooLinks::Region &region : to)
    region.waitSent(cut.count());
}

/// What comes takes the place of what goes, once that has gone.
void GlooCommunicator::exchangeBlocksInPlace(const Job &job) {
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  Regions to;
  to.reserve(size());
  for (unsigned i = 1; i < size(); ++i)
    to.emplace_back(*links, peerAt(i), job.recv + peerAt(i) * cut.bytes,
                    cut.bytes);
  for (uint64_t k = 0; k < cut.count(); ++k) {
    for (GlooLinks::Region &region : to)
      while (region.sendsPosted() <
             std::min(cut.count(), k + links->window())) {
        uint64_t next = region.sendsPosted();
        region.send(Lane::Staged, cut.offset(next), cut.size(next));
      }
    for (unsigned i = 1; i < size(); ++i) {
      unsigned p = peerAt(i);
      const uint8_t *chunk = links->receiveStaged(p);
      to[i - 1].waitSent(k + 1);
      copy(job.recv + p * cut.bytes + cut.offset(k), chunk, cut.size(k));
      links->releaseStaged(p);
    }
  }
}

/// The root sends each of the others a slice, which that one passes on: the
/// root sends all of it once, the others at most as much.
void GlooCommunicator::broadcast(const Job &job) {
  unsigned root = unsigned(job.call->peer), others = size() - 1;
  uint64_t width = widthOf(*job.call);
  uint64_t slice = (job.call->count + others - 1) / others * width;
  uint64_t total = job.call->count * width;
  // Rank r's slice; the root has none.
  auto begin = [&](unsigned r) {
    return std::min(total, (r - (r > root ? 1 : 0)) * slice);
  };
  auto cutOf = [&](unsigned r) {
    return Cut{std::min(slice, total - begin(r)), links->chunk()};
  };
  bool isRoot = groupRank == root;
  const uint8_t *data = isRoot ? job.send : job.recv;
  Regions peers;
  peers.reserve(size());
  uint64_t steps = 0;
  for (unsigned i = 1; i < size(); ++i) {
    peers.emplace_back(*links, peerAt(i), data, total);
    if (peerAt(i) != root)
      steps = std::max(steps, cutOf(peerAt(i)).count());
  }
  auto send = [&](unsigned i, unsigned owner, uint64_t k) {
    Cut cut = cutOf(owner);
    if (k < cut.count())
      peers[i - 1].send(Lane::Direct, begin(owner) + cut.offset(k),
                        cut.size(k));
  };
  if (isRoot) {
    for (uint64_t k = 0; k < steps; ++k)
      for (unsigned i = 1; i < size(); ++i)
        send(i, peerAt(i), k);
    copy(job.recv, job.send, total);
  } else {
    auto from = [&](unsigned p) { return p == root ? groupRank : p; };
    for (unsigned i = 1; i < size(); ++i) {
      unsigned owner = from(peerAt(i));
      Cut cut = cutOf(owner);
      for (uint64_t k = 0; k < cut.count(); ++k)
        peers[i - 1].receive(Lane::Direct, begin(owner) + cut.offset(k),
                             cut.size(k));
    }
    unsigned toRoot = (root + size() - groupRank) % size();
    for (uint64_t k = 0; k < cutOf(groupRank).count(); ++k) {
      peers[toRoot - 1].waitReceived(k + 1);
      for (unsigned i = 1; i < size(); ++i)
        if (peerAt(i) != root)
          send(i, groupRank, k);
    }
    for (unsigned i = 1; i < size(); ++i)
      peers[i - 1].waitReceived(cutOf(from(peerAt(i))).count());
  }
  for (GlooLinks::Region &peer : peers)
    peer.waitSent(peer.sendsPosted());
}

//===----------------------------------------------------------------------===//
// Between two
//===----------------------------------------------------------------------===//

void GlooCommunicator::sendToPeer(const Job &job) {
  auto peer = unsigned(job.call->peer);
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  bool small = cut.bytes <= GlooLinks::inlineBytes;
  paired = true;
  awaited[peer] = arriving = true;
  links->sendHeader(Lane::PairHeader, peer, headerOf(*job.call, links->chunk()),
                    job.send, small ? cut.bytes : 0);
  if (!small) {
    GlooLinks::Region region(*links, peer, job.send, cut.bytes);
    for (uint64_t k = 0; k < cut.count(); ++k)
      region.send(Lane::PairDirect, cut.offset(k), cut.size(k));
    region.waitSent(cut.count());
  }
  awaited[peer] = arriving = false;
}

void GlooCommunicator::receiveFromPeer(const Job &job) {
  auto peer = unsigned(job.call->peer);
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  paired = true;
  awaited[peer] = arriving = true;
  const uint8_t *data = nullptr;
  checkHeader(job, peer, links->receiveHeader(Lane::PairHeader, peer, data));
  if (cut.bytes <= GlooLinks::inlineBytes)
    copy(job.recv, data, cut.bytes);
  links->releaseHeader(Lane::PairHeader, peer);
  arriving = false;
  if (cut.bytes > GlooLinks::inlineBytes) {
    GlooLinks::Region region(*links, peer, job.recv, cut.bytes);
    for (uint64_t k = 0; k < cut.count(); ++k)
      region.receive(Lane::PairDirect, cut.offset(k), cut.size(k));
    region.waitReceived(cut.count());
  }
  awaited[peer] = false;
}
