//===- DType.cpp - element types of the ABI -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/DType.h"

using namespace mprt;

size_t mprt::sizeOf(mprt_dtype type) {
  switch (type) {
  case MPRT_I8:
  case MPRT_U8:
  case MPRT_BOOL:
  case MPRT_F8E4M3:
  case MPRT_F8E5M2:
    return 1;
  case MPRT_F16:
  case MPRT_BF16:
  case MPRT_I16:
    return 2;
  case MPRT_F32:
  case MPRT_I32:
    return 4;
  case MPRT_F64:
  case MPRT_I64:
    return 8;
  }
  return 0;
}

const char *mprt::nameOf(mprt_dtype type) {
  static const char *const names[] = {"f32", "f64",  "f16",    "bf16",
                                      "i8",  "u8",   "i16",    "i32",
                                      "i64", "bool", "f8e4m3", "f8e5m2"};
  return unsigned(type) < 12 ? names[type] : "an unknown type";
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
