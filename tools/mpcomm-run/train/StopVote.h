//===- StopVote.h - all ranks stop after the same step --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A signal that asks to stop reaches ranks at different moments, some of them
// never. So ranks ask one another after some steps: about ten times a second,
// or after each step where steps take longer. All know from the last time when
// the next one is.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_STOPVOTE_H
#define MPCOMM_RUN_TRAIN_STOPVOTE_H

#include "launch/Session.h"

#include <atomic>
#include <chrono>

namespace mpcomm::run {

class StopVote {
public:
  /// `asked` is the number of the signal that this rank got, or 0.
  StopVote(const RunSession &session, const std::atomic<int> &asked)
      : session(session), asked(asked), before(Clock::now()) {}

  /// After each step, on all ranks: the signal that any of them got, by which
  /// all stop now; else 0.
  Expected<int> afterStep();
  /// The same without waiting for a step at which that is asked.
  Expected<int> ask();

private:
  using Clock = std::chrono::steady_clock;

  const RunSession &session;
  const std::atomic<int> &asked;
  /// Of the last time.
  Clock::time_point before;
  /// Steps since then, and until the next time.
  uint64_t steps = 0, interval = 1;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_STOPVOTE_H
