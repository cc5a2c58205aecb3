//===- Merge.cpp - state of several files in one --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Merge.h.
//
//===----------------------------------------------------------------------===//

#include "Merge.h"

#include "files/Hash.h"

using namespace mprt;

using Metadata = std::map<std::string, std::string>;

static bool isCheckpoint(const StateFile &file) {
  return file.metadata().count("mpcomm.step");
}

Expected<std::vector<std::string>>
mpcomm::checkpoint::weightsIn(const StateFile &file) {
  std::vector<std::string> weights;
  for (const std::string &name : file.names())
    if (file.roleOf(name).empty())
      weights.push_back(name);
  auto count = file.metadata().find(std::string(weightsKey));
  bool isKnown = count != file.metadata().end();
  if (!isKnown && isCheckpoint(file))
    return fail(
        file.path(),
        ": this checkpoint does not say which of its tensors are "
        "weights: it is of an earlier version. mpcomm-run with --resume, "
        "--steps 0 and --save-weights writes them");
  if (isKnown && count->second != std::to_string(weights.size()))
    return fail(file.path(), ": ", weights.size(),
                " tensors are not of the optimizer, expected ",
                printable(count->second), " (metadata '", weightsKey, "')");
  return weights;
}

/// Numbers of `from`, as `type`.
static Error convert(const std::string &name, DType from, DType type,
                     const std::vector<char> &data, std::vector<char> &result) {
  size_t count = data.size() / sizeOf(from);
  result.resize(count * sizeOf(type));
  for (size_t i = 0; i < count; ++i)
    storeNumber(type, result.data(), i, loadFloat(from, data.data(), i));
  size_t bad = 0;
  while (true) {
    bad += findNonFinite(type, result.data() + bad * sizeOf(type), count - bad);
    if (bad == count)
      return {};
    if (findNonFinite(from, data.data() + bad * sizeOf(from), 1) != 0)
      return fail("tensor '", printable(name), "': element ", bad, " is ",
                  loadFloat(from, data.data(), bad), ", which is infinite as ",
                  nameOf(type));
    ++bad;
  }
}

/// The bytes of a tensor, as `type`.
static Expected<std::vector<char>> readAs(const StateFile &file,
                                          const std::string &name, DType type) {
  const TensorEntry &entry = *file.find(name);
  std::vector<char> data(entry.bytes);
  if (Error error = file.read(name, entry, data.data()))
    return error;
  if (type == entry.type)
    return data;
  std::vector<char> result;
  if (Error error = convert(name, entry.type, type, data, result))
    return makeError(error.status(), file.path(), ": ", error.message());
  return result;
}

/// Reads each tensor twice: its checksum is before it in the file.
static Error write(const StateFile &file, const std::vector<std::string> &names,
                   const std::string &path, std::optional<DType> floats,
                   const Metadata &metadata) {
  std::vector<TensorToWrite> tensors;
  for (const std::string &name : names) {
    const TensorEntry &entry = *file.find(name);
    if (!entry.otherType.empty())
      return fail(file.path(), ": tensor '", printable(name), "' is ",
                  describe(entry), ", a type that is not known here");
    DType type = floats && isFloat(entry.type) ? *floats : entry.type;
    Expected<std::vector<char>> data = readAs(file, name, type);
    if (data.failed())
      return data.error();
    tensors.push_back({name, type, entry.shape});
    tensors.back().checksum = hashOf(data->data(), data->size());
    tensors.back().produce = [&file, name, type](const TensorSink &sink) {
      Expected<std::vector<char>> again = readAs(file, name, type);
      return again ? sink(again->data(), again->size()) : again.error();
    };
  }
  sortForFile(tensors);
  return writeSafetensors(path, tensors, metadata);
}

Error mpcomm::checkpoint::writeAll(const StateFile &file,
                                   const std::string &path) {
  Metadata metadata;
  for (const auto &[key, value] : file.metadata())
    if (!key.starts_with(shardPrefix) && !key.starts_with(partPrefix) &&
        !key.starts_with(headerChecksumKey))
      metadata[key] = value;
  std::vector<std::string> names = file.names();
  for (const std::string &name : names)
    if (std::string role = file.roleOf(name); !role.empty())
      metadata[std::string(rolePrefix) + name] = role;
  return write(file, names, path, std::nullopt, metadata);
}

Error mpcomm::checkpoint::writeWeights(const StateFile &file,
                                       const std::string &path,
                                       std::optional<DType> type) {
  Expected<std::vector<std::string>> names = weightsIn(file);
  if (names.failed())
    return names.error();
  Metadata metadata = {{"format", "pt"}};
  if (auto program = file.metadata().find("mpcomm.program");
      program != file.metadata().end())
    metadata.insert(*program);
  return write(file, *names, path, type, metadata);
}

Expected<uint64_t> mpcomm::checkpoint::verify(const StateFile &file) {
  uint64_t compared = 0;
  std::vector<char> data;
  for (const std::string &name : file.names()) {
    const TensorEntry &entry = *file.find(name);
    if (!entry.otherType.empty())
      continue;
    data.resize(entry.bytes);
    if (Error error = file.read(name, entry, data.data()))
      return error;
    compared += file.hasChecksum(name);
  }
  return compared;
}
