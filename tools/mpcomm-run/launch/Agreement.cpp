//===- Agreement.cpp - what ranks must have in common ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One gather of a digest where all agree. Only where they do not, the lists
// travel, each text after its length.
//
//===----------------------------------------------------------------------===//

#include "launch/Agreement.h"

#include "files/Hash.h"

#include "mpcomm/Runtime/Exactly.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

using namespace mpcomm::run;

namespace {

class SettingList {
public:
  void add(std::string name, std::optional<std::string> value) {
    list.push_back({std::move(name), std::move(value)});
  }
  void addNumber(std::string name, uint64_t value) {
    add(std::move(name), std::to_string(value));
  }
  void addFlag(std::string name, bool given) {
    add(std::move(name), given ? std::optional<std::string>("") : std::nullopt);
  }
  void addData(const std::string &option, const std::optional<Dataset> &data) {
    if (!data)
      return add(option, std::nullopt);
    addNumber("samples of " + option, data->samples());
    for (const auto &[name, checksum] : data->checksums())
      add("tensor '" + printable(name) + "' of " + option + " with checksum",
          hexOf(checksum));
  }

  /// What changes the results and the choice of products on GPUs.
  void addEnvironmentOfGpus() {
    for (const auto &[name, value] :
         {std::pair("MPRT_TF32", "1"), std::pair("MPRT_CUDA_TUNE", "0")}) {
      const char *set = std::getenv(name);
      addFlag(std::string(name) + "=" + value,
              set && std::string_view(set) == value);
    }
  }

  std::vector<SharedSetting> list;
};

/// The list as bytes.
std::string packed(const std::vector<SharedSetting> &settings) {
  std::string bytes;
  auto add = [&](const std::string &text) {
    uint64_t count = text.size();
    bytes.append(reinterpret_cast<const char *>(&count), sizeof(count));
    bytes += text;
  };
  for (const SharedSetting &setting : settings) {
    add(setting.name);
    add(setting.value ? "=" + *setting.value : "");
  }
  return bytes;
}

std::vector<SharedSetting> unpacked(const std::string &bytes) {
  std::vector<std::string> texts;
  for (size_t at = 0; bytes.size() - at >= sizeof(uint64_t);) {
    uint64_t count;
    std::memcpy(&count, bytes.data() + at, sizeof(count));
    at += sizeof(count);
    count = std::min<uint64_t>(count, bytes.size() - at);
    texts.push_back(bytes.substr(at, count));
    at += count;
  }
  std::vector<SharedSetting> settings;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) {
    SharedSetting &setting = settings.emplace_back();
    setting.name = texts[i];
    if (!texts[i + 1].empty())
      setting.value = texts[i + 1].substr(1);
  }
  return settings;
}

const SharedSetting *find(const std::vector<SharedSetting> &settings,
                          const std::string &name) {
  for (const SharedSetting &setting : settings)
    if (setting.name == name)
      return &setting;
  return nullptr;
}

/// "--lr 0.1", "no --resume".
std::string phrase(const std::string &name, const SharedSetting *setting) {
  if (!setting || !setting->value)
    return "no " + name;
  return setting->value->empty() ? name : name + " " + *setting->value;
}

} // namespace

std::vector<SharedSetting>
mpcomm::run::sharedSettingsOf(const TrainingJob &job) {
  const RunOptions &options = job.options;
  const Manifest &manifest = job.program->manifest();
  SettingList all;
  all.add("mpcomm-run", MPCOMM_VERSION);
  all.addNumber("runtime ABI", MPRT_ABI_VERSION);
  all.add("a program file with checksum", hexOf(job.program->checksum()));

  // Of other values ranks either meet in the same way or not at all.
  all.addFlag("--comm nccl", options.comm == "nccl");

  if (manifest.device == "cuda")
    all.addEnvironmentOfGpus();

  // Which functions run, and from where to where.
  bool trains = !job.trainers.empty();
  all.addFlag("--evaluate", options.evaluate);
  all.addNumber("--evaluate-every", options.evaluateEvery);
  all.add("--resume", job.resumed ? std::optional("of step " +
                                                  std::to_string(job.firstStep))
                                  : std::nullopt);
  all.addNumber("--steps", trains ? job.lastStep : 0);
  all.addNumber("--seed", job.seed);
  all.addFlag("--no-shuffle", !options.shuffle);
  all.add("--last-batch", nameOf(options.format.lastBatch));

  if (job.learningRateArgument()) {
    all.add("--lr", exactly(job.learningRate.base));
    all.add("--lr-schedule", nameOf(job.learningRate.kind));
    all.addNumber("--lr-warmup", job.learningRate.warmup);
  }
  std::set<std::string> known;
  for (const auto &functions : {job.trainers, job.evaluators})
    for (const ManifestFunction *function : functions)
      for (const ManifestArgument &argument : function->arguments)
        if (argument.role == Role::Hyperparameter && argument.name != "lr" &&
            known.insert(argument.name).second)
          all.add("--set " + printable(argument.name),
                  exactly(job.hyperparameter(argument, 0)));

  all.addFlag("--checkpoint", !options.checkpoint.empty());
  all.addNumber("--checkpoint-every", options.checkpointEvery);
  all.addFlag("--checkpoint-background", options.checkpointBackground);
  all.addFlag("--save-weights", !options.saveWeights.empty());
  all.add("--check-replicas",
          options.checkReplicas
              ? std::optional(std::to_string(*options.checkReplicas))
              : std::nullopt);
  all.add("--variant", options.variant);
  if (options.variantAfter)
    all.addNumber("--variant-after", options.variantAfter);
  all.add("--adapt", options.adapt);
  all.addFlag("--monitor", !options.monitor.empty());
  if (options.watchesNetwork())
    all.addNumber("--adapt-every", options.adaptEvery);
  // It decides after which steps a run goes on.
  all.addFlag("--allow-nonfinite", options.allowNonFinite);

  all.addData("--data", job.data);
  all.addData("--eval-data", job.evalData);
  return all.list;
}

std::vector<SharedSetting>
mpcomm::run::sharedSettingsOf(const RunOptions &options) {
  SettingList all;
  all.add("mpcomm-run", MPCOMM_VERSION);
  all.addNumber("runtime ABI", MPRT_ABI_VERSION);
  all.addFlag("--calibrate", !options.calibrate.empty());
  all.add("--calibrate-seconds", exactly(options.calibrateSeconds));
  all.addNumber("--calibrate-block", options.calibrateBlock);
  all.add("--device", options.device);
  if (options.device != "host")
    all.addEnvironmentOfGpus();
  all.addFlag("--comm nccl", options.comm == "nccl");
  return all.list;
}

std::string
mpcomm::run::describeDifference(const std::vector<SharedSetting> &first,
                                const std::vector<SharedSetting> &other,
                                uint64_t rank) {
  std::vector<std::string> names;
  auto collect = [&](const std::vector<SharedSetting> &one,
                     const std::vector<SharedSetting> &two) {
    for (const SharedSetting &setting : one) {
      const SharedSetting *match = find(two, setting.name);
      bool same = match && *match == setting;
      if (!same && find(one, setting.name) == &setting &&
          std::find(names.begin(), names.end(), setting.name) == names.end())
        names.push_back(setting.name);
    }
  };
  collect(first, other);
  collect(other, first);
  if (names.empty())
    return "";
  std::string text = "rank " + std::to_string(rank) + " has " +
                     phrase(names[0], find(other, names[0])) +
                     " where rank 0 has " +
                     phrase(names[0], find(first, names[0]));
  constexpr size_t most = 5;
  for (size_t i = 1; i < std::min(names.size(), most); ++i)
    text += (i == 1 ? "; also different: " : ", ") + names[i];
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// The failure that rank 0, with settings `mine`, tells of rank `odd`, which
/// has `other`.
static Error describeOddRank(const std::vector<SharedSetting> &mine,
                             const std::vector<SharedSetting> &other,
                             uint64_t odd) {
  // The program decides most of the rest.
  const char *program = "a program file with checksum";
  const SharedSetting *own = find(mine, program), *its = find(other, program);
  if (own && its && mine[0] == other[0] && mine[1] == other[1] &&
      !(*own == *its))
    return fail("rank ", odd,
                " runs another program file than rank 0, with "
                "checksum ",
                *its->value, " where rank 0's has ", *own->value,
                "; compile once and give every rank the same file");
  return fail(describeDifference(mine, other, odd),
              "; start all ranks with the same options and files");
}

Error mpcomm::run::agreeOn(const std::vector<SharedSetting> &mine,
                           const RunSession &session) {
  std::string bytes = packed(mine);
  uint64_t digest = hashOf(bytes.data(), bytes.size());
  std::vector<uint64_t> all(session.size());
  if (Error error = session.gather(&digest, all.data(), sizeof(digest)))
    return error;
  uint64_t odd = 0;
  while (odd < all.size() && all[odd] == all[0])
    ++odd;
  if (odd == all.size())
    return {};
  Expected<std::vector<std::string>> texts =
      session.gatherText(session.index() == odd ? bytes : std::string());
  if (texts.failed())
    return texts.error();
  // Nobody ends before rank 0 has what it tells.
  return session.agree(session.index() == 0
                           ? describeOddRank(mine, unpacked((*texts)[odd]), odd)
                           : Error());
}

Error mpcomm::run::shareOutputs(TrainingJob &job, const RunSession &session) {
  const RunOptions &options = job.options;
  TracedOutputs mine{!options.trace.empty(), !options.timeline.empty(),
                     !options.profile.empty()};
  std::vector<TracedOutputs> all(session.size());
  if (Error error = session.gather(&mine, all.data(), sizeof(mine)))
    return error;
  job.outputs = all[0];
  return {};
}
