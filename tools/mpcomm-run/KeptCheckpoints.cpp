//===- KeptCheckpoints.cpp - the last checkpoints of a run ---------------===//
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

#include "KeptCheckpoints.h"

#include "OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace mpcomm::run;

namespace fs = std::filesystem;

/// Whether two names lead to one file, which is there.
static bool areSame(const std::string &a, const std::string &b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

static Status copyFile(const std::string &from, const std::string &to) {
  int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0)
    return fail(from, ": cannot open: ", std::strerror(errno));
  OutputFile file(to);
  Status status = file.open();
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

void KeptCheckpoints::resume(const std::string &file, uint64_t step) {
  if (keep < 2)
    return;
  if (areSame(file, path))
    latest = step;
  else if (!areSame(file, nameOf(step)))
    return;
  std::error_code error;
  fs::path own = fs::path(path).filename();
  fs::path folder = fs::path(path).parent_path();
  std::string prefix = own.string() + ".step-";
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    std::string name = entry.path().filename().string();
    uint64_t found = 0;
    const char *end = name.data() + name.size();
    if (!name.starts_with(prefix))
      continue;
    auto [at, wrong] = std::from_chars(name.data() + prefix.size(), end, found);
    // Later ones are of a run that went another way.
    if (wrong == std::errc() && at == end && nameOf(found).ends_with(name) &&
        (found < step || (found == step && !latest)))
      older.push_back(found);
  }
  std::sort(older.begin(), older.end());
}

Status KeptCheckpoints::prepare(uint64_t step) {
  std::error_code error;
  // Somebody may have taken it away.
  if (keep < 2 || !latest || *latest == step || !fs::exists(path, error))
    return {};
  std::string name = nameOf(*latest);
  if (!areSame(path, name)) {
    if (unlink(name.c_str()) != 0 && errno != ENOENT)
      return fail(name, ": cannot replace: ", std::strerror(errno));
    if (linkat(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
      if (Status status = copyFile(path, name); status.failed())
        return status;
  }
  if (std::find(older.begin(), older.end(), *latest) == older.end())
    older.push_back(*latest);
  return {};
}

Status KeptCheckpoints::commit(uint64_t step) {
  latest = step;
  while (keep >= 2 && older.size() > keep - 1) {
    std::string name = nameOf(older.front());
    if (unlink(name.c_str()) != 0 && errno != ENOENT)
      return fail(name, ": cannot remove: ", std::strerror(errno),
                  "; --checkpoint-keep ", keep, " has one of a later step");
    older.erase(older.begin());
  }
  return {};
}
