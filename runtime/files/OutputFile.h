//===- OutputFile.h - a file that is written whole or not at all ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A temporary file beside the target is written, synced and renamed, and the
// folder synced: under the name that was asked for lies either all of the new
// contents or what lay there before. A symbolic link stays: the target is what
// it leads to.
//
// What is large goes to the disk past the page cache (O_DIRECT), where the file
// system can: to copy it there costs time of a core, which others need while a
// checkpoint is written in the background. No byte of it is copied if its
// address and its place in the file are the same modulo `directBytes`.
//
// A temporary file has a random name, and its writer holds a lock on it
// (flock): one without a lock was left by a writer that was killed.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_OUTPUTFILE_H
#define MPCOMM_RUNTIME_FILES_OUTPUTFILE_H

#include "support/Error.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace mprt {

/// What direct writes are aligned to, in memory and in the file: a multiple of
/// what any disk wants.
inline constexpr uint64_t directBytes = 4096;

class OutputFile {
public:
  explicit OutputFile(std::string path) : path(std::move(path)) {}
  /// Removes the temporary file, unless `commit` has succeeded.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Creates the temporary file, which did not exist. A rename would replace a
  /// device or a pipe by a plain file: what is there and no regular file is
  /// refused.
  Error open();
  Error write(const void *data, uint64_t bytes);
  /// Syncs, closes and renames.
  Error commit();

private:
  Error broken(const char *what, int error) const;
  /// Writes at the end of the file, past the page cache where `direct`.
  Error append(const char *data, uint64_t bytes, bool direct);
  /// Turns writes past the page cache on or off; whether it could.
  bool setDirect(bool on);

  std::string path, target, temporary;
  int descriptor = -1;
  /// What was written and is not in the file yet. Where there is nothing, the
  /// file ends at a multiple of `directBytes`.
  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> block;
  uint64_t held = 0;
  bool isDirect = false;
  /// Of the file that is replaced.
  std::optional<mode_t> mode;
};

/// Whether an OutputFile could be written to `path`, by trying. Removes what
/// dead writers have left there.
Error probeOutput(const std::string &path);

/// Keeps other runs from writing to a path as long as it lives: a lock (flock)
/// on a file beside it. That is removed at the end; what a process that was
/// killed leaves has no lock, and is taken over.
class OutputLock {
public:
  /// Fails where another process has it, and says which. Where the file system
  /// has no locks, or `path` is empty, nothing is locked.
  static Expected<OutputLock> take(const std::string &path);
  OutputLock(OutputLock &&other) noexcept;
  OutputLock &operator=(OutputLock &&) = delete;
  ~OutputLock();

private:
  OutputLock() = default;

  std::string file;
  int descriptor = -1;
  /// Children that were forked since leave it to this one.
  pid_t owner = -1;
};

/// `name` as an absolute path without links; of one that is not there yet, its
/// folder is, and what a link of that name leads to.
std::filesystem::path resolve(const std::filesystem::path &name);

/// Whether two names lead to one regular file, or would. Several outputs may
/// well go to one device.
bool areSameFile(const std::string &a, const std::string &b);

/// "c is as it was before", or that it does not exist: the end of a message
/// about what was not replaced.
std::string describeUnchanged(const std::string &path);

/// Between the name of a checkpoint and the number of a step, in the names of
/// those before it (KeptCheckpoints.h).
inline constexpr std::string_view keptMark = ".step-";
/// The same before what tells its shards apart (StateFile.h).
inline constexpr std::string_view shardMark = ".shard-";

/// Removes the temporary files of this user beside `path`, for it or for a
/// checkpoint that is kept beside it, whose writers are dead.
void removeAbandoned(const std::string &path);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_OUTPUTFILE_H
