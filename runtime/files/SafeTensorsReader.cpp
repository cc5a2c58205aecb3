//===- SafeTensorsReader.cpp - opening a file that is not trusted ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The header goes through an event parser rather than into a tree: a tree of
// a hostile 100 MB header would take gigabytes, and would forget duplicate
// keys. The handler below accepts exactly the grammar of the format
//
//   { "__metadata__": {string: string, ...},
//     name: {"dtype": string, "shape": [natural, ...],
//            "data_offsets": [natural, natural]}, ... }
//
// and stops at the first event that does not fit.
//
//===----------------------------------------------------------------------===//

#include "files/SafeTensors.h"

#include "files/Hash.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <sys/file.h>
#include <unistd.h>

using namespace mprt;

namespace {

using Json = nlohmann::json;

/// A tensor entry while its fields arrive.
struct PendingEntry {
  std::string name;
  std::optional<DType> type;
  std::string otherType;
  bool hasShape = false;
  Shape shape;
  bool hasOffsets = false;
  std::vector<uint64_t> offsets;
};

/// Receives the events of the parser. Each returns false to stop, after it
/// has set `error`.
class HeaderHandler : public nlohmann::json_sax<Json> {
public:
  HeaderHandler(std::map<std::string, TensorEntry> &tensors,
                std::map<std::string, std::string> &metadata)
      : tensors(tensors), metadata(metadata) {}

  std::string error;

  bool start_object(std::size_t) override {
    switch (state) {
    case State::Begin:
      state = State::Top;
      return true;
    case State::TensorValue:
      state = State::Field;
      return true;
    case State::MetadataValue:
      state = State::MetadataKey;
      return true;
    default:
      return unexpected("an object");
    }
  }

  bool end_object() override {
    switch (state) {
    case State::Top:
      state = State::End;
      return true;
    case State::MetadataKey:
      state = State::Top;
      return true;
    case State::Field:
      state = State::Top;
      return finishEntry();
    default:
      return unexpected("the end of an object");
    }
  }

  bool key(string_t &name) override {
    switch (state) {
    case State::Top:
      if (name == "__metadata__") {
        if (sawMetadata)
          return stop("key '__metadata__' occurs twice");
        sawMetadata = true;
        state = State::MetadataValue;
        return true;
      }
      if (tensors.count(name))
        return stop("tensor '" + printable(name) + "' occurs twice");
      pending = PendingEntry();
      pending.name = name;
      state = State::TensorValue;
      return true;
    case State::MetadataKey:
      if (metadata.count(name))
        return stop("metadata key '" + printable(name) + "' occurs twice");
      metadataKey = name;
      state = State::MetadataText;
      return true;
    case State::Field:
      return beginField(name);
    default:
      return unexpected("a key");
    }
  }

  bool start_array(std::size_t) override {
    if (state == State::ShapeValue)
      state = State::ShapeItem;
    else if (state == State::OffsetsValue)
      state = State::OffsetsItem;
    else
      return unexpected("an array");
    return true;
  }

  bool end_array() override {
    if (state != State::ShapeItem && state != State::OffsetsItem)
      return unexpected("the end of an array");
    state = State::Field;
    return true;
  }

  bool string(string_t &text) override {
    if (state == State::MetadataText) {
      metadata.emplace(std::move(metadataKey), text);
      state = State::MetadataKey;
      return true;
    }
    if (state != State::TypeValue)
      return unexpected("a string");
    pending.type = mprt::parseSafetensorsDType(text);
    if (text.empty())
      return stopEntry("dtype is empty");
    if (!pending.type)
      pending.otherType = text;
    state = State::Field;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state == State::ShapeItem) {
      if (pending.shape.size() == maxRank)
        return stopEntry("more than " + std::to_string(maxRank) +
                         " dimensions");
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return stopEntry("dimension " + std::to_string(value) +
                         " is out of range");
      pending.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state == State::OffsetsItem) {
      if (pending.offsets.size() == 2)
        return stopEntry("data_offsets holds more than 2 numbers");
      pending.offsets.push_back(value);
      return true;
    }
    return unexpected("a number");
  }

  bool number_integer(number_integer_t value) override {
    if (state == State::ShapeItem || state == State::OffsetsItem)
      return stopEntry("negative number " + std::to_string(value) + " in " +
                       (state == State::ShapeItem ? "shape" : "data_offsets"));
    return unexpected("a negative number");
  }

  bool number_float(number_float_t, const string_t &text) override {
    if (state == State::ShapeItem || state == State::OffsetsItem)
      return stopEntry("number " + printable(text, 40) + " in " +
                       (state == State::ShapeItem ? "shape" : "data_offsets") +
                       " is not an integer below 2^64");
    return unexpected("a fraction");
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t &) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &exception) override {
    constexpr int numberOverflow = 406;
    return stop((exception.id == numberOverflow
                     ? "number out of range, at byte "
                     : "header is not JSON in UTF-8, at byte ") +
                std::to_string(position));
  }

private:
  enum class State {
    Begin,
    Top,
    MetadataValue,
    MetadataKey,
    MetadataText,
    TensorValue,
    Field,
    TypeValue,
    ShapeValue,
    ShapeItem,
    OffsetsValue,
    OffsetsItem,
    End
  };

  bool stop(std::string message) {
    if (error.empty())
      error = std::move(message);
    return false;
  }

  bool stopEntry(const std::string &message) {
    return stop("tensor '" + printable(pending.name) + "': " + message);
  }

  bool unexpected(const char *found) {
    switch (state) {
    case State::Begin:
      return stop(std::string("header is not a JSON object, found ") + found);
    case State::MetadataValue:
      return stop(std::string("__metadata__ is not an object, found ") + found);
    case State::MetadataText:
      return stop("metadata '" + printable(metadataKey) +
                  "' is not a string, found " + found);
    case State::TypeValue:
      return stopEntry(std::string("dtype is not a string, found ") + found);
    case State::ShapeValue:
    case State::ShapeItem:
      return stopEntry(
          std::string("shape is not an array of natural numbers, found ") +
          found);
    case State::OffsetsValue:
    case State::OffsetsItem:
      return stopEntry(
          std::string("data_offsets is not an array of two numbers, found ") +
          found);
    default:
      return stopEntry(std::string("expected an object, found ") + found);
    }
  }

  bool beginField(const string_t &name) {
    bool repeated;
    if (name == "dtype") {
      repeated = pending.type || !pending.otherType.empty();
      state = State::TypeValue;
    } else if (name == "shape") {
      repeated = pending.hasShape;
      pending.hasShape = true;
      state = State::ShapeValue;
    } else if (name == "data_offsets") {
      repeated = pending.hasOffsets;
      pending.hasOffsets = true;
      state = State::OffsetsValue;
    } else {
      return stopEntry("unknown key '" + printable(name) + "'");
    }
    return repeated ? stopEntry("key '" + name + "' occurs twice") : true;
  }

  bool finishEntry() {
    if (!pending.type && pending.otherType.empty())
      return stopEntry("dtype is missing");
    if (!pending.hasShape)
      return stopEntry("shape is missing");
    if (pending.offsets.size() != 2)
      return stopEntry("data_offsets is missing or holds fewer than 2 numbers");
    uint64_t begin = pending.offsets[0], end = pending.offsets[1];
    std::string range =
        "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
    if (end < begin)
      return stopEntry("data_offsets " + range + " end before they begin");
    TensorEntry entry{pending.type.value_or(MPRT_F32),
                      std::move(pending.otherType), std::move(pending.shape),
                      begin, end - begin};
    std::optional<uint64_t> bytes =
        pending.type ? bytesOf(entry.type, entry.shape) : entry.bytes;
    if (!bytes)
      return stopEntry("size of " + describe(entry) + " overflows");
    if (entry.bytes != *bytes)
      return stopEntry("data_offsets " + range + " hold " +
                       std::to_string(entry.bytes) + " bytes, expected " +
                       std::to_string(*bytes) + " for " + describe(entry));
    tensors.emplace(std::move(pending.name), std::move(entry));
    return true;
  }

  std::map<std::string, TensorEntry> &tensors;
  std::map<std::string, std::string> &metadata;
  State state = State::Begin;
  bool sawMetadata = false;
  std::string metadataKey;
  PendingEntry pending;
};

/// Requires the tensors to tile [0, dataBytes) with no gap and no overlap.
Error checkLayout(const std::string &what, uint64_t dataBytes,
                  const std::map<std::string, TensorEntry> &tensors) {
  using Item = std::pair<const std::string, TensorEntry>;
  std::vector<const Item *> order;
  order.reserve(tensors.size());
  for (const Item &item : tensors)
    order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const Item *a, const Item *b) {
    return std::pair(a->second.begin, a->second.bytes) <
           std::pair(b->second.begin, b->second.bytes);
  });
  uint64_t at = 0;
  for (const Item *item : order) {
    const auto &[name, entry] = *item;
    if (entry.begin > dataBytes || entry.bytes > dataBytes - entry.begin)
      return fail(what, ": tensor '", printable(name), "' ends at byte ",
                  entry.begin + entry.bytes, " of the data, but the file has ",
                  dataBytes, " (is it truncated?)");
    if (entry.begin < at)
      return fail(what, ": tensor '", printable(name), "' begins at byte ",
                  entry.begin, ", inside another tensor that ends at ", at);
    if (entry.begin > at)
      return fail(what, ": ", entry.begin - at, " bytes before tensor '",
                  printable(name), "' belong to no tensor");
    at += entry.bytes;
  }
  if (at != dataBytes)
    return fail(what, ": ", dataBytes - at,
                " trailing bytes belong to no tensor");
  return {};
}

/// What to do about a file that is not what was written.
constexpr const char *rewrittenHint =
    "; it was damaged, or changed by a tool that kept the metadata: take "
    "another copy, or remove 'mpcomm.checksum*' from its metadata";

/// Compares the header with its checksum, where there are any.
Error checkHeader(const std::string &what,
                  const std::map<std::string, TensorEntry> &tensors,
                  const std::map<std::string, std::string> &metadata) {
  auto expected = metadata.find(std::string(headerChecksumKey));
  if (expected == metadata.end()) {
    auto first = metadata.lower_bound(std::string(tensorChecksumPrefix));
    bool has = first != metadata.end() &&
               first->first.starts_with(tensorChecksumPrefix);
    return has ? fail(what,
                      ": the header has checksums of tensors, and none "
                      "of itself",
                      rewrittenHint)
               : Error();
  }
  std::string found = hexOf(checksumOfHeader(tensors, metadata));
  if (found == expected->second)
    return {};
  return fail(what, ": the header has checksum ", found, ", expected ",
              printable(expected->second), rewrittenHint);
}

} // namespace

std::string mprt::describe(const TensorEntry &entry) {
  return entry.otherType.empty()
             ? describe(entry.type, entry.shape)
             : describe("'" + printable(entry.otherType) + "'", entry.shape);
}

Error mprt::parseSafetensorsHeader(
    const std::string &what, std::string_view header, uint64_t dataBytes,
    std::map<std::string, TensorEntry> &tensors,
    std::map<std::string, std::string> &metadata) {
  // The parser would take it for the end.
  if (size_t zero = header.find('\0'); zero != header.npos)
    return fail(what, ": header is not JSON in UTF-8, at byte ", zero + 1);
  HeaderHandler handler(tensors, metadata);
  if (!Json::sax_parse(header.begin(), header.end(), &handler))
    return fail(what, ": ", handler.error);
  if (Error status = checkLayout(what, dataBytes, tensors); status.failed())
    return status;
  return checkHeader(what, tensors, metadata);
}

Expected<SafeTensors> SafeTensors::open(const std::string &path) {
  Expected<MappedFile> mapped = MappedFile::open(path);
  if (mapped.failed())
    return mapped.error();
  SafeTensors result;
  result.file = mapped.take();
  // Who removes abandoned temporaries leaves what somebody reads.
  (void)flock(result.file.descriptor(), LOCK_SH | LOCK_NB);
  std::string_view contents = result.file.contents();
  if (contents.size() < 8)
    return fail(path, ": not a safetensors file: ", contents.size(),
                " bytes long, expected at least 8");

  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(contents[i]);
  if (length > maxSafetensorsHeader)
    return fail(path, ": header of ", length, " bytes, the limit is ",
                maxSafetensorsHeader);
  if (length > contents.size() - 8)
    return fail(path, ": header of ", length, " bytes, but the file has only ",
                contents.size() - 8, " after the length (is it truncated?)");
  result.dataOffset = 8 + length;
  std::string_view header = contents.substr(8, length);
  if (Error status = parseSafetensorsHeader(path, header,
                                            contents.size() - result.dataOffset,
                                            result.entries, result.meta);
      status.failed())
    return status;
  return result;
}

const TensorEntry *SafeTensors::find(const std::string &name) const {
  auto it = entries.find(name);
  return it == entries.end() ? nullptr : &it->second;
}

Error SafeTensors::read(const std::string &name, const TensorEntry &entry,
                        void *destination) const {
  // Hashed block by block, while it is in the cache.
  constexpr uint64_t block = 1 << 20;
  bool isCompared = meta.count(std::string(tensorChecksumPrefix) + name);
  Hash hash;
  uint64_t done = 0;
  while (done < entry.bytes) {
    size_t wanted = std::min(entry.bytes - done, block);
    ssize_t got =
        pread(file.descriptor(), static_cast<char *>(destination) + done,
              wanted, dataOffset + entry.begin + done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return fail(path(), ": cannot read tensor '", printable(name),
                  "': ", std::strerror(errno));
    if (got == 0)
      return fail(path(), ": tensor '", printable(name),
                  "' was truncated while it was read");
    if (isCompared)
      hash.add(static_cast<char *>(destination) + done,
               static_cast<uint64_t>(got));
    done += static_cast<uint64_t>(got);
  }
  return isCompared ? compareChecksum(name, hash.value()) : Error();
}

Error SafeTensors::compareChecksum(const std::string &name,
                                   uint64_t found) const {
  auto expected = meta.find(std::string(tensorChecksumPrefix) + name);
  if (expected == meta.end() || hexOf(found) == expected->second)
    return {};
  return fail(path(), ": tensor '", printable(name), "' has checksum ",
              hexOf(found), ", expected ", printable(expected->second),
              rewrittenHint);
}
