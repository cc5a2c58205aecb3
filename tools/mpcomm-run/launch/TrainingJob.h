//===- TrainingJob.h - everything that is known before the first step -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A job is the command line met with the program and the files: each of them
// opened, checked against the others and ready. Ranks started here inherit it
// from the launcher, so that a mistake is reported once and early.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_TRAININGJOB_H
#define MPCOMM_RUN_LAUNCH_TRAININGJOB_H

#include "data/Dataset.h"
#include "data/Sampler.h"
#include "files/Checkpoint.h"
#include "files/StateFile.h"
#include "launch/RunOptions.h"
#include "launch/Session.h"

#include <memory>

namespace mpcomm::run {

/// Outputs that tell what ran when. Rank 0 writes them, and all ranks help.
struct TracedOutputs {
  bool trace = false, timeline = false, profile = false;
  bool any() const { return trace || timeline || profile; }
};

/// What a checkpoint says of the samples; empty where it does not.
struct DataRecord {
  std::optional<uint64_t> globalBatch, samples;
  std::optional<bool> shuffle;
  std::optional<LastBatch> lastBatch;
  std::string checksum;
};

struct TrainingJob {
  RunOptions options;
  std::unique_ptr<RunProgram> program;
  uint64_t ranks = 1;
  /// Ranks that differ in their samples.
  uint64_t dataRanks = 1;

  /// The functions that will run, on any rank; empty where they will not.
  std::vector<const ManifestFunction *> trainers, evaluators;

  /// Of this rank, from `becomeRank` on: which of the data ranks it is, and the
  /// functions that it will run (null where it will not).
  uint64_t dataRank = 0;
  const ManifestFunction *train = nullptr;
  const ManifestFunction *evaluate = nullptr;

  std::optional<Dataset> data, evalData;

  /// The checkpoint that is resumed, which is nobody's abandoned file while it
  /// is open, and what it says.
  std::optional<StateFile> checkpoint;
  std::optional<CheckpointInfo> resumed;
  DataRecord resumedData;

  /// Steps [firstStep, lastStep) remain to be done.
  uint64_t firstStep = 0, lastStep = 0;
  uint64_t seed = 0;
  LearningRate learningRate;

  /// What rank 0 was asked for, from `shareOutputs` on.
  TracedOutputs outputs;

  /// Something to tell the user that is no error.
  std::vector<std::string> warnings;

  /// Makes this the job of `rank`.
  void becomeRank(uint64_t rank);

  /// Samples of all ranks in one training step.
  uint64_t globalBatch() const;
  /// The order of training's samples, where there is data.
  Sampler sampler() const;
  /// One line that names the program, the ranks and the steps.
  std::string describe() const;
  /// The hyperparameter `lr` of training, or null.
  const ManifestArgument *learningRateArgument() const;
  /// Value of the hyperparameter `argument` at `step`.
  double hyperparameter(const ManifestArgument &argument, uint64_t step) const;
};

/// Samples that a data rank takes in one call of `functions`, all of one name.
uint64_t batchSizeOf(const std::vector<const ManifestFunction *> &functions);

/// Checks `program` against the number of ranks and against the options, and
/// opens all files. Reads the datasets once. Whose job it is, is left open.
Expected<TrainingJob> prepareJob(const RunOptions &options,
                                 std::unique_ptr<RunProgram> program,
                                 uint64_t ranks);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_TRAININGJOB_H
