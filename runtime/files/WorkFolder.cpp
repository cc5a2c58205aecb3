//===- WorkFolder.cpp - a folder for what is needed for a moment ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See WorkFolder.h.
//
//===----------------------------------------------------------------------===//

#include "files/WorkFolder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mprt;

static constexpr std::string_view prefix = "mpcomm-work-";
static constexpr std::string_view pattern = "XXXXXX"; // mkdtemp's
/// A younger folder may have a process that has yet to take its lock.
static constexpr time_t youngSeconds = 60;

static void removeAbandoned(const std::string &base) {
  DIR *entries = opendir(base.c_str());
  if (!entries)
    return;
  while (const dirent *entry = readdir(entries)) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) ||
        name.size() != prefix.size() + pattern.size())
      continue;
    int folder = openat(dirfd(entries), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    std::error_code ignored;
    if (folder >= 0 && fstat(folder, &info) == 0 && info.st_uid == geteuid() &&
        std::time(nullptr) - info.st_mtime > youngSeconds &&
        flock(folder, LOCK_EX | LOCK_NB) == 0)
      std::filesystem::remove_all(base + "/" + entry->d_name, ignored);
    if (folder >= 0)
      close(folder);
  }
  closedir(entries);
}

Expected<std::unique_ptr<WorkFolder>> WorkFolder::create() {
  const char *variable = std::getenv("TMPDIR");
  std::string base = variable && *variable ? variable : "/tmp";
  removeAbandoned(base);
  std::string folder = base + "/" + std::string(prefix) + std::string(pattern);
  if (!mkdtemp(folder.data()))
    return fail(folder, ": cannot create: ", std::strerror(errno));
  int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Without locks nobody removes it.
  if (lock >= 0)
    (void)flock(lock, LOCK_EX | LOCK_NB);
  return std::unique_ptr<WorkFolder>(new WorkFolder(folder, lock));
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (lock >= 0)
    close(lock);
}
