//===- Reference.cpp - what a collective should give ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/Reference.h"

#include "support/DType.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mprt;
using namespace mprt::cts;

/// A number that looks random (splitmix64's finalizer).
static uint64_t mix(uint64_t seed, unsigned rank, uint64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + rank * 0xd1b54a32d192ed03u + index;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <typename T> static void put(void *element, T value) {
  memcpy(element, &value, sizeof(T));
}
template <typename T> static T get(const void *element) {
  T value;
  memcpy(&value, element, sizeof(T));
  return value;
}

/// In [-1, 1], or near 1 for products.
static double floatInput(mprt_reduction reduction, uint64_t bits) {
  double unit = double(bits >> 11) * 0x1p-53;
  return reduction == MPRT_PROD ? 0.75 + unit / 2 : 2 * unit - 1;
}

void mprt::cts::writeInput(mprt_dtype type, mprt_reduction reduction,
                           uint64_t seed, unsigned rank, uint64_t index,
                           void *element) {
  uint64_t bits = mix(seed, rank, index);
  double value = floatInput(reduction, bits);
  switch (type) {
  case MPRT_F32:
    return put(element, float(value));
  case MPRT_F64:
    return put(element, value);
  case MPRT_F16:
    return put(element, floatToF16(float(value)));
  case MPRT_BF16:
    return put(element, floatToBf16(float(value)));
  case MPRT_BOOL:
    return put(element, uint8_t(bits & 1));
  default: // integers: any bits
    memcpy(element, &bits, sizeOf(type));
  }
}

static long double toDouble(mprt_dtype type, const void *element) {
  switch (type) {
  case MPRT_F32:
    return get<float>(element);
  case MPRT_F64:
    return get<double>(element);
  case MPRT_F16:
    return f16ToFloat(get<uint16_t>(element));
  default:
    return bf16ToFloat(get<uint16_t>(element));
  }
}

/// Half the distance from 1 to the next number.
static long double epsilonOf(mprt_dtype type) {
  switch (type) {
  case MPRT_F64:
    return 0x1p-53L;
  case MPRT_F16:
    return 0x1p-11L;
  case MPRT_BF16:
    return 0x1p-8L;
  default:
    return 0x1p-24L;
  }
}

static bool isReducedFloat(mprt_dtype type, mprt_dtype accumulate,
                           mprt_reduction reduction, uint64_t seed,
                           unsigned size, uint64_t index, const void *element,
                           std::string &why) {
  long double result = 0, magnitude = 0;
  for (unsigned r = 0; r < size; ++r) {
    uint64_t storage = 0;
    writeInput(type, reduction, seed, r, index, &storage);
    long double x = toDouble(type, &storage);
    magnitude += std::fabs(x);
    if (r == 0)
      result = x;
    else if (reduction == MPRT_PROD)
      result *= x;
    else if (reduction == MPRT_MIN)
      result = std::min(result, x);
    else if (reduction == MPRT_MAX)
      result = std::max(result, x);
    else
      result += x;
  }
  if (reduction == MPRT_MEAN) {
    result /= size;
    magnitude /= size;
  }
  // A sum of n terms with n - 1 roundings of partial sums, none larger than the
  // sum of magnitudes; one more operation for the mean; one rounding of the
  // result, subnormal numbers of f16 included.
  mprt_dtype kept = accumulate == MPRT_F64 ? MPRT_F64
                    : type == MPRT_F64     ? MPRT_F64
                                           : MPRT_F32;
  long double scale = reduction == MPRT_PROD ? std::fabs(result) : magnitude;
  long double tolerance = epsilonOf(kept) * size * scale +
                          epsilonOf(type) * std::fabs(result) * 1.01L;
  if (type == MPRT_F16)
    tolerance += 0x1p-25L;
  if (reduction == MPRT_MIN || reduction == MPRT_MAX)
    tolerance = 0;
  long double found = toDouble(type, element);
  if (std::fabs(found - result) <= tolerance)
    return true;
  why = "element " + std::to_string(index) + ": expected " +
        std::to_string(result) + " within " + std::to_string(tolerance) +
        ", found " + std::to_string(found);
  return false;
}

template <typename T>
static bool isReducedInteger(mprt_dtype type, mprt_reduction reduction,
                             uint64_t seed, unsigned size, uint64_t index,
                             const void *element, std::string &why) {
  T result = 0;
  for (unsigned r = 0; r < size; ++r) {
    uint64_t storage = 0;
    writeInput(type, reduction, seed, r, index, &storage);
    T x = get<T>(&storage);
    if (r == 0)
      result = x;
    else if (reduction == MPRT_PROD)
      result = T(uint64_t(result) * uint64_t(x)); // wraps
    else if (reduction == MPRT_MIN)
      result = std::min(result, x);
    else if (reduction == MPRT_MAX)
      result = std::max(result, x);
    else
      result = T(uint64_t(result) + uint64_t(x));
    if (type == MPRT_BOOL)
      result = result != 0;
  }
  T found = get<T>(element);
  if (found == result)
    return true;
  why = "element " + std::to_string(index) + ": expected " +
        std::to_string(result) + ", found " + std::to_string(found);
  return false;
}

bool mprt::cts::isReduced(mprt_dtype type, mprt_dtype accumulate,
                          mprt_reduction reduction, uint64_t seed,
                          unsigned size, uint64_t index, const void *element,
                          std::string &why) {
  switch (type) {
  case MPRT_I8:
    return isReducedInteger<int8_t>(type, reduction, seed, size, index, element,
                                    why);
  case MPRT_U8:
  case MPRT_BOOL:
    return isReducedInteger<uint8_t>(type, reduction, seed, size, index,
                                     element, why);
  case MPRT_I16:
    return isReducedInteger<int16_t>(type, reduction, seed, size, index,
                                     element, why);
  case MPRT_I32:
    return isReducedInteger<int32_t>(type, reduction, seed, size, index,
                                     element, why);
  case MPRT_I64:
    return isReducedInteger<int64_t>(type, reduction, seed, size, index,
                                     element, why);
  default:
    return isReducedFloat(type, accumulate, reduction, seed, size, index,
                          element, why);
  }
}

bool mprt::cts::isInput(mprt_dtype type, uint64_t seed, unsigned rank,
                        uint64_t index, const void *element, std::string &why) {
  uint64_t expected = 0, found = 0;
  writeInput(type, MPRT_SUM, seed, rank, index, &expected);
  memcpy(&found, element, sizeOf(type));
  if (type != MPRT_F64 && type != MPRT_I64)
    expected &= (uint64_t(1) << (8 * sizeOf(type))) - 1;
  if (expected == found)
    return true;
  why = "expected element " + std::to_string(index) + " of rank " +
        std::to_string(rank) + " (bits " + std::to_string(expected) +
        "), found " + std::to_string(found);
  return false;
}
