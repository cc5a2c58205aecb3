//===- Resume.h - the samples of a run, in its checkpoints ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A session says in a checkpoint how far it came; the runner adds which samples
// it has trained on, and in which order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_RESUME_H
#define MPCOMM_RUN_TRAIN_RESUME_H

#include "launch/TrainingJob.h"

namespace mpcomm::run {

/// What a checkpoint says of it. Fails where it makes no sense.
Expected<DataRecord> readDataRecord(const StateFile &file);

/// The metadata that `readDataRecord` reads.
std::map<std::string, std::string> describeData(const TrainingJob &job);

/// What `job` would do otherwise than the run that it resumes, each with both
/// values: program, data, order and seed of samples. The learning rate and
/// other hyperparameters are not among them: whoever gives an option for one
/// has said that it is another. Neither is the mesh.
std::vector<std::string> differencesFrom(const CheckpointInfo &info,
                                         const TrainingJob &job);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_RESUME_H
