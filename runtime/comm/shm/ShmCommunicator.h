//===- ShmCommunicator.h - collectives over shared memory -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One collective of the group at a time. Each rank posts what it calls and
// waits until all have posted; postings are compared before any data is
// touched. Then one of three ways, the same on every rank, since all see the
// same postings:
//
//   inline     every contribution was put into the Member before posting;
//              everybody reads all of them and is done, after this one
//              synchronisation. For small ones.
//   zero-copy  the buffers lie in shared arenas; each rank reduces its slice
//              of all peers' buffers into all peers' buffers, then they wait
//              until all have finished.
//   staged     chunks go through staging buffers, two of them in flight.
//
// Why two postings and two inline buffers suffice: a rank posts number s + 2
// after it finished s + 1, for which every other rank had to post s + 1, which
// they did after they finished s. So nobody still reads what was posted as s.
//
// Sends and receives are not among these: they use a channel for each pair of
// ranks (PointToPoint.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_SHM_SHMCOMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_SHM_SHMCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Reduce.h"
#include "comm/Validate.h"
#include "comm/shm/Layout.h"

#include <array>
#include <cstring>

namespace mprt::shm {

class ShmCommunicator final : public Communicator {
public:
  ShmCommunicator(Segment &segment, unsigned slot, std::vector<unsigned> group,
                  unsigned rank);

  bool accepts() const override { return phase == Phase::Idle; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  std::vector<unsigned> waitingFor() const override;
  std::string describePeers() const override;

private:
  enum class Phase {
    Idle,
    Arriving,  ///< posted; not all others have
    Staged,    ///< chunks are on their way
    Finishing, ///< done here; others may still touch this rank's buffers
    Sending,
    Receiving
  };
  using Counter = std::atomic<uint64_t> ShmMember::*;

  ShmMember &member(unsigned r) const { return *members[r]; }
  ShmMember &self() const { return *members[groupRank]; }
  const Posting &postingOf(unsigned r) const {
    return members[r]->postings[number % 2];
  }

  /// Fills `posting` for the current collective.
  void describePosting(Posting &posting);
  uint32_t publishText();
  /// Lets peers know what this rank calls now.
  void publishCall();
  Error mismatch(unsigned peer, const Signature &theirs, uint32_t text) const;
  /// The name and place of what `peer` has called last.
  std::string lastCallOf(unsigned peer) const;

  /// Whether every member's `counter` is at least `value`.
  bool allReached(Counter counter, uint64_t value) const;
  void finish();

  Error arrive(bool &moved);
  /// Runs on one rank alone.
  void runAlone();
  void runInline();
  /// Takes the blocks that come to this rank; `bufferOf` of a rank is what it
  /// sends.
  template <typename BufferOf> void takeBlocks(BufferOf bufferOf);
  /// Whether rank r's buffers permit to work without copies.
  bool isShared(unsigned r) const;
  /// Whether all ranks' do.
  bool canShare() const;
  void runShared();
  void shareAllReduce();
  void shareReduceScatter();
  void shareReduce();
  void exchangeInPlace();

  // Staged.cpp
  /// Whether ranks stage a part for each rank, rather than one for all.
  bool stagesParts() const;
  void beginStaged();
  bool progressStaged();
  void stageChunk(uint64_t chunk);
  void consumeChunk(uint64_t chunk);
  void copyChunk(uint64_t chunk);
  uint64_t chunkLength(uint64_t chunk) const;

  // PointToPoint.cpp
  void startSend();
  void startReceive();
  bool progressSend();
  Error progressReceive(bool &moved);

  /// First element and number of elements of rank `r`'s slice of `count`.
  struct Slice {
    uint64_t begin, length;
  };
  Slice sliceOf(unsigned r, uint64_t count) const;

  Segment &segment;
  unsigned slot;
  std::vector<ShmMember *> members;
  std::array<std::array<const void *, 3>, numTexts> publishedTexts{};

  Phase phase = Phase::Idle;
  /// The current collective.
  const mprt_collective *call = nullptr;
  const uint8_t *send = nullptr;
  uint8_t *recv = nullptr;
  uint64_t width = 1; ///< bytes of an element
  ReduceFunction reduceFunction = nullptr;
  uint64_t number = 0; ///< of collectives of the whole group
  std::vector<uint8_t> seen;
  unsigned numSeen = 0;

  /// Staged: chunks of all collectives before this one; of this one, in all and
  /// at each stage; elements of a full chunk.
  uint64_t chunkBase = 0;
  uint64_t numChunks = 0, staged = 0, consumed = 0, copied = 0;
  uint64_t chunkElements = 0;

  /// Point to point: parts in all and done.
  uint64_t numParts = 0, doneParts = 0;
  bool rendezvous = false;

  std::vector<const void *> inputs;
  std::vector<void *> outputs;
};

template <typename BufferOf>
void ShmCommunicator::takeBlocks(BufferOf bufferOf) {
  uint64_t bytes = call->count * width;
  // Starting with the own one, so that ranks do not all read the same.
  for (unsigned i = 0; i < size(); ++i) {
    unsigned r = (groupRank + i) % size();
    std::optional<Block> block = blockBetween(*call, r, groupRank);
    if (!block)
      continue;
    uint8_t *to = recv + block->received * bytes;
    const uint8_t *from = bufferOf(r) + block->sent * bytes;
    if (bytes != 0 && to != from)
      memcpy(to, from, bytes);
  }
}

} // namespace mprt::shm

#endif // MPCOMM_RUNTIME_COMM_SHM_SHMCOMMUNICATOR_H
