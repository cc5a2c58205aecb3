//===- MappedFile.cpp - a file in memory as far as it is used -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See MappedFile.h.
//
//===----------------------------------------------------------------------===//

#include "files/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace mprt;

Expected<MappedFile> MappedFile::open(const std::string &path) {
  MappedFile file;
  file.name = path;
  // Not blocking, so that a pipe under that name cannot hang the run.
  file.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.number < 0)
    return makeError(errno == ENOENT ? MPRT_NOT_FOUND : MPRT_IO_ERROR, path,
                     ": cannot open: ", std::strerror(errno));
  struct stat info;
  if (fstat(file.number, &info) != 0)
    return fail(path, ": cannot stat: ", std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail(path, ": not a regular file");
  file.bytes = static_cast<uint64_t>(info.st_size);
  if (file.bytes == 0) // of which there is no mapping
    return file;
  void *address =
      mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, file.number, 0);
  if (address == MAP_FAILED)
    return fail(path, ": cannot map: ", std::strerror(errno));
  file.data = static_cast<const char *>(address);
  return file;
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(name, other.name);
  std::swap(number, other.number);
  std::swap(data, other.data);
  std::swap(bytes, other.bytes);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<char *>(data), bytes);
  if (number >= 0)
    close(number);
}

Expected<MappedFile::Stamp> MappedFile::stamp() const {
  struct stat info;
  if (fstat(number, &info) != 0)
    return fail(name, ": cannot stat: ", std::strerror(errno));
  return Stamp{static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec,
               info.st_mtim.tv_nsec};
}

void mprt::advisePages(std::string_view range, PageAdvice advice) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(range.data());
  uintptr_t first = begin / page * page;
  int kind = MADV_DONTNEED;
  if (advice == PageAdvice::Soon)
    kind = MADV_WILLNEED;
  else if (advice == PageAdvice::Random)
    kind = MADV_RANDOM;
  else if (advice == PageAdvice::Sequential)
    kind = MADV_SEQUENTIAL;
  madvise(reinterpret_cast<void *>(first), begin + range.size() - first, kind);
}
