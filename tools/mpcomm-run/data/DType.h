//===- DType.h - element types and shapes ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types that a program file and a safetensors file share, under
// both of their spellings, and arithmetic on shapes that cannot overflow.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_DTYPE_H
#define MPCOMM_RUN_DATA_DTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpcomm::run {

enum class DType : uint8_t { F32, F64, F16, BF16, I8, U8, I16, I32, I64, Bool };

/// Sizes of the dimensions, outermost first; a scalar has none.
using Shape = std::vector<int64_t>;

/// The most dimensions that a tensor may have in any file.
inline constexpr size_t maxRank = 32;

/// Bytes of one element.
size_t sizeOf(DType type);
bool isFloat(DType type);
/// True for i8 u8 i16 i32 i64, false for floats and bool.
bool isInteger(DType type);

/// The manifest's spelling (`f32`) and that of safetensors (`F32`).
std::string_view nameOf(DType type);
std::string_view safetensorsNameOf(DType type);
std::optional<DType> parseDType(std::string_view name);
std::optional<DType> parseSafetensorsDType(std::string_view name);

/// Elements of `shape`, or nothing where the product exceeds 2^62 or a
/// dimension is negative.
std::optional<uint64_t> elementsOf(const Shape &shape);
/// Bytes of a dense tensor, with the same bound.
std::optional<uint64_t> bytesOf(DType type, const Shape &shape);

/// `f32 [2, 3]`, for messages.
std::string describe(std::string_view typeName, const Shape &shape);
std::string describe(DType type, const Shape &shape);

/// Element `index` of a dense array that need not be aligned. Floats and
/// integers are widened; `loadInteger` takes integer types and bool only.
double loadFloat(DType type, const void *data, size_t index);
int64_t loadInteger(DType type, const void *data, size_t index);
/// Stores `value` converted to `type` (round to nearest even for floats).
void storeNumber(DType type, void *data, size_t index, double value);

/// Index of the first NaN, or infinity unless `infinityIsFine`, among `count`
/// elements, or `count`; also where the type is no float. Linear in what comes
/// before.
size_t findNonFinite(DType type, const void *data, size_t count,
                     bool infinityIsFine = false);

/// What of a tensor is not finite.
struct NonFinite {
  uint64_t count = 0;
  /// Index of the first, where there is one.
  uint64_t first = 0;
};

/// Counts NaN, and infinity unless `infinityIsFine`, among `count` elements;
/// none where the type is no float. Linear, whatever is found.
NonFinite countNonFinite(DType type, const void *data, uint64_t count,
                         bool infinityIsFine);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_DTYPE_H
