//===- Files.cpp - the files that a run reads and writes ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Files.h.
//
//===----------------------------------------------------------------------===//

#include "data/Files.h"

#include "session/checkpoint/KeptCheckpoints.h"
#include "session/files/OutputFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace mpcomm::run;

namespace fs = std::filesystem;

namespace {

struct NamedFile {
  const char *option;
  std::string RunOptions::*path;
};

/// Whether the name takes new contents at the end, whole, or line by line.
struct NamedOutput : NamedFile {
  bool replaced;
};

const NamedFile inputs[] = {
    {"the program", &RunOptions::program},
    {"--weights", &RunOptions::weights},
    {"--data", &RunOptions::data},
    {"--eval-data", &RunOptions::evalData},
    {"--resume", &RunOptions::resume},
};

const NamedOutput outputs[] = {
    {{"--checkpoint", &RunOptions::checkpoint}, true},
    {{"--save-weights", &RunOptions::saveWeights}, true},
    {{"--trace", &RunOptions::trace}, true},
    {{"--timeline", &RunOptions::timeline}, true},
    {{"--profile", &RunOptions::profile}, true},
    {{"--calibrate", &RunOptions::calibrate}, true},
    {{"--log", &RunOptions::log}, false},
};

/// Whether --checkpoint-keep may give the name of `file` to a checkpoint.
bool isKeptName(const std::string &file, const RunOptions &options) {
  if (file.empty() || options.checkpointKeep < 2)
    return false;
  // Links in place of the files themselves are other names.
  fs::path path = resolve(file), checkpoint = fs::absolute(options.checkpoint);
  return path.parent_path() == resolve(checkpoint.parent_path()) &&
         stepOfKept(path.filename(), checkpoint.filename());
}

/// Whether --flight-record may write a file of that name.
bool isFlightName(const std::string &file, const RunOptions &options) {
  if (file.empty() || options.flightRecord.empty())
    return false;
  fs::path path = resolve(file);
  std::string name = path.filename(), digits = "0123456789";
  const std::string prefix = "rank-", suffix = ".json";
  return path.parent_path() == resolve(options.flightRecord) &&
         name.size() > prefix.size() + suffix.size() &&
         name.starts_with(prefix) && name.ends_with(suffix) &&
         name.find_first_not_of(digits, prefix.size()) ==
             name.size() - suffix.size();
}

} // namespace

Status mpcomm::run::checkFilesDiffer(const RunOptions &options) {
  for (const NamedOutput &output : outputs) {
    const std::string &path = options.*output.path;
    auto clash = [&](const NamedFile &other) {
      return fail(output.option, " ", printable(path), ": that is the file of ",
                  other.option);
    };
    for (const NamedFile &input : inputs) {
      bool renews = output.path == &RunOptions::checkpoint &&
                    input.path == &RunOptions::resume;
      if (!renews && areSameFile(path, options.*input.path))
        return clash(input);
    }
    for (const NamedOutput &other : outputs) {
      if (other.path == output.path)
        break;
      if (areSameFile(path, options.*other.path))
        return clash(other);
    }
  }
  auto checkName = [&](const NamedFile &file) -> Status {
    const std::string &path = options.*file.path;
    if (isFlightName(path, options))
      return fail(file.option, " ", printable(path),
                  ": that may be the name of a record that --flight-record "
                  "writes; move it to another");
    if (file.path == &RunOptions::resume || !isKeptName(path, options))
      return {};
    return fail(file.option, " ", printable(path),
                ": that may be the name of a checkpoint that "
                "--checkpoint-keep keeps; move it to another");
  };
  for (const NamedFile &input : inputs)
    if (Status status = checkName(input); status.failed())
      return status;
  for (const NamedFile &output : outputs)
    if (Status status = checkName(output); status.failed())
      return status;
  return {};
}

Status mpcomm::run::probeOutputs(const RunOptions &options) {
  for (const NamedOutput &output : outputs) {
    const std::string &path = options.*output.path;
    if (path.empty() || !output.replaced)
      continue;
    if (Status status = probeOutput(path); status.failed())
      return fail(output.option, " ", status.message());
  }
  return {};
}

std::vector<std::string> mpcomm::run::replacedFiles(const RunOptions &options) {
  std::vector<std::string> paths;
  for (const NamedOutput &output : outputs)
    if (output.replaced && !(options.*output.path).empty())
      paths.push_back(options.*output.path);
  return paths;
}
