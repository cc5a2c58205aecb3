//===- KeptCheckpoints.cpp - the last checkpoints of a run ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See KeptCheckpoints.h. The second name is a hard link; where the file system
// has none, a copy.
//
//===----------------------------------------------------------------------===//

#include "files/KeptCheckpoints.h"

#include "files/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace mprt;

namespace fs = std::filesystem;

static Error copyFile(const std::string &from, const std::string &to) {
  int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0)
    return fail(from, ": cannot open: ", std::strerror(errno));
  OutputFile file(to);
  Error status = file.open();
  std::vector<char> block(1 << 20);
  ssize_t got = 0;
  while (status.ok() && (got = read(source, block.data(), block.size())) != 0) {
    if (got < 0 && errno == EINTR)
      continue;
    status = got < 0 ? fail(from, ": cannot read: ", std::strerror(errno))
                     : file.write(block.data(), static_cast<uint64_t>(got));
  }
  close(source);
  return status.ok() ? file.commit() : status;
}

std::optional<uint64_t> mprt::stepOfKept(const std::string &name,
                                         const std::string &file) {
  const std::string prefix = file + std::string(keptMark);
  if (!name.starts_with(prefix))
    return std::nullopt;
  uint64_t step = 0;
  const char *end = name.data() + name.size();
  auto [at, wrong] = std::from_chars(name.data() + prefix.size(), end, step);
  // One that is written otherwise, as with a zero before it, is another's.
  if (wrong != std::errc() || at != end ||
      name.size() != prefix.size() + std::to_string(step).size())
    return std::nullopt;
  return step;
}

std::vector<uint64_t> KeptCheckpoints::findSteps() const {
  std::vector<uint64_t> steps;
  std::error_code error;
  std::string own = fs::path(path).filename();
  fs::path folder = fs::path(path).parent_path();
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error))
    if (auto step = stepOfKept(entry.path().filename(), own))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

void KeptCheckpoints::resume(
    const std::string &file, uint64_t step,
    const std::function<bool(const std::string &, uint64_t)> &isOfRun) {
  bool isLatest = areSameFile(file, path);
  if (!isLatest && !areSameFile(file, nameOf(step)))
    return;
  latest = isLatest ? std::optional(step) : std::nullopt;
  resumed.reset();
  older.clear();
  // Later ones are of a run that went another way.
  for (uint64_t found : findSteps()) {
    if (found > step || !isOfRun(nameOf(found), found))
      continue;
    if (found == step)
      resumed = step;
    if (found < step || !latest)
      older.push_back(found);
  }
}

bool KeptCheckpoints::isOwn(uint64_t step) const {
  return step == resumed ||
         std::find(older.begin(), older.end(), step) != older.end();
}

Error KeptCheckpoints::describeClash(uint64_t step, uint64_t keep) const {
  return fail(nameOf(step),
              ": is there already, and is not of this run, which keeps ", keep,
              " checkpoints and gives that name to the one of step ", step,
              "; move it away, or choose another name for checkpoints");
}

Error KeptCheckpoints::checkNames(uint64_t first, uint64_t last, uint64_t every,
                                  uint64_t keep) const {
  if (keep < 2 || every == 0)
    return {};
  for (uint64_t step : findSteps()) {
    bool isNew = step > first && step < last && step % every == 0;
    bool isCopy =
        step == latest && step < last && !areSameFile(path, nameOf(step));
    if ((isNew || isCopy) && !isOwn(step))
      return describeClash(step, keep);
  }
  return {};
}

Error KeptCheckpoints::prepare(uint64_t step, uint64_t keep) {
  std::error_code error;
  // Somebody may have taken it away.
  if (keep < 2 || !latest || *latest == step || !fs::exists(path, error))
    return {};
  std::string name = nameOf(*latest);
  if (!areSameFile(path, name)) {
    if (!isOwn(*latest) && fs::exists(fs::symlink_status(name, error)))
      return describeClash(*latest, keep);
    if (unlink(name.c_str()) != 0 && errno != ENOENT)
      return fail(name, ": cannot replace: ", std::strerror(errno));
    if (linkat(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
      if (Error status = copyFile(path, name); status.failed())
        return status;
  }
  if (std::find(older.begin(), older.end(), *latest) == older.end())
    older.push_back(*latest);
  return {};
}

Error KeptCheckpoints::commit(uint64_t step, uint64_t keep) {
  latest = step;
  while (older.size() > std::max<uint64_t>(keep, 1) - 1) {
    std::string name = nameOf(older.front());
    if (unlink(name.c_str()) != 0 && errno != ENOENT)
      return fail(path, ": the checkpoint of step ", step, " is written, but ",
                  name, ", which is older than the last ", keep,
                  ", cannot be removed: ", std::strerror(errno));
    older.erase(older.begin());
  }
  return {};
}
