//===- ConvolutionBuiltin.cpp - convolutions without a library ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sample by sample and group by group: the windows of the input are gathered as
// the columns of a matrix of [taps, positions], a tap being a channel and an
// element of the window; the three products are those of that matrix with the
// filter [out, taps] and the output [out, positions].
//
//===----------------------------------------------------------------------===//

#include "device/host/ConvolutionBuiltin.h"

using namespace mprt::host;

namespace {

template <typename T> struct Convolution {
  const BuiltinConvolution &call;
  const mprt_window_desc &d = *call.desc;
  int64_t channels = d.input[1] / d.groups, outs = d.output[1] / d.groups;
  int64_t plane = d.input[2] * d.input[3];
  int64_t positions = d.output[2] * d.output[3];
  int64_t taps = channels * d.window[0] * d.window[1];
  T *columns = static_cast<T *>(call.scratch);

  /// Calls `body(element of the input's group or -1, element of the matrix)`.
  template <typename Body> void forEachTap(Body body) const {
    int64_t at = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < d.window[0]; ++i)
        for (int64_t j = 0; j < d.window[1]; ++j)
          for (int64_t p = 0; p < d.output[2]; ++p) {
            int64_t y = p * d.strides[0] - d.low[0] + i * d.dilation[0];
            bool inside = y >= 0 && y < d.input[2];
            for (int64_t q = 0; q < d.output[3]; ++q, ++at) {
              int64_t x = q * d.strides[1] - d.low[1] + j * d.dilation[1];
              body(inside && x >= 0 && x < d.input[3]
                       ? c * plane + y * d.input[3] + x
                       : -1,
                   at);
            }
          }
  }

  void multiply(int64_t m, int64_t n, int64_t k, const T *a, int64_t a0,
                int64_t a1, const T *b, int64_t b0, int64_t b1, T *c,
                bool accumulate) const {
    BuiltinGemm gemm = {m,        n, k, a,          {a0, a1},      b,
                        {b0, b1}, c, n, accumulate, call.workspace};
    (sizeof(T) == 8 ? builtinGemmF64 : builtinGemmF32)(gemm);
  }

  void gather(const T *x) const {
    forEachTap([&](int64_t from, int64_t to) {
      columns[to] = from < 0 ? T(0) : x[from];
    });
  }

  void run() const {
    const T *a = static_cast<const T *>(call.a);
    const T *b = static_cast<const T *>(call.b);
    T *c = static_cast<T *>(call.c);
    for (int64_t n = 0; n < d.input[0]; ++n)
      for (int64_t g = 0; g < d.groups; ++g) {
        int64_t in = (n * d.groups + g) * channels * plane;
        int64_t out = (n * d.groups + g) * outs * positions;
        int64_t filter = g * outs * taps;
        switch (d.kind) {
        case MPRT_CONVOLUTION:
          gather(a + in);
          multiply(outs, positions, taps, b + filter, taps, 1, columns,
                   positions, 1, c + out, false);
          break;
        case MPRT_CONVOLUTION_INPUT_GRAD:
          multiply(taps, positions, outs, b + filter, 1, taps, a + out,
                   positions, 1, columns, false);
          for (int64_t i = 0; i < channels * plane; ++i)
            c[in + i] = T(0);
          forEachTap([&](int64_t to, int64_t from) {
            if (to >= 0)
              c[in + to] += columns[from];
          });
          break;
        default:
          gather(b + in);
          multiply(outs, taps, positions, a + out, positions, 1, columns, 1,
                   positions, c + filter, n > 0);
        }
      }
  }
};

} // namespace

void mprt::host::builtinConvolutionF32(const BuiltinConvolution &convolution) {
  Convolution<float>{convolution}.run();
}

void mprt::host::builtinConvolutionF64(const BuiltinConvolution &convolution) {
  Convolution<double>{convolution}.run();
}
