//===- Layout.h - what lies where in the shared memory of a world ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One file, mapped at the same address in every rank:
//
//   RankRecord[ranks]                who lives, who failed and why
//   Member[slot][rank]               per communicator and rank, see below
//   arena[rank]                      buffers of the ranks
//
// Everything starts as zero bytes. Each field has one writer, the rank that it
// belongs to, except where it says otherwise. All counters of a Member only
// grow, over the whole life of a communicator; the invariants that let buffers
// be used again are told where they are used (ShmCommunicator.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_SHM_LAYOUT_H
#define MPCOMM_RUNTIME_COMM_SHM_LAYOUT_H

#include "comm/Signature.h"
#include "comm/shm/SharedRanks.h"
#include "support/Error.h"

#include <atomic>
#include <cstdint>

namespace mprt::shm {

/// Contributions of up to so many bytes can travel inside the Member.
constexpr uint64_t inlineBytes = 32 << 10;
/// Contributions of up to so many bytes do so even where the buffers are
/// shared, where every rank has a core: it saves a synchronisation, but moves
/// each cache line once more. Measured: between 256 bytes and 1 KB they break
/// even. Where ranks share cores a synchronisation costs switches between
/// processes, and the limit is inlineBytes.
constexpr uint64_t sharedInlineBytes = 512;
/// Size of a staging buffer; a chunk of a larger collective.
constexpr uint64_t stageBytes = 256 << 10;
/// Size of one part of a message that goes from one rank to another.
constexpr uint64_t channelBytes = 64 << 10;
constexpr unsigned maxRanks = SharedRanks::maxRanks;

enum class RankPhase : uint32_t { Absent, Joined, Left, Failed };

struct alignas(128) RankRecord {
  /// Written by the rank; `Failed` also by the launcher.
  std::atomic<RankPhase> phase;
  std::atomic<int32_t> pid;
  /// Claimed by the first that reports a failure of this rank, who then writes
  /// `status` and `message` and sets the state.
  std::atomic<uint32_t> claimed;
  mprt_status status;
  char message[472];
};

/// Shared by all: the rank that failed first, plus 1; 0 while none has. What
/// fails later mostly fails because of it.
struct alignas(64) WorldRecord {
  std::atomic<uint32_t> firstFailed;
};

/// Descriptors whose words a rank keeps for the messages of peers.
constexpr unsigned numTexts = 256;

/// A collective as one rank posts it.
struct alignas(64) Posting {
  Signature signature;
  /// The rank's buffers; peers may touch them where they are shared.
  const void *send;
  void *recv;
  bool sendShared, recvShared, inPlace;
  /// The contribution, if there is any, is in the Member.
  bool inlined;
  /// Index of the descriptor's words in the Member.
  uint32_t text;
};

/// A message from the owner of the Member to one other rank.
struct alignas(64) Channel {
  /// Parts that the sender has written so far, over all messages.
  alignas(64) std::atomic<uint64_t> written;
  /// Parts that the receiver has taken; written by the receiver.
  alignas(64) std::atomic<uint64_t> taken;
  /// Of the message to which part w belongs: postings[w % 2].
  Posting postings[2];
  alignas(64) uint8_t data[2][channelBytes];
};

/// What a rank has called, for the messages of peers.
struct Called {
  Signature signature;
  uint32_t text;
};

/// One rank's side of one communicator.
struct ShmMember {
  /// Calls so far, sends and receives among them; the last is
  /// lastCalls[calls % 2].
  alignas(128) std::atomic<uint64_t> calls;
  Called lastCalls[2];
  /// Number of the last collective posted, and its posting:
  /// postings[posted % 2].
  alignas(128) std::atomic<uint64_t> posted;
  Posting postings[2];
  /// Number of the last collective in which this rank no longer touches the
  /// buffers of others.
  alignas(128) std::atomic<uint64_t> finished;
  /// Chunks that this rank has put into its staging buffers; whose inputs it
  /// has read everywhere; whose results it has read everywhere.
  alignas(128) std::atomic<uint64_t> staged;
  alignas(64) std::atomic<uint64_t> consumed;
  alignas(64) std::atomic<uint64_t> copied;
  alignas(64) CallWords texts[numTexts];
  alignas(64) uint8_t inlineData[2][inlineBytes];
  alignas(64) uint8_t stage[2][stageBytes];
  alignas(64) uint8_t results[2][stageBytes];
  // Followed by Channel[ranks of the world].
};

/// The mapped file. Plain numbers and addresses: each process has a copy.
struct Segment {
  unsigned ranks = 0;
  unsigned slots = 0;
  uint64_t arenaBytes = 0;
  uint64_t memberBytes = 0;
  /// sharedInlineBytes or inlineBytes.
  uint64_t inlineLimit = 0;
  uint8_t *base = nullptr;
  uint64_t bytes = 0;
  int fd = -1;
  pid_t launcher = 0;

  WorldRecord &world() const { return *reinterpret_cast<WorldRecord *>(base); }
  RankRecord &rank(unsigned r) const {
    return reinterpret_cast<RankRecord *>(base + 4096)[r];
  }
  uint64_t membersOffset() const {
    uint64_t end = 4096 + uint64_t(ranks) * sizeof(RankRecord);
    return (end + 4095) / 4096 * 4096;
  }
  ShmMember &member(unsigned slot, unsigned r) const {
    return *reinterpret_cast<ShmMember *>(
        base + membersOffset() + (uint64_t(slot) * ranks + r) * memberBytes);
  }
  Channel &channel(unsigned slot, unsigned from, unsigned to) const {
    auto *first = reinterpret_cast<Channel *>(
        reinterpret_cast<uint8_t *>(&member(slot, from)) + sizeof(ShmMember));
    return first[to];
  }
  uint64_t arenasOffset() const {
    return membersOffset() + uint64_t(slots) * ranks * memberBytes;
  }
  uint8_t *arena(unsigned r) const {
    return base + arenasOffset() + r * arenaBytes;
  }
  /// Whether [pointer, pointer + size) lies in the arena of rank `r`.
  bool inArena(unsigned r, const void *pointer, uint64_t size) const {
    auto address = reinterpret_cast<uint64_t>(pointer);
    auto begin = reinterpret_cast<uint64_t>(arena(r));
    return address >= begin && address - begin <= arenaBytes &&
           size <= arenaBytes - (address - begin);
  }

  /// Records that `rank` failed, once, and makes it known.
  void recordFailure(unsigned rank, mprt_status status,
                     const std::string &message) const;
  /// The recorded failure of `rank`, as its peers report it.
  Error failureOf(unsigned rank) const;
};

} // namespace mprt::shm

#endif // MPCOMM_RUNTIME_COMM_SHM_LAYOUT_H
