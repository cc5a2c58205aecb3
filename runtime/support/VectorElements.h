//===- VectorElements.h - vectors of elements in kernels ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For files that are compiled once for each instruction set (see
// comm/ReduceKernels.cpp): how elements lie in memory, are held in vectors of
// `lanes`, and go from one to the other. All of it has internal linkage, so
// that each instruction set has its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_VECTORELEMENTS_H
#define MPCOMM_RUNTIME_SUPPORT_VECTORELEMENTS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpsabi"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define MPRT_INLINE inline __attribute__((always_inline))

namespace {

template <typename T, int lanes> struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * lanes)));
};
template <typename T, int lanes> using Vec = typename VectorOf<T, lanes>::Type;

// How elements of each type lie in memory and are held in registers. `Bits` is
// the memory type, `widen` and `narrow` convert to and from the accumulator.

template <typename T, int lanes> struct Plain {
  using Bits = T;
  using Accumulator = T;
  static MPRT_INLINE T widen(T x) { return x; }
  static MPRT_INLINE T narrow(T x) { return x; }
  static MPRT_INLINE Vec<T, lanes> widen(Vec<T, lanes> x) { return x; }
  static MPRT_INLINE Vec<T, lanes> narrow(Vec<T, lanes> x) { return x; }
};

template <int lanes> struct Bf16 {
  using Bits = uint16_t;
  using Accumulator = float;
  static MPRT_INLINE float widen(uint16_t x) {
    uint32_t bits = uint32_t(x) << 16;
    float result;
    __builtin_memcpy(&result, &bits, 4);
    return result;
  }
  static MPRT_INLINE uint16_t narrow(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return uint16_t(x == x ? rounded >> 16 : (bits >> 16) | 0x40u);
  }
  static MPRT_INLINE Vec<float, lanes> widen(Vec<uint16_t, lanes> x) {
    return (Vec<float, lanes>)(__builtin_convertvector(x, Vec<uint32_t, lanes>)
                               << 16);
  }
  static MPRT_INLINE Vec<uint16_t, lanes> narrow(Vec<float, lanes> x) {
    auto bits = (Vec<uint32_t, lanes>)x;
    Vec<uint32_t, lanes> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    Vec<uint32_t, lanes> quiet = (bits >> 16) | 0x40u;
    auto ordered = (Vec<uint32_t, lanes>)(x == x);
    return __builtin_convertvector((rounded & ordered) | (quiet & ~ordered),
                                   Vec<uint16_t, lanes>);
  }
};

template <int lanes> struct F16 {
  using Bits = uint16_t;
  using Accumulator = float;
#if defined(__F16C__)
  static MPRT_INLINE float widen(uint16_t x) {
    _Float16 half;
    __builtin_memcpy(&half, &x, 2);
    return float(half);
  }
  static MPRT_INLINE uint16_t narrow(float x) {
    auto half = _Float16(x);
    uint16_t bits;
    __builtin_memcpy(&bits, &half, 2);
    return bits;
  }
  static MPRT_INLINE Vec<float, lanes> widen(Vec<uint16_t, lanes> x) {
    return __builtin_convertvector((Vec<_Float16, lanes>)x, Vec<float, lanes>);
  }
  static MPRT_INLINE Vec<uint16_t, lanes> narrow(Vec<float, lanes> x) {
    return (Vec<uint16_t, lanes>)__builtin_convertvector(x,
                                                         Vec<_Float16, lanes>);
  }
#else
  // As in support/DType.cpp.
  static MPRT_INLINE float fromBits(uint32_t bits) {
    float result;
    __builtin_memcpy(&result, &bits, 4);
    return result;
  }
  static MPRT_INLINE uint32_t toBits(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
  }
  static MPRT_INLINE float widen(uint16_t x) {
    uint32_t sign = uint32_t(x & 0x8000u) << 16;
    uint32_t exponent = (x >> 10) & 0x1fu, fraction = x & 0x3ffu;
    if (exponent == 0)
      return fromBits(toBits(float(fraction) * 0x1p-24f) | sign);
    if (exponent == 31)
      return fromBits(sign | 0x7f800000u | (fraction << 13) |
                      (fraction ? 0x400000u : 0));
    return fromBits(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  static MPRT_INLINE uint16_t narrow(float x) {
    uint32_t bits = toBits(x), magnitude = bits & 0x7fffffffu;
    auto sign = uint16_t((bits >> 16) & 0x8000u);
    if (magnitude > 0x7f800000u)
      return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u)
      return uint16_t(sign | 0x7c00u);
    if (magnitude < 0x38800000u)
      return uint16_t(sign |
                      (toBits(fromBits(magnitude) + 0.5f) - 0x3f000000u));
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
  }
  static MPRT_INLINE Vec<float, lanes> widen(Vec<uint16_t, lanes> x) {
    Vec<float, lanes> result;
    for (int i = 0; i < lanes; ++i)
      result[i] = widen(uint16_t(x[i]));
    return result;
  }
  static MPRT_INLINE Vec<uint16_t, lanes> narrow(Vec<float, lanes> x) {
    Vec<uint16_t, lanes> result;
    for (int i = 0; i < lanes; ++i)
      result[i] = narrow(float(x[i]));
    return result;
  }
#endif
};

template <typename V> MPRT_INLINE V load(const void *pointer, size_t index) {
  V result;
  __builtin_memcpy(&result, (const char *)pointer + index, sizeof(V));
  return result;
}

template <typename V>
MPRT_INLINE void store(void *pointer, size_t index, V value) {
  __builtin_memcpy((char *)pointer + index, &value, sizeof(V));
}

} // namespace

#endif // MPCOMM_RUNTIME_SUPPORT_VECTORELEMENTS_H
