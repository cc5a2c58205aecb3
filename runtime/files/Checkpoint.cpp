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

#include "files/Checkpoint.h"

#include "files/Hash.h"

#include "mpcomm/Runtime/Exactly.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

using namespace mprt;

namespace {

constexpr std::string_view hyperparameterPrefix = "mpcomm.hyperparameter.";
constexpr std::string_view optionPrefix = "mpcomm.option.";

/// Reads the values of the metadata; remembers the first that is wrong.
class MetadataReader {
public:
  explicit MetadataReader(const StateFile &file) : all(file.metadata()) {}

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

  std::string text(const std::string &key) const {
    auto found = all.find(key);
    return found == all.end() ? std::string() : found->second;
  }

  void report(const std::string &key) {
    if (wrong.empty())
      wrong = key;
  }

  const std::map<std::string, std::string> &all;
  std::string wrong;
};

constexpr std::string_view separator = "; ";

/// Each optimizer op with its constants, in one text.
std::string join(const std::vector<std::string> &texts) {
  std::string joined;
  for (const std::string &text : texts)
    joined += (joined.empty() ? "" : std::string(separator)) + text;
  return joined;
}

std::vector<std::string> split(std::string_view joined) {
  std::vector<std::string> texts;
  for (size_t end = 0; !joined.empty(); joined.remove_prefix(end)) {
    end = std::min(joined.find(separator), joined.size());
    texts.emplace_back(joined.substr(0, end));
    end = std::min(end + separator.size(), joined.size());
  }
  return texts;
}

/// What of `texts` is not among `others`, in one text.
std::string joinWithout(const std::vector<std::string> &texts,
                        const std::vector<std::string> &others) {
  std::vector<std::string> left;
  for (const std::string &text : texts)
    if (std::find(others.begin(), others.end(), text) == others.end())
      left.push_back(text);
  return join(left);
}

/// Of a model that was imported with batches of another size, the graph is
/// another; its structure tells.
bool isSameModel(const ManifestGraph &a, const ManifestGraph &b) {
  return a.digest == b.digest ||
         (a.structure == b.structure &&
          (a.batch != b.batch || join(a.optimizer) != join(b.optimizer)));
}

} // namespace

std::string mprt::describeDifference(const std::string &what,
                                     const std::string &now,
                                     const std::string &before) {
  // Two optimizers may differ in their last constant only.
  constexpr size_t longest = 1000;
  auto quote = [](const std::string &text) {
    return text.empty() ? std::string("none") : printable(text, longest);
  };
  return what + " " + quote(now) + " where the checkpoint has " + quote(before);
}

std::vector<std::string> mprt::differencesFrom(const CheckpointInfo &info,
                                               const Manifest &manifest) {
  std::vector<std::string> found;
  const std::optional<ManifestGraph> &now = manifest.graph;
  if (!now || !info.graph)
    return found;
  const ManifestGraph &before = *info.graph;
  if (!isSameModel(*now, before))
    found.push_back(describeDifference("a graph with checksum", now->digest,
                                       before.digest));
  if (join(now->optimizer) != join(before.optimizer))
    found.push_back(describeDifference(
        "optimizer", joinWithout(now->optimizer, before.optimizer),
        joinWithout(before.optimizer, now->optimizer)));
  for (const auto &[name, value] : now->options)
    if (auto kept = before.options.find(name);
        kept != before.options.end() && kept->second != value)
      found.push_back(describeDifference(printable(name), value, kept->second));
  return found;
}

Expected<CheckpointInfo> mprt::readCheckpointInfo(const StateFile &file) {
  CheckpointInfo info;
  MetadataReader reader(file);
  info.step = reader.required("mpcomm.step");
  info.seed = reader.required("mpcomm.seed");
  info.program = reader.text("mpcomm.program");
  if (std::string digest = reader.text("mpcomm.graph"); !digest.empty()) {
    info.graph.emplace();
    info.graph->digest = digest;
    info.graph->structure = reader.text("mpcomm.graph_structure");
    info.graph->batch =
        reader.number<uint64_t>("mpcomm.graph_batch").value_or(0);
    info.graph->optimizer = split(reader.text("mpcomm.optimizer"));
    for (const auto &[key, value] : reader.all)
      if (key.starts_with(optionPrefix))
        info.graph->options[key.substr(optionPrefix.size())] = value;
  }
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
mprt::metadataOf(const CheckpointInfo &info) {
  std::map<std::string, std::string> metadata = {
      {"mpcomm.step", std::to_string(info.step)},
      {"mpcomm.seed", std::to_string(info.seed)},
      {"mpcomm.program", info.program}};
  auto add = [&](const char *key, const auto &value, auto text) {
    if (value)
      metadata[key] = text(*value);
  };
  auto count = [](uint64_t value) { return std::to_string(value); };
  if (const std::optional<ManifestGraph> &graph = info.graph) {
    metadata["mpcomm.graph"] = graph->digest;
    metadata["mpcomm.graph_structure"] = graph->structure;
    metadata["mpcomm.graph_batch"] = std::to_string(graph->batch);
    metadata["mpcomm.optimizer"] = join(graph->optimizer);
    for (const auto &[name, value] : graph->options)
      metadata[std::string(optionPrefix) + name] = value;
  }
  for (const auto &[name, value] : info.hyperparameters)
    metadata[std::string(hyperparameterPrefix) + name] = mpcomm::exactly(value);
  add("mpcomm.lr", info.lr,
      [](double value) { return mpcomm::exactly(value); });
  add("mpcomm.lr_schedule", info.lrSchedule,
      [](DecayKind kind) { return nameOf(kind); });
  add("mpcomm.lr_warmup", info.lrWarmup, count);
  add("mpcomm.lr_total", info.lrTotal, count);
  return metadata;
}
