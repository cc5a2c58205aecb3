//===- Resume.cpp - a job and the checkpoints of it -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "train/Resume.h"

#include "session/files/Hash.h"

using namespace mpcomm::run;

std::vector<std::string>
mpcomm::run::differencesFrom(const CheckpointInfo &info,
                             const TrainingJob &job) {
  std::vector<std::string> found =
      mprt::differencesFrom(info, job.program->manifest());
  if (job.data) {
    std::string checksum = hexOf(job.data->checksum());

    if (!info.data.empty() && checksum != info.data)
      found.push_back(
          describeDifference("data with checksum", checksum, info.data));
    else if (info.data.empty() && info.samples &&
             *info.samples != job.data->samples())
      found.push_back(describeDifference("samples",
                                         std::to_string(job.data->samples()),
                                         std::to_string(*info.samples)));
    auto order = [](bool shuffle) {
      return shuffle ? "shuffled" : "as in the file";
    };
    if (info.shuffle.value_or(job.options.shuffle) != job.options.shuffle)
      found.push_back(describeDifference("samples", order(job.options.shuffle),
                                         order(*info.shuffle)));
    LastBatch last = job.options.format.lastBatch, before = last;
    if (info.wraps)
      before = *info.wraps ? LastBatch::Wrap : LastBatch::Drop;
    if (before != last)
      found.push_back(
          describeDifference("--last-batch", nameOf(last), nameOf(before)));
  }
  if (job.options.seed && *job.options.seed != info.seed)
    found.push_back(describeDifference("--seed",
                                       std::to_string(*job.options.seed),
                                       std::to_string(info.seed)));
  return found;
}

CheckpointInfo mpcomm::run::describeCheckpoint(const TrainingJob &job,
                                               uint64_t step) {
  const Manifest &manifest = job.program->manifest();
  CheckpointInfo info;
  info.program = manifest.program;
  info.graph = manifest.graph;
  info.step = step;
  info.seed = job.seed;
  info.shuffle = job.options.shuffle;
  info.wraps = job.options.format.lastBatch == LastBatch::Wrap;
  info.globalBatch = job.globalBatch();
  info.samples = job.data ? job.data->samples() : 0;
  if (job.data)
    info.data = hexOf(job.data->checksum());
  for (const ManifestFunction *function : job.trainers)
    for (const ManifestArgument &argument : function->arguments)
      if (argument.role == Role::Hyperparameter && argument.name != "lr")
        info.hyperparameters[argument.name] =
            job.hyperparameter(argument, step);
  if (job.learningRateArgument()) {
    info.lr = job.learningRate.base;
    info.lrSchedule = job.learningRate.kind;
    info.lrWarmup = job.learningRate.warmup;
    info.lrTotal = job.learningRate.total;
  }
  return info;
}
