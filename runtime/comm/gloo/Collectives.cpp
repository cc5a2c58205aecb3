//===- Collectives.cpp - what each collective sends, and when -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs on the communicator's thread. Both sides of a connection cut data into
// the same chunks, since their cards agree; so each lane carries the same
// messages in the same order as they are waited for.
//
//===----------------------------------------------------------------------===//

#include "GlooCommunicator.h"

#include "../../core/DType.h"
#include "../Validate.h"

#include <algorithm>
#include <cstring>

using namespace mprt;

static uint64_t widthOf(const mprt_collective &call) {
  return call.kind == MPRT_BARRIER ? 0 : sizeOf(mprt_dtype(call.type));
}

/// Chunk k of `bytes`.
namespace {
struct Cut {
  uint64_t bytes, chunk;
  uint64_t count() const { return (bytes + chunk - 1) / chunk; }
  uint64_t offset(uint64_t k) const { return k * chunk; }
  uint64_t size(uint64_t k) const { return std::min(chunk, bytes - k * chunk); }
};
} // namespace

static GlooCard cardOf(const mprt_collective &call, uint64_t chunkBytes) {
  GlooCard card;
  card.kind = call.kind;
  card.id = call.id;
  card.chunkBytes = chunkBytes;
  if (call.kind != MPRT_BARRIER) {
    card.count = call.count;
    card.type = call.type;
  }
  if (call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_REDUCE_SCATTER) {
    card.reduction = call.reduction;
    card.accumulate = call.accumulate;
  }
  if (call.kind == MPRT_BROADCAST)
    card.peer = call.peer;
  if (call.name)
    strncpy(card.name, call.name, sizeof(card.name) - 1);
  if (call.location)
    strncpy(card.location, call.location, sizeof(card.location) - 1);
  return card;
}

/// The collective that a card speaks of, for messages.
static mprt_collective callOf(const GlooCard &card) {
  mprt_collective call{};
  call.kind = card.kind <= MPRT_BARRIER ? card.kind : MPRT_BARRIER;
  call.id = card.id;
  call.count = card.count;
  call.type = card.type;
  call.reduction = card.reduction;
  call.peer = card.peer;
  call.name = card.name;
  call.location = card.location;
  return call;
}

void GlooCommunicator::checkCard(const Job &job, unsigned peer,
                                 const GlooCard &theirs) {
  mprt_collective call = callOf(theirs);
  {
    std::lock_guard<std::mutex> guard(mutex);
    lastCalls[peer] = describe(call);
  }
  cards[peer].fetch_add(1);
  GlooCard mine = cardOf(*job.call, links->chunk());
  bool paired = job.call->kind == MPRT_SEND || job.call->kind == MPRT_RECV;
  // A send and its recv differ in kind, and may in id.
  if (paired) {
    mine.kind = theirs.kind;
    mine.id = theirs.id;
  }
  if (mine.count == theirs.count && mine.id == theirs.id &&
      mine.peer == theirs.peer && mine.kind == theirs.kind &&
      mine.reduction == theirs.reduction && mine.type == theirs.type &&
      mine.accumulate == theirs.accumulate) {
    if (mine.chunkBytes == theirs.chunkBytes)
      return;
    throw GlooMismatch{
        "rank " + std::to_string(group[groupRank]) + " has " +
        std::to_string(mine.chunkBytes) + " bytes as MPRT_GLOO_CHUNK, rank " +
        std::to_string(group[peer]) + " " + std::to_string(theirs.chunkBytes)};
  }
  throw GlooMismatch{"ranks disagree: rank " +
                     std::to_string(group[groupRank]) + " calls " +
                     describe(*job.call) + ", " + describeShape(*job.call) +
                     "; rank " + std::to_string(group[peer]) + " calls " +
                     describe(call) + ", " + describeShape(call)};
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static void reduce(const mprt_collective &call,
                   const std::vector<const void *> &inputs, void *output,
                   uint64_t bytes) {
  auto type = mprt_dtype(call.type);
  findReduce(type, mprt_dtype(call.accumulate), mprt_reduction(call.reduction))(
      {inputs.data(), unsigned(inputs.size()), &output, 1,
       size_t(bytes / sizeOf(type)), unsigned(inputs.size())});
}

/// Copies between buffers that may be the same.
static void copy(void *to, const void *from, uint64_t bytes) {
  if (to != from && bytes)
    memmove(to, from, bytes);
}

void GlooCommunicator::exchangeWhole(const Job &job) {
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  unsigned peer = 1 - groupRank, ahead = links->window();
  GlooLinks::Region mine(*links, peer, job.send, cut.bytes);
  for (uint64_t k = 0; k < cut.count(); ++k) {
    for (; mine.sendsPosted() < std::min(cut.count(), k + ahead);) {
      uint64_t next = mine.sendsPosted();
      mine.send(Lane::Staged, cut.offset(next), cut.size(next));
    }
    const uint8_t *theirs = links->receiveStaged(peer);
    // In place, the result goes where the chunk is sent from.
    mine.waitSent(k + 1);
    const void *own = job.send + cut.offset(k);
    std::vector<const void *> inputs = {own, theirs};
    if (groupRank == 1)
      std::swap(inputs[0], inputs[1]);
    reduce(*job.call, inputs, job.recv + cut.offset(k), cut.size(k));
    links->releaseStaged(peer);
  }
}

void GlooCommunicator::reduceDirectly(const Job &job) {
  const mprt_collective &call = *job.call;
  bool all = call.kind == MPRT_ALL_REDUCE;
  uint64_t width = widthOf(call);
  // Slices of an all_reduce are even but for the last ones.
  uint64_t slice = call.count * width;
  if (all)
    slice = (call.count + size() - 1) / size() * width;
  uint64_t total = all ? call.count * width : slice * size();
  auto begin = [&](unsigned r) { return std::min(total, r * slice); };
  auto cutOf = [&](unsigned r) {
    return Cut{begin(r + 1) - begin(r), links->chunk()};
  };
  Cut own = cutOf(groupRank);
  uint8_t *result = all ? job.recv + begin(groupRank) : job.recv;

  Regions to, results;
  to.reserve(size());
  results.reserve(size());
  uint64_t longest = 0;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    to.emplace_back(*links, p, job.send + begin(p), cutOf(p).bytes);
    longest = std::max(longest, cutOf(p).count());
    if (!all)
      continue;
    results.emplace_back(*links, p, job.recv, total);
    // Rank p sends its slice's chunks once it has had ours: not before ours
    // have gone, even if they lie in the same place.
    for (uint64_t k = 0; k < cutOf(p).count(); ++k)
      results.back().receive(Lane::Direct, begin(p) + cutOf(p).offset(k),
                             cutOf(p).size(k));
  }

  std::vector<const void *> inputs(size());
  uint64_t steps = std::max(longest, own.count());
  for (uint64_t k = 0; k < steps; ++k) {
    for (unsigned i = 1; i < size(); ++i) {
      Cut cut = cutOf(peerAt(i));
      while (to[i - 1].sendsPosted() <
             std::min(cut.count(), k + links->window())) {
        uint64_t next = to[i - 1].sendsPosted();
        to[i - 1].send(Lane::Staged, cut.offset(next), cut.size(next));
      }
    }
    if (k >= own.count())
      continue;
    inputs[groupRank] = job.send + begin(groupRank) + own.offset(k);
    for (unsigned i = 1; i < size(); ++i)
      inputs[peerAt(i)] = links->receiveStaged(peerAt(i));
    reduce(call, inputs, result + own.offset(k), own.size(k));
    for (unsigned i = 1; i < size(); ++i) {
      links->releaseStaged(peerAt(i));
      if (all)
        results[i - 1].send(Lane::Direct, begin(groupRank) + own.offset(k),
                            own.size(k));
    }
  }
  for (unsigned i = 1; i < size(); ++i) {
    to[i - 1].waitSent(cutOf(peerAt(i)).count());
    if (!all)
      continue;
    results[i - 1].waitReceived(cutOf(peerAt(i)).count());
    results[i - 1].waitSent(own.count());
  }
}

//===----------------------------------------------------------------------===//
// Collectives that move data
//===----------------------------------------------------------------------===//

void GlooCommunicator::gather(const Job &job) {
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  Regions from, to;
  from.reserve(size());
  to.reserve(size());
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    from.emplace_back(*links, p, job.recv + p * cut.bytes, cut.bytes);
    to.emplace_back(*links, p, job.send, cut.bytes);
    for (uint64_t k = 0; k < cut.count(); ++k)
      from.back().receive(Lane::Direct, cut.offset(k), cut.size(k));
  }
  for (uint64_t k = 0; k < cut.count(); ++k)
    for (GlooLinks::Region &region : to)
      region.send(Lane::Direct, cut.offset(k), cut.size(k));
  copy(job.recv + groupRank * cut.bytes, job.send, cut.bytes);
  for (unsigned i = 1; i < size(); ++i) {
    from[i - 1].waitReceived(cut.count());
    to[i - 1].waitSent(cut.count());
  }
}

void GlooCommunicator::exchangeBlocks(const Job &job) {
  Cut cut{job.call->count * widthOf(*job.call), links->chunk()};
  Regions from, to;
  from.reserve(size());
  to.reserve(size());
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    from.emplace_back(*links, p, job.recv + p * cut.bytes, cut.bytes);
    to.emplace_back(*links, p, job.send + p * cut.bytes, cut.bytes);
    for (uint64_t k = 0; k < cut.count(); ++k)
      from.back().receive(Lane::Direct, cut.offset(k), cut.size(k));
  }
  for (uint64_t k = 0; k < cut.count(); ++k)
    for (GlooLinks::Region &region : to)
      region.send(Lane::Direct, cut.offset(k), cut.size(k));
  copy(job.recv + groupRank * cut.bytes, job.send + groupRank * cut.bytes,
       cut.bytes);
  for (unsigned i = 1; i < size(); ++i) {
    from[i - 1].waitReceived(cut.count());
    to[i - 1].waitSent(cut.count());
  }
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
  links->sendCard(Lane::PairCard, peer, cardOf(*job.call, links->chunk()),
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
  checkCard(job, peer, links->receiveCard(Lane::PairCard, peer, data));
  if (cut.bytes <= GlooLinks::inlineBytes)
    copy(job.recv, data, cut.bytes);
  links->releaseCard(Lane::PairCard, peer);
  arriving = false;
  if (cut.bytes > GlooLinks::inlineBytes) {
    GlooLinks::Region region(*links, peer, job.recv, cut.bytes);
    for (uint64_t k = 0; k < cut.count(); ++k)
      region.receive(Lane::PairDirect, cut.offset(k), cut.size(k));
    region.waitReceived(cut.count());
  }
  awaited[peer] = false;
}

//===----------------------------------------------------------------------===//
// Cards, and what fits on them
//===----------------------------------------------------------------------===//

void GlooCommunicator::runAlone(const Job &job) {
  const mprt_collective &call = *job.call;
  uint64_t bytes = call.count * widthOf(call);
  if (call.kind == MPRT_BARRIER || bytes == 0)
    return;
  if (call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_REDUCE_SCATTER)
    reduce(call, {job.send}, job.recv, bytes);
  else
    copy(job.recv, job.send, bytes);
}

/// Sends the card and, if it fits, the data; runs the collective if so.
void GlooCommunicator::runSmall(const Job &job) {
  const mprt_collective &call = *job.call;
  uint64_t bytes = call.count * widthOf(call);
  GlooCard card = cardOf(call, links->chunk());
  bool blocks =
      call.kind == MPRT_REDUCE_SCATTER || call.kind == MPRT_ALL_TO_ALL;
  bool sends = call.kind != MPRT_BROADCAST || unsigned(call.peer) == groupRank;
  for (unsigned i = 1; i < size(); ++i)
    links->sendCard(Lane::Card, peerAt(i), card,
                    job.send + (blocks ? peerAt(i) * bytes : 0),
                    sends ? bytes : 0);
  std::vector<const uint8_t *> data(size());
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = true;
  paired = false;
  arriving = true;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    checkCard(job, p, links->receiveCard(Lane::Card, p, data[p]));
    awaited[p] = false;
  }
  arriving = false;
  if (bytes != 0) {
    data[groupRank] = job.send + (blocks ? groupRank * bytes : 0);
    if (call.kind == MPRT_ALL_REDUCE || call.kind == MPRT_REDUCE_SCATTER)
      reduce(call, {data.begin(), data.end()}, job.recv, bytes);
    else if (call.kind == MPRT_BROADCAST)
      copy(job.recv, data[unsigned(call.peer)], bytes);
    else
      for (unsigned r = 0; r < size(); ++r)
        copy(job.recv + r * bytes, data[r], bytes);
  }
  for (unsigned i = 1; i < size(); ++i)
    links->releaseCard(Lane::Card, peerAt(i));
}

void GlooCommunicator::exchangeCards(const Job &job) {
  GlooCard card = cardOf(*job.call, links->chunk());
  for (unsigned i = 1; i < size(); ++i)
    links->sendCard(Lane::Card, peerAt(i), card, nullptr, 0);
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = true;
  paired = false;
  arriving = true;
  const uint8_t *data = nullptr;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    checkCard(job, p, links->receiveCard(Lane::Card, p, data));
    links->releaseCard(Lane::Card, p);
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
  exchangeCards(job);
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
    reduceDirectly(job);
    break;
  case MPRT_ALL_GATHER:
    gather(job);
    break;
  case MPRT_ALL_TO_ALL:
    if (job.send == job.recv)
      exchangeBlocksInPlace(job);
    else
      exchangeBlocks(job);
    break;
  default:
    broadcast(job);
    break;
  }
  for (unsigned i = 1; i < size(); ++i)
    awaited[peerAt(i)] = false;
}
