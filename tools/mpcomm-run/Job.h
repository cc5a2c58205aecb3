//===- Job.h - everything that is known before the first step -------------===//
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

#ifndef MPCOMM_RUN_JOB_H
#define MPCOMM_RUN_JOB_H

#include "Checkpoint.h"
#include "Dataset.h"
#include "Options.h"
#include "Program.h"
#include "SafeTensors.h"
#include "State.h"

#include <memory>

namespace mpcomm::run {

struct Job {
  Options options;
  std::unique_ptr<Program> program;
  uint64_t ranks = 1;

  /// The functions that will run; null where they will not.
  const ManifestFunction *train = nullptr;
  const ManifestFunction *evaluate = nullptr;

  std::optional<Dataset> data, evalData;
  /// Weights, or the checkpoint that is resumed.
  std::optional<SafeTensors> weights;
  std::optional<State> state;

  /// What the checkpoint says that is resumed.
  std::optional<CheckpointInfo> resumed;

  /// Steps [firstStep, lastStep) remain to be done.
  uint64_t firstStep = 0, lastStep = 0;
  uint64_t seed = 0;
  LearningRate learningRate;

  /// Something to tell the user that is no error.
  std::vector<std::string> warnings;

  /// Bytes of scratch that the functions need.
  uint64_t arenaBytes() const;
  /// Events that the functions number.
  uint32_t events() const;
  /// Samples of all ranks in one training step.
  uint64_t globalBatch() const;
  /// One line that names the program, the ranks and the steps.
  std::string describe() const;
  /// Value of the hyperparameter `argument` at `step`.
  double hyperparameter(const ManifestArgument &argument, uint64_t step) const;
};

/// Checks `program` against the number of ranks and against the options, and
/// opens all files. Reads the datasets once.
Result<Job> prepareJob(const Options &options, std::unique_ptr<Program> program,
                       uint64_t ranks);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_JOB_H
