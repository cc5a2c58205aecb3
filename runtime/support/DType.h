//===- DType.h - element types of the ABI ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes and names of mprt_dtype, and the conversions between the 16-bit
// floating point types and float. Rounding is to nearest, ties to even; a NaN
// stays a NaN.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_DTYPE_H
#define MPCOMM_RUNTIME_SUPPORT_DTYPE_H

#include "mpcomm/Runtime/mprt.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mprt {

/// Bytes of one element; 0 for a number that is no type.
size_t sizeOf(mprt_dtype type);

/// "f32", "bf16", ...
const char *nameOf(mprt_dtype type);

/// "sum", "mean", ...
const char *nameOf(mprt_reduction reduction);

/// "all_reduce", ...
const char *nameOf(mprt_collective_kind kind);

inline bool isInteger(mprt_dtype type) {
  return type >= MPRT_I8 && type <= MPRT_I64;
}
inline bool isFloat(mprt_dtype type) { return type <= MPRT_BF16; }

inline float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}
inline uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16ToFloat(uint16_t bits);
uint16_t floatToF16(float value);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_DTYPE_H
