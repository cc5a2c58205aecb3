//===- SafeTensorsWriter.cpp - replacing a file all at once ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Temporary file in the same folder, write, fsync, rename, fsync of the
// folder: after a crash at any point the name holds the old contents or the
// new, never a mixture. Tensors are laid out by falling element size after a
// header padded to eight bytes, so that each lies aligned.
//
//===----------------------------------------------------------------------===//

#include "files/SafeTensors.h"

#include "files/Hash.h"
#include "files/Json.h"
#include "files/OutputFile.h"

#include <algorithm>

using namespace mprt;

namespace {

/// With its length before it.
std::string makeHeader(const std::vector<TensorToWrite> &order,
                       const std::map<std::string, std::string> &metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto &[key, value] : metadata) {
      header += (first ? "" : ",") + quoted(key) + ":" + quoted(value);
      first = false;
    }
    header += "}";
  }
  uint64_t at = 0;
  for (const TensorToWrite &tensor : order) {
    if (header.size() > 1)
      header += ",";
    uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
    header += quoted(tensor.name) + ":{\"dtype\":\"";
    header += mprt::safetensorsNameOf(tensor.type);
    header += "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string length(8, 0);
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(uint64_t(header.size()) >> (8 * i));
  return length + header;
}

} // namespace

uint64_t
mprt::checksumOfHeader(const std::map<std::string, TensorEntry> &tensors,
                       const std::map<std::string, std::string> &metadata) {
  Hash hash;
  // With its length, so that no two lists of texts are the same bytes.
  auto add = [&](std::string_view text) {
    uint64_t bytes = text.size();
    hash.add(&bytes, sizeof(bytes));
    hash.add(text.data(), bytes);
  };
  for (const auto &[key, value] : metadata)
    if (key != headerChecksumKey) {
      add(key);
      add(value);
    }
  for (const auto &[name, entry] : tensors) {
    add(name);
    add(describe(entry));
    hash.add(&entry.begin, sizeof(entry.begin));
  }
  return hash.value();
}

std::map<std::string, std::string>
mprt::withChecksums(const std::vector<TensorToWrite> &tensors,
                    std::map<std::string, std::string> metadata) {
  std::vector<TensorToWrite> order = tensors;
  sortForFile(order);
  std::map<std::string, TensorEntry> entries;
  bool hasAny = tensors.empty();
  uint64_t at = 0;
  for (const TensorToWrite &tensor : order) {
    uint64_t bytes = *bytesOf(tensor.type, tensor.shape);
    entries[tensor.name] = {tensor.type, "", tensor.shape, at, bytes};
    at += bytes;
    if (!tensor.checksum)
      continue;
    metadata[std::string(tensorChecksumPrefix) + tensor.name] =
        hexOf(*tensor.checksum);
    hasAny = true;
  }
  if (hasAny)
    metadata[std::string(headerChecksumKey)] =
        hexOf(checksumOfHeader(entries, metadata));
  return metadata;
}

uint64_t mprt::dataBegin(const std::vector<TensorToWrite> &tensors,
                         const std::map<std::string, std::string> &metadata) {
  std::vector<TensorToWrite> order = tensors;
  sortForFile(order);
  return makeHeader(order, withChecksums(order, metadata)).size();
}

/// A multiple of `directBytes`.
static constexpr uint64_t noticedBytes = 4 << 20;

Error mprt::writeSafetensors(const std::string &path,
                             const std::vector<TensorToWrite> &tensors,
                             const std::map<std::string, std::string> &metadata,
                             const std::function<Error()> &beforeCommit,
                             const std::function<void(uint64_t)> &wrote) {
  std::vector<TensorToWrite> order = tensors;
  sortForFile(order);
  std::map<std::string, std::string> described = withChecksums(order, metadata);
  std::string header = makeHeader(order, described);
  if (header.size() - 8 > maxSafetensorsHeader)
    return fail(path, ": header of ", header.size() - 8,
                " bytes, the limit is ", maxSafetensorsHeader);

  OutputFile file(path);
  if (Error status = file.open(); status.failed())
    return status;
  if (Error status = file.write(header.data(), header.size()); status.failed())
    return status;
  uint64_t all = 0;
  TensorSink sink = [&](const void *data, uint64_t bytes) -> Error {
    const char *at = static_cast<const char *>(data);
    while (bytes > 0) {
      uint64_t taken = wrote ? std::min(bytes, noticedBytes) : bytes;
      if (Error status = file.write(at, taken))
        return status;
      at += taken;
      bytes -= taken;
      if (wrote)
        wrote(all += taken);
    }
    return {};
  };
  for (auto tensor = order.begin(); tensor != order.end();) {
    if (tensor->produce) {
      if (Error status = (tensor++)->produce(sink))
        return status;
      continue;
    }
    // What lies together is written together, and need not be aligned alone.
    const char *begin = static_cast<const char *>(tensor->data), *end = begin;
    for (; tensor != order.end() && !tensor->produce && tensor->data == end;
         ++tensor)
      end += *bytesOf(tensor->type, tensor->shape);
    if (Error status = sink(begin, static_cast<uint64_t>(end - begin)))
      return status;
  }
  if (beforeCommit)
    if (Error status = beforeCommit())
      return status;
  return file.commit();
}
