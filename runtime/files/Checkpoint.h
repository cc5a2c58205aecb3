//===- Checkpoint.h - state on disk ---------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a safetensors file with all state of the program, and in its
// metadata what else a run needs to continue: how many steps are done, the
// seed, hyperparameters. Who saves it may add entries of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_CHECKPOINT_H
#define MPCOMM_RUNTIME_FILES_CHECKPOINT_H

#include "files/LearningRate.h"
#include "files/Manifest.h"
#include "files/StateFile.h"
#include "support/Error.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

struct CheckpointInfo {
  /// The program's name.
  std::string program;
  /// Steps done.
  uint64_t step = 0;
  uint64_t seed = 0;
  /// Of the program's graph, where it has told; without `options` that the file
  /// does not have.
  std::optional<ManifestGraph> graph;
  /// What the learning rate was made of, and the other hyperparameters; empty
  /// where the file does not say.
  std::optional<double> lr;
  std::optional<uint64_t> lrWarmup, lrTotal;
  std::optional<DecayKind> lrSchedule;
  std::map<std::string, double> hyperparameters;
};

/// The metadata of a checkpoint; fails where the file is none.
Expected<CheckpointInfo> readCheckpointInfo(const StateFile &file);

/// What a program would do otherwise than the one that wrote `info`, each with
/// both values: graph, optimizer constants, options of the compiler. The mesh
/// is not among them.
std::vector<std::string> differencesFrom(const CheckpointInfo &info,
                                         const Manifest &manifest);

/// "data with checksum X where the checkpoint has Y".
std::string describeDifference(const std::string &what, const std::string &now,
                               const std::string &before);

/// The metadata that `readCheckpointInfo` reads; without what is empty.
std::map<std::string, std::string> metadataOf(const CheckpointInfo &info);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_CHECKPOINT_H
