//===- Context.h - one process' running instance of a program -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an mprt_context points to: streams, events, the sticky error, trace
// and totals. A device (device/Device.h) computes: the host on the calling
// thread, others on streams of their own, of which synchronize() tells what
// went wrong there. Each communicator has a stream, and where the device does
// not order it, a queue that is moved on by polls from the compute stream's
// calls and in its waits, or by a progress thread.
//
// A context is used by one thread; its flight record may be read by any.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_CONTEXT_H
#define MPCOMM_RUNTIME_SESSION_CONTEXT_H

#include "session/CollectiveClock.h"
#include "session/Flight.h"
#include "support/Error.h"
#include "support/Stats.h"
#include "support/Trace.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mprt {

class Communicator;
class Device;
class Transport;

/// Who moves collectives on while the program computes.
enum class ProgressMode {
  Auto,  ///< a thread where there are more cores than ranks, else polls
  Poll,  ///< the computing thread, between kernels
  Thread ///< a thread of its own
};

struct ContextOptions {
  /// Events that programs number (the manifest's greatest count).
  uint32_t events = 0;
  /// A wait in which nothing moves for so long ends in MPRT_TIMEOUT.
  double timeoutSeconds = 60;
  /// Overridden by MPRT_PROGRESS=poll|thread in the environment.
  ProgressMode progress = ProgressMode::Auto;
  /// Events that a trace keeps; 0: no trace.
  uint32_t traceCapacity = 0;
  /// Collectives that the flight record keeps; 0: none.
  uint32_t flightCapacity = 64;
  /// What computes; null: a HostDevice of the context's own. It outlives the
  /// context, and has a stream for each communicator. Those that are not
  /// ordered by the streams of an asynchronous device are staged through the
  /// host.
  Device *device = nullptr;
  /// As MoverOptions::gather; null where there is no need. With it all ranks
  /// run their steps as graphs or none, as NCCL wants it: all have it then,
  /// call the same entry points in the same order and, of buffers that are new
  /// after the first calls, have new ones at the same call.
  std::function<Error(const void *mine, void *all, uint64_t bytes)> gather;
};

class Context {
public:
  /// `transport` is null for a program that runs alone; it must outlive the
  /// context. Communicator c of the program is `communicators[c]`.
  static Expected<std::unique_ptr<Context>>
  create(const ContextOptions &options, Transport *transport,
         std::vector<std::unique_ptr<Communicator>> communicators);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  /// What an entry point takes.
  mprt_context *handle();

  /// Calls an entry point with `count` buffers. On a device that is
  /// asynchronous the step is run as a graph, once it was run call by call
  /// twice and where all of it can be: one graph for each set of buffers.
  /// MPRT_GRAPH=0 in the environment keeps it from that. What is enqueued may
  /// run on when this returns.
  mprt_status call(mprt_entry entry, void *const *buffers, size_t count,
                   void *arena);

  /// Why steps are not run as graphs, where they would have been; else empty.
  const std::string &graphNote() const;

  /// The first error, or success. Cheap on success.
  Error error() const;

  /// Fails the context (unless it has failed already) and tells the peers.
  void fail(const Error &error);

  /// Waits for everything on every stream.
  Error synchronize();

  /// Runs one collective outside of a program and waits for it.
  Error run(const mprt_collective &collective, const void *send, void *recv);

  Stats stats() const;
  const Trace &trace() const;
  void clearTrace();

  /// The last collectives and how far they came, oldest first. Any thread may
  /// ask, at any time.
  std::vector<FlightEntry> flight() const;

  /// Keeps what collectives cost from here on, or no longer. What a device
  /// orders is not seen.
  void watchCollectives(bool on);
  /// What they have cost since the last call.
  CollectiveTimes takeCollectiveTimes();

  /// Whether a thread makes the progress.
  bool hasProgressThread() const;

  struct State;

private:
  explicit Context(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_CONTEXT_H
