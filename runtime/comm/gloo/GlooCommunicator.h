//===- GlooCommunicator.h - collectives over Gloo's connections -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives are run one after the other by a thread of the communicator's
// own, so that they make progress while the program computes; it sleeps while
// nothing comes. Each begins with a header from every peer that says what it
// calls; up to 4 KB of data travel with it.
//
// Larger reductions are direct: slice r of the data goes to rank r, which
// reduces what it gets in the order of the ranks and sends the result to all.
// A rank sends and receives 2 (n - 1) / n of the data, as in a ring, in 2 steps
// rather than 2 (n - 1) (of a reduce, only the root gets the results), and gets
// the same bits as over shared memory, with sums in the accumulation type. Two
// ranks exchange all of it instead and both reduce: the same volume in one
// step. Everything is cut into chunks, so that receiving, reducing and sending
// overlap.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_GLOOCOMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_GLOO_GLOOCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Reduce.h"
#include "comm/gloo/ControlClient.h"
#include "comm/gloo/Links.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace mprt {

class GlooCommunicator final : public Communicator {
public:
  /// `links` is null for a group of one. `control` outlives the communicator.
  /// Links that are no longer used go to `retired`, since peers may still be
  /// reading from them.
  GlooCommunicator(std::vector<unsigned> group, unsigned rank,
                   std::unique_ptr<GlooLinks> links, control::Client &control,
                   std::vector<std::unique_ptr<GlooLinks>> &retired);
  ~GlooCommunicator() override;

  bool accepts() const override { return true; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  std::vector<unsigned> waitingFor() const override;
  std::string describePeers() const override;
  bool movesByItself() const override { return true; }
  bool waitForMove(double seconds) override;
  std::optional<Span> takeSpan() override;

private:
  struct Job {
    const mprt_collective *call;
    const uint8_t *send;
    uint8_t *recv;
  };
  using Regions = std::vector<GlooLinks::Region>;

  void threadMain();
  void run(const Job &job);
  void noteMove();
  void fail(const Error &error);
  Error lostPeer(const Job &job, const PeerLost &lost);

  // Collectives.cpp
  void runAlone(const Job &job);
  void runSmall(const Job &job);
  void exchangeHeaders(const Job &job);
  /// Throws an Error where ranks disagree.
  void checkHeader(const Job &job, unsigned peer, const GlooHeader &theirs);
  // Reductions.cpp
  void exchangeWhole(const Job &job);
  void reduceDirectly(const Job &job);
  // Moves.cpp
  void exchangeBlocks(const Job &job);
  void exchangeBlocksInPlace(const Job &job);
  void broadcast(const Job &job);
  void sendToPeer(const Job &job);
  void receiveFromPeer(const Job &job);
  /// Peers in the order in which this rank sends to them: the next one first,
  /// so that no rank is sent to by all at once.
  unsigned peerAt(unsigned i) const { return (groupRank + i) % size(); }

  /// Whether the present collective cannot go on without rank r of the group.
  bool isMissing(unsigned r) const;

  std::unique_ptr<GlooLinks> links;
  control::Client &control;
  std::vector<std::unique_ptr<GlooLinks>> &retired;

  mutable std::mutex mutex;
  std::condition_variable work, changed;
  std::deque<Job> jobs;
  std::deque<Span> spans;
  bool stopping = false;
  Error failure;
  bool failureTold = false;
  std::atomic<uint64_t> moves{0};
  std::atomic<uint64_t> seenMoves{0};
  std::atomic<uint64_t> done{0};
  /// For each rank of the group: headers that came; of the present collective:
  /// whether it is waited for.
  std::vector<std::atomic<uint64_t>> headers;
  std::vector<std::atomic<bool>> awaited;
  std::vector<std::string> lastCalls; ///< guarded by `mutex`
  std::atomic<bool> arriving{false}, paired{false};
  std::thread thread;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_GLOO_GLOOCOMMUNICATOR_H
