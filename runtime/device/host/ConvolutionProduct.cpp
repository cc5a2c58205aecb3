//===- ConvolutionProduct.cpp - convolutions as one matrix product --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/ConvolutionProduct.h"

#include "device/Descriptors.h"
#include "device/host/ConvolutionAndPool.h"
#include "support/DType.h"

#include <type_traits>

using namespace mprt;
using namespace mprt::host;

static int64_t countPositions(const mprt_window_desc &d) {
  return d.output[0] * d.output[2] * d.output[3];
}

static int64_t countTaps(const mprt_window_desc &d) {
  return d.input[1] * d.window[0] * d.window[1];
}

/// Each output position reads the one pixel of the input that it stands for.
static bool isPixelwise(const mprt_window_desc &d) {
  return d.window[0] == 1 && d.window[1] == 1 && d.strides[0] == 1 &&
         d.strides[1] == 1 && d.low[0] == 0 && d.low[1] == 0 &&
         d.input[2] == d.output[2] && d.input[3] == d.output[3];
}

bool ConvolutionProduct::prefers(const mprt_window_desc &d) {
  if (d.groups != 1)
    return false;
  const int64_t *strides[] = {d.strides_a, d.strides_b, d.strides_c};
  for (int i = 0; i < 3; ++i) {
    int64_t sizes[4];
    sizesOfOperand(d, i, sizes);
    bool filter = i == (d.kind == MPRT_CONVOLUTION_FILTER_GRAD ? 2 : 1);
    if (filter ? !isDense(sizes, strides[i], {3, 2, 1, 0})
               : !isDense(sizes, strides[i], {1, 3, 2, 0}))
      return false;
  }
  // Measured on one core of a Zen 4, 3 x 3: a gathered element costs about half
  // of what a filter's element costs on its way into the library's layout. The
  // taps are common to both.
  int64_t most = d.output[1];
  // The library's gradients of 16-bit filters take as long as those of 32 bits:
  // 32 images of 2 x 2, 64 to 64 channels, take 126 us, and 62 this way; with
  // four times as many positions as channels 146 and 139, with strides of 2
  // 528 and 426.
  if (d.kind == MPRT_CONVOLUTION_FILTER_GRAD && sizeOf(mprt_dtype(d.type)) == 2)
    most *= 2 * d.strides[0];
  return isPixelwise(d) || countPositions(d) <= most;
}

namespace {

/// Walks over the output's positions with pointers to the pixels of the input
/// under each: `outside` for those that it does not have.
template <typename T> class Walk {
public:
  Walk(const mprt_window_desc &desc, T *input, T *outside)
      : d(desc), input(input), outside(outside),
        pixels(size_t(d.window[0] * d.window[1])) {}

  /// Calls `body(pixels)` for each position.
  template <typename Body> void run(Body body) {
    for (int64_t n = 0; n < d.output[0]; ++n)
      for (int64_t p = 0; p < d.output[2]; ++p)
        for (int64_t q = 0; q < d.output[3]; ++q) {
          find(n, p, q);
          body(pixels.data());
        }
  }

  size_t count() const { return pixels.size(); }

private:
  void find(int64_t n, int64_t p, int64_t q) {
    T **at = pixels.data();
    for (int64_t i = 0; i < d.window[0]; ++i)
      for (int64_t j = 0; j < d.window[1]; ++j) {
        int64_t y = p * d.strides[0] - d.low[0] + i * d.dilation[0];
        int64_t x = q * d.strides[1] - d.low[1] + j * d.dilation[1];
        bool inside = y >= 0 && y < d.input[2] && x >= 0 && x < d.input[3];
        *at++ = inside ? input + ((n * d.input[2] + y) * d.input[3] + x) *
                                     d.input[1]
                       : outside;
      }
  }

  const mprt_window_desc &d;
  T *input, *outside;
  std::vector<T *> pixels;
};

/// C[m, n] = A[m, k] B[k, n].
struct Product {
  mprt_gemm_desc desc = {};

  Product(uint8_t type, uint8_t typeC, int64_t m, int64_t n, int64_t k) {
    desc.type_a = desc.type_b = type, desc.type_c = typeC;
    desc.m = m, desc.n = n, desc.k = k;
    desc.strides_a[0] = k, desc.strides_a[1] = 1;
    desc.strides_b[0] = n, desc.strides_b[1] = 1;
    desc.strides_c[0] = n, desc.strides_c[1] = 1;
  }
  Product &transposeB() {
    desc.strides_b[0] = 1, desc.strides_b[1] = desc.k;
    return *this;
  }
};

} // namespace

template <typename T>
static T *grow(std::vector<double> &scratch, size_t elements) {
  size_t need = (elements * sizeof(T) + 7) / 8;
  if (scratch.size() < need)
    scratch.resize(need);
  return reinterpret_cast<T *>(scratch.data());
}

/// Calls `body(window)` with the number of a window's elements, a constant for
/// common ones, so that loops over them are unrolled.
template <typename Body> static void withWindow(size_t window, Body body) {
  if (window == 9)
    return body(std::integral_constant<size_t, 9>());
  if (window == 1)
    return body(std::integral_constant<size_t, 1>());
  body(window);
}

/// Gathers the columns of `x` that each position reads.
template <typename T>
static void gather(const mprt_window_desc &d, const T *x, const T *outside,
                   T *columns) {
  Walk<const T> walk(d, x, outside);
  withWindow(walk.count(), [&](auto window) {
    walk.run([&](const T *const *from) {
      for (int64_t c = 0; c < d.input[1]; ++c)
        for (size_t t = 0; t < window; ++t)
          *columns++ = from[t][c];
    });
  });
}

/// Sums the columns of gradients up where they were gathered.
template <typename S>
static void scatter(const mprt_window_desc &d, const S *columns, S *dx,
                    S *outside) {
  int64_t pixels = d.input[0] * d.input[2] * d.input[3];
  std::fill_n(dx, pixels * d.input[1], S(0));
  Walk<S> walk(d, dx, outside);
  withWindow(walk.count(), [&](auto window) {
    walk.run([&](S *const *to) {
      for (int64_t c = 0; c < d.input[1]; ++c)
        for (size_t t = 0; t < window; ++t)
          to[t][c] += *columns++;
    });
  });
}

/// T holds an element of the operands.
template <typename T>
Error ConvolutionProduct::runAs(const mprt_window_desc &d, const void *a,
                                const void *b, void *c) {
  using Sum = std::conditional_t<sizeof(T) == 8, double, float>;
  int64_t m = countPositions(d), taps = countTaps(d), outs = d.output[1];
  bool direct = isPixelwise(d);
  if (d.kind == MPRT_CONVOLUTION_INPUT_GRAD) {
    if (direct)
      return gemm.run(Product(d.type, d.type, m, taps, outs).desc, a, b, c);
    bool half = sizeof(T) == 2;
    uint8_t type = half ? uint8_t(MPRT_F32) : d.type;
    Sum *gathered = grow<Sum>(columns, size_t(m * taps + d.input[1]));
    if (Error error =
            gemm.run(Product(d.type, type, m, taps, outs).desc, a, b, gathered))
      return error;
    int64_t count = d.input[0] * d.input[1] * d.input[2] * d.input[3];
    Sum *dx = half ? grow<Sum>(sums, size_t(count)) : static_cast<Sum *>(c);
    scatter(d, gathered, dx, gathered + m * taps);
    if (half)
      for (int64_t i = 0; i < count; ++i)
        static_cast<uint16_t *>(c)[i] = d.type == MPRT_F16
                                            ? floatToF16(float(dx[i]))
                                            : floatToBf16(float(dx[i]));
    return {};
  }
  bool forward = d.kind == MPRT_CONVOLUTION;
  const void *x = forward ? a : b;
  if (!direct) {
    T *gathered = grow<T>(columns, size_t(m * taps + d.input[1]));
    T *outside = gathered + m * taps;
    std::fill_n(outside, d.input[1], T(0));
    gather(d, static_cast<const T *>(x), outside, gathered);
    x = gathered;
  }
  if (forward)
    return gemm.run(Product(d.type, d.type, m, outs, taps).transposeB().desc, x,
                    b, c);
  // By a few rows of the result at a time: a row is long, and the library goes
  // down the columns, from one page of memory to the next. (512 channels of
  // 4608 taps at 32 positions: 2.1 ms rather than 11.) Its routine for 16 bits
  // does not, and copies B in each call. (256 channels of 2304 taps at 128
  // positions: 0.71 ms at once, 0.97 by 32.)
  const int64_t rows = sizeof(T) == 2 ? outs : 32;
  for (int64_t k = 0; k < outs; k += rows) {
    Product part(d.type, d.type, std::min(rows, outs - k), taps, m);
    part.desc.strides_a[0] = 1, part.desc.strides_a[1] = outs;
    if (Error error = gemm.run(part.desc, static_cast<const T *>(a) + k, x,
                               static_cast<T *>(c) + k * taps))
      return error;
  }
  return {};
}

Error ConvolutionProduct::run(const mprt_window_desc &d, const void *a,
                              const void *b, void *c) {
  switch (sizeOf(mprt_dtype(d.type))) {
  case 2:
    return runAs<uint16_t>(d, a, b, c);
  case 4:
    return runAs<float>(d, a, b, c);
  default:
    return runAs<double>(d, a, b, c);
  }
}
