//===- StateUnion.cpp - the state of all ranks in one file ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank knows from the manifest which tensors there are, in which order
// they are in the file, and who owns them. Before each tensor that travels
// all ranks agree that the file still grows, which also shows those that have
// nothing to send that something moves. A tensor travels in blocks, so that no
// rank holds more of it than one.
//
//===----------------------------------------------------------------------===//

#include "session/state/StateUnion.h"

#include <algorithm>
#include <set>

using namespace mprt;

/// Bytes that travel at once.
static constexpr uint64_t blockBytes = 1 << 20;

std::vector<const ManifestFunction *> FunctionSet::of(uint64_t rank) const {
  std::vector<const ManifestFunction *> functions;
  for (const std::string &name : names)
    functions.push_back(manifest->find(name, rank));
  return functions;
}

std::vector<SharedTensor>
mprt::unionOfState(const std::vector<FunctionSet> &sets, bool optimizer) {
  // Ranks that run the same functions hold the same tensors.
  using Functions = std::vector<const ManifestFunction *>;
  std::vector<std::pair<Functions, std::vector<uint64_t>>> groups;
  uint64_t ranks = sets.empty() ? 0 : uint64_t(sets[0].manifest->ranks());
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    Functions own;
    for (const FunctionSet &set : sets)
      for (const ManifestFunction *function : set.of(rank))
        own.push_back(function);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto &g) { return g.first == own; });
    if (group == groups.end())
      group = groups.insert(group, {own, {}});
    group->second.push_back(rank);
  }
  std::vector<SharedTensor> all;
  std::map<std::string, size_t> known;
  for (const auto &[functions, members] : groups) {
    std::set<std::string> own;
    for (const ManifestFunction *function : functions) {
      if (!function)
        continue;
      for (const ManifestArgument &argument : function->arguments) {
        bool isKept = optimizer ? isState(argument.role)
                                : argument.role == Role::Parameter ||
                                      argument.role == Role::Buffer;
        if (!isKept || !own.insert(argument.name).second)
          continue;
        auto [entry, isNew] = known.try_emplace(argument.name, all.size());
        if (isNew)
          all.push_back({argument.name, argument.type, argument.shape, {}});
        std::vector<uint64_t> &holders = all[entry->second].holders;
        holders.insert(holders.end(), members.begin(), members.end());
      }
    }
  }
  for (SharedTensor &tensor : all)
    std::sort(tensor.holders.begin(), tensor.holders.end());
  return all;
}

/// What messages say that they are.
static constexpr const char *stateForFile = "state for a file";

/// Takes `tensor` from its owner, to `sink`, block by block.
static Error receiveTensor(const SharedTensor &tensor, Rank &rank,
                           const TensorSink &sink) {
  if (Error status = rank.agree({}); status.failed())
    return status;
  std::vector<char> block(blockBytes);
  uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
  Error written;
  for (uint64_t at = 0; at < bytes; at += blockBytes) {
    uint64_t count = std::min(blockBytes, bytes - at);
    if (Error status =
            rank.receive(tensor.owner(), block.data(), count, stateForFile);
        status.failed())
      return status;
    // What cannot be written is still taken: its sender counts on that.
    if (written.ok())
      written = sink(block.data(), count);
  }
  return written;
}

/// What ranks other than 0 do while rank 0 writes.
static Error sendTensors(const std::vector<SharedTensor> &all,
                         const std::map<std::string, const void *> &own,
                         Rank &rank) {
  for (const SharedTensor &tensor : all) {
    if (tensor.owner() == 0)
      continue;
    if (Error status = rank.agree({}); status.failed())
      return status;
    if (tensor.owner() != rank.index())
      continue;
    const auto *data = static_cast<const char *>(own.at(tensor.name));
    uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
    for (uint64_t at = 0; at < bytes; at += blockBytes)
      if (Error status = rank.send(
              0, data + at, std::min(blockBytes, bytes - at), stateForFile);
          status.failed())
        return status;
  }
  return rank.agree({});
}

std::map<std::string, const void *> mprt::dataOf(const RankState &state) {
  std::map<std::string, const void *> own;
  for (const StateTensor &tensor : state.tensors(/*optimizer=*/true))
    own[tensor.name] = tensor.data;
  return own;
}

Error mprt::writeUnion(const std::string &path, const RankState &state,
                       Rank &rank, std::vector<SharedTensor> all,
                       const std::map<std::string, std::string> &metadata) {
  sortForFile(all);
  std::map<std::string, const void *> own = dataOf(state);
  if (rank.index() != 0)
    return sendTensors(all, own, rank);
  std::vector<TensorToWrite> tensors;
  for (const SharedTensor &tensor : all) {
    TensorToWrite &entry = tensors.emplace_back(
        TensorToWrite{tensor.name, tensor.type, tensor.shape});
    entry.checksum = tensor.checksum;
    if (tensor.owner() == 0)
      entry.data = own.at(tensor.name);
    else
      entry.produce = [&](const TensorSink &sink) {
        return receiveTensor(tensor, rank, sink);
      };
  }
  return rank.agree(writeSafetensors(path, tensors, metadata));
}
