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

#include "data/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace mpcomm::run;

Result<MappedFile> MappedFile::open(const std::string &path) {
  MappedFile file;
  file.name = path;
  // Not blocking, so that a pipe under that name cannot hang the run.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0)
    return fail(path, ": cannot open: ", std::strerror(errno));
  struct stat info;
  if (fstat(file.descriptor, &info) != 0)
    return fail(path, ": cannot stat: ", std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail(path, ": not a regular file");
  file.bytes = static_cast<uint64_t>(info.st_size);
  if (file.bytes == 0)
    return fail(path, ": the file is empty");
  void *address =
      mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (address == MAP_FAILED)
    return fail(path, ": cannot map: ", std::strerror(errno));
  file.data = static_cast<const char *>(address);
  return file;
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(name, other.name);
  std::swap(descriptor, other.descriptor);
  std::swap(data, other.data);
  std::swap(bytes, other.bytes);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<char *>(data), bytes);
  if (descriptor >= 0)
    close(descriptor);
}

Result<SafeTensors::Stamp> MappedFile::stamp() const {
  struct stat info;
  if (fstat(descriptor, &info) != 0)
    return fail(name, ": cannot stat: ", std::strerror(errno));
  return SafeTensors::Stamp{static_cast<uint64_t>(info.st_size),
                            info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

void mpcomm::run::advisePages(std::string_view range, PageAdvice advice) {
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
