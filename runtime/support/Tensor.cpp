//===- Tensor.cpp - shapes, and values that are not finite ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See DType.h.
//
//===----------------------------------------------------------------------===//

#include "support/Tensor.h"

#include "support/Error.h"

#include <algorithm>
#include <cstring>

using namespace mprt;

namespace {

template <typename T> T load(const void *data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

/// Elements of a block that is looked at as a whole before each of them is.
constexpr size_t scanBlock = 1024;

/// Calls `look` with begin and end of each block that has something not finite,
/// until it returns true, and with a test of single elements. A float is not
/// finite exactly where all bits of its exponent are set, `mask`; it is NaN
/// where one of its mantissa is, too.
template <typename Bits, typename Look>
void scanBlocks(const void *data, size_t count, Bits mask, bool infinityIsFine,
                Look look) {
  constexpr auto magnitude = static_cast<Bits>(static_cast<Bits>(-1) >> 1);
  // The least magnitude that is bad.
  auto least = static_cast<Bits>(mask + infinityIsFine);
  auto isBad = [=](size_t i) {
    return (load<Bits>(data, i) & magnitude) >= least;
  };
  for (size_t begin = 0; begin < count; begin += scanBlock) {
    size_t end = std::min(count, begin + scanBlock);
    Bits bad = 0;
    for (size_t i = begin; i < end; ++i)
      bad |= isBad(i);
    if (bad && look(begin, end, isBad))
      return;
  }
}

/// The same for elements of `type`; does nothing where that is no float.
template <typename Look>
void scanBlocks(DType type, const void *data, size_t count, bool infinityIsFine,
                Look look) {
  switch (type) {
  case MPRT_F32:
    return scanBlocks<uint32_t>(data, count, 0x7f800000u, infinityIsFine, look);
  case MPRT_F64:
    return scanBlocks<uint64_t>(data, count, 0x7ff0000000000000u,
                                infinityIsFine, look);
  case MPRT_F16:
    return scanBlocks<uint16_t>(data, count, 0x7c00u, infinityIsFine, look);
  case MPRT_BF16:
    return scanBlocks<uint16_t>(data, count, 0x7f80u, infinityIsFine, look);
  default:
    return;
  }
}

} // namespace

std::optional<uint64_t> mprt::elementsOf(const Shape &shape) {
  constexpr uint64_t limit = uint64_t(1) << 62;
  uint64_t product = 1;
  for (int64_t size : shape) {
    uint64_t next;
    if (size < 0 ||
        __builtin_mul_overflow(product, static_cast<uint64_t>(size), &next) ||
        next > limit)
      return std::nullopt;
    product = next;
  }
  return product;
}

std::optional<uint64_t> mprt::bytesOf(DType type, const Shape &shape) {
  std::optional<uint64_t> elements = elementsOf(shape);
  if (!elements || *elements > (uint64_t(1) << 62) / sizeOf(type))
    return std::nullopt;
  return *elements * sizeOf(type);
}

std::string mprt::describe(DType type, const Shape &shape) {
  return describe(nameOf(type), shape);
}

std::string mprt::describe(std::string_view typeName, const Shape &shape) {
  std::string text(typeName);
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

size_t mprt::findNonFinite(DType type, const void *data, size_t count,
                           bool infinityIsFine) {
  size_t first = count;
  scanBlocks(type, data, count, infinityIsFine,
             [&](size_t begin, size_t, auto isBad) {
               for (first = begin; !isBad(first);)
                 ++first;
               return true;
             });
  return first;
}

NonFinite mprt::countNonFinite(DType type, const void *data, uint64_t count,
                               bool infinityIsFine) {
  NonFinite found;
  scanBlocks(type, data, count, infinityIsFine,
             [&](size_t begin, size_t end, auto isBad) {
               for (size_t i = begin; i < end; ++i)
                 if (isBad(i) && found.count++ == 0)
                   found.first = i;
               return false;
             });
  return found;
}
