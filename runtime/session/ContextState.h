//===- ContextState.h - what an mprt_context holds ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to session/: Context.cpp waits and makes progress, Entry.cpp and
// Events.cpp are the C ABI, StepGraphs.cpp runs entry points.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_CONTEXTSTATE_H
#define MPCOMM_RUNTIME_SESSION_CONTEXTSTATE_H

#include "comm/Transport.h"
#include "device/Device.h"
#include "session/Context.h"
#include "session/Stream.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mprt {

struct OnDevice;

struct Context::State {
  struct Event {
    bool recorded = false;
    uint32_t stream = 0;
    uint64_t position = 0;
  };

  ContextOptions options;
  /// What computes, where the options name no device.
  std::unique_ptr<Device> host;
  Device *device = nullptr;
  Transport *transport = nullptr;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Event> events;
  unsigned ranks = 1;

  /// Set once, after `failure`, whose status it is.
  std::atomic<mprt_status> status{MPRT_OK};
  Error failure;

  Trace trace;
  std::unique_ptr<FlightRecorder> flight;
  CollectiveClock clock;
  Stats stats;
  /// What belongs to the device.
  std::unique_ptr<OnDevice> onDevice;

  /// Work pushed and not yet retired, on all streams.
  std::atomic<uint32_t> inFlight{0};
  /// Counts the turns in which something moved, so that waits see it.
  std::atomic<uint64_t> moves{0};
  std::function<bool(uint32_t, uint64_t)> reachedOther;

  /// With a progress thread: guards streams, events, trace, clock and error.
  bool threaded = false;
  std::mutex mutex;
  std::condition_variable wake;
  std::thread thread;
  bool stopping = false;

  State();
  ~State();

  bool failed() const {
    return status.load(std::memory_order_acquire) != MPRT_OK;
  }
  mprt_status fail(const Error &error);

  /// Holds the mutex where there is a progress thread.
  std::unique_lock<std::mutex> lock() {
    return threaded ? std::unique_lock<std::mutex>(mutex)
                    : std::unique_lock<std::mutex>();
  }

  /// Between kernels; nanoseconds while nothing is in flight.
  void poll() {
    if (inFlight.load(std::memory_order_relaxed) != 0 && !threaded)
      pollStreams();
  }
  void pollStreams();
  /// Moves all streams on; the caller holds the lock.
  bool progressLocked();
  void threadMain();

  /// Checks and enqueues; the position, or 0 after a failure.
  uint64_t enqueue(uint32_t stream, const StreamWork &work);
  Error checkCollective(uint32_t stream, const mprt_collective &collective,
                        const void *send, const void *recv) const;
  uint64_t enqueueCollective(uint32_t stream, const mprt_collective &collective,
                             const void *send, void *recv);

  /// Blocks until `stream` has retired `position`.
  void wait(uint32_t stream, uint64_t position);
  /// The last collective on `stream` up to `position`, if it is still known.
  const mprt_collective *collectiveAt(uint32_t stream, uint64_t position) const;
  /// The work that `stream` waits for, for messages.
  std::string describeOldest(uint32_t stream) const;
  Error timeoutError(uint32_t stream, double seconds) const;

  bool isStream(uint32_t stream) const { return stream <= streams.size(); }
  Stream &comm(uint32_t stream) { return *streams[stream - 1]; }
};

/// What traces and totals count of a collective.
uint64_t payloadOf(const mprt_collective &collective);

/// The context of a handle.
inline Context::State &stateOf(mprt_context *context) {
  return *reinterpret_cast<Context::State *>(context);
}

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_CONTEXTSTATE_H
