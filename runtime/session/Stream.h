//===- Stream.h - the queue of one communicator ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Work of a communication stream in the order of the calls. Positions count
// from 1 over the life of the stream:
//
//   retired <= issued <= pushed
//
// Collectives are issued to the communicator as long as it accepts more; other
// work is issued when all before it is retired, goes to the device, and retires
// at once.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_STREAM_H
#define MPCOMM_RUNTIME_SESSION_STREAM_H

#include "comm/Communicator.h"
#include "session/CollectiveClock.h"
#include "session/Flight.h"
#include "support/Error.h"
#include "support/Trace.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace mprt {

class Device;

struct StreamWork {
  enum Kind : uint8_t { Collective, Copy, Zero, Wait, Record };
  Kind kind;
  const mprt_collective *collective = nullptr;
  const void *source = nullptr;
  void *target = nullptr;
  uint64_t bytes = 0;
  /// Wait: until this stream has retired this position.
  uint32_t otherStream = 0;
  uint64_t otherPosition = 0;
  /// Wait and Record: the device's event, and how many that are pushed and not
  /// issued use it.
  uint32_t event = 0;
  uint32_t *eventUses = nullptr;
  /// ns, when it was pushed and when it was issued; 0 without a trace, and of
  /// what is no collective without a clock.
  uint64_t queued = 0;
  uint64_t begin = 0;
  /// Of a collective: its number in the flight record; 0 where none is kept.
  uint64_t flight = 0;
};

class Stream {
public:
  /// `flight`, `clock` and `device` outlive the stream.
  Stream(std::unique_ptr<Communicator> communicator, FlightRecorder &flight,
         CollectiveClock &clock, Device &device)
      : comm(std::move(communicator)), flight(flight), clock(clock),
        device(device), ring(64) {}

  Communicator &communicator() { return *comm; }
  const Communicator &communicator() const { return *comm; }

  /// Appends; returns the position.
  uint64_t push(const StreamWork &work);

  uint64_t end() const { return pushed; }
  /// Of what was pushed, the collectives.
  uint64_t numCollectives() const { return collectivesPushed; }
  bool reached(uint64_t position) const {
    return retired.load(std::memory_order_acquire) >= position;
  }
  bool idle() const { return reached(pushed); }

  /// What is at a position that is not retired, or was among the last few
  /// that were.
  const StreamWork &at(uint64_t position) const {
    return ring[(position - 1) % ring.size()];
  }
  /// Whether at(position) is still that.
  bool remembers(uint64_t position) const {
    return pushed - position < ring.size();
  }
  /// The oldest work that is not retired; requires !idle().
  const StreamWork &oldest() const {
    return at(retired.load(std::memory_order_relaxed) + 1);
  }

  /// Moves on without waiting. `reachedOther(stream, position)` answers for
  /// other streams. Retired work goes to `trace` as work of stream `number`.
  Error progress(const std::function<bool(uint32_t, uint64_t)> &reachedOther,
                 Trace &trace, uint32_t number, bool &moved);

private:
  /// Gives work that is no collective to stream `number` of the device.
  Error issueOnDevice(const StreamWork &work, uint32_t number);
  Error issue(const std::function<bool(uint32_t, uint64_t)> &reachedOther,
              Trace &trace, uint32_t number, bool &moved);
  void retire(Trace &trace, uint32_t number);

  std::unique_ptr<Communicator> comm;
  FlightRecorder &flight;
  CollectiveClock &clock;
  Device &device;
  std::vector<StreamWork> ring;
  uint64_t pushed = 0, issued = 0;
  std::atomic<uint64_t> retired{0};
  uint64_t collectivesPushed = 0;
  /// Of the communicator's finishedCount, how many are retired here.
  uint64_t collectivesRetired = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STREAM_H
