//===- NpyFile.cpp - arrays as numpy.save writes them ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The header is {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), },
// with keys in any order.
//
//===----------------------------------------------------------------------===//

#include "data/NpyFile.h"

#include <algorithm>
#include <charconv>

using namespace mpcomm::run;

namespace {

/// Reads the dictionary from left to right.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text(text) {}

  bool read();

  std::string descr;
  bool isFortran = false;
  Shape shape;

private:
  void skipSpace() {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  }
  /// Whether `word` comes next, which is then taken.
  bool take(std::string_view word) {
    skipSpace();
    if (!text.starts_with(word))
      return false;
    text.remove_prefix(word.size());
    return true;
  }
  bool takeText(std::string &value);
  bool takeShape();
  bool takeEntry();

  std::string_view text;
  int found = 0;
};

bool HeaderReader::takeText(std::string &value) {
  if (!take("'"))
    return false;
  size_t end = text.find('\'');
  if (end == text.npos)
    return false;
  value = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

bool HeaderReader::takeShape() {
  if (!take("("))
    return false;
  while (!take(")")) {
    int64_t size = 0;
    skipSpace();
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || shape.size() == maxRank)
      return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    shape.push_back(size);
    if (!take(",") && !text.starts_with(")"))
      return false;
  }
  return true;
}

bool HeaderReader::takeEntry() {
  std::string key;
  if (!takeText(key) || !take(":"))
    return false;
  ++found;
  if (key == "descr")
    return descr.empty() && takeText(descr);
  if (key == "shape")
    return shape.empty() && takeShape();
  if (key != "fortran_order")
    return false;
  isFortran = take("True");
  return isFortran || take("False");
}

bool HeaderReader::read() {
  if (!take("{"))
    return false;
  while (!take("}")) {
    if (!takeEntry())
      return false;
    skipSpace();
    if (!take(",") && !text.starts_with("}"))
      return false;
  }
  skipSpace();
  return text.empty() && found == 3 && !descr.empty();
}

struct NpyType {
  std::string_view name;
  DType type;
};

constexpr NpyType types[] = {
    {"<f4", MPRT_F32}, {"<f8", MPRT_F64}, {"<f2", MPRT_F16},
    {"|i1", MPRT_I8},  {"|u1", MPRT_U8},  {"<i2", MPRT_I16},
    {"<i4", MPRT_I32}, {"<i8", MPRT_I64}, {"|b1", MPRT_BOOL}};

} // namespace

Expected<TensorEntry> mpcomm::run::parseNpy(const std::string &what,
                                            std::string_view contents) {
  constexpr std::string_view magic = "\x93NUMPY";
  auto byteAt = [&](size_t at) {
    return static_cast<uint64_t>(static_cast<unsigned char>(contents[at]));
  };
  if (contents.size() < 12 || !contents.starts_with(magic))
    return fail(what, ": not an .npy file: it does not begin as one");
  uint64_t version = byteAt(6);
  if (version < 1 || version > 3)
    return fail(what, ": version ", version,
                " of the .npy format, expected 1, 2 or 3");
  size_t lengthBytes = version == 1 ? 2 : 4;
  uint64_t length = 0;
  for (size_t i = lengthBytes; i-- > 0;)
    length = length << 8 | byteAt(8 + i);
  uint64_t begin = 8 + lengthBytes + length;
  if (begin > contents.size())
    return fail(what, ": header of ", length, " bytes, but the file has only ",
                contents.size() - 8 - lengthBytes,
                " after its length (is it truncated?)");
  HeaderReader header(contents.substr(8 + lengthBytes, length));
  if (!header.read())
    return fail(what, ": the header is not as numpy.save writes it");
  if (header.isFortran)
    return fail(what, ": the array is in Fortran's order; "
                      "numpy.ascontiguousarray gives the other");
  TensorEntry entry;
  const auto *known =
      std::find_if(std::begin(types), std::end(types),
                   [&](const NpyType &t) { return t.name == header.descr; });
  entry.shape = header.shape;
  entry.begin = begin;
  entry.bytes = contents.size() - begin;
  if (known == std::end(types)) {
    entry.otherType = header.descr;
    return entry;
  }
  entry.type = known->type;
  std::optional<uint64_t> bytes = bytesOf(entry.type, entry.shape);
  if (!bytes || *bytes != entry.bytes)
    return fail(what, ": ", entry.bytes, " bytes after the header, but ",
                describe(entry), " has ",
                bytes ? std::to_string(*bytes) : "more than can be counted",
                " (is it truncated?)");
  return entry;
}
