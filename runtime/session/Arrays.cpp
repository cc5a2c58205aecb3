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

#include "support/Integers.h"
#include "support/Tensor.h"

#include <algorithm>
#include <cstring>

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
  if (array.ndim > maxRank)
    return fail("array ", quoted(tensor), ": ", array.ndim,
                " dimensions, expected at most ", maxRank);
  if (array.ndim && !array.shape)
    return fail("array ", quoted(tensor), ": its shape is null, expected ",
                array.ndim, array.ndim == 1 ? " size" : " sizes");
  if (!areConvertible(type, tensor.type) ||
      !std::equal(array.shape, array.shape + array.ndim, tensor.shape.begin(),
                  tensor.shape.end()))
    return fail("array ", quoted(tensor), " is ",
                describe(type, Shape(array.shape, array.shape + array.ndim)),
                ", expected ", describe(tensor.type, tensor.shape));
  if (!array.data && tensor.elements)
    return fail("array ", quoted(tensor), ": its data is null, expected ",
                tensor.elements, tensor.elements == 1 ? " value" : " values");
  return {};
}

bool mprt::isUsableInPlace(const mpcomm_array &array,
                           const ManifestTensor &tensor) {
  return array.dtype == tensor.type && isDense(array) &&
         reinterpret_cast<uintptr_t>(array.data) % programAlignment == 0;
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
      auto [least, greatest] = limitsOf(tensor.type);
      if (value < least || value > greatest)
        return fail("array ", quoted(tensor), ", element ", at, ": ", value,
                    " does not fit ", nameOf(tensor.type));
      withInteger(tensor.type, [&](auto stored) {
        storeAs(target, at, decltype(stored)(value));
      });
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
Error mprt::checkValues(const ManifestTensor &tensor, const void *data,
                        const std::pair<int64_t, int64_t> &range) {
  uint64_t at = findOutside(tensor.type, data, tensor.elements, range.first,
                            range.second - 1);
  if (at == tensor.elements)
    return {};
  return fail("array ", quoted(tensor), ", element ", at, ": ",
              loadInteger(tensor.type, data, at), ", expected a value in [",
              range.first, ", ", range.second, ")");
}
