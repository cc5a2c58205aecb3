//===- Checkpoint.h - state on disk ---------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a safetensors file with all state of the program, and in its
// metadata what else a run needs to continue: how many steps are done, the
// seed, and the shape of the dataset, by which a resumed run notices that its
// samples will come in another order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_CHECKPOINT_H
#define MPCOMM_RUN_TRAIN_CHECKPOINT_H

#include "data/SafeTensors.h"
#include "data/Status.h"
#include "program/Manifest.h"
#include "train/LearningRate.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpcomm::run {

struct TrainingJob;

struct CheckpointInfo {
  /// Steps done.
  uint64_t step = 0;
  uint64_t seed = 0;
  uint64_t globalBatch = 0, samples = 0;
  bool shuffle = true;
  /// Checksum of the data; empty where the file does not say.
  std::string data;
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
Result<CheckpointInfo> readCheckpointInfo(const SafeTensors &file);

/// What `job` would do otherwise than the run that wrote `info`, each with both
/// values: graph, optimizer constants, options of the compiler, data, order and
/// seed of samples. The learning rate and other hyperparameters are not among
/// them: whoever gives an option for one has said that it is another. Neither
/// is the mesh.
std::vector<std::string> differencesFrom(const CheckpointInfo &info,
                                         const TrainingJob &job);

/// The metadata of a checkpoint after `step` steps.
std::map<std::string, std::string> describeCheckpoint(const TrainingJob &job,
                                                      uint64_t step);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_CHECKPOINT_H
