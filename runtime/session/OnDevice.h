//===- OnDevice.h - what of a context belongs to its device ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to session/. Streams of communicators that the device orders (NCCL)
// are streams of the device alone. All others have a queue besides (Stream.h),
// and those of an asynchronous device are staged: while a collective is in the
// queue, what follows it on that stream waits there too, and a wait of the
// compute stream for any of that blocks the calling thread until it has come to
// the device.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ONDEVICE_H
#define MPCOMM_RUNTIME_SESSION_ONDEVICE_H

#include "session/ContextState.h"

#include <deque>
#include <map>

namespace mprt {

/// What of a context belongs to its device.
struct OnDevice {
  /// By communicator: whether the device orders its collectives.
  std::vector<bool> ordered;

  /// An event of the device that this context made; the device has others.
  struct DeviceEvent {
    uint32_t event;
    uint32_t uses = 0; // pieces of queued work that use it
  };
  std::deque<DeviceEvent> made;
  /// Of `made`, that of each event of the program. A number gets another one
  /// where work that is still queued uses the one it had.
  std::vector<DeviceEvent *> events;

  /// What each stream was given last, for messages.
  struct Last {
    const char *call = nullptr, *name = nullptr, *location = nullptr;
  };
  std::vector<Last> last;
  /// Copies of a program's constants, by where they are on the host.
  std::map<const void *, void *> constants;
  /// Calls that have put something on a stream.
  uint64_t calls = 0;
  /// What of them, and whether a graph, may still run. Communicators' streams
  /// and the graphs' nodes know nothing of each other: before one follows the
  /// other all is waited for.
  uint64_t callsFinished = 0;
  bool graphMayRun = false;
  /// MPRT_CUDA_SYNC=1: wait after each call, so that errors name it.
  bool waitsForEach = false;

  /// Work between two marks, to be traced when their times are known.
  struct Timed {
    TraceEvent event;
    uint64_t begin, end;
  };
  std::vector<Timed> timed;

  /// Steps as graphs.
  struct Step {
    mprt_entry entry;
    std::vector<void *> buffers; ///< and the arena
    std::unique_ptr<DeviceGraph> graph;
    /// Those in it, in order.
    std::vector<const mprt_collective *> collectives;
    Stats stats; ///< of one run
    bool isReplayed = false;
  };
  std::vector<Step> steps;
  /// How often each entry point was run call by call.
  std::map<mprt_entry, uint64_t> eagerRuns;
  /// How often each was called since.
  std::map<mprt_entry, uint64_t> laterCalls;
  /// The ranks have agreed to run steps call by call.
  bool agreedOnNone = false;
  bool wantsGraphs = true;
  /// Why there are no graphs, or no more.
  std::string note;
  /// While a step is captured.
  std::vector<const mprt_collective *> captured;
  /// Of graphs that may be running, numbers in the flight record.
  std::vector<uint64_t> flights;

  bool isOrdered(uint32_t stream) const {
    return stream == MPRT_COMPUTE_STREAM || ordered[stream - 1];
  }
};

/// One call of an entry point of an asynchronous device, as a graph where that
/// can be.
mprt_status runStep(Context::State &state, mprt_entry entry,
                    void *const *buffers, size_t count, void *arena);

/// Waits until all streams are done; traces what was timed.
void synchronize(Context::State &state);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ONDEVICE_H
