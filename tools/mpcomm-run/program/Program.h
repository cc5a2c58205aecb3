//===- Program.h - a loaded program file ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that step.so is whole and that this runtime and this processor can run
// it, opens it, and finds its entry points. Its undefined mprt_* symbols bind
// to the runtime that the runner is linked with.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_PROGRAM_PROGRAM_H
#define MPCOMM_RUN_PROGRAM_PROGRAM_H

#include "data/Status.h"
#include "program/Manifest.h"

#include "mpcomm/Runtime/mprt.h"

#include <map>
#include <optional>
#include <string>

namespace mpcomm::run {

class StopSignals;

/// Stays loaded for the life of the process: the runtime keeps pointers to
/// names inside it.
class Program {
public:
  /// Checks and loads `path`: checksum, ABI number, manifest, processor
  /// features, one entry point for each function. What is loaded is a copy in
  /// memory of the bytes that were checked, whatever becomes of the file.
  static Result<Program> load(const std::string &path);

  const std::string &path() const { return file; }
  const Manifest &manifest() const { return description; }
  /// Checksum of the file. Ranks compare it before they start.
  uint64_t digest() const { return hash; }
  /// The kernels of a program for a GPU; else null.
  const mprt_image *images() const { return kernels; }
  mprt_entry entryOf(const ManifestFunction &function) const {
    return entries.at(function.entry);
  }

private:
  std::string file;
  Manifest description;
  uint64_t hash = 0;
  const mprt_image *kernels = nullptr;
  std::map<std::string, mprt_entry> entries;
};

/// Runs mpcomm-compile on `source` into the new file `output`, for `ranks`, or
/// for the mesh that `furtherArguments` name. The compiler is the one beside
/// this executable, or else the first in PATH. Its temporary files go to the
/// folder of `output`, its messages to standard error. A signal that asks this
/// process to stop ends it, is stored in `stopped` (else 0), and is a failure.
Status compileProgram(const std::string &source, const std::string &output,
                      std::optional<uint64_t> ranks,
                      const std::string &furtherArguments,
                      const StopSignals &signals, int &stopped);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_PROGRAM_PROGRAM_H
