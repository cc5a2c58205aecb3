//===- Launcher.h - starting and watching the ranks of one machine --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The embedded launcher: one process a rank, forked from this one, and a parent
// that does nothing but watch. Its promises:
//  - a rank that dies is noticed at once, the others are told through the
//    shared world, and whoever is left `grace` later is killed;
//  - a rank that never reports that it started is an error after the timeout;
//  - a signal to the parent, or to all, ends all ranks: after their step, where
//    they train, at once elsewhere and with a second signal;
//  - no rank outlives the parent, however the parent ends.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_LAUNCHER_H
#define MPCOMM_RUN_LAUNCH_LAUNCHER_H

#include "data/Runtime.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mpcomm::run {

/// What the parent knows of a rank, in memory that both share.
struct RankPosition {
  /// Set by the rank once it has joined the others.
  std::atomic<uint64_t> started;
  /// The step that it works on, from 1; 0 before the first.
  std::atomic<uint64_t> step;
  /// Whether it stops by itself, after a step, once it is asked to.
  std::atomic<bool> stopsWhenAsked;
  /// The signal that asks it to; 0: none.
  std::atomic<int> stopSignal;
};

struct LaunchPlan {
  uint64_t ranks = 1;
  double timeoutSeconds = 120;
  /// The life of rank `rank`; returns its exit status.
  std::function<int(uint64_t rank, RankPosition &position)> body;
  /// Tells the others that `rank` is gone, and why.
  std::function<void(uint64_t rank, const std::string &reason)> markDead;
  /// Files that ranks write: what one that is killed leaves beside them is
  /// removed.
  std::vector<std::string> writtenFiles;
  /// Called here once all of them are forked.
  std::function<void()> started;
  /// Whether ranks write flight records when they get the signal for it.
  bool recordsFlights = false;
};

/// Seconds that ranks have to stop by themselves once one of them has failed.
inline constexpr double launchGraceSeconds = 1.0;

/// Runs all ranks. In the parent: the exit status of the whole run. In a rank:
/// what `body` returned.
int launch(const LaunchPlan &plan);

/// Prints `mpcomm-run: error: message` as one write.
void printError(const std::string &message);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_LAUNCHER_H
