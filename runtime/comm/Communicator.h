//===- Communicator.h - collectives among a group of ranks ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface that a backend implements for one group of ranks. A
// communicator starts collectives in the order of the calls and finishes them
// in that order; it never blocks. Streams, events, waiting, timeouts and traces
// are the context's (session/Context.h) and the same for every backend.
//
// The conformance suite (cts/) says what an implementation must do.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_COMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_COMMUNICATOR_H

#include "support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

class Device;

class Communicator {
public:
  /// `group`: the ranks of the world that take part, ascending; `rank`: the
  /// position of this process in it.
  Communicator(std::vector<unsigned> group, unsigned rank)
      : group(std::move(group)), groupRank(rank) {}
  virtual ~Communicator() = default;

  unsigned rank() const { return groupRank; }
  unsigned size() const { return unsigned(group.size()); }
  const std::vector<unsigned> &worldRanks() const { return group; }

  /// Why this backend cannot run a collective that is well formed; success
  /// where it can.
  virtual Error check(const mprt_collective &collective) const {
    (void)collective;
    return {};
  }

  /// Whether another collective may be started now.
  virtual bool accepts() const = 0;

  /// Starts a collective; requires `accepts()`. The context has checked it
  /// (validateCollective). The buffers belong to it until it is finished;
  /// `collective` lives as long as the program.
  virtual Error start(const mprt_collective &collective, const void *send,
                      void *recv) = 0;

  /// Moves the started collectives on as far as is possible without waiting.
  /// Sets `moved` where anything happened.
  virtual Error progress(bool &moved) = 0;

  /// Whether start() enqueues on a stream of a device, so that later work on
  /// that stream comes after the collective, and buffers are of the device.
  /// Such a one always accepts; progress() then tells only what is finished,
  /// and whether anything went wrong, and never waits. While the device
  /// captures, what is started is not counted as finished.
  virtual bool isStreamOrdered() const { return false; }

  /// Called once, before the first start() of a stream ordered communicator:
  /// its collectives go to stream `stream` of `device`, which outlives it.
  virtual Error bind(Device &device, uint32_t stream) {
    (void)device, (void)stream;
    return {};
  }

  /// What has gone wrong on the stream of a stream ordered communicator, if
  /// anything; asked now and then while a context waits for the device.
  virtual Error examine() { return {}; }

  /// The context has failed: what is on the stream ends soon, whether or not
  /// the peers come. It may end the transport's other communicators as well.
  /// An error says what did not end in time and is left as it is. Any thread
  /// may call it, more than once.
  virtual Error abort() { return {}; }

  /// Whether collectives move on without calls of progress(), on a thread of
  /// the communicator's own. Then nobody needs to poll for them.
  virtual bool movesByItself() const { return false; }

  /// Where it moves by itself: blocks until something has moved since the last
  /// progress(), at most `seconds`, and returns true. Any thread may call it.
  virtual bool waitForMove(double seconds) {
    (void)seconds;
    return false;
  }

  /// When the next collective that is finished, and was not asked for yet,
  /// began and ended, in ns of CLOCK_MONOTONIC; nothing where whoever polls
  /// knows as well.
  struct Span {
    uint64_t begin, end;
  };
  virtual std::optional<Span> takeSpan() { return std::nullopt; }

  /// How many of the started collectives are finished.
  uint64_t finishedCount() const { return finished; }

  /// Ranks of the world that the oldest unfinished collective waits for. Empty
  /// where a backend cannot know.
  virtual std::vector<unsigned> waitingFor() const { return {}; }

  /// What those ranks are seen doing, for the message of a timeout; may be "".
  virtual std::string describePeers() const { return ""; }

protected:
  std::vector<unsigned> group;
  unsigned groupRank;
  uint64_t finished = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_COMMUNICATOR_H
