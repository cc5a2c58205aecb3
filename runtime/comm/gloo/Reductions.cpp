//===- Reductions.cpp - large reductions ----------------------------------===//
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
  bool slices = call.kind != MPRT_REDUCE_SCATTER;
  // Slices go on from the rank that reduces them to those that get the whole.
  auto getsWhole = [&](unsigned r) { return slices && isTarget(call, r); };
  uint64_t width = widthOf(call);
  // Slices are even but for the last ones.
  uint64_t slice = call.count * width;
  if (slices)
    slice = (call.count + size() - 1) / size() * width;
  uint64_t total = slices ? call.count * width : slice * size();
  auto begin = [&](unsigned r) { return std::min(total, r * slice); };
  auto cutOf = [&](unsigned r) {
    return Cut{begin(r + 1) - begin(r), links->chunk()};
  };
  Cut own = cutOf(groupRank);
  // A rank that does not get the whole has its slice there for a while.
  uint8_t *result = slices ? job.recv + begin(groupRank) : job.recv;

  Regions to, results;
  to.reserve(size());
  results.reserve(size());
  uint64_t longest = 0;
  for (unsigned i = 1; i < size(); ++i) {
    unsigned p = peerAt(i);
    to.emplace_back(*links, p, job.send + begin(p), cutOf(p).bytes);
    longest = std::max(longest, cutOf(p).count());
    if (!slices)
      continue;
    results.emplace_back(*links, p, job.recv, total);
    // Rank p sends its slice's chunks once it has had ours: not before ours
    // have gone, even if they lie in the same place.
    for (uint64_t k = 0; k < cutOf(p).count() && getsWhole(groupRank); ++k)
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
      if (getsWhole(peerAt(i)))
        results[i - 1].send(Lane::Direct, begin(groupRank) + own.offset(k),
                            own.size(k));
    }
  }
  for (unsigned i = 1; i < size(); ++i) {
    to[i - 1].waitSent(cutOf(peerAt(i)).count());
    if (getsWhole(groupRank))
      results[i - 1].waitReceived(cutOf(peerAt(i)).count());
    if (getsWhole(peerAt(i)))
      results[i - 1].waitSent(own.count());
  }
}
