//===- Tensor.h - shapes, and values that are not finite ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic on shapes that cannot overflow, and the scan for values that are
// not finite. Element types are in DType.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_TENSOR_H
#define MPCOMM_RUNTIME_SUPPORT_TENSOR_H

#include "support/DType.h"
#include "support/Error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mprt {

using DType = mprt_dtype;

/// Sizes of the dimensions, outermost first; a scalar has none.
using Shape = std::vector<int64_t>;

/// The most dimensions that a tensor may have in any file.
inline constexpr size_t maxRank = 32;

/// Elements of `shape`, or nothing where the product exceeds 2^62 or a
/// dimension is negative.
std::optional<uint64_t> elementsOf(const Shape &shape);
/// Bytes of a dense tensor, with the same bound.
std::optional<uint64_t> bytesOf(DType type, const Shape &shape);

/// `f32 [2, 3]`, for messages.
std::string describe(std::string_view typeName, const Shape &shape);
std::string describe(DType type, const Shape &shape);

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

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_TENSOR_H
