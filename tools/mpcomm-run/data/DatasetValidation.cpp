//===- DatasetValidation.cpp - what is looked at of data ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checksum of a column is XXH64 of its bytes in all files, one after
// another, and of how they are converted; where data is not read at start, of
// blocks at equal distances.
//
//===----------------------------------------------------------------------===//

#include "data/Dataset.h"

#include "files/Hash.h"

#include <algorithm>

using namespace mpcomm::run;

/// So much is looked at at once, and then does not count as memory any more.
static constexpr uint64_t readBlock = 8 << 20;

Error Dataset::describeBad(const Column &column, const Piece &piece,
                           uint64_t index) const {
  const Encoding &encoding = column.encoding;
  const std::string &path = opened[piece.file].path();
  std::string what = encoding.describeBad(piece.stored.data(), index);
  const std::string name = printable(column.argument->name);
  if (encoding.isTokens())
    return fail(path, ": token ", index, ": ", what, ", which argument '", name,
                "' takes; --token-type says what a token is");
  uint64_t perSample = encoding.stride() / encoding.bytesOfValue();
  return fail(path, ": tensor '", name, "', sample ", index / perSample,
              ", element ", index % perSample, ": ", what);
}

Expected<uint64_t> Dataset::validateColumn(const Column &column) const {
  Hash all;
  uint64_t size = column.encoding.bytesOfValue();
  for (const Piece &piece : column.pieces) {
    // One of many files may have a checksum of its own.
    bool isWhole = column.pieces.size() == 1;
    bool hashesPiece = !isWhole && opened[piece.file].mayHaveChecksums();
    Hash own;
    for (uint64_t at = 0; at < piece.stored.size(); at += readBlock) {
      std::string_view block = piece.stored.substr(at, readBlock);
      uint64_t count = block.size() / size;
      size_t bad =
          column.encoding.findBad(block.data(), count, allowsNonFinite);
      if (bad < count)
        return describeBad(column, piece, at / size + bad);
      all.add(block.data(), block.size());
      if (hashesPiece)
        own.add(block.data(), block.size());
      advisePages(block, PageAdvice::Release);
    }
    if (Error error = opened[piece.file].compareChecksum(
            column.argument->name, isWhole ? all.value() : own.value()))
      return error;
  }
  return all.value();
}

uint64_t Dataset::sampleHash(const Column &column) const {
  constexpr uint64_t blocks = 256, blockBytes = 16 << 10;
  Hash hash;
  for (const Piece &piece : column.pieces) {
    uint64_t bytes = piece.stored.size();
    hash.add(&bytes, sizeof(bytes));
    uint64_t here = std::max<uint64_t>(1, blocks / column.pieces.size());
    for (uint64_t i = 0; i < here; ++i) {
      uint64_t last = bytes - std::min(bytes, blockBytes);
      std::string_view block = piece.stored.substr(
          here == 1 ? 0 : last / (here - 1) * i, blockBytes);
      hash.add(block.data(), block.size());
    }
    advisePages(piece.stored, PageAdvice::Release);
  }
  return hash.value();
}

std::optional<uint64_t> Dataset::knownHash(const Column &wanted) const {
  for (const Column &column : columns)
    if (column.argument->name == wanted.argument->name &&
        column.encoding.acceptsSame(wanted.encoding) &&
        column.encoding.description() == wanted.encoding.description())
      if (auto hash = hashes.find(wanted.argument->name); hash != hashes.end())
        return hash->second;
  return std::nullopt;
}

Expected<std::vector<MappedFile::Stamp>> Dataset::stamps() const {
  std::vector<MappedFile::Stamp> all;
  for (const DataFile &file : opened) {
    Expected<MappedFile::Stamp> stamp = file.stamp();
    if (stamp.failed())
      return stamp.error();
    all.push_back(*stamp);
  }
  return all;
}

Error Dataset::validate(bool allowNonFinite, const Dataset *known) {
  Expected<std::vector<MappedFile::Stamp>> found = stamps();
  if (found.failed())
    return found.error();
  validated = found.take();
  if (allowsNonFinite != allowNonFinite) // a thread may gather meanwhile
    allowsNonFinite = allowNonFinite;
  // By the first byte: inputs and targets are the same tokens.
  std::map<const char *, std::pair<const Column *, uint64_t>> seen;
  for (const Column &column : columns) {
    uint64_t &kept = hashes[column.argument->name];
    std::optional<uint64_t> hash;
    if (known)
      hash = known->knownHash(column);
    if (hash) {
      kept = *hash;
      continue;
    }
    const char *data = column.pieces[0].stored.data();
    auto same = seen.find(data);
    uint64_t bytes = 0;
    if (same != seen.end() &&
        same->second.first->encoding.acceptsSame(column.encoding)) {
      bytes = same->second.second;
    } else if (readsAtStart) {
      Expected<uint64_t> read = validateColumn(column);
      if (read.failed()) {
        hashes.clear();
        return read.error();
      }
      bytes = *read;
    } else {
      bytes = sampleHash(column);
    }
    seen[data] = {&column, bytes};
    kept = bytes;
    if (std::string text = column.encoding.description(); !text.empty()) {
      for (const Piece &piece : column.pieces)
        text += ", " + std::to_string(piece.samples);
      text += hexOf(bytes);
      kept = hashOf(text.data(), text.size());
    }
  }
  return {};
}

Error Dataset::checkUnchanged(bool allowNonFinite) {
  Expected<std::vector<MappedFile::Stamp>> now = stamps();
  if (now.failed())
    return now.error();
  for (size_t i = 0; i < opened.size(); ++i) {
    if ((*now)[i] == validated[i])
      continue;
    std::map<std::string, uint64_t> before = hashes;
    if ((*now)[i].bytes != validated[i].bytes ||
        validate(allowNonFinite).failed() || hashes != before)
      return fail(opened[i].path(),
                  ": its contents were changed while the run used them; to "
                  "replace it meanwhile, write another file and rename it to "
                  "that name");
  }
  return {};
}

uint64_t Dataset::checksum() const {
  Hash hash;
  for (const auto &[name, checksum] : hashes) {
    uint64_t bytes = name.size();
    hash.add(&bytes, sizeof(bytes));
    hash.add(name.data(), bytes);
    hash.add(&checksum, sizeof(checksum));
  }
  return hash.value();
}
