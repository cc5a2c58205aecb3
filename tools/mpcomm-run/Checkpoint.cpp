//===- Checkpoint.cpp - state on disk -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Checkpoint.h.
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"

#include "Job.h"

#include <charconv>

using namespace mpcomm::run;

Result<CheckpointInfo>
mpcomm::run::readCheckpointInfo(const SafeTensors &file) {
  CheckpointInfo info;
  std::string wrong;
  auto number = [&](const char *key, bool required) -> uint64_t {
    auto found = file.metadata().find(key);
    if (found == file.metadata().end()) {
      if (required && wrong.empty())
        wrong = key;
      return 0;
    }
    uint64_t value = 0;
    const std::string &text = found->second;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      wrong = key;
    return value;
  };
  info.step = number("mpcomm.step", true);
  info.seed = number("mpcomm.seed", true);
  info.globalBatch = number("mpcomm.global_batch", false);
  info.samples = number("mpcomm.samples", false);
  auto shuffle = file.metadata().find("mpcomm.shuffle");
  info.shuffle = shuffle == file.metadata().end() || shuffle->second != "0";
  if (!wrong.empty())
    return fail(file.path(), ": not a checkpoint: metadata '", wrong,
                "' is missing or not a number");
  return info;
}

Status mpcomm::run::writeCheckpoint(const Job &job, uint64_t step) {
  std::map<std::string, std::string> metadata = {
      {"mpcomm.step", std::to_string(step)},
      {"mpcomm.seed", std::to_string(job.seed)},
      {"mpcomm.shuffle", job.options.shuffle ? "1" : "0"},
      {"mpcomm.global_batch", std::to_string(job.globalBatch())},
      {"mpcomm.samples", std::to_string(job.data ? job.data->samples() : 0)},
      {"mpcomm.program", job.program->manifest().program}};
  return writeSafetensors(job.options.checkpoint,
                          job.state->tensors(/*optimizer=*/true), metadata);
}

Status mpcomm::run::writeWeights(const Job &job) {
  return writeSafetensors(
      job.options.saveWeights, job.state->tensors(/*optimizer=*/false),
      {{"format", "pt"}, {"mpcomm.program", job.program->manifest().program}});
}
