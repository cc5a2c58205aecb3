//===- EventFile.h - event files for TensorBoard --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of records (tensorflow/core/lib/io/record_writer.h): the length of the
// data in 8 bytes, a checksum of these, the data, a checksum of it. Checksums
// are CRC32C, rotated and shifted. The data of a record is an Event of
// tensorflow/core/util/event.proto in the encoding of protocol buffers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_EVENTFILE_H
#define MPCOMM_RUN_REPORT_EVENTFILE_H

#include "data/Runtime.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpcomm::run {

/// CRC-32C (Castagnoli) of `data`.
uint32_t crc32c(std::string_view data);

/// Numbers by the names under which TensorBoard shows them.
using Scalars = std::vector<std::pair<std::string, double>>;

class EventFile {
public:
  /// Creates a new file in `folder`, and that where it is missing. TensorBoard
  /// forgets what earlier files of the folder say of steps after `step`.
  static Expected<EventFile> create(const std::string &folder, uint64_t step);

  EventFile(EventFile &&other) noexcept;
  EventFile &operator=(EventFile &&other) noexcept;
  ~EventFile();

  /// Adds `scalars` at `step`, on disk as far as a death of this process goes.
  Error add(uint64_t step, const Scalars &scalars);

private:
  EventFile() = default;
  Error write(std::string_view event);

  std::string path;
  int descriptor = -1;
};

/// Whether files can be made in `folder`, which is created.
Error makeEventFolder(const std::string &folder);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_EVENTFILE_H
