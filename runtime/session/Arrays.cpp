//===- Arrays.cpp - arrays that callers give ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows, the runs of the innermost dimension, are copied or converted one after
// the other.
//
//===----------------------------------------------------------------------===//

#include "session/Arrays.h"

#include "support/Tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace mprt;

static constexpr uintptr_t programAlignment = 64;

static std::string quoted(const ManifestTensor &tensor) {
  return "'" + printable(tensor.name) + "'";
}

static bool isDense(const mpcomm_array &array) {
  if (!array.strides)
    return true;
  int64_t expected = 1;
  for (uint32_t d = array.ndim; d-- > 0;) {
    if (array.shape[d] != 1 && array.strides[d] != expected)
      return false;
    expected *= array.shape[d];
  }
  return true;
}

static bool areConvertible(DType from, DType to) {
  return from == to || (isFloat(from) && isFloat(to)) ||
         (isInteger(from) && isInteger(to));
}

Error mprt::checkArray(const mpcomm_array &array,
                       const ManifestTensor &tensor) {
  auto type = DType(array.dtype);
  if (sizeOf(type) == 0)
    return fail("array ", quoted(tensor), ": ", array.dtype,
                " is no mprt_dtype");
  if (array.ndim > maxRank || (array.ndim && !array.shape))
    return fail("array ", quoted(tensor), ": ", array.ndim, " dimensions",
                array.ndim > maxRank ? "" : " without a shape");
  Shape shape(array.shape, array.shape + array.ndim);
  if (!areConvertible(type, tensor.type) || shape != tensor.shape)
    return fail("array ", quoted(tensor), " is ", describe(type, shape),
                ", expected ", describe(tensor.type, tensor.shape));
  if (!array.data && tensor.elements)
    return fail("array ", quoted(tensor), ": its data is null");
  return {};
}

bool mprt::isUsableInPlace(const mpcomm_array &array,
                           const ManifestTensor &tensor) {
  return array.dtype == tensor.type && isDense(array) &&
         reinterpret_cast<uintptr_t>(array.data) % programAlignment == 0;
}

/// Whether the tensor's type has this value.
static bool fits(DType type, int64_t value) {
  auto within = [&](auto limits) {
    return value >= int64_t(limits.min()) && value <= int64_t(limits.max());
  };
  switch (type) {
  case MPRT_I8:
    return within(std::numeric_limits<int8_t>());
  case MPRT_U8:
    return within(std::numeric_limits<uint8_t>());
  case MPRT_I16:
    return within(std::numeric_limits<int16_t>());
  case MPRT_I32:
    return within(std::numeric_limits<int32_t>());
  default:
    return true;
  }
}

static void storeInteger(DType type, void *data, uint64_t index,
                         int64_t value) {
  switch (type) {
  case MPRT_I8:
  case MPRT_U8:
    static_cast<uint8_t *>(data)[index] = uint8_t(value);
    return;
  case MPRT_I16:
    static_cast<int16_t *>(data)[index] = int16_t(value);
    return;
  case MPRT_I32:
    static_cast<int32_t *>(data)[index] = int32_t(value);
    return;
  default:
    static_cast<int64_t *>(data)[index] = value;
  }
}

/// Element by element. After an error, `target` has a part.
static Error convertArray(const mpcomm_array &array,
                          const ManifestTensor &tensor, char *target) {
  auto type = DType(array.dtype);
  const auto *source = static_cast<const char *>(array.data);
  uint64_t size = sizeOf(type);
  // The place of element `at`, whose index along each dimension is `index`.
  std::vector<int64_t> strides(array.ndim), index(array.ndim);
  int64_t dense = 1, place = 0;
  for (uint32_t d = array.ndim; d-- > 0;) {
    strides[d] = array.strides ? array.strides[d] : dense;
    dense *= array.shape[d];
  }
  for (uint64_t at = 0; at < tensor.elements; ++at) {
    const char *element = source + place * int64_t(size);
    if (type == tensor.type) {
      std::memcpy(target + at * size, element, size);
    } else if (isFloat(type)) {
      storeNumber(tensor.type, target, at, loadFloat(type, element, 0));
    } else {
      int64_t value = loadInteger(type, element, 0);
      if (!fits(tensor.type, value))
        return fail("array ", quoted(tensor), ", element ", at, ": ", value,
                    " does not fit ", nameOf(tensor.type));
      storeInteger(tensor.type, target, at, value);
    }
    for (uint32_t d = array.ndim; d-- > 0;) {
      place += strides[d];
      if (++index[d] < array.shape[d])
        break;
      place -= strides[d] * array.shape[d];
      index[d] = 0;
    }
  }
  return {};
}

/// Whether the array has bytes among the `bytes` at `target`.
static bool overlaps(const mpcomm_array &array, const void *target,
                     uint64_t bytes) {
  // Around the first element.
  int64_t size = int64_t(sizeOf(DType(array.dtype)));
  int64_t before = 0, after = size, dense = 1;
  for (uint32_t d = array.ndim; d-- > 0;) {
    int64_t stride = array.strides ? array.strides[d] : dense;
    int64_t last = stride * (array.shape[d] - 1) * size;
    (last < 0 ? before : after) += last;
    dense *= array.shape[d];
  }
  auto first = reinterpret_cast<uintptr_t>(array.data);
  auto begin = reinterpret_cast<uintptr_t>(target);
  return first + uintptr_t(before) < begin + bytes &&
         begin < first + uintptr_t(after);
}

Error mprt::storeArray(const mpcomm_array &array, const ManifestTensor &tensor,
                       void *target) {
  auto type = DType(array.dtype);
  const auto *source = static_cast<const char *>(array.data);
  uint64_t size = sizeOf(type);
  if (type == tensor.type && isDense(array)) {
    if (tensor.elements && source != target)
      std::memmove(target, source, tensor.elements * size);
    return {};
  }
  if (tensor.elements == 0)
    return {};
  // What is read is not to be written meanwhile, and half a tensor would be
  // worse than none.
  uint64_t bytes = tensor.elements * sizeOf(tensor.type);
  bool mayFail = type != tensor.type && isInteger(tensor.type);
  if (mayFail || overlaps(array, target, bytes)) {
    std::vector<char> whole(bytes);
    Error error = convertArray(array, tensor, whole.data());
    if (!error)
      std::memcpy(target, whole.data(), bytes);
    return error;
  }
  return convertArray(array, tensor, static_cast<char *>(target));
}
template <typename T>
static uint64_t findOutside(const void *data, uint64_t count, int64_t first,
                            int64_t second) {
  const T *values = static_cast<const T *>(data);
  constexpr uint64_t block = 1024;
  for (uint64_t begin = 0; begin < count; begin += block) {
    uint64_t end = std::min(begin + block, count);
    bool outside = false;
    for (uint64_t i = begin; i < end; ++i)
      outside |= int64_t(values[i]) < first || int64_t(values[i]) >= second;
    if (!outside)
      continue;
    while (int64_t(values[begin]) >= first && int64_t(values[begin]) < second)
      ++begin;
    return begin;
  }
  return count;
}

Error mprt::checkValues(const ManifestTensor &tensor, const void *data,
                        const std::pair<int64_t, int64_t> &range) {
  auto find = [&] {
    auto [first, second] = range;
    switch (tensor.type) {
    case MPRT_I8:
      return findOutside<int8_t>(data, tensor.elements, first, second);
    case MPRT_U8:
      return findOutside<uint8_t>(data, tensor.elements, first, second);
    case MPRT_I16:
      return findOutside<int16_t>(data, tensor.elements, first, second);
    case MPRT_I32:
      return findOutside<int32_t>(data, tensor.elements, first, second);
    case MPRT_I64:
      return findOutside<int64_t>(data, tensor.elements, first, second);
    default:
      return tensor.elements;
    }
  };
  uint64_t at = find();
  if (at == tensor.elements)
    return {};
  return fail("array ", quoted(tensor), ", element ", at, ": ",
              loadInteger(tensor.type, data, at), ", expected a value in [",
              range.first, ", ", range.second, ")");
}
