//===- StateFile.cpp - a file of state, with its shards -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StateFile.h. The name of a shard comes from a file, and is a name in the
// same folder or refused.
//
//===----------------------------------------------------------------------===//

#include "files/StateFile.h"

#include "files/Hash.h"
#include "files/OutputFile.h"

#include <filesystem>
#include <set>

using namespace mprt;

namespace fs = std::filesystem;

static std::string headerChecksumOf(const SafeTensors &file) {
  auto found = file.metadata().find(std::string(headerChecksumKey));
  return found == file.metadata().end() ? "" : found->second;
}

/// The shards that an index names: file name and checksum of each.
static Expected<std::vector<std::pair<std::string, std::string>>>
shardsOf(const SafeTensors &index) {
  std::vector<std::pair<std::string, std::string>> shards;
  const auto &metadata = index.metadata();
  for (auto at = metadata.lower_bound(std::string(shardPrefix));
       at != metadata.end() && at->first.starts_with(shardPrefix); ++at) {
    const std::string &text = at->second;
    size_t space = text.rfind(' ');
    std::string name = text.substr(0, std::min(space, text.size()));
    if (space == std::string::npos || name.find('/') != std::string::npos ||
        name.find(shardMark) == std::string::npos)
      return fail(index.path(), ": metadata '", printable(at->first), "' is '",
                  printable(text),
                  "', expected the name of a shard in the same folder and its "
                  "checksum");
    shards.emplace_back(name, text.substr(space + 1));
  }
  return shards;
}

Expected<StateFile> StateFile::open(const std::string &path) {
  StateFile state;
  auto add = [&](Expected<SafeTensors> file) -> Error {
    if (!file)
      return file.error();
    for (const auto &[name, entry] : file->tensors())
      if (!state.places.emplace(name, state.files.size()).second)
        return fail(file->path(), ": tensor '", printable(name),
                    "' is in another file of the same checkpoint, too");
    state.files.push_back(file.take());
    return {};
  };
  if (Error error = add(SafeTensors::open(path)))
    return error;
  auto shards = shardsOf(state.files[0]);
  if (!shards)
    return shards.error();
  fs::path folder = resolve(path).parent_path();
  for (const auto &[name, checksum] : *shards) {
    if (Error error = add(SafeTensors::open(folder / name)))
      return makeError(error.status(), path,
                       ": a shard of this checkpoint: ", error.message());
    std::string found = headerChecksumOf(state.files.back());
    if (found != checksum)
      return fail(path, ": a shard of this checkpoint, ",
                  printable((folder / name).string()), ", has checksum ",
                  found.empty() ? "none" : printable(found), ", expected ",
                  printable(checksum));
  }
  return state;
}

uint64_t StateFile::digest() const {
  return checksumOfHeader(files[0].tensors(), files[0].metadata());
}

const TensorEntry *StateFile::find(const std::string &name) const {
  auto found = places.find(name);
  return found == places.end() ? nullptr : files[found->second].find(name);
}

Error StateFile::read(const std::string &name, const TensorEntry &entry,
                      void *destination) const {
  return files[places.at(name)].read(name, entry, destination);
}

std::string mprt::shardNameOf(const std::string &path, uint64_t token,
                              uint64_t rank) {
  return resolve(path).string() + std::string(shardMark) + hexOf(token) + "-" +
         std::to_string(rank);
}

void mprt::removeUnusedShards(const std::string &path) {
  fs::path target = resolve(path);
  std::string base = target.filename();
  std::set<std::string> used;
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(target.parent_path(), error)) {
    std::string name = entry.path().filename();
    if (name.starts_with(base + std::string(shardMark)))
      found.push_back(entry.path());
    std::string kept = base + std::string(keptMark);
    if (name != base &&
        (!name.starts_with(kept) ||
         name.find_first_not_of("0123456789", kept.size()) != name.npos))
      continue;
    Expected<SafeTensors> index = SafeTensors::open(entry.path());
    if (!index)
      return;
    auto shards = shardsOf(*index);
    if (!shards)
      return;
    for (const auto &[shard, checksum] : *shards)
      used.insert(shard);
  }
  if (error)
    return;
  for (const fs::path &shard : found)
    if (!used.count(shard.filename()))
      fs::remove(shard, error);
}
