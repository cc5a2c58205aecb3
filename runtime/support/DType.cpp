//===- DType.cpp - element types of the ABI -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/DType.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

using namespace mprt;

namespace {

struct TypeInfo {
  const char *name, *safetensors;
  size_t bytes;
};

/// By number of the type; those of programs and files before the others.
constexpr TypeInfo types[] = {
    {"f32", "F32", 4},   {"f64", "F64", 8},        {"f16", "F16", 2},
    {"bf16", "BF16", 2}, {"i8", "I8", 1},          {"u8", "U8", 1},
    {"i16", "I16", 2},   {"i32", "I32", 4},        {"i64", "I64", 8},
    {"bool", "BOOL", 1}, {"f8e4m3", "F8_E4M3", 1}, {"f8e5m2", "F8_E5M2", 1},
};
constexpr TypeInfo unknown = {"an unknown type", "an unknown type", 0};

const TypeInfo &infoOf(mprt_dtype type) {
  return unsigned(type) < std::size(types) ? types[type] : unknown;
}

std::optional<mprt_dtype> findType(const char *TypeInfo::*spelling,
                                   std::string_view name) {
  for (unsigned type = 0; type <= MPRT_BOOL; ++type)
    if (types[type].*spelling == name)
      return mprt_dtype(type);
  return std::nullopt;
}

template <typename T> T load(const void *data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T> void store(void *data, size_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}

} // namespace

size_t mprt::sizeOf(mprt_dtype type) { return infoOf(type).bytes; }

const char *mprt::nameOf(mprt_dtype type) { return infoOf(type).name; }

const char *mprt::safetensorsNameOf(mprt_dtype type) {
  return infoOf(type).safetensors;
}

std::optional<mprt_dtype> mprt::parseDType(std::string_view name) {
  return findType(&TypeInfo::name, name);
}

std::optional<mprt_dtype> mprt::parseSafetensorsDType(std::string_view name) {
  return findType(&TypeInfo::safetensors, name);
}

const char *mprt::nameOf(mprt_reduction reduction) {
  static const char *const names[] = {"sum", "prod", "min", "max", "mean"};
  return unsigned(reduction) < 5 ? names[reduction] : "an unknown reduction";
}

const char *mprt::nameOf(mprt_collective_kind kind) {
  static const char *const names[] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all",
      "broadcast",  "send",           "recv",       "barrier",
      "permute",    "reduce",         "gather",     "scatter"};
  return unsigned(kind) < 12 ? names[kind] : "an unknown collective";
}

float mprt::f16ToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    // Zero or subnormal: fraction x 2^-24, exact in float.
    float magnitude = float(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13) |
                                (fraction ? 0x400000u : 0));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                              (fraction << 13));
}

float mprt::f8E4M3ToFloat(uint8_t bits) {
  uint32_t sign = uint32_t(bits & 0x80u) << 24;
  uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7f)
    return std::bit_cast<float>(sign | 0x7fc00000u);
  // As an f16 the bits are 2^-8 times what they say, subnormals too.
  float value = f16ToFloat(uint16_t(magnitude << 7)) * 256;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

uint16_t mprt::floatToF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto sign = uint16_t((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) // 2^16 and more
    return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14: the sum's lowest bit weighs 2^-24, so that the addition
    // itself rounds to the subnormal.
    float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
  }
  // Rounding may carry into the exponent, up to infinity, as it should.
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

double mprt::loadFloat(mprt_dtype type, const void *data, size_t index) {
  switch (type) {
  case MPRT_F32:
    return load<float>(data, index);
  case MPRT_F64:
    return load<double>(data, index);
  case MPRT_F16:
    return f16ToFloat(load<uint16_t>(data, index));
  case MPRT_BF16:
    return bf16ToFloat(load<uint16_t>(data, index));
  case MPRT_F8E4M3:
    return f8E4M3ToFloat(load<uint8_t>(data, index));
  case MPRT_F8E5M2:
    return f8E5M2ToFloat(load<uint8_t>(data, index));
  default:
    return static_cast<double>(loadInteger(type, data, index));
  }
}

int64_t mprt::loadInteger(mprt_dtype type, const void *data, size_t index) {
  switch (type) {
  case MPRT_I8:
    return load<int8_t>(data, index);
  case MPRT_U8:
  case MPRT_BOOL:
    return load<uint8_t>(data, index);
  case MPRT_I16:
    return load<int16_t>(data, index);
  case MPRT_I32:
    return load<int32_t>(data, index);
  case MPRT_I64:
    return load<int64_t>(data, index);
  default:
    return static_cast<int64_t>(loadFloat(type, data, index));
  }
}

/// The float next to `value` towards zero, with an odd last bit where that is
/// another number: rounded once more to fewer bits, it is what `value` is
/// rounded to (Boldo and Melquiond, "When double rounding is odd", 2005).
static float roundToOdd(double value) {
  auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || std::isnan(value))
    return rounded;
  auto bits = std::bit_cast<uint32_t>(rounded);
  if (std::abs(static_cast<double>(rounded)) > std::abs(value))
    --bits;
  return std::bit_cast<float>(bits | 1);
}

bool mprt::isStorable(mprt_dtype type, double value) {
  if (isFloat(type)) {
    uint64_t storage = 0;
    storeNumber(type, &storage, 0, value);
    double stored = loadFloat(type, &storage, 0);
    return std::isfinite(stored) && (stored != 0 || value == 0);
  }
  if (type == MPRT_BOOL)
    return value == 0 || value == 1;
  double bits = 8.0 * static_cast<double>(sizeOf(type));
  bool isSigned = type != MPRT_U8;
  double low = isSigned ? -std::exp2(bits - 1) : 0;
  double high = std::exp2(isSigned ? bits - 1 : bits);
  return value == std::trunc(value) && value >= low && value < high;
}

Error mprt::checkStorable(const std::string &what, mprt_dtype type,
                          double value) {
  if (isStorable(type, value))
    return {};
  if (!isFloat(type))
    return fail(what, ": ", value, " is no ", nameOf(type));
  uint64_t storage = 0;
  storeNumber(type, &storage, 0, value);
  return fail(what, ": ", value, " is ", loadFloat(type, &storage, 0),
              " in the program's type ", nameOf(type));
}

void mprt::storeNumber(mprt_dtype type, void *data, size_t index,
                       double value) {
  switch (type) {
  case MPRT_F32:
    return store(data, index, static_cast<float>(value));
  case MPRT_F64:
    return store(data, index, value);
  case MPRT_F16:
    return store(data, index, floatToF16(roundToOdd(value)));
  case MPRT_BF16:
    return store(data, index, floatToBf16(roundToOdd(value)));
  case MPRT_I8:
    return store(data, index, static_cast<int8_t>(value));
  case MPRT_U8:
    return store(data, index, static_cast<uint8_t>(value));
  case MPRT_BOOL:
    return store(data, index, static_cast<uint8_t>(value != 0));
  case MPRT_I16:
    return store(data, index, static_cast<int16_t>(value));
  case MPRT_I32:
    return store(data, index, static_cast<int32_t>(value));
  case MPRT_I64:
    return store(data, index, static_cast<int64_t>(value));
  default:
    return;
  }
}
