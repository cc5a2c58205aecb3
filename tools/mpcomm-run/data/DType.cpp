//===- DType.cpp - element types and shapes -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One table of element types; widening and narrowing of single elements, and
// the scan for values that are not finite.
//
//===----------------------------------------------------------------------===//

#include "data/DType.h"

#include "data/Status.h"

#include "support/DType.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

using namespace mpcomm::run;

namespace {

struct TypeInfo {
  DType type;
  std::string_view name;
  std::string_view safetensors;
  size_t size;
};

constexpr std::array<TypeInfo, 10> types = {{
    {DType::F32, "f32", "F32", 4},
    {DType::F64, "f64", "F64", 8},
    {DType::F16, "f16", "F16", 2},
    {DType::BF16, "bf16", "BF16", 2},
    {DType::I8, "i8", "I8", 1},
    {DType::U8, "u8", "U8", 1},
    {DType::I16, "i16", "I16", 2},
    {DType::I32, "i32", "I32", 4},
    {DType::I64, "i64", "I64", 8},
    {DType::Bool, "bool", "BOOL", 1},
}};

const TypeInfo &infoOf(DType type) { return types[static_cast<size_t>(type)]; }

template <typename T> T load(const void *data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T> void store(void *data, size_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
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
  case DType::F32:
    return scanBlocks<uint32_t>(data, count, 0x7f800000u, infinityIsFine, look);
  case DType::F64:
    return scanBlocks<uint64_t>(data, count, 0x7ff0000000000000u,
                                infinityIsFine, look);
  case DType::F16:
    return scanBlocks<uint16_t>(data, count, 0x7c00u, infinityIsFine, look);
  case DType::BF16:
    return scanBlocks<uint16_t>(data, count, 0x7f80u, infinityIsFine, look);
  default:
    return;
  }
}

} // namespace

size_t mpcomm::run::sizeOf(DType type) { return infoOf(type).size; }

bool mpcomm::run::isFloat(DType type) { return type <= DType::BF16; }

bool mpcomm::run::isInteger(DType type) {
  return type >= DType::I8 && type <= DType::I64;
}

std::string_view mpcomm::run::nameOf(DType type) { return infoOf(type).name; }

std::string_view mpcomm::run::safetensorsNameOf(DType type) {
  return infoOf(type).safetensors;
}

std::optional<DType> mpcomm::run::parseDType(std::string_view name) {
  for (const TypeInfo &info : types)
    if (info.name == name)
      return info.type;
  return std::nullopt;
}

std::optional<DType> mpcomm::run::parseSafetensorsDType(std::string_view name) {
  for (const TypeInfo &info : types)
    if (info.safetensors == name)
      return info.type;
  return std::nullopt;
}

std::optional<uint64_t> mpcomm::run::elementsOf(const Shape &shape) {
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

std::optional<uint64_t> mpcomm::run::bytesOf(DType type, const Shape &shape) {
  std::optional<uint64_t> elements = elementsOf(shape);
  if (!elements || *elements > (uint64_t(1) << 62) / sizeOf(type))
    return std::nullopt;
  return *elements * sizeOf(type);
}

std::string mpcomm::run::describe(DType type, const Shape &shape) {
  return describe(nameOf(type), shape);
}

std::string mpcomm::run::describe(std::string_view typeName,
                                  const Shape &shape) {
  std::string text(typeName);
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

double mpcomm::run::loadFloat(DType type, const void *data, size_t index) {
  switch (type) {
  case DType::F32:
    return load<float>(data, index);
  case DType::F64:
    return load<double>(data, index);
  case DType::F16:
    return mprt::f16ToFloat(load<uint16_t>(data, index));
  case DType::BF16:
    return std::bit_cast<float>(
        static_cast<uint32_t>(load<uint16_t>(data, index)) << 16);
  default:
    return static_cast<double>(loadInteger(type, data, index));
  }
}

int64_t mpcomm::run::loadInteger(DType type, const void *data, size_t index) {
  switch (type) {
  case DType::I8:
    return load<int8_t>(data, index);
  case DType::U8:
  case DType::Bool:
    return load<uint8_t>(data, index);
  case DType::I16:
    return load<int16_t>(data, index);
  case DType::I32:
    return load<int32_t>(data, index);
  case DType::I64:
    return load<int64_t>(data, index);
  default:
    return static_cast<int64_t>(loadFloat(type, data, index));
  }
}

void mpcomm::run::storeNumber(DType type, void *data, size_t index,
                              double value) {
  switch (type) {
  case DType::F32:
    return store(data, index, static_cast<float>(value));
  case DType::F64:
    return store(data, index, value);
  case DType::F16:
    return store(data, index, mprt::floatToF16(static_cast<float>(value)));
  case DType::BF16:
    return store(data, index, mprt::floatToBf16(static_cast<float>(value)));
  case DType::I8:
    return store(data, index, static_cast<int8_t>(value));
  case DType::U8:
    return store(data, index, static_cast<uint8_t>(value));
  case DType::Bool:
    return store(data, index, static_cast<uint8_t>(value != 0));
  case DType::I16:
    return store(data, index, static_cast<int16_t>(value));
  case DType::I32:
    return store(data, index, static_cast<int32_t>(value));
  case DType::I64:
    return store(data, index, static_cast<int64_t>(value));
  }
}

size_t mpcomm::run::findNonFinite(DType type, const void *data, size_t count,
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

NonFinite mpcomm::run::countNonFinite(DType type, const void *data,
                                      uint64_t count, bool infinityIsFine) {
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

std::string mpcomm::run::printable(const std::string &text, size_t limit) {
  static const char digits[] = "0123456789abcdef";
  std::string result;
  for (unsigned char c : text) {
    if (result.size() >= limit)
      return result + "...";
    if (c >= 0x20 && c != 0x7f) {
      result += static_cast<char>(c);
      continue;
    }
    result += "\\x";
    result += digits[c >> 4];
    result += digits[c & 15];
  }
  return result;
}
