//===- MappedFile.h - a file in memory as far as it is used ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A regular file, mapped read-only. Pages come in as they are touched, and the
// ranks of a machine share them. Those that a process has touched count as its
// memory until it gives them back; they stay in the page cache.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_MAPPEDFILE_H
#define MPCOMM_RUNTIME_FILES_MAPPEDFILE_H

#include "support/Error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mprt {

class MappedFile {
public:
  /// Opens and maps `path`, a regular file.
  static Expected<MappedFile> open(const std::string &path);

  /// No file.
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  const std::string &path() const { return name; }
  std::string_view contents() const { return {data, bytes}; }
  /// For reads that are to leave no pages in this process' memory.
  int descriptor() const { return number; }

  /// What the file system says of the file's contents: another value where
  /// somebody has written to it since.
  struct Stamp {
    uint64_t bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp &) const = default;
  };
  Expected<Stamp> stamp() const;

private:
  std::string name;
  int number = -1;
  const char *data = nullptr;
  uint64_t bytes = 0;
};

/// What is to happen to pages of a mapping.
enum class PageAdvice : uint8_t {
  /// They will be read soon, and may be read meanwhile.
  Soon,
  /// What follows them will not be read.
  Random,
  /// What follows them will be.
  Sequential,
  /// They do not count as this process' memory until they are touched again.
  Release
};

/// Tells the kernel of the pages in which `range` of a mapping lies.
void advisePages(std::string_view range, PageAdvice advice);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_MAPPEDFILE_H
