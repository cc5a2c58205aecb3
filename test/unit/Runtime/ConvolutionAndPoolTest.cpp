//===- ConvolutionAndPoolTest.cpp - convolutions and pools by loops -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kind, type and layout that mprt_window_desc allows, over windows that
// overlap, that leave elements out, and that reach into the padding. Elements
// are small integers, so that sums of products are exact in f32 and results can
// be compared for equality; means are compared to within two roundings.
//
//===----------------------------------------------------------------------===//

#include "device/host/ConvolutionAndPool.h"
#include "device/Descriptors.h"
#include "support/DType.h"

#include "gtest/gtest.h"

#include <cmath>
#include <string>
#include <vector>

using namespace mprt;
using namespace mprt::host;

namespace {

/// Elements of a type in memory, seen as doubles.
struct Elements {
  uint8_t type;
  std::vector<char> bytes;

  Elements(uint8_t type, size_t count)
      : type(type), bytes(count * sizeOf(mprt_dtype(type))) {}

  double get(size_t i) const {
    if (type == MPRT_F64)
      return reinterpret_cast<const double *>(bytes.data())[i];
    if (type == MPRT_F32)
      return reinterpret_cast<const float *>(bytes.data())[i];
    uint16_t bits = reinterpret_cast<const uint16_t *>(bytes.data())[i];
    return type == MPRT_F16 ? f16ToFloat(bits) : bf16ToFloat(bits);
  }
  void set(size_t i, double value) {
    if (type == MPRT_F64)
      reinterpret_cast<double *>(bytes.data())[i] = value;
    else if (type == MPRT_F32)
      reinterpret_cast<float *>(bytes.data())[i] = float(value);
    else
      reinterpret_cast<uint16_t *>(bytes.data())[i] =
          type == MPRT_F16 ? floatToF16(float(value))
                           : floatToBf16(float(value));
  }
};

/// An operand with its sizes and strides; `at` finds an element.
struct Operand {
  const int64_t *sizes, *strides;
  Elements elements;

  size_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return size_t(n * strides[0] + c * strides[1] + h * strides[2] +
                  w * strides[3]);
  }
};

struct Geometry {
  int64_t batch, in, out, height, width, window[2], strides[2], low[2], high[2],
      dilation[2], groups;
};

/// How operands lie in memory: dense in the order of their dimensions, with the
/// channels last, or with a gap after each row.
enum Layout { First, Last, Gaps };

struct ConvolutionAndPoolTest : testing::Test {
  mprt_window_desc desc = {};
  int64_t sizes[3][4] = {};

  void describe(uint8_t kind, uint8_t type, const Geometry &g, Layout layout,
                bool countPadding = false) {
    desc = {};
    desc.kind = kind, desc.type = type, desc.count_padding = countPadding;
    int64_t input[] = {g.batch, g.in, g.height, g.width};
    std::copy_n(input, 4, desc.input);
    desc.output[0] = g.batch;
    desc.output[1] = kind <= MPRT_CONVOLUTION_FILTER_GRAD ? g.out : g.in;
    for (int i = 0; i < 2; ++i) {
      desc.window[i] = g.window[i], desc.strides[i] = g.strides[i];
      desc.low[i] = g.low[i], desc.dilation[i] = g.dilation[i];
      int64_t span = (g.window[i] - 1) * g.dilation[i] + 1;
      desc.output[2 + i] =
          (input[2 + i] + g.low[i] + g.high[i] - span) / g.strides[i] + 1;
    }
    desc.groups = g.groups;
    int64_t *strides[] = {desc.strides_a, desc.strides_b, desc.strides_c};
    for (int i = 0; i < 3; ++i) {
      sizesOfOperand(desc, i, sizes[i]);
      static constexpr int orders[][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
      int64_t step = 1;
      for (int d : orders[layout == Last && !isFilter(i)]) {
        strides[i][d] = step;
        step *= sizes[i][d];
        if (layout == Gaps && d == 3)
          step += 3;
      }
    }
  }

  bool isFilter(int operand) const {
    return operand == (desc.kind == MPRT_CONVOLUTION_FILTER_GRAD ? 2 : 1) &&
           desc.kind <= MPRT_CONVOLUTION_FILTER_GRAD;
  }

  Operand make(int i, uint32_t seed) const {
    const int64_t *strides[] = {desc.strides_a, desc.strides_b, desc.strides_c};
    size_t count = 1;
    for (int d = 0; d < 4; ++d)
      count += size_t(std::max<int64_t>(sizes[i][d] - 1, 0) * strides[i][d]);
    Operand operand{sizes[i], strides[i], Elements(desc.type, count)};
    for (size_t k = 0; k < count; ++k) {
      seed = seed * 1664525u + 1013904223u;
      operand.elements.set(k, double(int(seed >> 16) % 9) - 4);
    }
    return operand;
  }

  /// Calls `body(n, k, p, q, c, h, w, i, j)` for each tap inside of the input:
  /// output element, input element, filter element (c of the group).
  template <typename Body> void forEachTap(Body body) const {
    bool convolves = desc.kind <= MPRT_CONVOLUTION_FILTER_GRAD;
    int64_t perGroup = desc.input[1] / desc.groups;
    int64_t outs = desc.output[1] / desc.groups;
    for (int64_t n = 0; n < desc.output[0]; ++n)
      for (int64_t k = 0; k < desc.output[1]; ++k)
        for (int64_t p = 0; p < desc.output[2]; ++p)
          for (int64_t q = 0; q < desc.output[3]; ++q)
            for (int64_t c = 0; c < (convolves ? perGroup : 1); ++c)
              for (int64_t i = 0; i < desc.window[0]; ++i)
                for (int64_t j = 0; j < desc.window[1]; ++j) {
                  int64_t h =
                      p * desc.strides[0] - desc.low[0] + i * desc.dilation[0];
                  int64_t w =
                      q * desc.strides[1] - desc.low[1] + j * desc.dilation[1];
                  if (h < 0 || h >= desc.input[2] || w < 0 ||
                      w >= desc.input[3])
                    continue;
                  int64_t channel = convolves ? k / outs * perGroup + c : k;
                  body(n, k, p, q, channel, h, w, c, i, j);
                }
  }

  /// What the descriptor says, in doubles, indexed as `c` is.
  std::vector<double> expect(const Operand &a, const Operand &b,
                             const Operand &c) const {
    std::vector<double> result(c.elements.bytes.size() /
                               sizeOf(mprt_dtype(desc.type)));
    auto A = [&](size_t i) { return a.elements.get(i); };
    auto B = [&](size_t i) { return b.elements.get(i); };
    std::vector<double> best(result.size(), -INFINITY), count;
    std::vector<size_t> where;
    size_t outputs = size_t(desc.output[0] * desc.output[1] * desc.output[2] *
                            desc.output[3]);
    std::vector<double> top(outputs, -INFINITY), taps(outputs);
    std::vector<size_t> from(outputs);
    auto number = [&](int64_t n, int64_t k, int64_t p, int64_t q) {
      return size_t(
          ((n * desc.output[1] + k) * desc.output[2] + p) * desc.output[3] + q);
    };
    forEachTap([&](auto n, auto k, auto p, auto q, auto ch, auto h, auto w,
                   auto, auto, auto) {
      size_t o = number(n, k, p, q);
      taps[o] += 1;
      if (desc.kind != MPRT_MAX_POOL && desc.kind != MPRT_MAX_POOL_GRAD)
        return;
      const Operand &x = desc.kind == MPRT_MAX_POOL ? a : b;
      double value = x.elements.get(x.at(n, ch, h, w));
      if (value > top[o] || std::isnan(value))
        top[o] = value, from[o] = c.at(n, ch, h, w);
    });
    if (desc.count_padding)
      taps.assign(outputs, double(desc.window[0] * desc.window[1]));
    forEachTap([&](auto n, auto k, auto p, auto q, auto ch, auto h, auto w,
                   auto f, auto i, auto j) {
      size_t o = number(n, k, p, q);
      switch (desc.kind) {
      case MPRT_CONVOLUTION:
        result[c.at(n, k, p, q)] += A(a.at(n, ch, h, w)) * B(b.at(k, f, i, j));
        break;
      case MPRT_CONVOLUTION_INPUT_GRAD:
        result[c.at(n, ch, h, w)] += A(a.at(n, k, p, q)) * B(b.at(k, f, i, j));
        break;
      case MPRT_CONVOLUTION_FILTER_GRAD:
        result[c.at(k, f, i, j)] += A(a.at(n, k, p, q)) * B(b.at(n, ch, h, w));
        break;
      case MPRT_MAX_POOL:
        result[c.at(n, k, p, q)] = top[o];
        break;
      case MPRT_MAX_POOL_GRAD:
        if (from[o] == c.at(n, ch, h, w))
          result[from[o]] += A(a.at(n, k, p, q));
        break;
      case MPRT_AVG_POOL:
        result[c.at(n, k, p, q)] += A(a.at(n, ch, h, w)) / taps[o];
        break;
      default:
        result[c.at(n, ch, h, w)] += A(a.at(n, k, p, q)) / taps[o];
      }
    });
    return result;
  }

  void check(ConvolutionAndPool &layer, const std::string &what) {
    Operand a = make(0, 1), b = make(1, 2), c = make(2, 3);
    std::vector<double> expected = expect(a, b, c);
    std::vector<char> before = c.elements.bytes;
    Error error = layer.run(desc, a.elements.bytes.data(),
                            b.elements.bytes.data(), c.elements.bytes.data());
    ASSERT_FALSE(error) << what << ": " << error.message();
    bool mean = desc.kind >= MPRT_AVG_POOL;
    std::vector<bool> written(expected.size());
    for (int64_t n = 0; n < c.sizes[0]; ++n)
      for (int64_t k = 0; k < c.sizes[1]; ++k)
        for (int64_t h = 0; h < c.sizes[2]; ++h)
          for (int64_t w = 0; w < c.sizes[3]; ++w) {
            size_t at = c.at(n, k, h, w);
            written[at] = true;
            Elements rounded(desc.type, 1);
            rounded.set(0, expected[at]);
            double bits = desc.type == MPRT_BF16  ? 8
                          : desc.type == MPRT_F16 ? 11
                                                  : 24;
            // The reciprocal, the product and the sum of up to 25 windows.
            double slack = mean ? 16 * std::ldexp(1.0, -int(bits)) : 0;
            ASSERT_NEAR(c.elements.get(at), rounded.get(0), slack)
                << what << " at " << n << ", " << k << ", " << h << ", " << w;
          }
    size_t element = sizeOf(mprt_dtype(desc.type));
    for (size_t i = 0; i < written.size(); ++i)
      if (!written[i]) {
        ASSERT_EQ(std::string(&before[i * element], element),
                  std::string(&c.elements.bytes[i * element], element))
            << what << " wrote a gap";
      }
  }
};

/// Windows that overlap, leave elements out, are dilated, grouped, depthwise,
/// one pixel, or padded on one side alone.
const Geometry convolutions[] = {
    {2, 3, 4, 7, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 16, 32, 8, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 4, 6, 9, 8, {3, 2}, {2, 1}, {1, 1}, {1, 1}, {1, 2}, 2},
    {2, 16, 16, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 16},
    {3, 8, 8, 5, 5, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 6, 5, 3, 4, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {1, 5, 40, 3, 4, {3, 3}, {1, 1}, {1, 2}, {1, 0}, {1, 1}, 1},
    {1, 2, 3, 4, 4, {4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}, 1},
    {1, 16, 16, 9, 9, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 1},
    {1, 2, 2, 5, 5, {2, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 1}, 1},
};

const Geometry pools[] = {
    {2, 5, 0, 8, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 16, 0, 6, 6, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {1, 3, 0, 7, 7, {2, 3}, {3, 3}, {0, 0}, {1, 2}, {1, 1}, 1},
    {1, 2, 0, 5, 5, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}, 1},
    // Blocks of channels of each length: 64, 16, 4, 1.
    {2, 85, 0, 6, 5, {3, 2}, {2, 1}, {1, 1}, {1, 0}, {1, 1}, 1},
};

TEST_F(ConvolutionAndPoolTest, Convolutions) {
  ConvolutionAndPool layer;
  for (uint8_t kind = MPRT_CONVOLUTION; kind <= MPRT_CONVOLUTION_FILTER_GRAD;
       ++kind)
    for (uint8_t type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16})
      for (Layout layout : {First, Last, Gaps})
        for (const Geometry &g : convolutions) {
          describe(kind, type, g, layout);
          check(layer, "kind " + std::to_string(kind) + " type " +
                           std::to_string(type) + " layout " +
                           std::to_string(layout) + " geometry " +
                           std::to_string(&g - convolutions));
        }
}

TEST_F(ConvolutionAndPoolTest, Pools) {
  ConvolutionAndPool layer;
  for (uint8_t kind = MPRT_MAX_POOL; kind <= MPRT_AVG_POOL_GRAD; ++kind)
    for (uint8_t type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16})
      for (Layout layout : {First, Last, Gaps})
        for (bool countPadding : {false, true})
          for (const Geometry &g : pools) {
            describe(kind, type, g, layout, countPadding);
            check(layer, "kind " + std::to_string(kind) + " type " +
                             std::to_string(type) + " layout " +
                             std::to_string(layout) + " geometry " +
                             std::to_string(&g - pools));
          }
}

TEST_F(ConvolutionAndPoolTest, NanIsTheGreatest) {
  ConvolutionAndPool layer;
  // One channel, and a block of 64 of which each third has no NaN.
  for (int64_t channels : {1, 64})
    for (uint8_t type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16}) {
      Geometry g = {1,      channels, 0,      1,      4, {1, 4},
                    {1, 1}, {0, 0},   {0, 0}, {1, 1}, 1};
      const double values[] = {1, NAN, NAN, 2};
      auto hasNan = [](size_t c) { return c % 3 != 2; };
      size_t count = size_t(channels);
      Elements x(type, 4 * count), y(type, count), dy(type, count),
          dx(type, 4 * count);
      for (size_t c = 0; c < count; ++c) {
        dy.set(c, 3);
        for (size_t w = 0; w < 4; ++w)
          x.set(w * count + c,
                std::isnan(values[w]) && !hasNan(c) ? 0 : values[w]);
      }
      describe(MPRT_MAX_POOL, type, g, Last);
      ASSERT_FALSE(layer.run(desc, x.bytes.data(), nullptr, y.bytes.data()));
      describe(MPRT_MAX_POOL_GRAD, type, g, Last);
      ASSERT_FALSE(
          layer.run(desc, dy.bytes.data(), x.bytes.data(), dx.bytes.data()));
      for (size_t c = 0; c < count; ++c) {
        if (hasNan(c))
          EXPECT_TRUE(std::isnan(y.get(c))) << c;
        else
          EXPECT_EQ(y.get(c), 2) << c;
        // As PyTorch: of several, the last.
        for (size_t w = 0; w < 4; ++w)
          EXPECT_EQ(dx.get(w * count + c), w == (hasNan(c) ? 2u : 3u) ? 3 : 0)
              << c << " " << w << " of type " << int(type);
      }
    }
}

/// Sums of 16-bit gradients are rounded once, to nearest, ties to even: one
/// window gives 2^8 or 2^11, from where on the type has even numbers only, and
/// some of the others 1 each.
TEST_F(ConvolutionAndPoolTest, SixteenBitsAreSummedInMore) {
  ConvolutionAndPool layer;
  Geometry g = {1, 64, 0, 3, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
  for (uint8_t type : {MPRT_F16, MPRT_BF16})
    for (auto [ones, more] : {std::pair(1, 0), {2, 2}, {3, 4}, {8, 8}}) {
      describe(MPRT_MAX_POOL_GRAD, type, g, Last);
      double large = type == MPRT_F16 ? 2048 : 256;
      Elements x(type, 9 * 64), dy(type, 9 * 64), dx(type, 9 * 64);
      for (size_t i = 0; i < 9 * 64; ++i) {
        x.set(i, i / 64 == 4); // the greatest of all windows is in the middle
        dy.set(i, i < 64 ? large : i / 64 <= size_t(ones));
      }
      ASSERT_FALSE(
          layer.run(desc, dy.bytes.data(), x.bytes.data(), dx.bytes.data()));
      for (size_t i = 0; i < 9 * 64; ++i)
        EXPECT_EQ(dx.get(i), i / 64 == 4 ? large + more : 0) << ones;
    }
}

TEST_F(ConvolutionAndPoolTest, EmptyBatch) {
  ConvolutionAndPool layer;
  Geometry g = convolutions[0];
  g.batch = 0;
  describe(MPRT_CONVOLUTION_FILTER_GRAD, MPRT_F32, g, First);
  std::vector<float> dw(4 * 3 * 9, 7);
  ASSERT_FALSE(layer.run(desc, nullptr, nullptr, dw.data()));
  EXPECT_EQ(dw, std::vector<float>(dw.size(), 0));
  EXPECT_STREQ(*layer.describePlan(desc), "nothing to do");
}

TEST_F(ConvolutionAndPoolTest, Refusals) {
  ConvolutionAndPool layer;
  auto message = [&] { return layer.run(desc, nullptr, nullptr, nullptr); };
  describe(MPRT_CONVOLUTION, MPRT_F32, convolutions[0], First);
  desc.type = MPRT_I32;
  EXPECT_EQ(message().status(), MPRT_UNSUPPORTED);
  EXPECT_EQ(message().message(), "no convolution or pool of i32");
  describe(MPRT_CONVOLUTION, MPRT_F32, convolutions[0], First);
  desc.groups = 2;
  EXPECT_EQ(message().message(), "2 groups of 3 and 4 channels");
  desc.groups = 0;
  EXPECT_EQ(message().message(), "0 groups of 3 and 4 channels");
  desc.kind = 7;
  EXPECT_EQ(message().message(), "there is no kind 7");
  describe(MPRT_AVG_POOL, MPRT_F32, pools[0], First);
  desc.low[0] = 3;
  EXPECT_EQ(message().message(), "a window of a pool has no element");
  describe(MPRT_MAX_POOL, MPRT_F32, pools[0], First);
  desc.output[1] = 4;
  EXPECT_EQ(message().message(), "a pool of 5 into 4 channels");
}

TEST_F(ConvolutionAndPoolTest, Plans) {
  ConvolutionAndPool layer;
  bool library = std::string(Gemm::library()) != "built-in";
  // oneDNN computes in bf16 from AVX-512 on.
#if defined(__x86_64__)
  bool hasBFloat = library && __builtin_cpu_supports("avx512bw");
#else
  bool hasBFloat = library;
#endif
  const Geometry dilated = {1,      16,     16,     9,      9, {3, 3},
                            {1, 1}, {2, 2}, {2, 2}, {2, 2}, 1};
  for (uint8_t kind = MPRT_CONVOLUTION; kind <= MPRT_CONVOLUTION_FILTER_GRAD;
       ++kind) {
    describe(kind, MPRT_F32, dilated, Last);
    EXPECT_STREQ(*layer.describePlan(desc), library ? "oneDNN" : "built-in");
    describe(kind, MPRT_F64, dilated, Last);
    EXPECT_STREQ(*layer.describePlan(desc), "built-in");
    describe(kind, MPRT_F16, dilated, Last);
    EXPECT_STREQ(*layer.describePlan(desc), "converted");
    // 32 positions and 32 channels; with the channels first there is no matrix.
    describe(kind, MPRT_BF16, convolutions[1], Last);
    EXPECT_STREQ(*layer.describePlan(desc), "product");
    describe(kind, MPRT_F32, convolutions[1], First);
    EXPECT_STREQ(*layer.describePlan(desc), library ? "oneDNN" : "built-in");
  }
  // 64 positions for 32 channels: the gradient of a 16-bit filter alone.
  Geometry twice = convolutions[1];
  twice.batch = 4;
  for (uint8_t kind = MPRT_CONVOLUTION; kind <= MPRT_CONVOLUTION_FILTER_GRAD;
       ++kind)
    for (uint8_t type : {MPRT_F32, MPRT_BF16}) {
      describe(kind, type, twice, Last);
      bool product = kind == MPRT_CONVOLUTION_FILTER_GRAD && type == MPRT_BF16;
      const char *plan = library ? "oneDNN" : "built-in";
      if (type == MPRT_BF16)
        plan = product ? "product" : hasBFloat ? "oneDNN" : "converted";
      EXPECT_STREQ(*layer.describePlan(desc), plan);
    }
  describe(MPRT_MAX_POOL_GRAD, MPRT_BF16, pools[0], Last);
  EXPECT_STREQ(*layer.describePlan(desc), "built-in");
}

TEST_F(ConvolutionAndPoolTest, Flops) {
  describe(MPRT_CONVOLUTION, MPRT_F32, convolutions[1], First);
  // 2 * 2 images * 32 channels * 4 * 4 positions * 16 channels * 3 * 3 taps.
  EXPECT_EQ(ConvolutionAndPool::countFlops(desc), 2u * 2 * 32 * 16 * 16 * 9);
}

} // namespace
