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

#ifndef MPCOMM_RUNTIME_SESSION_STATEKEEPER_H
#define MPCOMM_RUNTIME_SESSION_STATEKEEPER_H

#include "session/Rank.h"
#include "session/checkpoint/Checkpoint.h"
#include "session/checkpoint/KeptCheckpoints.h"
#include "session/state/StateUnion.h"

#include <atomic>
#include <functional>
#include <thread>

namespace mprt {

struct StateSurvey;

struct KeeperOptions {
  /// Where checkpoints go; empty for nowhere. `keep` as of KeptCheckpoints.
  std::string path;
  uint64_t keep = 1;
  /// The file that the run goes on from, and what it says; null for none.
  std::string resume;
  const CheckpointInfo *resumed = nullptr;
  /// Steps that are to be done, and after how many each a checkpoint is
  /// written.
  uint64_t firstStep = 0, lastStep = 0, every = 0;
  /// Whether replicas are compared, except at the start, where they are.
  bool comparesReplicas = true;
};

/// What is done with state that is not finite.
enum class NonFinitePolicy : uint8_t {
  Refuse, ///< it is a failure
  Skip,   ///< the user is told, and the file stays as it is
  Save
};

struct SaveRequest {
  CheckpointInfo info;
  /// More entries of the file's metadata.
  std::map<std::string, std::string> metadata = {};
  NonFinitePolicy nonFinite = NonFinitePolicy::Refuse;
  /// Returns once rank 0 has a copy of the state, which a thread then writes.
  bool background = false;
};

/// A file that was written in the background.
struct WrittenCheckpoint {
  std::string path;
  uint64_t step = 0;
  double milliseconds = 0;
  Error error;
};

/// All ranks call each function at the same step, when the host has the state;
/// each fails on all ranks or on none, and rank 0 says why.
class StateKeeper {
public:
  /// `note` is told what the user should know and is no failure.
  StateKeeper(KeeperOptions options, SharedState state, Rank &rank,
              std::function<void(const std::string &)> note);

  /// Fails unless all ranks have started from the same state, and no file is
  /// where a checkpoint will be kept.
  Error checkStart();
  /// Fails unless replicas are the same.
  Error checkReplicas(uint64_t step);
  /// Replaces the checkpoint by the state. No other one is being written.
  Error writeCheckpoint(const SaveRequest &request);
  /// Replaces `path` by parameters and buffers after `step` steps.
  Error writeWeights(const std::string &path, const SaveRequest &request);

  /// Of rank 0 alone: what was written in the background and not asked for yet;
  /// nothing where there is none, or it is not done and this does not wait.
  std::optional<WrittenCheckpoint> takeWritten(bool waits);
  uint64_t keep() const { return options.keep; }
  ~StateKeeper();

private:
  /// The failure that rank 0 tells.
  Error tell(const std::string &message) const {
    return rank.index() == 0 ? fail(message) : fail("");
  }
  /// Where replicas differ and that is looked for, what the failure says.
  std::string differenceOf(const StateSurvey &survey) const;
  /// What lies at the path, as the end of rank 0's message.
  std::string whatIsKept() const;

  KeeperOptions options;
  SharedState state;
  Rank &rank;
  std::function<void(const std::string &)> note;
  /// Writes the snapshot, on a thread of its own.
  void writeSnapshot(const SaveRequest &request);

  KeptCheckpoints kept;
  /// Step of the last checkpoint of this run.
  std::optional<uint64_t> written;
  Snapshot snapshot;
  std::thread writer;
  std::atomic<bool> isWritten{false};
  /// The writer's, until it has ended.
  WrittenCheckpoint result;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STATEKEEPER_H
