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

#include "files/Checkpoint.h"
#include "files/KeptCheckpoints.h"
#include "session/checkpoint/Shards.h"

#include <atomic>
#include <functional>
#include <thread>

namespace mprt {

struct KeeperOptions {
  /// Where checkpoints go.
  std::string path;
  /// How long rank 0 waits for shards where nothing comes.
  double timeoutSeconds = 120;
  /// For copies of state; of all keepers of a rank, one at a time writes in the
  /// background.
  std::shared_ptr<CopyMemory> memory = std::make_shared<CopyMemory>();
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
  /// Whether ranks that differ in what they should have equal are a failure.
  bool comparesReplicas = true;
  /// Returns once each rank has a copy of what it writes, which a thread then
  /// does.
  bool background = false;
  /// As of KeptCheckpoints.
  uint64_t keep = 1;
};

/// What this rank has written in the background; of rank 0, the checkpoint.
struct WrittenCheckpoint {
  std::string path;
  uint64_t step = 0;
  double milliseconds = 0;
  Error error;
};

/// All ranks call each function at the same step, when the host has the state;
/// each fails on all ranks or on none, and the rank that has found the error
/// says why. It lives as long as a run writes to its path.
class StateKeeper {
public:
  /// `note` is told what the user should know and is no failure. Nobody else
  /// may write to the path from here on.
  StateKeeper(KeeperOptions options, Rank &rank,
              std::function<void(const std::string &)> note);
  /// What is being written is given the time that it needs, unless a peer does
  /// not come.
  ~StateKeeper();

  /// The run goes on from the checkpoint `file`, which says `info`: it, and
  /// those before it, are the run's.
  void resume(const std::string &file, const CheckpointInfo &info);
  /// As of KeptCheckpoints.
  Error checkNames(uint64_t first, uint64_t last, uint64_t every,
                   uint64_t keep) const {
    return rank.index() == 0 ? kept.checkNames(first, last, every, keep)
                             : Error();
  }
  /// Replaces the checkpoint by the state. No other one is being written. Says
  /// whether there is one, or will be: NonFinitePolicy::Skip.
  Expected<bool> writeCheckpoint(const SharedState &state,
                                 const SaveRequest &request);
  /// Replaces `path` by parameters and buffers after `step` steps, in one file.
  Error writeWeights(const SharedState &state, const std::string &path,
                     const SaveRequest &request);

  /// Of this rank alone: what was written in the background and not asked for
  /// yet; nothing where there is none, or it is not done and this does not
  /// wait.
  std::optional<WrittenCheckpoint> takeWritten(bool waits);
  /// A peer may be gone: shards that do not come are not waited for long.
  void leave() { isLeft = isHurried = true; }

private:
  /// The failure that rank 0 tells.
  Error tell(const std::string &message) const {
    return rank.index() == 0 ? fail(message) : Error::elsewhereOn(0);
  }
  /// What lies at the path, as the end of rank 0's message.
  std::string whatIsKept() const;
  Error writeNow(const SharedState &state, const SaveRequest &request);
  /// Copies the state, and starts the thread that writes it.
  Error startWriting(const SharedState &state, const SaveRequest &request);
  void writeCopy(uint64_t step, uint64_t keep, double paceSeconds);
  /// After the index has its name, on rank 0.
  Error commit(uint64_t step, uint64_t keep);

  KeeperOptions options;
  Rank &rank;
  std::function<void(const std::string &)> note;
  KeptCheckpoints kept;
  /// Step of the last checkpoint of this run.
  std::optional<uint64_t> written;
  std::optional<Shards> shards;
  std::thread writer;
  std::atomic<bool> isWritten{false}, isLeft{false}, isHurried{false};
  /// When state was last copied, or there was none yet.
  uint64_t copied;
  /// The writer's, until it has ended.
  WrittenCheckpoint result;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STATEKEEPER_H
