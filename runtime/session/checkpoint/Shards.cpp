//===- Shards.cpp - a checkpoint that all ranks write ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// While ranks write together they meet before each tensor, so that those that
// are done see that something moves, and all stop when one has failed. In the
// background there is no way to meet: rank 0 looks for the files, and a rank
// that cannot write its shard leaves a mark in its place.
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/Shards.h"

#include "files/Hash.h"
#include "files/OutputFile.h"
#include "files/StateFile.h"
#include "support/Trace.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/mman.h>
#include <thread>

using namespace mprt;

namespace fs = std::filesystem;

static constexpr const char *failureMark = ".failed";

/// Of a paced writer, so that rank 0 sees that something comes.
static constexpr double leastBytesASecond = 8e6;

//===----------------------------------------------------------------------===//
// What is in which file
//===----------------------------------------------------------------------===//

Shards Shards::plan(const std::string &path, std::vector<SharedTensor> tensors,
                    std::map<std::string, std::string> metadata,
                    const Rank &rank) {
  Shards shards;
  shards.path = path;
  shards.index = rank.index();
  shards.indexMetadata = std::move(metadata);
  sortForFile(tensors);
  shards.counts.resize(rank.size());
  for (const SharedTensor &tensor : tensors)
    ++shards.counts[tensor.writer];
  // Of what is in shards: one that is there under the same name is the same.
  // Metadata is rank 0's, and others may have been given another.
  Hash hash;
  const std::string &step = shards.indexMetadata.at("mpcomm.step");
  hash.add(step.c_str(), step.size() + 1);
  for (const SharedTensor &tensor : tensors) {
    hash.add(tensor.name.c_str(), tensor.name.size() + 1);
    hash.add(&tensor.first, sizeof(tensor.first));
    hash.add(&tensor.checksum, sizeof(tensor.checksum));
    hash.add(&tensor.writer, sizeof(tensor.writer));
  }
  shards.token = hash.value();
  shards.tensors = std::move(tensors);
  return shards;
}

std::vector<TensorToWrite> Shards::describe(uint64_t writer) const {
  std::vector<TensorToWrite> list;
  for (const SharedTensor &tensor : tensors)
    if (tensor.writer == writer) {
      list.push_back({tensor.name, tensor.type, tensor.shape});
      list.back().checksum = tensor.checksum;
    }
  return list;
}

std::string Shards::fileOf(uint64_t writer) const {
  return writer == 0 ? path : shardNameOf(path, token, writer);
}

std::map<std::string, std::string> Shards::metadataOf(uint64_t writer) const {
  std::map<std::string, std::string> metadata;
  for (const SharedTensor &tensor : tensors) {
    if (tensor.writer != writer)
      continue;
    if (tensor.whole)
      metadata[std::string(partPrefix) + tensor.name] =
          describePart(tensor.first, *tensor.whole);
    if (!isWeight(tensor.role))
      metadata[std::string(rolePrefix) + tensor.name] = nameOf(tensor.role);
  }
  if (writer != 0) {
    metadata["mpcomm.step"] = indexMetadata.at("mpcomm.step");
    return metadata;
  }
  metadata.insert(indexMetadata.begin(), indexMetadata.end());
  std::set<std::string> weights;
  for (const SharedTensor &tensor : tensors)
    if (isWeight(tensor.role))
      weights.insert(tensor.name);
  metadata[std::string(weightsKey)] = std::to_string(weights.size());
  for (uint64_t other = 1; other < counts.size(); ++other)
    if (counts[other])
      metadata[std::string(shardPrefix) + std::to_string(other)] =
          fs::path(fileOf(other)).filename().string() + " " +
          withChecksums(describe(other), metadataOf(other))
              .at(std::string(headerChecksumKey));
  return metadata;
}

std::map<std::string, const void *>
Shards::dataIn(const RankState &state) const {
  std::map<std::string, StateTensor> held;
  for (StateTensor &tensor : state.tensors(/*optimizer=*/true))
    held.emplace(tensor.name, tensor);
  std::map<std::string, const void *> data;
  for (const SharedTensor &tensor : tensors)
    if (tensor.writer == index) {
      const StateTensor &mine = held.at(tensor.name);
      data[tensor.name] = static_cast<const char *>(mine.data) +
                          (tensor.first - mine.first) * sizeOf(tensor.type);
    }
  return data;
}

Error Shards::writeFile(const std::map<std::string, const void *> &data,
                        const std::function<Error()> &beforeTensor,
                        const std::function<Error()> &beforeCommit,
                        Pace *pace) const {
  std::vector<TensorToWrite> list = describe(index);
  for (TensorToWrite &tensor : list) {
    tensor.data = data.at(tensor.name);
    if (beforeTensor)
      tensor.produce = [&](const TensorSink &sink) {
        Error error = beforeTensor();
        return error ? error
                     : sink(tensor.data, *bytesOf(tensor.type, tensor.shape));
      };
  }
  if (!pace)
    return writeSafetensors(fileOf(index), list, metadataOf(index),
                            beforeCommit);
  uint64_t all = 0;
  for (const TensorToWrite &tensor : list)
    all += *bytesOf(tensor.type, tensor.shape);
  pace->begin(all);
  return writeSafetensors(fileOf(index), list, metadataOf(index), beforeCommit,
                          [&](uint64_t written) { pace->keep(written); });
}

Error Shards::checkShards() const {
  for (uint64_t other = 1; other < counts.size(); ++other)
    if (counts[other])
      if (auto file = SafeTensors::open(fileOf(other)); !file)
        return makeError(file.error().status(), "rank ", other,
                         " has written a shard of ", path,
                         ", and rank 0 does not find it (all ranks need one "
                         "folder for a checkpoint): ",
                         file.message());
  return {};
}

//===----------------------------------------------------------------------===//
// Together
//===----------------------------------------------------------------------===//

namespace {

/// So many times all ranks meet, unless one has failed before.
class Meetings {
public:
  Meetings(Rank &rank, uint64_t count) : rank(rank), left(count) {}

  Error meet(const Error &mine = {}) {
    if (left == 0 || failure)
      return failure;
    --left;
    return failure = rank.agree(mine);
  }
  /// All that are left; with the failure of this rank, which ends them.
  Error finish(const Error &mine) {
    if (mine)
      return meet(mine);
    while (left && !failure)
      (void)meet();
    return failure;
  }

private:
  Rank &rank;
  uint64_t left;
  Error failure;
};

} // namespace

Error Shards::write(const RankState &state, Rank &rank) const {
  std::map<std::string, const void *> data = dataIn(state);
  uint64_t most = *std::max_element(counts.begin(), counts.end());
  // Before each tensor, when all shards are there, and when the index is.
  Meetings meetings(rank, most + 1);
  auto meet = [&] { return meetings.meet(); };
  bool isComplete = false;
  Error error;
  if (index == 0) {
    error = writeFile(data, meet, [&] {
      Error all = meetings.finish({});
      isComplete = all.ok();
      return all ? all : checkShards();
    });
    if (!isComplete)
      return meetings.finish(error);
    return rank.agree(error);
  }
  if (counts[index])
    error = writeFile(data, meet, nullptr);
  error = meetings.finish(error);
  if (!error)
    error = rank.agree({});
  return error;
}

//===----------------------------------------------------------------------===//
// In the background
//===----------------------------------------------------------------------===//

void Pace::begin(uint64_t bytes) {
  all = bytes;
  since = nowNanoseconds();
  seconds = std::min(seconds, double(bytes) / leastBytesASecond);
}

void Pace::keep(uint64_t written) const {
  double due = seconds * double(written) / double(all);
  while (!isHurried && 1e-9 * double(nowNanoseconds() - since) < due)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

char *CopyMemory::take(uint64_t bytes) {
  // A fault for each small page would take longer than the copy.
  constexpr uint64_t hugePage = 1 << 21;
  uint64_t rounded = (bytes / hugePage + 1) * hugePage;
  if (rounded > size) {
    memory.reset();
    memory.reset(static_cast<char *>(std::aligned_alloc(hugePage, rounded)));
    size = memory ? rounded : 0;
    (void)madvise(memory.get(), size, MADV_HUGEPAGE);
  }
  return memory.get();
}

Error Shards::copy(const RankState &state, CopyMemory &memory) {
  // Of an earlier attempt.
  std::error_code none;
  fs::remove(fileOf(index) + failureMark, none);
  std::map<std::string, const void *> data = dataIn(state);
  // As in the file, so that it goes to the disk from there.
  uint64_t begin = dataBegin(describe(index), metadataOf(index)) % directBytes;
  uint64_t total = begin;
  for (const SharedTensor &tensor : tensors)
    if (tensor.writer == index)
      total += tensor.bytes();
  char *at = memory.take(total);
  if (!at)
    return makeError(MPRT_OUT_OF_MEMORY, path, ": no memory for a copy of ",
                     total, " bytes of state");
  at += begin;
  for (const SharedTensor &tensor : tensors)
    if (tensor.writer == index) {
      std::memcpy(at, data.at(tensor.name), tensor.bytes());
      copied[tensor.name] = at;
      at += tensor.bytes();
    }
  return {};
}

Error Shards::waitForShards(double timeoutSeconds,
                            const std::atomic<bool> &isLeft) const {
  constexpr double secondsWhenLeft = 2;
  fs::path first = fileOf(1);
  std::string begin = first.filename();
  begin.resize(begin.size() - 1);
  uint64_t grown = 0, last = nowNanoseconds();
  for (uint64_t round = 0;; ++round) {
    uint64_t missing = 0, bytes = 0;
    std::error_code error;
    for (uint64_t other = 1; other < counts.size(); ++other) {
      if (!counts[other])
        continue;
      std::string file = fileOf(other);
      if (fs::exists(file + failureMark, error)) {
        fs::remove(file + failureMark, error);
        return fail("rank ", other, " could not write its shard of ", path);
      }
      if (!fs::exists(file, error))
        missing = other;
    }
    if (!missing)
      return checkShards();
    // What is being written has a longer name.
    for (const fs::directory_entry &entry :
         fs::directory_iterator(first.parent_path(), error))
      if (entry.path().filename().string().starts_with(begin))
        bytes += entry.file_size(error);
    uint64_t now = nowNanoseconds();
    if (bytes != grown)
      last = now;
    grown = bytes;
    double limit =
        isLeft ? std::min(secondsWhenLeft, timeoutSeconds) : timeoutSeconds;
    if (1e-9 * double(now - last) > limit)
      return makeError(MPRT_TIMEOUT, path, ": no shard of rank ", missing,
                       " came for ", limit,
                       " s (all ranks need one folder for a checkpoint)");
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min<uint64_t>(1 + round / 4, 100)));
  }
}

Error Shards::writeCopy(double timeoutSeconds, const std::atomic<bool> &isLeft,
                        Pace pace) {
  Error error;
  if (index == 0)
    error = writeFile(
        copied, nullptr, [&] { return waitForShards(timeoutSeconds, isLeft); },
        &pace);
  else if (counts[index])
    error = writeFile(copied, nullptr, nullptr, &pace);
  if (error && index != 0)
    std::ofstream(fileOf(index) + failureMark);
  copied.clear();
  return error;
}
