//===- WindowKernels.cpp - pools for one instruction set ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One window after the other, its elements in row-major order, the innermost
// loop over channels: it is contiguous where channels come last. Gradients are
// summed in a plane of one sample with channels last, then written out.
//
// As comm/ReduceKernels.cpp this is compiled once for each instruction set and
// uses nothing that has external linkage.
//
//===----------------------------------------------------------------------===//

#include "WindowKernels.h"

using mprt::host::Pool;

namespace {

/// Which elements of the input a window covers along one axis.
struct Range {
  int64_t begin, end;
};

inline Range covered(const mprt_window_desc &d, int axis, int64_t at) {
  int64_t begin = at * d.strides[axis] - d.low[axis];
  int64_t end = begin + d.window[axis];
  int64_t size = d.input[2 + axis];
  return {begin < 0 ? 0 : begin, end < size ? end : size};
}

template <typename T> struct Pooling {
  const mprt_window_desc &d;
  int64_t channels = d.input[1];
  T *row, *where, *plane;

  Pooling(const mprt_window_desc &desc, void *scratch)
      : d(desc), row(static_cast<T *>(scratch)), where(row + channels),
        plane(where + channels) {}

  /// Calls `body(n, p, q, rows, columns)` for each window of sample n.
  template <typename Body> inline void forEachWindow(Body body) {
    for (int64_t p = 0; p < d.output[2]; ++p)
      for (int64_t q = 0; q < d.output[3]; ++q)
        body(p, q, covered(d, 0, p), covered(d, 1, q));
  }

  T share(Range rows, Range columns) const {
    int64_t count = d.count_padding ? d.window[0] * d.window[1]
                                    : (rows.end - rows.begin) *
                                          (columns.end - columns.begin);
    return T(1) / T(count);
  }

  /// max_pool and avg_pool.
  template <bool isMax> void reduce(const T *x, T *y) {
    int64_t stepX = d.strides_a[1], stepY = d.strides_c[1];
    for (int64_t n = 0; n < d.input[0]; ++n) {
      const T *sample = x + n * d.strides_a[0];
      T *out = y + n * d.strides_c[0];
      forEachWindow([&](int64_t p, int64_t q, Range rows, Range columns) {
        bool first = true;
        for (int64_t i = rows.begin; i < rows.end; ++i)
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const T *from = sample + i * d.strides_a[2] + j * d.strides_a[3];
            if (first)
              take<isMax, true>(from, stepX);
            else
              take<isMax, false>(from, stepX);
            first = false;
          }
        T scale = isMax ? T(1) : share(rows, columns);
        T *to = out + p * d.strides_c[2] + q * d.strides_c[3];
        if (stepY == 1)
          for (int64_t c = 0; c < channels; ++c)
            to[c] = isMax ? row[c] : row[c] * scale;
        else
          for (int64_t c = 0; c < channels; ++c)
            to[c * stepY] = isMax ? row[c] : row[c] * scale;
      });
    }
  }

  template <bool isMax, bool first>
  inline void take(const T *from, int64_t step) {
    T *to = row;
    auto combine = [&](int64_t c, T value) {
      if (first)
        to[c] = value;
      else if (!isMax)
        to[c] += value;
      else
        to[c] = value > to[c] || value != value ? value : to[c];
    };
    if (step == 1)
      for (int64_t c = 0; c < channels; ++c)
        combine(c, from[c]);
    else
      for (int64_t c = 0; c < channels; ++c)
        combine(c, from[c * step]);
  }

  void clearPlane() {
    for (int64_t i = 0, e = channels * d.input[2] * d.input[3]; i < e; ++i)
      plane[i] = T(0);
  }

  void writePlane(T *dx) {
    const T *from = plane;
    int64_t step = d.strides_c[1];
    for (int64_t i = 0; i < d.input[2]; ++i)
      for (int64_t j = 0; j < d.input[3]; ++j, from += channels) {
        T *to = dx + i * d.strides_c[2] + j * d.strides_c[3];
        if (step == 1)
          for (int64_t c = 0; c < channels; ++c)
            to[c] = from[c];
        else
          for (int64_t c = 0; c < channels; ++c)
            to[c * step] = from[c];
      }
  }

  T *planeAt(int64_t i, int64_t j) {
    return plane + (i * d.input[3] + j) * channels;
  }

  void avgGrad(const T *dy, T *dx) {
    for (int64_t n = 0; n < d.input[0]; ++n) {
      clearPlane();
      const T *sample = dy + n * d.strides_a[0];
      forEachWindow([&](int64_t p, int64_t q, Range rows, Range columns) {
        take<false, true>(sample + p * d.strides_a[2] + q * d.strides_a[3],
                          d.strides_a[1]);
        T scale = share(rows, columns);
        for (int64_t i = rows.begin; i < rows.end; ++i)
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            T *to = planeAt(i, j);
            for (int64_t c = 0; c < channels; ++c)
              to[c] += row[c] * scale;
          }
      });
      writePlane(dx + n * d.strides_c[0]);
    }
  }

  /// The number of a window's element is kept as a float of the same width:
  /// exact, as windows are smaller than 2^24, and selected as values are.
  void maxGrad(const T *dy, const T *x, T *dx) {
    for (int64_t n = 0; n < d.input[0]; ++n) {
      clearPlane();
      const T *grads = dy + n * d.strides_a[0];
      const T *sample = x + n * d.strides_b[0];
      forEachWindow([&](int64_t p, int64_t q, Range rows, Range columns) {
        T number = 0;
        for (int64_t i = rows.begin; i < rows.end; ++i)
          for (int64_t j = columns.begin; j < columns.end; ++j, number += 1)
            note(sample + i * d.strides_b[2] + j * d.strides_b[3], number);
        const T *grad = grads + p * d.strides_a[2] + q * d.strides_a[3];
        number = 0;
        for (int64_t i = rows.begin; i < rows.end; ++i)
          for (int64_t j = columns.begin; j < columns.end; ++j, number += 1)
            give(planeAt(i, j), grad, number);
      });
      writePlane(dx + n * d.strides_c[0]);
    }
  }

  /// Element `number` of a window may be the greatest.
  inline void note(const T *from, T number) {
    int64_t step = d.strides_b[1];
    T *best = row, *at = where;
    auto compare = [&](int64_t c, T value) {
      bool better = number == T(0) || value > best[c] || value != value;
      best[c] = better ? value : best[c];
      at[c] = better ? number : at[c];
    };
    if (step == 1)
      for (int64_t c = 0; c < channels; ++c)
        compare(c, from[c]);
    else
      for (int64_t c = 0; c < channels; ++c)
        compare(c, from[c * step]);
  }

  inline void give(T *to, const T *grad, T number) {
    int64_t step = d.strides_a[1];
    const T *at = where;
    if (step == 1)
      for (int64_t c = 0; c < channels; ++c)
        to[c] += at[c] == number ? grad[c] : T(0);
    else
      for (int64_t c = 0; c < channels; ++c)
        to[c] += at[c] == number ? grad[c * step] : T(0);
  }

  void run(const Pool &pool) {
    const T *a = static_cast<const T *>(pool.a);
    const T *b = static_cast<const T *>(pool.b);
    T *c = static_cast<T *>(pool.c);
    switch (d.kind) {
    case MPRT_MAX_POOL:
      return reduce<true>(a, c);
    case MPRT_AVG_POOL:
      return reduce<false>(a, c);
    case MPRT_MAX_POOL_GRAD:
      return maxGrad(a, b, c);
    default:
      return avgGrad(a, c);
    }
  }
};

} // namespace

#define MPRT_JOIN_(a, b) a##b
#define MPRT_JOIN(a, b) MPRT_JOIN_(a, b)

extern "C" void MPRT_JOIN(mprt_pool_f32_, MPRT_ISA)(const Pool &pool) {
  Pooling<float>(*pool.desc, pool.scratch).run(pool);
}
extern "C" void MPRT_JOIN(mprt_pool_f64_, MPRT_ISA)(const Pool &pool) {
  Pooling<double>(*pool.desc, pool.scratch).run(pool);
}
