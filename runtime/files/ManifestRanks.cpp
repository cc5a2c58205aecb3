//===- ManifestRanks.cpp - which rank runs what ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are laid out row-major over the mesh: the last axis varies fastest. An
// axis by which any function is chosen is one along which ranks work on the
// same samples, as the stages of a pipeline do.
//
//===----------------------------------------------------------------------===//

#include "files/Manifest.h"

#include <algorithm>

using namespace mprt;

int64_t Manifest::ranks() const {
  int64_t product = 1;
  for (const ManifestAxis &axis : axes)
    product *= axis.size;
  return product;
}

uint64_t ManifestSplit::parts() const {
  uint64_t product = 1;
  for (const Axis &axis : axes)
    product *= axis.size;
  return product;
}

uint64_t ManifestSplit::partOf(uint64_t rank) const {
  uint64_t part = 0;
  for (const Axis &axis : axes)
    part = part * axis.size + rank / axis.stride % axis.size;
  return part;
}

ElementRange mprt::rangeOf(const ManifestTensor &tensor, uint64_t rank) {
  if (!tensor.split)
    return {0, tensor.elements};
  uint64_t whole = *elementsOf(tensor.split->whole);
  uint64_t first =
      std::min(whole, tensor.split->partOf(rank) * tensor.elements);
  return {first, std::min(tensor.elements, whole - first)};
}

/// Where `rank` is on each axis.
static std::vector<int64_t> locate(const std::vector<ManifestAxis> &axes,
                                   uint64_t rank) {
  std::vector<int64_t> at(axes.size());
  auto rest = static_cast<int64_t>(rank);
  for (size_t i = axes.size(); i-- > 0;) {
    at[i] = rest % axes[i].size;
    rest /= axes[i].size;
  }
  return at;
}

/// Whether ranks at `at` run `function`.
static bool runs(const ManifestFunction &function,
                 const std::vector<int64_t> &at) {
  auto isThere = [&](const ManifestCoordinates &coordinates) {
    return std::all_of(coordinates.begin(), coordinates.end(),
                       [&](const auto &c) { return at[c.first] == c.second; });
  };
  return function.coordinates.empty() ||
         std::any_of(function.coordinates.begin(), function.coordinates.end(),
                     isThere);
}

std::vector<const ManifestFunction *>
Manifest::findAll(const std::string &name) const {
  std::vector<const ManifestFunction *> all;
  for (const ManifestFunction &function : functions)
    if (function.name == name)
      all.push_back(&function);
  return all;
}

const ManifestFunction *Manifest::find(const std::string &name,
                                       uint64_t rank) const {
  std::vector<int64_t> at = locate(axes, rank);
  for (const ManifestFunction &function : functions)
    if (function.name == name && runs(function, at))
      return &function;
  return nullptr;
}

/// For each axis, whether functions are chosen by it.
static std::vector<bool> findStageAxes(const Manifest &manifest) {
  std::vector<bool> chosenBy(manifest.axes.size());
  for (const ManifestFunction &function : manifest.functions)
    for (const ManifestCoordinates &coordinates : function.coordinates)
      for (const auto &[axis, at] : coordinates)
        chosenBy[axis] = true;
  return chosenBy;
}

uint64_t Manifest::dataRanks() const {
  std::vector<bool> isStage = findStageAxes(*this);
  uint64_t product = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!isStage[i])
      product *= static_cast<uint64_t>(axes[i].size);
  return product;
}

uint64_t Manifest::dataRankOf(uint64_t rank) const {
  std::vector<bool> isStage = findStageAxes(*this);
  std::vector<int64_t> at = locate(axes, rank);
  uint64_t number = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!isStage[i])
      number = number * static_cast<uint64_t>(axes[i].size) +
               static_cast<uint64_t>(at[i]);
  return number;
}

static bool spans(const ManifestCommunicator &communicator, size_t axis) {
  return std::binary_search(communicator.axes.begin(), communicator.axes.end(),
                            axis);
}

uint64_t Manifest::groupOf(uint64_t rank, size_t c) const {
  std::vector<int64_t> at = locate(axes, rank);
  uint64_t number = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!spans(communicators[c], i))
      number = number * static_cast<uint64_t>(axes[i].size) +
               static_cast<uint64_t>(at[i]);
  return number;
}

uint64_t Manifest::groupSize(size_t c) const {
  uint64_t product = 1;
  for (size_t i : communicators[c].axes)
    product *= static_cast<uint64_t>(axes[i].size);
  return product;
}

std::string Manifest::describeMesh() const {
  std::string text;
  for (const ManifestAxis &axis : axes)
    text += (text.empty() ? "" : " x ") + axis.name + ":" +
            std::to_string(axis.size);
  return text.empty() ? "no mesh" : text;
}

std::string Manifest::describeRank(uint64_t rank) const {
  std::vector<int64_t> at = locate(axes, rank);
  std::string text = "rank " + std::to_string(rank);
  for (size_t i = 0; i < axes.size(); ++i)
    text += (i ? " x " : " (") + printable(axes[i].name) + ":" +
            std::to_string(at[i]);
  return axes.empty() ? text : text + ")";
}

//===----------------------------------------------------------------------===//
// Conflicts
//===----------------------------------------------------------------------===//

/// How messages distinguish functions of one name.
static std::string title(const ManifestFunction &function) {
  std::string text = "'" + printable(function.name) + "'";
  if (!function.coordinates.empty())
    text += " (entry '" + printable(function.entry) + "')";
  return text;
}

/// Each rank runs one function of each name.
static std::string findCoverageConflict(const Manifest &manifest) {
  std::map<std::string, std::vector<const ManifestFunction *>> byName;
  for (const ManifestFunction &function : manifest.functions)
    byName[function.name].push_back(&function);
  for (const auto &[name, functions] : byName) {
    if (functions.size() == 1 && functions[0]->coordinates.empty())
      continue;
    for (uint64_t rank = 0; rank < static_cast<uint64_t>(manifest.ranks());
         ++rank) {
      std::vector<int64_t> at = locate(manifest.axes, rank);
      const ManifestFunction *chosen = nullptr;
      for (const ManifestFunction *function : functions) {
        if (!runs(*function, at))
          continue;
        if (chosen)
          return "a second function '" + printable(name) + "' for " +
                 manifest.describeRank(rank) + ": entries '" +
                 printable(chosen->entry) + "' and '" +
                 printable(function->entry) + "'";
        chosen = function;
      }
      if (!chosen)
        return "no function '" + printable(name) + "' for " +
               manifest.describeRank(rank);
    }
  }
  return "";
}

/// The same state or batch argument of two functions has one type; ranks take
/// as many samples in one function as in another of its name.
static std::string findArgumentConflict(const Manifest &manifest) {
  using Place = std::pair<const ManifestFunction *, const ManifestArgument *>;
  std::map<std::string, Place> known, batches;
  for (const ManifestFunction &function : manifest.functions)
    for (const ManifestArgument &argument : function.arguments) {
      auto [entry, isNew] =
          known.try_emplace(argument.name, &function, &argument);
      const auto &[otherFunction, other] = entry->second;
      // A batch may be of another size in another function.
      Shape x = argument.shape, y = other->shape;
      if (argument.role == Role::Batch && !x.empty() && !y.empty())
        x[0] = y[0] = 0;
      if (other->role != argument.role || other->type != argument.type ||
          x != y || other->split != argument.split)
        return "'" + printable(argument.name) + "' is " +
               describe(other->type, other->shape) + " in " +
               title(*otherFunction) + " and " +
               describe(argument.type, argument.shape) + " in " +
               title(function) + ", or its role differs";
      if (argument.role != Role::Batch)
        continue;
      auto [first, isFirst] =
          batches.try_emplace(function.name, &function, &argument);
      if (first->second.second->shape[0] != argument.shape[0])
        return title(*first->second.first) + " takes " +
               std::to_string(first->second.second->shape[0]) +
               " samples, and " + title(function) + " takes " +
               std::to_string(argument.shape[0]);
    }
  return "";
}

std::string mprt::findConflict(const Manifest &manifest) {
  std::string conflict = findCoverageConflict(manifest);
  return conflict.empty() ? findArgumentConflict(manifest) : conflict;
}
