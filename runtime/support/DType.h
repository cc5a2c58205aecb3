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

#include "support/Error.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mprt {

/// Bytes of one element; 0 for a number that is no type.
size_t sizeOf(mprt_dtype type);

/// "f32", "bf16", ...; in files of safetensors "F32", "BF16", ...
const char *nameOf(mprt_dtype type);
const char *safetensorsNameOf(mprt_dtype type);
/// The type of that name; nothing where tensors of programs and files do not
/// have it, as f8e4m3.
std::optional<mprt_dtype> parseDType(std::string_view name);
std::optional<mprt_dtype> parseSafetensorsDType(std::string_view name);

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
/// E4M3 has no infinities; all ones but the sign is NaN. Exact, as all floats
/// of 8 bits are f32.
float f8E4M3ToFloat(uint8_t bits);
/// E5M2 is the upper half of an f16.
inline float f8E5M2ToFloat(uint8_t bits) {
  return f16ToFloat(uint16_t(bits << 8));
}
uint16_t floatToF16(float value);

/// Element `index` of a dense array that need not be aligned. Floats and
/// integers are widened; `loadInteger` takes integer types and bool only.
double loadFloat(mprt_dtype type, const void *data, size_t index);
int64_t loadInteger(mprt_dtype type, const void *data, size_t index);
/// Stores `value` converted to `type` (round to nearest even for floats).
/// Whether the type has `value`: an integer as it is; a float rounded, neither
/// to infinity nor, if it is another number, to zero.
bool isStorable(mprt_dtype type, double value);
/// An error about `what` where it has not.
Error checkStorable(const std::string &what, mprt_dtype type, double value);
void storeNumber(mprt_dtype type, void *data, size_t index, double value);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_DTYPE_H
