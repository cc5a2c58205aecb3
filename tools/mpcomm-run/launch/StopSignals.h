//===- StopSignals.h - being asked to stop, without handlers --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whoever has something to clean up blocks the signals that would end the
// process, and waits for them and for its children in one call: a loop without
// handlers, hence without races between them. Whoever stops between two steps
// has a handler. A signal that this process was
// started to ignore (SIGHUP under nohup, SIGINT in the background of a script)
// stays ignored.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_STOPSIGNALS_H
#define MPCOMM_RUN_LAUNCH_STOPSIGNALS_H

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>

namespace mpcomm::run {

/// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD while it lives. A signal that
/// comes and is not waited for takes effect after that.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// Waits for a child to change state or for the time to pass (returns 0), or
  /// for a signal that asks to stop (returns its number). May return early.
  int wait(std::chrono::milliseconds limit) const;

  /// The mask from before, for a child to go back to.
  const sigset_t &maskBefore() const { return before; }

private:
  sigset_t watched, before;
  struct sigaction childBefore;
};

/// While it lives and `listens` is set, SIGINT, SIGTERM and SIGHUP store their
/// number into `signal` instead of ending the process. A second one of the same
/// kind ends it. One that is ignored stays so.
class StopHandler {
public:
  StopHandler(const std::atomic<bool> &listens, std::atomic<int> &signal);
  ~StopHandler();
  StopHandler(const StopHandler &) = delete;
  StopHandler &operator=(const StopHandler &) = delete;

private:
  struct sigaction before[3];
};

/// `stopped by signal 15 (Terminated)`.
std::string describeStop(int signal);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_STOPSIGNALS_H
