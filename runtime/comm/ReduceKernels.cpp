//===- ReduceKernels.cpp - reductions for one instruction set -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled once for each instruction set, with MPRT_ISA its name; Reduce.cpp
// chooses. Everything here has internal linkage and no header with inline
// functions is used: such a function, compiled for a newer processor, could be
// picked by the linker for all.
//
//===----------------------------------------------------------------------===//

#include "Reduce.h"

#include <stdint.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpsabi"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define MPRT_INLINE inline __attribute__((always_inline))

using mprt::ReduceArguments;

namespace {

/// Elements that the main loops hold in registers at a time.
constexpr int lanes = 32;

template <typename T> struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * lanes)));
};
template <typename T> using Vec = typename VectorOf<T>::Type;

// How elements of each type lie in memory and are held in registers. `Bits` is
// the memory type, `widen` and `narrow` convert to and from the accumulator.

template <typename T> struct Plain {
  using Bits = T;
  using Accumulator = T;
  static MPRT_INLINE T widen(T x) { return x; }
  static MPRT_INLINE T narrow(T x) { return x; }
  static MPRT_INLINE Vec<T> widen(Vec<T> x) { return x; }
  static MPRT_INLINE Vec<T> narrow(Vec<T> x) { return x; }
};

struct Bf16 {
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
  static MPRT_INLINE Vec<float> widen(Vec<uint16_t> x) {
    return (Vec<float>)(__builtin_convertvector(x, Vec<uint32_t>) << 16);
  }
  static MPRT_INLINE Vec<uint16_t> narrow(Vec<float> x) {
    auto bits = (Vec<uint32_t>)x;
    Vec<uint32_t> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    Vec<uint32_t> quiet = (bits >> 16) | 0x40u;
    auto ordered = (Vec<uint32_t>)(x == x);
    return __builtin_convertvector((rounded & ordered) | (quiet & ~ordered),
                                   Vec<uint16_t>);
  }
};

struct F16 {
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
  static MPRT_INLINE Vec<float> widen(Vec<uint16_t> x) {
    return __builtin_convertvector((Vec<_Float16>)x, Vec<float>);
  }
  static MPRT_INLINE Vec<uint16_t> narrow(Vec<float> x) {
    return (Vec<uint16_t>)__builtin_convertvector(x, Vec<_Float16>);
  }
#else
  // As in core/DType.cpp.
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
  static MPRT_INLINE Vec<float> widen(Vec<uint16_t> x) {
    Vec<float> result;
    for (int i = 0; i < lanes; ++i)
      result[i] = widen(uint16_t(x[i]));
    return result;
  }
  static MPRT_INLINE Vec<uint16_t> narrow(Vec<float> x) {
    Vec<uint16_t> result;
    for (int i = 0; i < lanes; ++i)
      result[i] = narrow(float(x[i]));
    return result;
  }
#endif
};

/// `Element` with sums kept in double.
template <typename Element> struct InDouble {
  using Bits = typename Element::Bits;
  using Accumulator = double;
  static MPRT_INLINE double widen(Bits x) { return Element::widen(x); }
  static MPRT_INLINE Bits narrow(double x) { return Element::narrow(float(x)); }
  static MPRT_INLINE Vec<double> widen(Vec<Bits> x) {
    return __builtin_convertvector(Element::widen(x), Vec<double>);
  }
  static MPRT_INLINE Vec<Bits> narrow(Vec<double> x) {
    return Element::narrow(__builtin_convertvector(x, Vec<float>));
  }
};

// Sums and products of integers are taken on the unsigned types: they wrap.
struct Sum {
  template <typename V> static MPRT_INLINE V apply(V a, V b) { return a + b; }
};
struct Prod {
  template <typename V> static MPRT_INLINE V apply(V a, V b) { return a * b; }
  // The language would multiply these as int, which can overflow.
  static MPRT_INLINE uint16_t apply(uint16_t a, uint16_t b) {
    return uint16_t(unsigned(a) * b);
  }
};
// `a != a` takes a NaN on the left; one on the right makes `a < b` false.
struct Min {
  template <typename V> static MPRT_INLINE V apply(V a, V b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Max {
  template <typename V> static MPRT_INLINE V apply(V a, V b) {
    return ((a > b) | (a != a)) ? a : b;
  }
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

// Stores past the caches were measured and are slower, for large results too:
// in place the lines have just been read.
template <typename Element, typename Op, bool mean = false>
void reduce(const ReduceArguments &args) {
  using Bits = typename Element::Bits;
  using Accumulator = typename Element::Accumulator;
  // Multiplying by the reciprocal of a power of two is the same as dividing.
  bool exact = (args.divisor & (args.divisor - 1)) == 0;
  auto divisor = Accumulator(mean ? args.divisor : 1);
  auto finish = [&](auto x) {
    if constexpr (mean)
      return exact ? x * (1 / divisor) : x / divisor;
    else
      return x;
  };
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    size_t at = i * sizeof(Bits);
    Vec<Accumulator> sum = Element::widen(load<Vec<Bits>>(args.inputs[0], at));
    for (unsigned r = 1; r < args.numInputs; ++r)
      sum = Op::apply(sum, Element::widen(load<Vec<Bits>>(args.inputs[r], at)));
    Vec<Bits> result = Element::narrow(finish(sum));
    for (unsigned o = 0; o < args.numOutputs; ++o)
      store<Vec<Bits>>(args.outputs[o], at, result);
  }
  for (; i < args.count; ++i) {
    size_t at = i * sizeof(Bits);
    Accumulator sum = Element::widen(load<Bits>(args.inputs[0], at));
    for (unsigned r = 1; r < args.numInputs; ++r)
      sum = Accumulator(
          Op::apply(sum, Element::widen(load<Bits>(args.inputs[r], at))));
    Bits result = Element::narrow(Accumulator(finish(sum)));
    for (unsigned o = 0; o < args.numOutputs; ++o)
      store<Bits>(args.outputs[o], at, result);
  }
}

template <typename Element>
mprt::ReduceFunction ofFloat(mprt_reduction reduction) {
  switch (reduction) {
  case MPRT_SUM:
    return reduce<Element, Sum>;
  case MPRT_PROD:
    return reduce<Element, Prod>;
  case MPRT_MIN:
    return reduce<Element, Min>;
  case MPRT_MAX:
    return reduce<Element, Max>;
  case MPRT_MEAN:
    return reduce<Element, Sum, true>;
  }
  return nullptr;
}

/// `Wrapping` is the unsigned type of `T`'s size. Sums and products of types
/// narrower than int are taken in unsigned by the language, hence without
/// overflow, and cut back.
template <typename T, typename Wrapping>
mprt::ReduceFunction ofInteger(mprt_reduction reduction) {
  switch (reduction) {
  case MPRT_SUM:
    return reduce<Plain<Wrapping>, Sum>;
  case MPRT_PROD:
    return reduce<Plain<Wrapping>, Prod>;
  case MPRT_MIN:
    return reduce<Plain<T>, Min>;
  case MPRT_MAX:
    return reduce<Plain<T>, Max>;
  case MPRT_MEAN:
    return nullptr;
  }
  return nullptr;
}

mprt::ReduceFunction ofBool(mprt_reduction reduction) {
  switch (reduction) {
  case MPRT_SUM:
  case MPRT_MAX:
    return reduce<Plain<uint8_t>, Max>;
  case MPRT_PROD:
  case MPRT_MIN:
    return reduce<Plain<uint8_t>, Min>;
  case MPRT_MEAN:
    return nullptr;
  }
  return nullptr;
}

} // namespace

#define MPRT_CONCAT2(a, b) a##b
#define MPRT_CONCAT(a, b) MPRT_CONCAT2(a, b)

extern "C" mprt::ReduceFunction
MPRT_CONCAT(mprt_reduce_, MPRT_ISA)(mprt_dtype type, mprt_dtype accumulate,
                                    mprt_reduction reduction) {
  bool wide = accumulate == MPRT_F64;
  switch (type) {
  case MPRT_F32:
    return wide ? ofFloat<InDouble<Plain<float>>>(reduction)
                : ofFloat<Plain<float>>(reduction);
  case MPRT_F64:
    return ofFloat<Plain<double>>(reduction);
  case MPRT_F16:
    return wide ? ofFloat<InDouble<F16>>(reduction) : ofFloat<F16>(reduction);
  case MPRT_BF16:
    return wide ? ofFloat<InDouble<Bf16>>(reduction) : ofFloat<Bf16>(reduction);
  case MPRT_I8:
    return ofInteger<int8_t, uint8_t>(reduction);
  case MPRT_U8:
    return ofInteger<uint8_t, uint8_t>(reduction);
  case MPRT_I16:
    return ofInteger<int16_t, uint16_t>(reduction);
  case MPRT_I32:
    return ofInteger<int32_t, uint32_t>(reduction);
  case MPRT_I64:
    return ofInteger<int64_t, uint64_t>(reduction);
  case MPRT_BOOL:
    return ofBool(reduction);
  case MPRT_F8E4M3:
  case MPRT_F8E5M2:
    return nullptr;
  }
  return nullptr;
}
