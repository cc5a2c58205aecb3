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

static constexpr uint64_t hugePage = 1 << 21;

Pages::~Pages() {
  if (mapped)
    munmap(mapped, mappedBytes);
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
  // Kernels before 5.14 make pages when they are first touched.
  if (now)
    (void)madvise(pages.begin, bytes, MADV_POPULATE_WRITE);
  return pages;
}
