//===- CalibrateShapes.cpp - products and convolutions as steps have them -===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What share of the rate of a large product in bf16 a GPU reaches in the
// products of a transformer's layer (forward, both gradients) and in the
// convolutions of a ResNet-50 (the same), those of them that the rate limits
// and not the memory. Each counts by its operations, as in a step. The shapes
// are the published ones where `size` is 4096, and smaller on slower devices.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <algorithm>
#include <array>
#include <random>

using namespace mpcomm::run;

namespace {

/// Operations and seconds of calls that are timed one after the other.
struct Sum {
  double flops = 0, seconds = 0;
};

/// What the calls read and write: random numbers of bf16 on the device.
class Operands {
public:
  Error make(Bench &bench, uint64_t wanted) {
    mprt::Device &device = bench.rank.device();
    mprt::Expected<void *> memory = device.allocate(wanted);
    if (!memory)
      return fail("the device: ", memory.error().message());
    begin = static_cast<char *>(*memory);
    bytes = wanted;
    std::vector<uint16_t> pattern(std::min<uint64_t>(wanted, 1 << 20) / 2);
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (uint16_t &element : pattern)
      element = mprt::floatToBf16(uniform(random));
    for (uint64_t at = 0; at < bytes; at += 2 * pattern.size())
      if (mprt::Error error =
              device.upload(begin + at, pattern.data(),
                            std::min<uint64_t>(2 * pattern.size(), bytes - at)))
        return fail("the device: ", error.message());
    return {};
  }

  /// Three operands of so many elements, one behind the other; null where they
  /// do not fit.
  std::array<char *, 3> place(int64_t a, int64_t b, int64_t c) const {
    auto end = [](int64_t elements) { // 256-byte aligned
      return (static_cast<uint64_t>(elements) * 2 + 255) & ~uint64_t(255);
    };
    if (end(a) + end(b) + end(c) > bytes)
      return {};
    return {begin, begin + end(a), begin + end(a) + end(b)};
  }

private:
  char *begin = nullptr;
  uint64_t bytes = 0;
};

/// Adds the median time of a call; no more calls once one is refused. The ranks
/// go on, or stop, together.
Error addTime(Bench &bench, double seconds, double flops,
              const std::function<mprt::Error()> &enqueue, Sum &sum) {
  if (Error error = bench.meet())
    return error;
  mprt::Error refused;
  Error status;
  constexpr int together = 4;
  double time = medianTime(seconds, [&] {
    for (int i = 0; i < together && !refused; ++i)
      refused = enqueue();
    if (status.ok())
      status = bench.finish();
  });
  if (status.failed())
    return status;
  double accepted = refused ? 0 : 1;
  if (Error error = bench.smallest(accepted))
    return error;
  if (refused)
    return fail("the device: ", refused.message());
  if (accepted == 0)
    return fail("the device of another rank refuses what is measured");
  sum.flops += flops;
  sum.seconds += time / together;
  return {};
}

mprt_gemm_desc describe(int64_t m, int64_t n, int64_t k, bool transposesA,
                        bool transposesB) {
  mprt_gemm_desc desc{};
  desc.type_a = desc.type_b = desc.type_c = static_cast<uint8_t>(MPRT_BF16);
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.strides_a[transposesA ? 1 : 0] = transposesA ? m : k;
  desc.strides_a[transposesA ? 0 : 1] = 1;
  desc.strides_b[transposesB ? 1 : 0] = transposesB ? k : n;
  desc.strides_b[transposesB ? 0 : 1] = 1;
  desc.strides_c[0] = n;
  desc.strides_c[1] = 1;
  desc.name = "calibration";
  desc.location = "mpcomm-run";
  return desc;
}

/// A layer of `rows` tokens of `width`, to four times that.
Error timeProducts(Bench &bench, double seconds, const Operands &operands,
                   int64_t rows, int64_t width, Sum &sum) {
  int64_t wide = 4 * width;
  for (const mprt_gemm_desc &shape :
       {describe(rows, wide, width, false, true),
        describe(rows, width, wide, false, false),
        describe(wide, width, rows, true, false)}) {
    auto at =
        operands.place(shape.m * shape.k, shape.k * shape.n, shape.m * shape.n);
    if (!at[0])
      continue;
    bench.products.push_back(shape);
    const mprt_gemm_desc *desc = &bench.products.back();
    if (Error error = addTime(
            bench, seconds / 3,
            2.0 * double(shape.m * shape.n) * double(shape.k),
            [&bench, desc, at] {
              return bench.rank.device().gemm(MPRT_COMPUTE_STREAM, *desc, at[0],
                                              at[1], at[2]);
            },
            sum))
      return error;
  }
  return {};
}

struct Shape {
  int64_t inside, outside, image, window;
};
constexpr Shape shapes[] = {{64, 64, 56, 3},    {128, 128, 28, 3},
                            {256, 256, 14, 3},  {512, 512, 7, 3},
                            {1024, 256, 14, 1}, {512, 2048, 7, 1}};

/// The strides of a tensor with the channels last.
void setStrides(int64_t *strides, int64_t channels, int64_t height,
                int64_t width) {
  strides[0] = channels * height * width;
  strides[1] = 1;
  strides[2] = channels * width;
  strides[3] = channels;
}

mprt_window_desc describe(const Shape &shape, int64_t images, uint8_t kind) {
  mprt_window_desc desc{};
  desc.kind = kind;
  desc.type = static_cast<uint8_t>(MPRT_BF16);
  const int64_t input[] = {images, shape.inside, shape.image, shape.image};
  const int64_t output[] = {images, shape.outside, shape.image, shape.image};
  std::copy(std::begin(input), std::end(input), desc.input);
  std::copy(std::begin(output), std::end(output), desc.output);
  for (int i = 0; i < 2; ++i) {
    desc.window[i] = shape.window;
    desc.strides[i] = desc.dilation[i] = 1;
    desc.low[i] = shape.window / 2;
  }
  desc.groups = 1;
  int64_t x[4], y[4], w[4];
  setStrides(x, shape.inside, shape.image, shape.image);
  setStrides(y, shape.outside, shape.image, shape.image);
  setStrides(w, shape.inside, shape.window, shape.window);
  const int64_t *order[][3] = {{x, w, y}, {y, w, x}, {y, x, w}};
  int64_t *fields[] = {desc.strides_a, desc.strides_b, desc.strides_c};
  for (int i = 0; i < 3; ++i)
    std::copy_n(order[kind][i], 4, fields[i]);
  desc.name = "calibration";
  desc.location = "mpcomm-run";
  return desc;
}

Error timeConvolutions(Bench &bench, double seconds, const Operands &operands,
                       int64_t images, int64_t divisor, Sum &sum) {
  for (Shape shape : shapes) {
    shape.inside = std::max<int64_t>(8, shape.inside / divisor);
    shape.outside = std::max<int64_t>(8, shape.outside / divisor);
    shape.image = std::max<int64_t>(shape.window, shape.image / divisor);
    int64_t pixels = images * shape.image * shape.image;
    int64_t taps = shape.window * shape.window;
    int64_t x = pixels * shape.inside, y = pixels * shape.outside,
            w = shape.inside * shape.outside * taps;
    const int64_t counts[][3] = {{x, w, y}, {y, w, x}, {y, x, w}};
    for (uint8_t kind : {MPRT_CONVOLUTION, MPRT_CONVOLUTION_INPUT_GRAD,
                         MPRT_CONVOLUTION_FILTER_GRAD}) {
      auto at =
          operands.place(counts[kind][0], counts[kind][1], counts[kind][2]);
      if (!at[0])
        continue;
      bench.convolutions.push_back(describe(shape, images, kind));
      const mprt_window_desc *desc = &bench.convolutions.back();
      if (Error error = addTime(
              bench, seconds / (3 * std::size(shapes)),
              2.0 * double(pixels * taps) *
                  double(shape.inside * shape.outside),
              [&bench, desc, at] {
                return bench.rank.device().convolveOrPool(
                    MPRT_COMPUTE_STREAM, *desc, at[0], at[1], at[2]);
              },
              sum))
        return error;
    }
  }
  return {};
}

} // namespace

Error mpcomm::run::measureShapes(Bench &bench, double seconds, int64_t size,
                                 DeviceRates &rates) {
  constexpr int64_t whole = 4096;
  Operands operands;
  // What does not fit is left out, on all ranks.
  double memory = std::min(double(rates.memoryBytes) / 8, 768.0 * (1 << 20));
  if (Error error = bench.smallest(memory))
    return error;
  if (Error error = operands.make(bench, uint64_t(memory)))
    return error;
  auto keep = [&](const char *kind, const Sum &sum) -> Error {
    if (sum.seconds <= 0)
      return {};
    // Nothing is faster than what is called the rate.
    double share =
        std::clamp(sum.flops / sum.seconds / rates.flops["bf16"], 1e-3, 1.0);
    rates.efficiency[kind] = share;
    return bench.smallest(rates.efficiency[kind]);
  };
  Sum products, convolutions;
  int64_t width = std::max<int64_t>(16, 768 * size / whole);
  if (Error error =
          timeProducts(bench, seconds / 2, operands, 8 * size, width, products))
    return error;
  if (Error error = keep("product", products))
    return error;
  // Without cuDNN programs have no convolutions.
  Error refused = timeConvolutions(bench, seconds / 2, operands,
                                   std::max<int64_t>(1, size / 16),
                                   whole / size, convolutions);
  if (refused.failed() || bench.healthy("convolutions").failed())
    return bench.healthy("convolutions");
  return keep("convolution", convolutions);
}
