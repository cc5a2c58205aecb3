//===- Pages.cpp - memory by whole pages ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Pages.h.
//
//===----------------------------------------------------------------------===//

#include "support/Pages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

using namespace mprt;

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static constexpr uint64_t hugePage = 1 << 21;

Pages::~Pages() {
  if (mapped)
    munmap(mapped, mappedBytes);
}

Error mprt::populate(void *memory, uint64_t bytes) {
  if (bytes != 0 && madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL)
    return Error(MPRT_OUT_OF_MEMORY,
                 concat("no ", bytes, " bytes of memory: ", strerror(errno)));
  return {};
}

Expected<Pages> Pages::make(uint64_t bytes, bool now) {
  Pages pages;
  bytes = std::max<uint64_t>(bytes, 1);
  bool isHuge = bytes >= hugePage;
  uint64_t wanted;
  if (__builtin_add_overflow(bytes, isHuge ? hugePage : 0, &wanted))
    wanted = bytes;
  void *memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return makeError(MPRT_OUT_OF_MEMORY, "no ", bytes,
                     " bytes of host memory: ", strerror(errno));
  pages.mapped = memory;
  pages.mappedBytes = wanted;
  auto address = reinterpret_cast<uintptr_t>(memory);
  pages.begin = static_cast<char *>(memory);
  if (isHuge) {
    pages.begin += -address % hugePage;
    (void)madvise(pages.begin, bytes, MADV_HUGEPAGE);
  }
  if (now)
    if (Error error = populate(pages.begin, bytes))
      return error;
  return pages;
}
