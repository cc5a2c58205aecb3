//===- DataFormat.h - how data sets are read ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the command line says of data beside the names of files.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_DATAFORMAT_H
#define MPCOMM_RUN_DATA_DATAFORMAT_H

#include "data/Sampler.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpcomm::run {

struct DataFormat {
  /// Tokens of a sample; nothing: as many as the program's arguments hold.
  std::optional<uint64_t> context;
  /// Bytes of a token in a file.
  uint64_t tokenBytes = 2;
  /// The arguments that get tokens, and how many tokens after the first of
  /// the sample each starts. Empty: by the rule of TokenColumns.h.
  std::vector<std::pair<std::string, uint64_t>> tokenArguments;

  /// A byte b of a channel c becomes (b / 255 - mean[c]) / std[c]; one number
  /// is for all channels. Empty: bytes are no floats.
  std::vector<double> imageMean, imageStd;

  LastBatch lastBatch = LastBatch::Drop;
  /// Look at every value before the first step; nothing: unless there are more
  /// than `mostReadAtStart` bytes.
  std::optional<bool> readsAtStart;

  bool convertsImages() const {
    return !imageMean.empty() || !imageStd.empty();
  }
};

/// Data up to so many bytes is read as a whole before the first step.
inline constexpr uint64_t mostReadAtStart = uint64_t(4) << 30;

/// A data set: files of tensors, or of tokens.
struct DataFiles {
  std::vector<std::string> paths;
  bool areTokens = false;
  bool empty() const { return paths.empty(); }
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_DATAFORMAT_H
