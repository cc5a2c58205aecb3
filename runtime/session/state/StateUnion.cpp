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

#include "files/Hash.h"

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
  // By name and first element.
  std::vector<std::map<uint64_t, SharedTensor>> all;
  std::map<std::string, size_t> known;
  for (const auto &[functions, members] : groups) {
    std::set<std::string> own;
    for (const ManifestFunction *function : functions) {
      if (!function)
        continue;
      for (const ManifestArgument &argument : function->arguments) {
        bool isKept =
            !argument.isTransient &&
            (optimizer ? isState(argument.role) : isWeight(argument.role));
        if (!isKept || !own.insert(argument.name).second)
          continue;
        auto [entry, isNew] = known.try_emplace(argument.name, all.size());
        if (isNew)
          all.emplace_back();
        for (uint64_t rank : members) {
          ElementRange range = rangeOf(argument, rank);
          if (argument.split && range.count == 0)
            continue;
          SharedTensor &tensor = all[entry->second][range.first];
          if (tensor.holders.empty()) {
            tensor.name = argument.name;
            tensor.role = argument.role;
            tensor.type = argument.type;
            tensor.shape = argument.shape;
            tensor.first = range.first;
            if (argument.split) {
              tensor.shape = {static_cast<int64_t>(range.count)};
              tensor.whole = argument.split->whole;
            }
          }
          tensor.holders.push_back(rank);
        }
      }
    }
  }
  std::vector<SharedTensor> list;
  for (auto &parts : all)
    for (auto &[first, tensor] : parts) {
      std::sort(tensor.holders.begin(), tensor.holders.end());
      list.push_back(std::move(tensor));
    }
  return list;
}

/// What messages say that they are.
static constexpr const char *stateForFile = "state for a file";

/// Takes `tensor` from its owner, to `sink`, block by block.
static Error receiveTensor(const SharedTensor &tensor, Rank &rank,
                           const TensorSink &sink) {
  if (Error status = rank.agree({}); status.failed())
    return status;
  std::vector<char> block(blockBytes);
  uint64_t bytes = tensor.bytes();
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
    uint64_t bytes = tensor.bytes();
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

/// Gives the parts of a tensor, from wherever they are, to `sink`.
static Error collect(const std::vector<const SharedTensor *> &parts,
                     const std::map<std::string, const void *> &own, Rank &rank,
                     const TensorSink &sink) {
  Error error;
  for (const SharedTensor *part : parts) {
    // What is sent is taken, whatever has failed.
    TensorSink take = [&](const void *data, uint64_t bytes) {
      return error ? Error() : sink(data, bytes);
    };
    Error now = part->owner() == 0 ? take(own.at(part->name), part->bytes())
                                   : receiveTensor(*part, rank, take);
    if (now && !error)
      error = now;
  }
  return error;
}

Error mprt::writeUnion(const std::string &path, const RankState &state,
                       Rank &rank, std::vector<SharedTensor> all,
                       const std::map<std::string, std::string> &metadata) {
  sortForFile(all);
  std::map<std::string, const void *> own = dataOf(state);
  // The checksum of a whole is not made of those of its parts: these travel
  // once more.
  std::vector<SharedTensor> split;
  std::copy_if(all.begin(), all.end(), std::back_inserter(split),
               [](const SharedTensor &tensor) { return tensor.whole; });
  if (rank.index() != 0) {
    if (!split.empty())
      if (Error error = sendTensors(split, own, rank))
        return error;
    return sendTensors(all, own, rank);
  }
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<const SharedTensor *>> parts;
  for (const SharedTensor &tensor : all) {
    if (tensors.empty() || tensors.back().name != tensor.name) {
      tensors.push_back({tensor.name, tensor.type,
                         tensor.whole ? *tensor.whole : tensor.shape});
      tensors.back().checksum = tensor.checksum;
      parts.emplace_back();
    }
    parts.back().push_back(&tensor);
  }
  Error error;
  for (size_t i = 0; i < tensors.size() && !error; ++i) {
    tensors[i].produce = [&, i](const TensorSink &sink) {
      return collect(parts[i], own, rank, sink);
    };
    if (!parts[i].front()->whole)
      continue;
    Hash hash;
    error = collect(parts[i], own, rank, [&](const void *data, uint64_t bytes) {
      hash.add(data, bytes);
      return Error();
    });
    tensors[i].checksum = hash.value();
  }
  if (error || !split.empty())
    if (Error failed = rank.agree(error))
      return failed;
  return rank.agree(writeSafetensors(path, tensors, metadata));
}
