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

#ifndef MPCOMM_RUN_DATA_MAPPEDFILE_H
#define MPCOMM_RUN_DATA_MAPPEDFILE_H

#include "data/Status.h"
#include "session/files/SafeTensors.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mpcomm::run {

class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  const std::string &path() const { return name; }
  std::string_view contents() const { return {data, bytes}; }
  Result<SafeTensors::Stamp> stamp() const;

private:
  MappedFile() = default;

  std::string name;
  int descriptor = -1;
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

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_MAPPEDFILE_H
