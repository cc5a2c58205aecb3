//===- PoolKernels.cpp - pools for one instruction set --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One window after the other, and of it one block of channels that registers
// hold, its elements in row-major order. Where channels come last they are
// contiguous, and blocks are vectors. Elements of 16 bits are widened where
// they are loaded, and rounded where results are stored.
//
// Gradients are summed in rows of the input, as many as windows cover at a
// time; a row is written out when no later window reaches it. So sums are in
// the first cache, in 32 bits or more, and taken in the order of the windows.
//
// As comm/ReduceKernels.cpp this is compiled once for each instruction set and
// uses nothing that has external linkage.
//
//===----------------------------------------------------------------------===//

#include "device/host/PoolKernels.h"

#include "support/VectorElements.h"

using mprt::host::Pool;

namespace {

/// Which elements of the input a window covers along one axis.
struct Range {
  int64_t begin, end;
};

MPRT_INLINE Range covered(const mprt_window_desc &d, int axis, int64_t at) {
  int64_t begin = at * d.strides[axis] - d.low[axis];
  int64_t end = begin + d.window[axis];
  int64_t size = d.input[2 + axis];
  return {begin < 0 ? 0 : begin, end < size ? end : size};
}

/// The integer that is as wide: a window's element is selected by its number.
template <typename T> struct NumberOf {
  using Type = int32_t;
};
template <> struct NumberOf<double> {
  using Type = int64_t;
};

/// bf16 in pairs, taken apart by a shift and a mask, which costs less than
/// widening 16 bits to 32: n values, those at even places first. Whatever is
/// computed element by element can have them so.
template <int n> struct Bf16Pairs {
  using Bits = uint16_t;
  using Accumulator = float;
  using Words = Vec<uint32_t, n / 2>;
  static constexpr uint32_t high = 0xffff0000u;

  static MPRT_INLINE Vec<float, n> widen(Vec<uint16_t, n> x) {
    auto words = (Words)x;
    Words halves[2] = {words << 16, words & high};
    Vec<float, n> result;
    __builtin_memcpy(&result, halves, sizeof(result));
    return result;
  }
  static MPRT_INLINE Vec<uint16_t, n> narrow(Vec<float, n> x) {
    auto bits = (Vec<uint32_t, n>)x;
    Vec<uint32_t, n> rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    rounded = x == x ? rounded : bits | 0x400000u;
    Words halves[2];
    __builtin_memcpy(halves, &rounded, sizeof(rounded));
    return (Vec<uint16_t, n>)(halves[0] >> 16 | (halves[1] & high));
  }
};
template <int n> struct InPairs : Bf16<n> {};
template <> struct InPairs<64> : Bf16Pairs<64> {};

/// What registers hold of n channels in memory as `Element` says.
template <template <int> typename Element, int n> struct Block {
  using Bits = typename Element<n>::Bits;
  using T = typename Element<n>::Accumulator;
  using Number = typename NumberOf<T>::Type;
  using Values = Vec<T, n>;
  using Numbers = Vec<Number, n>;
  static constexpr int count = n;

  static MPRT_INLINE Values widened(const Bits *from) {
    return Element<n>::widen(load<Vec<Bits, n>>(from, 0));
  }
  static MPRT_INLINE void narrow(Bits *to, Values values) {
    store(to, 0, Element<n>::narrow(values));
  }
};

template <template <int> typename Element> struct Block<Element, 1> {
  using Bits = typename Element<4>::Bits;
  using T = typename Element<4>::Accumulator;
  using Number = typename NumberOf<T>::Type;
  using Values = T;
  using Numbers = Number;
  static constexpr int count = 1;

  static MPRT_INLINE T widened(const Bits *from) {
    return Element<4>::widen(*from);
  }
  static MPRT_INLINE void narrow(Bits *to, T value) {
    *to = Element<4>::narrow(value);
  }
};

template <template <int> typename Element> struct Pooling {
  using Bits = typename Block<Element, 1>::Bits;
  using T = typename Block<Element, 1>::T;
  using Number = typename Block<Element, 1>::Number;

  const mprt_window_desc &d;
  int64_t channels = d.input[1], width = d.input[3];
  /// Rows of `sums`, of `width` times `channels`.
  int64_t depth = d.window[0] < d.input[2] ? d.window[0] : d.input[2];
  T *sums;

  Pooling(const mprt_window_desc &desc, void *scratch)
      : d(desc), sums(static_cast<T *>(scratch)) {}

  /// Calls `body(Block, c)` for blocks of channels from c on.
  template <typename Body>
  MPRT_INLINE void forEachBlock(bool contiguous, Body body) {
    int64_t c = 0;
    if (contiguous) {
      for (; c + 64 <= channels; c += 64)
        body(Block<Element, 64>(), c);
      for (; c + 16 <= channels; c += 16)
        body(Block<Element, 16>(), c);
      for (; c + 4 <= channels; c += 4)
        body(Block<Element, 4>(), c);
    }
    for (; c < channels; ++c)
      body(Block<Element, 1>(), c);
  }

  T share(Range rows, Range columns) const {
    int64_t count = d.count_padding ? d.window[0] * d.window[1]
                                    : (rows.end - rows.begin) *
                                          (columns.end - columns.begin);
    return T(1) / T(count);
  }

  /// max_pool and avg_pool.
  template <bool isMax> void reduce(const Bits *x, Bits *y) {
    int64_t stepX = d.strides_a[1], stepY = d.strides_c[1];
    for (int64_t n = 0; n < d.output[0]; ++n)
      for (int64_t p = 0; p < d.output[2]; ++p)
        for (int64_t q = 0; q < d.output[3]; ++q) {
          Range rows = covered(d, 0, p), columns = covered(d, 1, q);
          const Bits *from = x + n * d.strides_a[0] +
                             rows.begin * d.strides_a[2] +
                             columns.begin * d.strides_a[3];
          Bits *to =
              y + n * d.strides_c[0] + p * d.strides_c[2] + q * d.strides_c[3];
          T scale = isMax ? T(1) : share(rows, columns);
          forEachBlock(stepX == 1 && stepY == 1, [&](auto block, int64_t c) {
            using B = decltype(block);
            const Bits *row = from + c * stepX;
            auto result = B::widened(row);
            for (int64_t i = rows.begin; i < rows.end;
                 ++i, row += d.strides_a[2]) {
              const Bits *at = row;
              for (int64_t j = columns.begin; j < columns.end;
                   ++j, at += d.strides_a[3]) {
                auto value = B::widened(at);
                if (isMax)
                  result =
                      ((value > result) | (value != value)) ? value : result;
                else if (at != from + c * stepX)
                  result += value;
              }
            }
            B::narrow(to + c * stepY, isMax ? result : result * scale);
          });
        }
  }

  /// The number, in row-major order, of the element of a window that its
  /// greatest is; NaN is greater than all, the last one if there are several.
  template <typename B>
  MPRT_INLINE typename B::Numbers findGreatest(const Bits *row, Range rows,
                                               Range columns) const {
    auto best = B::widened(row);
    typename B::Numbers number = {}, where = {};
    for (int64_t i = rows.begin; i < rows.end; ++i, row += d.strides_b[2]) {
      const Bits *at = row;
      for (int64_t j = columns.begin; j < columns.end;
           ++j, at += d.strides_b[3]) {
        auto value = B::widened(at);
        auto better = (value > best) | (value != value);
        best = better ? value : best;
        where = better ? number : where;
        number += 1;
      }
    }
    return where;
  }

  /// Adds the gradient of one window to `sums`, of which row `slot` is that of
  /// rows.begin.
  template <bool isMax>
  MPRT_INLINE void give(const Bits *grad, const Bits *x, Range rows,
                        Range columns, int64_t slot) {
    int64_t stepGrad = d.strides_a[1], stepX = isMax ? d.strides_b[1] : 1;
    T scale = isMax ? T(1) : share(rows, columns);
    forEachBlock(stepGrad == 1 && stepX == 1, [&](auto block, int64_t c) {
      using B = decltype(block);
      auto value = B::widened(grad + c * stepGrad);
      typename B::Numbers where = {}, number = {};
      if constexpr (isMax)
        where = findGreatest<B>(x + c * stepX, rows, columns);
      else
        value *= scale;
      for (int64_t i = rows.begin, row = slot; i < rows.end; ++i) {
        T *to = sums + (row * width + columns.begin) * channels + c;
        for (int64_t j = columns.begin; j < columns.end; ++j, to += channels) {
          auto sum = load<typename B::Values>(to, 0);
          if constexpr (isMax) {
            sum += where == number ? value : typename B::Values{};
            number += 1;
          } else {
            sum += value;
          }
          store(to, 0, sum);
        }
        row = row + 1 == depth ? 0 : row + 1;
      }
    });
  }

  /// max_pool_grad, with its input `x`, and avg_pool_grad.
  template <bool isMax> void gradient(const Bits *dy, const Bits *x, Bits *dx) {
    for (int64_t n = 0; n < d.input[0]; ++n) {
      const Bits *grads = dy + n * d.strides_a[0];
      Bits *out = dx + n * d.strides_c[0];
      int64_t begun = 0, written = 0; // rows of the input
      for (int64_t p = 0; p < d.output[2]; ++p) {
        Range rows = covered(d, 0, p);
        for (; written < rows.begin; ++written)
          writeRow(out, written, written < begun);
        for (begun = begun < rows.begin ? rows.begin : begun; begun < rows.end;
             ++begun)
          clearRow(begun);
        for (int64_t q = 0; q < d.output[3]; ++q) {
          Range columns = covered(d, 1, q);
          const Bits *at = nullptr;
          if (isMax)
            at = x + n * d.strides_b[0] + rows.begin * d.strides_b[2] +
                 columns.begin * d.strides_b[3];
          give<isMax>(grads + p * d.strides_a[2] + q * d.strides_a[3], at, rows,
                      columns, rows.begin % depth);
        }
      }
      for (; written < d.input[2]; ++written)
        writeRow(out, written, written < begun);
    }
  }

  void clearRow(int64_t i) {
    T *row = sums + i % depth * width * channels;
    for (int64_t k = 0; k < width * channels; ++k)
      row[k] = T(0);
  }

  /// Writes row i of one sample: its sums, or 0 where no window covers it.
  void writeRow(Bits *dx, int64_t i, bool isCovered) {
    if (!isCovered)
      clearRow(i);
    const T *from = sums + i % depth * width * channels;
    int64_t step = d.strides_c[1];
    dx += i * d.strides_c[2];
    for (int64_t j = 0; j < width; ++j, from += channels)
      forEachBlock(step == 1, [&](auto block, int64_t c) {
        using B = decltype(block);
        B::narrow(dx + j * d.strides_c[3] + c * step,
                  load<typename B::Values>(from + c, 0));
      });
  }

  void run(const Pool &pool) {
    const Bits *a = static_cast<const Bits *>(pool.a);
    const Bits *b = static_cast<const Bits *>(pool.b);
    Bits *c = static_cast<Bits *>(pool.c);
    switch (d.kind) {
    case MPRT_MAX_POOL:
      return reduce<true>(a, c);
    case MPRT_AVG_POOL:
      return reduce<false>(a, c);
    case MPRT_MAX_POOL_GRAD:
      return gradient<true>(a, b, c);
    default:
      return gradient<false>(a, nullptr, c);
    }
  }
};

template <int n> using F32 = Plain<float, n>;
template <int n> using F64 = Plain<double, n>;

} // namespace

#define MPRT_JOIN_(a, b) a##b
#define MPRT_JOIN(a, b) MPRT_JOIN_(a, b)

extern "C" void MPRT_JOIN(mprt_pool_, MPRT_ISA)(const Pool &pool) {
  switch (pool.desc->type) {
  case MPRT_F64:
    return Pooling<F64>(*pool.desc, pool.scratch).run(pool);
  case MPRT_F16:
    return Pooling<F16>(*pool.desc, pool.scratch).run(pool);
  case MPRT_BF16:
    return Pooling<InPairs>(*pool.desc, pool.scratch).run(pool);
  default:
    return Pooling<F32>(*pool.desc, pool.scratch).run(pool);
  }
}
