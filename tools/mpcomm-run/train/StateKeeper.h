//===- StateKeeper.h - which state is kept --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State goes to disk only when it is the same on all ranks that hold it, and
// finite: otherwise the last good checkpoint stays, and it is said why.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_STATEKEEPER_H
#define MPCOMM_RUN_TRAIN_STATEKEEPER_H

#include "launch/Rank.h"
#include "launch/TrainingJob.h"
#include "train/KeptCheckpoints.h"

#include <functional>

namespace mpcomm::run {

struct StateSurvey;

/// All ranks call each function at the same step, when the host has the state;
/// each fails on all ranks or on none, and rank 0 says why.
class StateKeeper {
public:
  /// `note` is told what the user should know and is no failure.
  StateKeeper(const TrainingJob &job, Rank &rank,
              std::function<void(const std::string &)> note);

  /// Fails unless all ranks have started from the same state, and no file is
  /// where a checkpoint will be kept.
  Status checkStart();
  /// Fails unless replicas are the same.
  Status checkReplicas(uint64_t step);
  /// Replaces --checkpoint by the state after `step` steps. State that is not
  /// finite is a failure, but with --allow-nonfinite only at the end.
  Status writeCheckpoint(uint64_t step, bool atEnd);
  /// The same for --save-weights, parameters and buffers.
  Status writeWeights(uint64_t step);

private:
  /// The failure that rank 0 tells.
  Status tell(const std::string &message) const {
    return rank.index() == 0 ? fail(message) : fail("");
  }
  /// Where replicas differ and that is looked for, what the failure says.
  std::string differenceOf(const StateSurvey &survey) const;
  /// What lies at --checkpoint, as the end of rank 0's message.
  std::string whatIsKept() const;

  const TrainingJob &job;
  Rank &rank;
  std::function<void(const std::string &)> note;
  KeptCheckpoints kept;
  /// Step of the last checkpoint of this run.
  std::optional<uint64_t> written;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_STATEKEEPER_H
