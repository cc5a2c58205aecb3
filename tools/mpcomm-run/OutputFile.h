//===- OutputFile.h - a file that is written whole or not at all ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A temporary file beside the target is written, synced and renamed, and the
// folder synced: under the name that was asked for lies either all of the new
// contents or what lay there before.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_OUTPUTFILE_H
#define MPCOMM_RUN_OUTPUTFILE_H

#include "Status.h"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace mpcomm::run {

class OutputFile {
public:
  explicit OutputFile(std::string path) : path(std::move(path)) {}
  /// Removes the temporary file, unless `commit` has succeeded.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Creates the temporary file. A rename would replace a device or a pipe by a
  /// plain file: what is there and no regular file is refused.
  Status open();
  Status write(const void *data, uint64_t bytes);
  /// Syncs, closes and renames.
  Status commit();

private:
  Status broken(const char *what) const;

  std::string path, temporary;
  int descriptor = -1;
};

/// Whether an OutputFile could be written to `path`, by trying.
Status probeOutput(const std::string &path);

/// The temporary name that process `pid` uses for `path`, so that whoever
/// kills the process can clean up after it.
std::string temporaryNameOf(const std::string &path, pid_t pid);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_OUTPUTFILE_H
