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

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

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

std::string mprt::describePart(uint64_t first, const Shape &whole) {
  std::string text = std::to_string(first) + " of [";
  for (size_t i = 0; i < whole.size(); ++i)
    text += (i ? ", " : "") + std::to_string(whole[i]);
  return text + "]";
}

/// What `describePart` has written; nothing where it is something else.
static std::optional<std::pair<uint64_t, Shape>>
parsePart(const std::string &text) {
  std::istringstream stream(text);
  std::pair<uint64_t, Shape> part;
  std::string of;
  char mark = 0;
  stream >> part.first >> of >> mark;
  if (mark != '[')
    return std::nullopt;
  for (int64_t size; mark != ']' && stream >> size >> mark;)
    part.second.push_back(size);
  if (part.second.size() > maxRank ||
      describePart(part.first, part.second) != text)
    return std::nullopt;
  return part;
}

Error StateFile::add(SafeTensors file) {
  for (const auto &[name, entry] : file.tensors()) {
    auto found = file.metadata().find(std::string(partPrefix) + name);
    bool isPart = found != file.metadata().end();
    auto [known, isNew] = tensors.try_emplace(name);
    Tensor &tensor = known->second;
    std::optional<std::pair<uint64_t, Shape>> part;
    if (isPart) {
      part = parsePart(found->second);
      if (!part || entry.shape.size() != 1 || !entry.otherType.empty() ||
          !bytesOf(entry.type, part->second))
        return fail(file.path(), ": tensor '", printable(name), "' is ",
                    describe(entry), " with metadata '",
                    printable(found->second),
                    "', expected a part of one dimension, and \"FIRST of "
                    "[SHAPE]\"");
    }
    uint64_t first = part ? part->first : 0;
    if (isNew) {
      tensor.whole = entry;
      if (part) {
        tensor.whole.shape = part->second;
        tensor.whole.bytes = *bytesOf(entry.type, part->second);
      }
    }
    bool fits = isNew || (part && tensor.whole.type == entry.type &&
                          tensor.whole.shape == part->second);
    if (!fits || !tensor.parts.try_emplace(first, files.size()).second)
      return fail(file.path(), ": tensor '", printable(name),
                  "' is in another file of the same checkpoint, too");
  }
  files.push_back(std::move(file));
  return {};
}

/// Parts of a tensor are all there, and no element is in two.
Error StateFile::checkParts() {
  for (const auto &[name, tensor] : tensors) {
    uint64_t next = 0, all = *elementsOf(tensor.whole.shape);
    for (const auto &[first, file] : tensor.parts) {
      const TensorEntry &entry = *files[file].find(name);
      if (first != next)
        return fail(files[file].path(), ": tensor '", printable(name),
                    "' has its part from element ", first,
                    ", expected one from element ", next);
      next += *elementsOf(entry.shape);
    }
    if (next != all)
      return fail(path(), ": tensor '", printable(name), "' has ", next, " of ",
                  all, " elements; a shard is missing");
  }
  return {};
}

/// The files that a model's index names, ascending.
static Expected<std::set<std::string>> filesOf(const std::string &path) {
  Expected<MappedFile> mapped = MappedFile::open(path);
  if (mapped.failed())
    return mapped.error();
  std::string_view text = mapped->contents();
  nlohmann::json index =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  std::set<std::string> names;
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  bool isGood = map != index.end() && map->is_object() && !map->empty();
  if (isGood)
    for (const auto &[tensor, file] : map->items()) {
      isGood &= file.is_string() && !file.get<std::string>().empty() &&
                file.get<std::string>().find('/') == std::string::npos;
      if (isGood)
        names.insert(file.get<std::string>());
    }
  if (!isGood)
    return fail(path, ": not the index of a model: expected JSON with the name "
                      "of a file in the same folder for each tensor in "
                      "'weight_map'");
  return names;
}

Expected<StateFile> StateFile::openModel(const std::string &path) {
  Expected<std::set<std::string>> names = filesOf(path);
  if (names.failed())
    return names.error();
  StateFile state;
  fs::path folder = resolve(path).parent_path();
  for (const std::string &name : *names) {
    Expected<SafeTensors> file = SafeTensors::open(folder / name);
    Error error = file ? state.add(file.take()) : file.error();
    if (error)
      return makeError(error.status(), path,
                       ": a file of this model: ", error.message());
  }
  if (Error error = state.checkParts())
    return error;
  return state;
}

/// Whether a file is the index of a model by its name and begins as text does:
/// the length of a header of safetensors has a zero among its eight bytes.
static bool isModelIndex(const std::string &path) {
  if (!path.ends_with(".index.json"))
    return false;
  char begin[8] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof(begin));
  return std::find(std::begin(begin), std::end(begin), '\0') == std::end(begin);
}

Expected<StateFile> StateFile::open(const std::string &path) {
  if (isModelIndex(path))
    return openModel(path);
  StateFile state;
  auto add = [&](Expected<SafeTensors> file) {
    return file ? state.add(file.take()) : file.error();
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
  if (Error error = state.checkParts())
    return error;
  return state;
}

uint64_t StateFile::digest() const {
  Hash hash;
  for (const SafeTensors &file : files) {
    uint64_t header = checksumOfHeader(file.tensors(), file.metadata());
    hash.add(&header, sizeof(header));
  }
  return hash.value();
}

const TensorEntry *StateFile::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second.whole;
}

std::vector<std::string> StateFile::paths() const {
  std::vector<std::string> list;
  for (const SafeTensors &file : files)
    list.push_back(file.path());
  return list;
}

std::vector<std::string> StateFile::names() const {
  std::vector<std::string> list;
  for (const auto &[name, tensor] : tensors)
    list.push_back(name);
  return list;
}

std::string StateFile::roleOf(const std::string &name) const {
  const auto &metadata =
      files[tensors.at(name).parts.begin()->second].metadata();
  auto found = metadata.find(std::string(rolePrefix) + name);
  return found == metadata.end() ? "" : found->second;
}

bool StateFile::hasChecksum(const std::string &name) const {
  for (const auto &[first, file] : tensors.at(name).parts)
    if (!files[file].metadata().count(std::string(tensorChecksumPrefix) + name))
      return false;
  return true;
}

Error StateFile::readPart(const std::string &name, const TensorEntry &whole,
                          uint64_t first, uint64_t count,
                          void *destination) const {
  uint64_t size = sizeOf(whole.type);
  for (const auto &[begin, file] : tensors.at(name).parts) {
    const TensorEntry &entry = *files[file].find(name);
    uint64_t end = begin + *elementsOf(entry.shape);
    uint64_t from = std::max(begin, first), to = std::min(end, first + count);
    if (from >= to)
      continue;
    char *at = static_cast<char *>(destination) + (from - first) * size;
    if (from == begin && to == end) {
      if (Error error = files[file].read(name, entry, at))
        return error;
      continue;
    }
    // Checksums are of all of it.
    std::vector<char> all(entry.bytes);
    if (Error error = files[file].read(name, entry, all.data()))
      return error;
    std::memcpy(at, all.data() + (from - begin) * size, (to - from) * size);
  }
  return {};
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
