//===- Integers.h - integers in memory, and their limits ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is checked of indices, labels and tokens before a program may take them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_INTEGERS_H
#define MPCOMM_RUNTIME_SUPPORT_INTEGERS_H

#include "support/DType.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace mprt {

/// Element `index` of an array at any address.
template <typename T> T loadAs(const void *data, uint64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T> void storeAs(void *data, uint64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}

/// Calls `use` with a value of the C++ type of an integer type or of bool.
template <typename Use> auto withInteger(mprt_dtype type, Use use) {
  switch (type) {
  case MPRT_I8:
    return use(int8_t());
  case MPRT_U8:
  case MPRT_BOOL:
    return use(uint8_t());
  case MPRT_I16:
    return use(int16_t());
  case MPRT_I32:
    return use(int32_t());
  default:
    return use(int64_t());
  }
}

/// The least and the greatest value of an integer type or of bool.
inline std::pair<int64_t, int64_t> limitsOf(mprt_dtype type) {
  if (type == MPRT_BOOL)
    return {0, 1};
  return withInteger(type, [](auto value) {
    using Limits = std::numeric_limits<decltype(value)>;
    return std::pair(int64_t(Limits::min()), int64_t(Limits::max()));
  });
}

/// Index of the first of `count` values that is not from `least` to `greatest`,
/// or `count`. In blocks without a branch, since nearly all are inside.
template <typename T>
uint64_t findOutside(const void *data, uint64_t count, int64_t least,
                     int64_t greatest) {
  constexpr uint64_t block = 1024;
  auto isOutside = [=](uint64_t i) {
    auto value = int64_t(loadAs<T>(data, i));
    return value < least || value > greatest;
  };
  for (uint64_t begin = 0; begin < count; begin += block) {
    uint64_t end = std::min(begin + block, count);
    bool any = false;
    for (uint64_t i = begin; i < end; ++i)
      any |= isOutside(i);
    if (!any)
      continue;
    while (!isOutside(begin))
      ++begin;
    return begin;
  }
  return count;
}

inline uint64_t findOutside(mprt_dtype type, const void *data, uint64_t count,
                            int64_t least, int64_t greatest) {
  return withInteger(type, [&](auto value) {
    return findOutside<decltype(value)>(data, count, least, greatest);
  });
}

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_INTEGERS_H
