//===- OutputFile.cpp - a file that is written whole or not at all --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See OutputFile.h.
//
//===----------------------------------------------------------------------===//

#include "OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpcomm::run;

static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string mpcomm::run::temporaryNameOf(const std::string &path, pid_t pid) {
  return path + ".tmp-" + std::to_string(pid);
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

Status OutputFile::broken(const char *what) const {
  return fail(path, ": cannot ", what, ": ", std::strerror(errno),
              "; the file of that name is as it was before");
}

Status OutputFile::open() {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return fail(path, ": cannot write: not a regular file");
  std::string name = temporaryNameOf(path, getpid());
  descriptor =
      ::open(name.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0)
    return broken("create a temporary file beside it");
  temporary = name;
  return {};
}

Status OutputFile::write(const void *data, uint64_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t put = ::write(descriptor, at, std::min<uint64_t>(bytes, 1 << 26));
    if (put < 0 && errno == EINTR)
      continue;
    if (put == 0)
      errno = ENOSPC;
    if (put <= 0)
      return broken("write");
    at += put;
    bytes -= static_cast<uint64_t>(put);
  }
  return {};
}

Status OutputFile::commit() {
  if (fsync(descriptor) != 0)
    return broken("write");
  int closed = close(descriptor);
  descriptor = -1;
  if (closed != 0 || rename(temporary.c_str(), path.c_str()) != 0)
    return broken("write");
  temporary.clear();

  std::string folder = folderOf(path);
  int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = opened >= 0 && fsync(opened) == 0;
  int error = errno;
  if (opened >= 0)
    close(opened);
  // Some file systems cannot sync a folder; the data itself is safe by then.
  if (!synced && error != EINVAL && error != ENOTSUP && error != EACCES)
    return fail(path, ": written, but its folder cannot be synced: ",
                std::strerror(error));
  return {};
}

Status mpcomm::run::probeOutput(const std::string &path) {
  return OutputFile(path).open();
}
