//===- Resume.cpp - the samples of a run, in its checkpoints --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "train/Resume.h"

#include "files/Hash.h"

#include <charconv>

using namespace mpcomm::run;

static constexpr const char *globalBatchKey = "mpcomm-run.global_batch",
                            *samplesKey = "mpcomm-run.samples",
                            *dataKey = "mpcomm-run.data",
                            *shuffleKey = "mpcomm-run.shuffle",
                            *lastBatchKey = "mpcomm-run.last_batch";

Expected<DataRecord> mpcomm::run::readDataRecord(const StateFile &file) {
  const std::map<std::string, std::string> &all = file.metadata();
  DataRecord record;
  for (auto [key, value] : {std::pair(globalBatchKey, &record.globalBatch),
                            std::pair(samplesKey, &record.samples)}) {
    auto found = all.find(key);
    if (found == all.end())
      continue;
    const std::string &text = found->second;
    const char *last = text.data() + text.size();
    auto [end, error] = std::from_chars(text.data(), last, value->emplace());
    if (error != std::errc() || end != last)
      return fail(file.path(), ": not a checkpoint: metadata '", key,
                  "' is not a number");
  }
  auto textOf = [&](const char *key) {
    auto found = all.find(key);
    return found == all.end() ? std::string() : found->second;
  };
  record.checksum = textOf(dataKey);
  if (std::string text = textOf(shuffleKey); !text.empty())
    record.shuffle = text != "0";
  if (std::string text = textOf(lastBatchKey); !text.empty())
    record.lastBatch =
        text == nameOf(LastBatch::Wrap) ? LastBatch::Wrap : LastBatch::Drop;
  return record;
}

std::map<std::string, std::string>
mpcomm::run::describeData(const TrainingJob &job) {
  std::map<std::string, std::string> metadata = {
      {globalBatchKey, std::to_string(job.globalBatch())},
      {samplesKey, std::to_string(job.data ? job.data->samples() : 0)},
      {shuffleKey, job.options.shuffle ? "1" : "0"},
      {lastBatchKey, nameOf(job.options.format.lastBatch)}};
  if (job.data)
    metadata[dataKey] = hexOf(job.data->checksum());
  return metadata;
}

std::vector<std::string>
mpcomm::run::differencesFrom(const CheckpointInfo &info,
                             const TrainingJob &job) {
  std::vector<std::string> found =
      mprt::differencesFrom(info, job.program->manifest());
  auto compare = [&](const std::string &what, const std::string &now,
                     const std::string &before) {
    if (now != before)
      found.push_back(describeDifference(what, now, before));
  };
  const DataRecord &record = job.resumedData;
  if (job.data) {
    if (!record.checksum.empty())
      compare("data with checksum", hexOf(job.data->checksum()),
              record.checksum);
    else if (record.samples)
      compare("samples", std::to_string(job.data->samples()),
              std::to_string(*record.samples));
    auto order = [](bool shuffle) {
      return shuffle ? "shuffled" : "as in the file";
    };
    bool shuffle = job.options.shuffle;
    compare("samples", order(shuffle), order(record.shuffle.value_or(shuffle)));
    LastBatch last = job.options.format.lastBatch;
    compare("--last-batch", nameOf(last),
            nameOf(record.lastBatch.value_or(last)));
  }
  if (job.options.seed)
    compare("--seed", std::to_string(*job.options.seed),
            std::to_string(info.seed));
  return found;
}
