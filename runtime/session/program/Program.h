//===- Program.h - a loaded program file ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that step.so is whole and that this runtime and this processor can run
// it, opens it, and finds its entry points. Its undefined mprt_* symbols bind
// to the runtime that this is linked with.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_PROGRAM_H
#define MPCOMM_RUNTIME_SESSION_PROGRAM_H

#include "files/Manifest.h"
#include "support/Error.h"

#include "mpcomm/Runtime/mprt.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

class ProgramFile;

/// Outlives the contexts that it has run in: they keep pointers to names inside
/// it.
class Program {
public:
  /// Checks and loads `path`: checksum, ABI number, manifest, processor
  /// features, one entry point for each function. What is loaded is a copy in
  /// memory of the bytes that were checked, whatever becomes of the file.
  static Expected<Program> load(const std::string &path);

  const std::string &path() const { return file; }
  /// Other plans of the same step in the file, in the order in which the
  /// program names them; those of a variant are none.
  const std::vector<std::shared_ptr<const Program>> &variants() const {
    return others;
  }
  /// The name of a variant; empty for the program itself.
  const std::string &variant() const { return name; }
  const Manifest &manifest() const { return description; }
  /// Its JSON.
  const std::string &manifestText() const { return text; }
  /// Checksum of the file. Ranks compare it before they start.
  uint64_t digest() const { return hash; }
  /// The kernels of a program for a GPU; else null.
  const mprt_image *images() const { return kernels; }
  mprt_entry entryOf(const ManifestFunction &function) const {
    return entries.at(function.entry);
  }

private:
  Error read(const ProgramFile &from);
  Error bind();

  std::string file, name;
  Manifest description;
  std::string text;
  std::shared_ptr<void> library;
  uint64_t hash = 0;
  const mprt_image *kernels = nullptr;
  std::map<std::string, mprt_entry> entries;
  std::vector<std::shared_ptr<const Program>> others;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_PROGRAM_H
