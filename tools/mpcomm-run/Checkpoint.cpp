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
#include <cmath>
#include <string_view>
#include <type_traits>

using namespace mpcomm::run;

namespace {

constexpr std::string_view hyperparameterPrefix = "mpcomm.hyperparameter.";

/// Reads the values of the metadata; remembers the first that is wrong.
class MetadataReader {
public:
  explicit MetadataReader(const SafeTensors &file) : all(file.metadata()) {}

  template <typename T> std::optional<T> number(const std::string &key) {
    auto found = all.find(key);
    if (found == all.end())
      return std::nullopt;
    const std::string &text = found->second;
    T value{};
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    bool whole = error == std::errc() && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>)
      whole &= std::isfinite(value);
    if (!whole)
      report(key);
    return value;
  }

  uint64_t required(const char *key) {
    std::optional<uint64_t> value = number<uint64_t>(key);
    if (!value)
      report(key);
    return value.value_or(0);
  }

  void report(const std::string &key) {
    if (wrong.empty())
      wrong = key;
  }

  const std::map<std::string, std::string> &all;
  std::string wrong;
};

} // namespace

Result<CheckpointInfo>
mpcomm::run::readCheckpointInfo(const SafeTensors &file) {
  CheckpointInfo info;
  MetadataReader reader(file);
  info.step = reader.required("mpcomm.step");
  info.seed = reader.required("mpcomm.seed");
  info.globalBatch = reader.number<uint64_t>("mpcomm.global_batch").value_or(0);
  info.samples = reader.number<uint64_t>("mpcomm.samples").value_or(0);
  auto shuffle = reader.all.find("mpcomm.shuffle");
  info.shuffle = shuffle == reader.all.end() || shuffle->second != "0";
  info.lr = reader.number<double>("mpcomm.lr");
  info.lrWarmup = reader.number<uint64_t>("mpcomm.lr_warmup");
  info.lrTotal = reader.number<uint64_t>("mpcomm.lr_total");
  if (auto kind = reader.all.find("mpcomm.lr_schedule");
      kind != reader.all.end()) {
    info.lrSchedule = parseDecayKind(kind->second);
    if (!info.lrSchedule)
      reader.report(kind->first);
  }
  for (const auto &[key, value] : reader.all)
    if (key.rfind(hyperparameterPrefix, 0) == 0)
      if (std::optional<double> number = reader.number<double>(key))
        info.hyperparameters[key.substr(hyperparameterPrefix.size())] = *number;
  if (!reader.wrong.empty())
    return fail(file.path(), ": not a checkpoint: metadata '",
                printable(reader.wrong), "' is missing or not a number");
  return info;
}

std::map<std::string, std::string>
mpcomm::run::describeCheckpoint(const Job &job, uint64_t step) {
  std::map<std::string, std::string> metadata = {
      {"mpcomm.step", std::to_string(step)},
      {"mpcomm.seed", std::to_string(job.seed)},
      {"mpcomm.shuffle", job.options.shuffle ? "1" : "0"},
      {"mpcomm.global_batch", std::to_string(job.globalBatch())},
      {"mpcomm.samples", std::to_string(job.data ? job.data->samples() : 0)},
      {"mpcomm.program", job.program->manifest().program}};
  auto addHyperparameter = [&](const ManifestArgument &argument) {
    if (argument.name != "lr") {
      metadata[std::string(hyperparameterPrefix) + argument.name] =
          exactly(job.hyperparameter(argument, step));
      return;
    }
    metadata["mpcomm.lr"] = exactly(job.learningRate.base);
    metadata["mpcomm.lr_schedule"] = nameOf(job.learningRate.kind);
    metadata["mpcomm.lr_warmup"] = std::to_string(job.learningRate.warmup);
    metadata["mpcomm.lr_total"] = std::to_string(job.learningRate.total);
  };
  for (const ManifestFunction *function : job.trainers)
    for (const ManifestArgument &argument : function->arguments)
      if (argument.role == Role::Hyperparameter)
        addHyperparameter(argument);
  return metadata;
}
