//===- Rank.h - one process among the ranks of a run ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runner's view of the runtime: a context to run programs in, an arena that
// peers can reach, and a few words between the ranks outside of any step.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_RANK_H
#define MPCOMM_RUN_LAUNCH_RANK_H

#include "data/Status.h"
#include "program/Manifest.h"
#include "report/Trace.h"

#include "comm/Transport.h"
#include "device/Device.h"
#include "session/Meeting.h"

#include <functional>
#include <memory>
#include <vector>

namespace mpcomm::run {

class Rank {
public:
  /// Becomes the rank that `transport` is. A wait in which nothing moves for
  /// `timeoutSeconds` fails.
  static Result<Rank> create(std::unique_ptr<mprt::Transport> transport,
                             double timeoutSeconds);

  uint64_t index() const { return transport->rank(); }
  uint64_t size() const { return transport->size(); }

  /// Takes the device that programs of `manifest` compute on; `images` are the
  /// program's kernels. To be called before anything that needs it.
  Status openDevice(const Manifest &manifest, const mprt_image *images);
  mprt::Device &device() const { return *computes; }
  /// Of the device's own memory, all that this process has taken.
  uint64_t deviceBytes() const {
    return computes->allocatedBytes() + (mover ? mover->deviceBytes() : 0);
  }

  /// Has NCCL move what programs send between the ranks' devices, instead of
  /// the transport by which the ranks have met. All ranks call it.
  Status openNccl();

  /// Asks NCCL of 2.26 or newer, through NCCL_LAUNCH_ORDER_IMPLICIT unless that
  /// is set, to keep to the order of the calls of all communicators where all
  /// ranks have the same one. To be called before there are threads of a
  /// device, which may read the environment.
  static void prepareNccl(const Manifest &manifest);

  /// Makes the context that programs of `manifest` run in, with `events`
  /// events. All ranks call it with the same program. `flights` is how many
  /// collectives the flight record keeps.
  Status createContext(const Manifest &manifest, uint32_t events, bool traces,
                       uint32_t flights = 64);
  mprt_context *context() const { return program->handle(); }
  /// The same, as the runtime has it.
  mprt::Context &runtime() const { return *program; }

  /// Zeroed scratch of the device that the communicators can reach, aligned to
  /// 64 bytes.
  Result<void *> allocateArena(uint64_t bytes);

  /// Every rank's `bytes` at `mine` to every rank's `all`, in order of rank.
  Status gather(const void *mine, void *all, uint64_t bytes);

  /// Gives `bytes` at `data` to rank `to`, which receives as many from this
  /// one; both wait for it. Errors and traces call it `what`, a literal.
  Status send(uint64_t to, const void *data, uint64_t bytes, const char *what) {
    return meeting->send(static_cast<unsigned>(to), data, bytes, what);
  }
  Status receive(uint64_t from, void *data, uint64_t bytes, const char *what) {
    return meeting->receive(static_cast<unsigned>(from), data, bytes, what);
  }

  /// Every rank's text, on rank 0; elsewhere this rank's alone. `what` is as of
  /// `send`.
  Result<std::vector<std::string>> gatherText(const std::string &mine,
                                              const char *what);

  /// Succeeds where all ranks came with a success. Of those that came with a
  /// failure the first gets it back; all others fail without a message.
  Status agree(const Status &mine);

  /// Seconds that communication has cost the compute stream so far, on the
  /// host.
  double exposedSeconds() const { return program->stats().exposedSeconds(); }

  /// The context's message after `function` returned `status`.
  Status describeFailure(const std::string &function, int32_t status) const;

  /// What has run on the streams of this rank, where the context traces, and
  /// how many older events are lost.
  std::vector<TraceEvent> traceEvents() const;
  uint64_t droppedEvents() const { return program->trace().dropped(); }
  void clearTrace() { program->clearTrace(); }

  /// The program's last collectives. Any thread may ask.
  std::vector<mprt::FlightEntry> flight() const { return program->flight(); }

  /// "shm", "mpi", "gloo" or "nccl".
  const char *backend() const {
    return mover ? mover->name() : transport->name();
  }
  /// Whether what programs send goes by NCCL.
  bool isOnNccl() const { return mover != nullptr; }
  /// Ranks on this machine, as far as is known.
  uint64_t localRanks() const { return transport->localRanks(); }

  /// Tells the others that this rank will not go on, so that none waits for
  /// it.
  void reportFailure(const std::string &message);

  /// Ends the process with status 1, waiting for nobody.
  [[noreturn]] void abandon();

private:
  Rank() = default;

  // In this order: contexts go before what they are on.
  std::unique_ptr<mprt::Device> computes;
  std::unique_ptr<mprt::Transport> transport;
  std::unique_ptr<mprt::Meeting> meeting;
  /// On `transport`, and its way to gather; null: that moves data, too.
  std::unique_ptr<mprt::Transport> mover;
  /// `gather` for what NCCL is told, and asked; null without it.
  std::function<mprt::Error(const void *mine, void *all, uint64_t bytes)>
      gatherAll;
  std::unique_ptr<mprt::Context> program;
  double timeout = 0;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_RANK_H
