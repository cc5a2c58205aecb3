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

#include "comm/Reduce.h"

#include "support/VectorElements.h"

using mprt::ReduceArguments;

namespace {

/// Elements that the main loops hold in registers at a time.
constexpr int lanes = 32;

/// `Element` with sums kept in double.
template <typename Element> struct InDouble {
  using Bits = typename Element::Bits;
  using Accumulator = double;
  static MPRT_INLINE double widen(Bits x) { return Element::widen(x); }
  static MPRT_INLINE Bits narrow(double x) { return Element::narrow(float(x)); }
  static MPRT_INLINE Vec<double, lanes> widen(Vec<Bits, lanes> x) {
    return __builtin_convertvector(Element::widen(x), Vec<double, lanes>);
  }
  static MPRT_INLINE Vec<Bits, lanes> narrow(Vec<double, lanes> x) {
    return Element::narrow(__builtin_convertvector(x, Vec<float, lanes>));
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
    Vec<Accumulator, lanes> sum =
        Element::widen(load<Vec<Bits, lanes>>(args.inputs[0], at));
    for (unsigned r = 1; r < args.numInputs; ++r)
      sum = Op::apply(
          sum, Element::widen(load<Vec<Bits, lanes>>(args.inputs[r], at)));
    Vec<Bits, lanes> result = Element::narrow(finish(sum));
    for (unsigned o = 0; o < args.numOutputs; ++o)
      store<Vec<Bits, lanes>>(args.outputs[o], at, result);
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
    return reduce<Plain<Wrapping, lanes>, Sum>;
  case MPRT_PROD:
    return reduce<Plain<Wrapping, lanes>, Prod>;
  case MPRT_MIN:
    return reduce<Plain<T, lanes>, Min>;
  case MPRT_MAX:
    return reduce<Plain<T, lanes>, Max>;
  case MPRT_MEAN:
    return nullptr;
  }
  return nullptr;
}

mprt::ReduceFunction ofBool(mprt_reduction reduction) {
  switch (reduction) {
  case MPRT_SUM:
  case MPRT_MAX:
    return reduce<Plain<uint8_t, lanes>, Max>;
  case MPRT_PROD:
  case MPRT_MIN:
    return reduce<Plain<uint8_t, lanes>, Min>;
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
    return wide ? ofFloat<InDouble<Plain<float, lanes>>>(reduction)
                : ofFloat<Plain<float, lanes>>(reduction);
  case MPRT_F64:
    return ofFloat<Plain<double, lanes>>(reduction);
  case MPRT_F16:
    return wide ? ofFloat<InDouble<F16<lanes>>>(reduction)
                : ofFloat<F16<lanes>>(reduction);
  case MPRT_BF16:
    return wide ? ofFloat<InDouble<Bf16<lanes>>>(reduction)
                : ofFloat<Bf16<lanes>>(reduction);
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
