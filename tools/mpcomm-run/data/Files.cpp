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

#include "data/DataFile.h"
#include "files/KeptCheckpoints.h"
#include "files/OutputFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <glob.h>
#include <unistd.h>

using namespace mpcomm::run;

namespace fs = std::filesystem;

namespace {

struct NamedFile {
  const char *option;
  std::string RunOptions::*path;
};

/// A file that is read.
struct Input {
  std::string option, path;
  bool isResumed = false;
};

/// Whether the name takes new contents at the end, whole, or line by line.
struct NamedOutput : NamedFile {
  bool replaced;
};

std::vector<Input> inputsOf(const RunOptions &options) {
  std::vector<Input> inputs = {{"the program", options.program},
                               {"--weights", options.weights},
                               {"--resume", options.resume, true}};
  for (const std::string &path : options.data.paths)
    inputs.push_back(
        {options.data.areTokens ? "--tokens" : "--data", fileOf(path)});
  for (const std::string &path : options.evalData.paths)
    inputs.push_back(
        {options.evalData.areTokens ? "--eval-tokens" : "--eval-data",
         fileOf(path)});
  return inputs;
}

const NamedOutput outputs[] = {
    {{"--checkpoint", &RunOptions::checkpoint}, true},
    {{"--save-weights", &RunOptions::saveWeights}, true},
    {{"--trace", &RunOptions::trace}, true},
    {{"--timeline", &RunOptions::timeline}, true},
    {{"--profile", &RunOptions::profile}, true},
    {{"--calibrate", &RunOptions::calibrate}, true},
    {{"--log", &RunOptions::log}, false},
    {{"--monitor", &RunOptions::monitor}, false},
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

Error mpcomm::run::expandPatterns(RunOptions &options) {
  for (DataFiles *files : {&options.data, &options.evalData}) {
    std::vector<std::string> all;
    std::error_code error;
    for (const std::string &given : files->paths) {
      std::string file = fileOf(given);
      std::string before = given.substr(0, given.size() - file.size());
      if (file.find_first_of("*?[") == file.npos || fs::exists(file, error)) {
        all.push_back(given);
        continue;
      }
      glob_t found = {};
      if (glob(file.c_str(), 0, nullptr, &found) != 0) {
        globfree(&found);
        return fail(printable(given), ": no file matches");
      }
      for (size_t i = 0; i < found.gl_pathc; ++i)
        all.push_back(before + found.gl_pathv[i]);
      globfree(&found);
    }
    files->paths = std::move(all);
  }
  return {};
}

Error mpcomm::run::checkFilesDiffer(const RunOptions &options) {
  const std::vector<Input> inputs = inputsOf(options);
  for (const NamedOutput &output : outputs) {
    const std::string &path = options.*output.path;
    auto clash = [&](const std::string &other) {
      return fail(output.option, " ", printable(path), ": that is the file of ",
                  other);
    };
    for (const Input &input : inputs) {
      bool renews = output.path == &RunOptions::checkpoint && input.isResumed;
      if (!renews && areSameFile(path, input.path))
        return clash(input.option);
    }
    for (const NamedOutput &other : outputs) {
      if (other.path == output.path)
        break;
      if (areSameFile(path, options.*other.path))
        return clash(other.option);
    }
  }
  auto checkName = [&](const Input &file) -> Error {
    const std::string &path = file.path;
    if (isFlightName(path, options))
      return fail(file.option, " ", printable(path),
                  ": that may be the name of a record that --flight-record "
                  "writes; move it to another");
    if (file.isResumed || !isKeptName(path, options))
      return {};
    return fail(file.option, " ", printable(path),
                ": that may be the name of a checkpoint that "
                "--checkpoint-keep keeps; move it to another");
  };
  for (const Input &input : inputs)
    if (Error error = checkName(input))
      return error;
  for (const NamedFile &output : outputs)
    if (Error error = checkName({output.option, options.*output.path}))
      return error;
  return {};
}

Error mpcomm::run::probeOutputs(const RunOptions &options) {
  for (const NamedOutput &output : outputs) {
    const std::string &path = options.*output.path;
    if (path.empty() || !output.replaced)
      continue;
    if (Error status = probeOutput(path); status.failed())
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
