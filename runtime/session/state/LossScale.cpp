//===- LossScale.cpp - what a scaled step did -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See LossScale.h.
//
//===----------------------------------------------------------------------===//

#include "session/state/LossScale.h"

#include <algorithm>

using namespace mprt;

void LossScaleWatch::attach(RankState &state,
                            const ManifestFunction &function) {
  const Binding &binding = state.bindingOf(function);
  auto find = [&](const char *name, bool isCount) -> std::optional<size_t> {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      const ManifestArgument &argument = function.arguments[i];
      if (argument.name == name && argument.role == Role::LossScale &&
          argument.elements == 1 && isFloat(argument.type) != isCount)
        return binding.arguments[i];
    }
    return std::nullopt;
  };
  scaleSlot = find("loss_scale", /*isCount=*/false);
  skippedSlot = find("loss_scale.skipped", /*isCount=*/true);
  if (skippedSlot) {
    const Slot &slot = state.slot(*skippedSlot);
    now = loadInteger(slot.type, slot.data, 0);
  }
  for (const ManifestArgument &argument : function.arguments)
    if (argument.role == Role::Parameter)
      parameters.push_back(argument.name);
  for (size_t i = 0; i < function.results.size(); ++i) {
    const ManifestResult &result = function.results[i];
    if (result.name == "nonfinite" && result.role == Role::Output &&
        isFloat(result.type) && result.elements == parameters.size())
      flagsSlot = binding.results[i];
  }
}

std::vector<size_t> LossScaleWatch::slots() const {
  std::vector<size_t> all;
  for (const std::optional<size_t> &slot : {scaleSlot, skippedSlot, flagsSlot})
    if (slot)
      all.push_back(*slot);
  return all;
}

LossScaleRecord LossScaleWatch::read(RankState &state) {
  LossScaleRecord record;
  if (scaleSlot) {
    const Slot &slot = state.slot(*scaleSlot);
    record.scale = loadFloat(slot.type, slot.data, 0);
  }
  if (skippedSlot) {
    const Slot &slot = state.slot(*skippedSlot);
    int64_t last = now;
    now = loadInteger(slot.type, slot.data, 0);
    record.isSkipped = now != last;
  }
  if (flagsSlot) {
    const Slot &slot = state.slot(*flagsSlot);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (loadFloat(slot.type, slot.data, i) != 0)
        record.nonFinite.push_back(parameters[i]);
  }
  return record;
}

Error mprt::gatherNonFinite(const Manifest &manifest, Rank &rank,
                            std::vector<std::string> &parameters) {
  auto checks = [](const ManifestFunction *function) {
    return std::any_of(function->results.begin(), function->results.end(),
                       [](const ManifestResult &result) {
                         return result.name == "nonfinite";
                       });
  };
  std::vector<const ManifestFunction *> trainers =
      manifest.findAll("train_step");
  if (manifest.dataRanks() == rank.size() ||
      std::none_of(trainers.begin(), trainers.end(), checks))
    return {};
  auto found = uint8_t(!parameters.empty());
  std::vector<uint8_t> any(rank.size());
  if (Error error = rank.gather(&found, any.data(), 1))
    return error;
  if (std::all_of(any.begin(), any.end(), [](uint8_t f) { return f == 0; }))
    return {};
  std::string mine;
  for (const std::string &name : parameters)
    mine += name + '\0';
  Expected<std::vector<std::string>> all = rank.gatherText(
      manifest.dataRankOf(rank.index()) == 0 ? mine : std::string(),
      "names of parameters");
  if (!all)
    return all.error();
  for (uint64_t r = 1; r < rank.size() && rank.index() == 0; ++r)
    for (size_t at = 0; at < (*all)[r].size();) {
      std::string name = (*all)[r].c_str() + at;
      at += name.size() + 1;
      // Stages that share a parameter find the same.
      if (std::find(parameters.begin(), parameters.end(), name) ==
          parameters.end())
        parameters.push_back(std::move(name));
    }
  return {};
}
