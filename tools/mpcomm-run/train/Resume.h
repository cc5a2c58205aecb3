//===- Resume.h - a job and the checkpoints of it -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_RESUME_H
#define MPCOMM_RUN_TRAIN_RESUME_H

#include "launch/TrainingJob.h"

namespace mpcomm::run {

/// What `job` would do otherwise than the run that wrote `info`, each with both
/// values: program, data, order and seed of samples. The learning rate and
/// other hyperparameters are not among them: whoever gives an option for one
/// has said that it is another. Neither is the mesh.
std::vector<std::string> differencesFrom(const CheckpointInfo &info,
                                         const TrainingJob &job);

/// What a checkpoint after `step` steps says of the job.
CheckpointInfo describeCheckpoint(const TrainingJob &job, uint64_t step);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_RESUME_H
