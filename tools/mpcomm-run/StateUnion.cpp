//===- StateUnion.cpp - the state of all ranks in one file ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank knows from the manifest which tensors there are, in which order
// they stand in the file, and who owns them. Before each tensor that travels
// all ranks agree that the file still grows, which also shows those that have
// nothing to send that something moves. A tensor travels in blocks, so that no
// rank holds more of it than one.
//
//===----------------------------------------------------------------------===//

#include "StateUnion.h"

#include <algorithm>
#include <set>

using namespace mpcomm::run;

/// Bytes that travel at once.
static constexpr uint64_t blockBytes = 1 << 20;

std::vector<SharedTensor> mpcomm::run::unionOfState(const Job &job,
                                                    bool optimizer) {
  const Manifest &manifest = job.program->manifest();
  std::vector<SharedTensor> all;
  std::map<std::string, size_t> known;
  for (uint64_t rank = 0; rank < job.ranks; ++rank) {
    if (manifest.dataRankOf(rank) != 0)
      continue;
    std::set<std::string> own;
    auto add = [&](const ManifestFunction *function) {
      for (const ManifestArgument &argument : function->arguments) {
        bool isKept = optimizer ? isState(argument.role)
                                : argument.role == Role::Parameter ||
                                      argument.role == Role::Buffer;
        if (!isKept || !own.insert(argument.name).second)
          continue;
        auto [entry, isNew] = known.try_emplace(argument.name, all.size());
        if (isNew)
          all.push_back(
              {argument.name, argument.type, argument.shape, rank, {}});
        all[entry->second].holders.push_back(rank);
      }
    };
    if (!job.trainers.empty())
      add(manifest.find("train_step", rank));
    if (!job.evaluators.empty())
      add(manifest.find("evaluate", rank));
  }
  return all;
}

/// FNV-1a of a tensor's words.
static uint64_t digestOf(const void *data, uint64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto *bytesOfData = static_cast<const unsigned char *>(data);
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::copy_n(bytesOfData + at, std::min<uint64_t>(sizeof(word), bytes - at),
                reinterpret_cast<unsigned char *>(&word));
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

/// Copies of one tensor on ranks that run different functions are made by
/// different code: a file holds one of them, so they must be equal.
static Status compareCopies(const std::vector<SharedTensor> &all,
                            const std::map<std::string, const void *> &own,
                            Rank &rank) {
  std::vector<uint64_t> mine;
  std::vector<const SharedTensor *> copied;
  for (const SharedTensor &tensor : all) {
    if (tensor.holders.size() < 2)
      continue;
    copied.push_back(&tensor);
    auto found = own.find(tensor.name);
    mine.push_back(
        found == own.end()
            ? 0
            : digestOf(found->second, *bytesOf(tensor.type, tensor.shape)));
  }
  if (copied.empty())
    return {};
  std::vector<uint64_t> digests(mine.size() * rank.size());
  if (Status status = rank.gather(mine.data(), digests.data(),
                                  mine.size() * sizeof(uint64_t));
      status.failed())
    return status;
  for (size_t i = 0; i < copied.size(); ++i)
    for (uint64_t holder : copied[i]->holders)
      if (digests[holder * mine.size() + i] !=
          digests[copied[i]->owner * mine.size() + i])
        return rank.index() != 0
                   ? Status::failure("")
                   : fail("tensor '", printable(copied[i]->name),
                          "' is not the same on ranks ", copied[i]->owner,
                          " and ", holder,
                          ", which both hold it: the program updates it "
                          "differently there");
  return {};
}

/// Takes `tensor` from its owner, to `sink`, block by block.
static Status receiveTensor(const SharedTensor &tensor, Rank &rank,
                            const TensorSink &sink) {
  if (Status status = rank.agree({}); status.failed())
    return status;
  std::vector<char> block(blockBytes);
  uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
  Status written;
  for (uint64_t at = 0; at < bytes; at += blockBytes) {
    uint64_t count = std::min(blockBytes, bytes - at);
    if (Status status = rank.receive(tensor.owner, block.data(), count);
        status.failed())
      return status;
    // What cannot be written is still taken: its sender counts on that.
    if (written.ok())
      written = sink(block.data(), count);
  }
  return written;
}

/// What ranks other than 0 do while rank 0 writes.
static Status sendTensors(const std::vector<SharedTensor> &all,
                          const std::map<std::string, const void *> &own,
                          Rank &rank) {
  for (const SharedTensor &tensor : all) {
    if (tensor.owner == 0)
      continue;
    if (Status status = rank.agree({}); status.failed())
      return status;
    if (tensor.owner != rank.index())
      continue;
    const auto *data = static_cast<const char *>(own.at(tensor.name));
    uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
    for (uint64_t at = 0; at < bytes; at += blockBytes)
      if (Status status =
              rank.send(0, data + at, std::min(blockBytes, bytes - at));
          status.failed())
        return status;
  }
  return rank.agree({});
}

Status
mpcomm::run::writeUnion(const std::string &path, const Job &job, Rank &rank,
                        bool optimizer,
                        const std::map<std::string, std::string> &metadata) {
  std::vector<SharedTensor> all = unionOfState(job, optimizer);
  sortForFile(all);
  std::map<std::string, const void *> own;
  for (const TensorToWrite &tensor : job.state->tensors(optimizer))
    own[tensor.name] = tensor.data;
  if (Status status = compareCopies(all, own, rank); status.failed())
    return status;
  if (rank.index() != 0)
    return sendTensors(all, own, rank);
  std::vector<TensorToWrite> tensors;
  for (const SharedTensor &tensor : all) {
    TensorToWrite &entry = tensors.emplace_back(
        TensorToWrite{tensor.name, tensor.type, tensor.shape});
    if (tensor.owner == 0)
      entry.data = own.at(tensor.name);
    else
      entry.produce = [&](const TensorSink &sink) {
        return receiveTensor(tensor, rank, sink);
      };
  }
  return rank.agree(writeSafetensors(path, tensors, metadata));
}
