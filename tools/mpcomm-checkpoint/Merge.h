//===- Merge.h - state of several files in one ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes a checkpoint with its shards, weights, or a model in several files, and
// writes one safetensors file. One tensor at a time is in memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_CHECKPOINT_MERGE_H
#define MPCOMM_TOOLS_CHECKPOINT_MERGE_H

#include "files/StateFile.h"

namespace mpcomm::checkpoint {

/// The names of parameters and buffers. Fails where `file` is a checkpoint that
/// does not say which they are.
mprt::Expected<std::vector<std::string>> weightsIn(const mprt::StateFile &file);

/// Writes all of `file` to `path`: resumed, it is what `file` is.
mprt::Error writeAll(const mprt::StateFile &file, const std::string &path);

/// Writes parameters and buffers, under PyTorch's names and as files of Hugging
/// Face are; floats as `type`, rounded to nearest, or as they are. Fails where
/// a finite number becomes infinite.
mprt::Error writeWeights(const mprt::StateFile &file, const std::string &path,
                         std::optional<mprt::DType> type);

/// Reads every tensor, which compares it with its checksum; how many have one.
mprt::Expected<uint64_t> verify(const mprt::StateFile &file);

} // namespace mpcomm::checkpoint

#endif // MPCOMM_TOOLS_CHECKPOINT_MERGE_H
