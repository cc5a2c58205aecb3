//===- Shards.h - a checkpoint that all ranks write -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rank writes its share (Writers.h) into a shard beside the index, rank 0
// into the index itself (StateFile.h). All ranks must see one folder.
//
// From the survey every rank knows all checksums, so that rank 0 knows the
// headers of all shards, and what the index says, before any of them is there.
// The index gets its name when all of them are: until then the checkpoint
// before it is whole, and is what lies at the path.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_SHARDS_H
#define MPCOMM_RUNTIME_SESSION_SHARDS_H

#include "files/SafeTensors.h"
#include "session/state/StateUnion.h"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace mprt {

/// Where state is copied to. It stays for the next copy: to get pages takes
/// longer than to fill them, and steps wait for it.
class CopyMemory {
public:
  /// At least `bytes` at a multiple of `directBytes`, in place of what this
  /// returned before; null where there is not so much.
  char *take(uint64_t bytes);

private:
  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory;
  uint64_t size = 0;
};

/// How fast a copy is written, so that steps feel it less: a disk takes time of
/// the processor too, or of the machine that emulates it.
class Pace {
public:
  /// `seconds` from the first byte to the last, at least; fewer where there is
  /// little to write, or `isHurried`, because somebody waits for it after all.
  Pace(double seconds, const std::atomic<bool> &isHurried)
      : seconds(seconds), isHurried(isHurried) {}

  /// So much is going to be written, from now on.
  void begin(uint64_t bytes);
  /// Returns when it is time to write more than `written` bytes.
  void keep(uint64_t written) const;

private:
  double seconds;
  const std::atomic<bool> &isHurried;
  uint64_t all = 0, since = 0;
};

/// The files of one checkpoint, as each rank of the run knows them.
class Shards {
public:
  /// Plans the files of `tensors`, which have writers and checksums; the same
  /// on all ranks. `metadata` is for the index, and has the step.
  static Shards plan(const std::string &path, std::vector<SharedTensor> tensors,
                     std::map<std::string, std::string> metadata,
                     const Rank &rank);

  /// Writes the files from `state`. All ranks call it; fails on every rank
  /// where one fails. Shards that are complete by then stay.
  Error write(const RankState &state, Rank &rank) const;

  /// Copies what this rank writes into `memory`, for `writeCopy`.
  Error copy(const RankState &state, CopyMemory &memory);
  /// Writes this rank's file from the copy, on any thread. On rank 0 this takes
  /// until all shards are there, and fails where another rank has failed,
  /// nothing more comes for `timeoutSeconds`, or `isLeft` and nothing more
  /// comes for two seconds. Something comes every second at any pace.
  Error writeCopy(double timeoutSeconds, const std::atomic<bool> &isLeft,
                  Pace pace);

private:
  std::vector<TensorToWrite> describe(uint64_t writer) const;
  std::map<std::string, std::string> metadataOf(uint64_t writer) const;
  std::string fileOf(uint64_t writer) const;
  /// Where `state` has what this rank writes, by name.
  std::map<std::string, const void *> dataIn(const RankState &state) const;
  Error writeFile(const std::map<std::string, const void *> &data,
                  const std::function<Error()> &beforeTensor,
                  const std::function<Error()> &beforeCommit,
                  Pace *pace = nullptr) const;
  /// All shards are where rank 0 looks for them.
  Error checkShards() const;
  Error waitForShards(double timeoutSeconds,
                      const std::atomic<bool> &isLeft) const;

  std::string path;
  uint64_t index = 0, token = 0;
  std::vector<SharedTensor> tensors;
  /// How many tensors each rank writes.
  std::vector<uint64_t> counts;
  std::map<std::string, std::string> indexMetadata;
  /// In the memory that `copy` was given.
  std::map<std::string, const void *> copied;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_SHARDS_H
