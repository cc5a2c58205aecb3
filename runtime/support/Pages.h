//===- Pages.h - memory by whole pages --------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels stream through several large buffers at a time. In pages of 4 kB each
// stream needs a new entry of the TLB every 64 vectors; in huge pages, which
// Linux gives where it is asked (transparent_hugepage is madvise or always), it
// needs one every 2 MB.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_PAGES_H
#define MPCOMM_RUNTIME_SUPPORT_PAGES_H

#include "support/Error.h"

#include <utility>

namespace mprt {

/// Makes the pages of `memory`, which is mapped, so that memory that is not
/// there is an error here and not a signal later. Kernels before 5.14 cannot,
/// and make them when they are touched.
Error populate(void *memory, uint64_t bytes);

/// Zeroed memory of this process alone, given back with the object.
class Pages {
public:
  Pages() = default;
  /// At least `bytes`, from the border of a page on; of a huge page where they
  /// fill one. `now` populates them.
  static Expected<Pages> make(uint64_t bytes, bool now = false);

  Pages(Pages &&other) noexcept { *this = std::move(other); }
  Pages &operator=(Pages &&other) noexcept {
    std::swap(mapped, other.mapped);
    std::swap(mappedBytes, other.mappedBytes);
    std::swap(begin, other.begin);
    return *this;
  }
  ~Pages();

  char *data() const { return begin; }

private:
  void *mapped = nullptr;
  uint64_t mappedBytes = 0;
  char *begin = nullptr;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_PAGES_H
