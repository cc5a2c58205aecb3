//===- CudaConvolutionTest.cpp - cuDNN against the host -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against the test doubles of the driver and of cuDNN. Elements are small
// integers, so that sums are exact and results are compared bit for bit, with
// gaps in the layout, which must not change.
//
//===----------------------------------------------------------------------===//

#include "FakeDevice.h"
#include "device/Descriptors.h"
#include "device/cuda/Convolution.h"
#include "device/host/ConvolutionAndPool.h"
#include "support/DType.h"

#include <algorithm>
#include <random>

using namespace mprt;
using namespace mprt::cuda;

namespace {

class CudaConvolution : public FakeDevice {
protected:
  using Random = std::mt19937;

  static std::vector<char> operand(uint8_t type, size_t count, Random &random) {
    std::vector<char> bytes(count * sizeOf(mprt_dtype(type)));
    for (size_t i = 0; i < count; ++i) {
      double value = double(int(random() % 7)) - 3;
      char *to = bytes.data() + i * sizeOf(mprt_dtype(type));
      auto put = [&](auto element) {
        std::memcpy(to, &element, sizeof element);
      };
      if (type == MPRT_F64)
        put(value);
      else if (type == MPRT_F32)
        put(float(value));
      else
        put(type == MPRT_F16 ? floatToF16(float(value))
                             : floatToBf16(float(value)));
    }
    return bytes;
  }

  /// Channels first, channels last, or channels first with gaps; a filter is
  /// dense, in either order.
  static void layOut(mprt_window_desc &d, int layout, bool filterIsLast) {
    static constexpr int orders[][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
    int64_t *strides[] = {d.strides_a, d.strides_b, d.strides_c};
    int filter = d.kind == MPRT_CONVOLUTION_FILTER_GRAD ? 2 : 1;
    for (int i = 0; i < 3; ++i) {
      int64_t sizes[4], step = 1;
      sizesOfOperand(d, i, sizes);
      bool isLast = i == filter ? filterIsLast : layout == 1;
      for (int dimension : orders[isLast]) {
        strides[i][dimension] = step;
        step *= sizes[dimension];
        if (layout == 2 && dimension == 3 && i != filter)
          step += 3;
      }
    }
  }

  static mprt_window_desc makeCase(Random &random) {
    static constexpr uint8_t types[] = {MPRT_F32, MPRT_F64, MPRT_BF16,
                                        MPRT_F16};
    mprt_window_desc d = {};
    d.kind = uint8_t(random() % 3);
    d.type = types[random() % 4];
    d.groups = 1 + int64_t(random() % 2);
    auto one = [&](int64_t most) {
      return 1 + int64_t(random() % uint64_t(most));
    };
    d.input[0] = d.output[0] = one(3);
    d.input[1] = d.groups * one(3), d.output[1] = d.groups * one(3);
    for (int axis = 0; axis < 2; ++axis) {
      d.window[axis] = one(3), d.strides[axis] = one(2);
      d.dilation[axis] = one(2), d.low[axis] = int64_t(random() % 3);
      int64_t span = (d.window[axis] - 1) * d.dilation[axis] + 1;
      d.input[2 + axis] = span + int64_t(random() % 5);
      d.output[2 + axis] =
          (d.input[2 + axis] + 2 * d.low[axis] - span) / d.strides[axis] + 1;
    }
    layOut(d, int(random() % 3), random() % 2);
    return d;
  }

  static size_t countOf(const mprt_window_desc &d, int operand) {
    int64_t sizes[4], last = 0;
    sizesOfOperand(d, operand, sizes);
    for (int i = 0; i < 4; ++i)
      last += (sizes[i] - 1) * stridesOf(d, operand)[i];
    return size_t(last + 1);
  }

  void compare(cuda::Convolution &convolution, const mprt_window_desc &d,
               Random &random, bool captured) {
    std::vector<char> operands[3];
    void *pointers[3];
    for (int i = 0; i < 3; ++i) {
      operands[i] = operand(d.type, countOf(d, i), random);
      pointers[i] = toDevice(operands[i]);
    }
    auto run = [&] {
      Error error =
          convolution.run(d, stream, pointers[0], pointers[1], pointers[2]);
      EXPECT_FALSE(bool(error)) << error.message();
    };
    if (captured)
      replay(run);
    else
      run();
    std::vector<char> result = toHost(pointers[2], operands[2].size());
    std::vector<char> expected = operands[2];
    Error error =
        host.run(d, operands[0].data(), operands[1].data(), expected.data());
    ASSERT_FALSE(bool(error)) << error.message();
    EXPECT_TRUE(result == expected)
        << "kind " << int(d.kind) << " " << nameOf(mprt_dtype(d.type)) << " ["
        << d.input[0] << ", " << d.input[1] << ", " << d.input[2] << ", "
        << d.input[3] << "] to [" << d.output[1] << ", " << d.output[2] << ", "
        << d.output[3] << "]";
    freeAll();
  }

  void TearDown() override {
    gemm.reset();
    FakeDevice::TearDown();
  }

  cuda::Gemm &products() {
    if (!gemm)
      gemm.emplace(*driver);
    return *gemm;
  }

  host::ConvolutionAndPool host;
  std::optional<cuda::Gemm> gemm;
};

TEST_F(CudaConvolution, EqualsTheHostOnRandomConvolutions) {
  cuda::Convolution convolution(*driver, products());
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    mpfake_seed(seed);
    setenv("MPRT_CUDA_TUNE", seed % 4 ? "0" : "1", 1);
    mprt_window_desc d = makeCase(random);
    if (seed % 2)
      compare(convolution, d, random, true);
    compare(convolution, d, random, false);
    if (HasFailure())
      break;
  }
  unsetenv("MPRT_CUDA_TUNE");
}

TEST_F(CudaConvolution, ChoosesOnceByTimingOutsideOfCaptures) {
  cuda::Convolution convolution(*driver, products());
  Random random(1);
  mprt_window_desc d = {};
  d.kind = MPRT_CONVOLUTION, d.type = MPRT_F32, d.groups = 1;
  for (int64_t *sizes : {d.input, d.output})
    sizes[0] = sizes[1] = 2, sizes[2] = sizes[3] = 11;
  for (int axis = 0; axis < 2; ++axis)
    d.window[axis] = 3, d.strides[axis] = d.low[axis] = d.dilation[axis] = 1;
  layOut(d, 1, true);
  auto counts = [] {
    return std::array{mpfake_count("cudnnGetConvolutionForwardAlgorithm_v7"),
                      mpfake_count("cudnnConvolutionForward"),
                      mpfake_count("cudnnConvolutionForward/1")};
  };
  // In a capture: what needs no scratch, as there is none.
  auto before = counts();
  compare(convolution, d, random, true);
  EXPECT_EQ(counts()[0], before[0] + 1);
  EXPECT_EQ(counts()[1], before[1] + 1);
  EXPECT_EQ(counts()[2], before[2]);
  EXPECT_EQ(convolution.deviceBytes(), 0u);
  // Outside: three are tried, the broken one once; then the faster one.
  compare(convolution, d, random, false);
  EXPECT_EQ(counts()[0], before[0] + 2);
  EXPECT_EQ(counts()[1], before[1] + 1 + 2 * 4 + 1 + 1);
  EXPECT_EQ(counts()[2], before[2] + 4 + 1);
  EXPECT_GT(convolution.deviceBytes(), 0u);
  // Afterwards what was chosen, also in captures and by another object.
  before = counts();
  compare(convolution, d, random, true);
  cuda::Convolution other(*driver, products());
  compare(other, d, random, false);
  EXPECT_EQ(counts()[0], before[0]);
  EXPECT_EQ(counts()[1], before[1] + 2);
  EXPECT_EQ(counts()[2], before[2] + 2);
}

TEST_F(CudaConvolution, IsAProductWithWindowsOfOneElement) {
  cuda::Convolution convolution(*driver, products());
  for (uint32_t seed = 0; seed < 90; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    mpfake_seed(seed);
    mprt_window_desc d = {};
    d.kind = uint8_t(seed % 3), d.groups = 1;
    d.type = uint8_t(std::array{MPRT_BF16, MPRT_F16, MPRT_F32}[seed / 3 % 3]);
    auto upTo = [&](unsigned most) { return int64_t(1 + random() % most); };
    d.input[0] = d.output[0] = upTo(3);
    d.input[1] = upTo(20), d.output[1] = upTo(20);
    for (int axis = 0; axis < 2; ++axis) {
      d.input[2 + axis] = d.output[2 + axis] = 1 + upTo(5);
      d.window[axis] = d.strides[axis] = d.dilation[axis] = 1;
    }
    // Four are none: padded, with strides, with gaps, channels first.
    unsigned other = seed / 9 % 10;
    if (other == 0)
      d.low[0] = 1, d.output[2] += 2;
    if (other == 1)
      d.strides[1] = 2, d.output[3] = (d.input[3] + 1) / 2;
    if (other >= 3)
      d.input[1] += 1, d.output[1] += 1; // else a layout has two readings
    layOut(d, other == 2 ? 2 : other == 3 ? 0 : 1, seed % 2);
    bool isProduct = other > 3;
    // Who fails when candidates are tried is passed over.
    bool hasLibrary = !isProduct || seed % 2;
    static constexpr const char *calls[] = {"cudnnConvolutionForward",
                                            "cudnnConvolutionBackwardData",
                                            "cudnnConvolutionBackwardFilter"};
    std::string fails;
    if (isProduct && hasLibrary)
      fails = "cublasLtMatmulAlgoGetHeuristic:1";
    if (!hasLibrary)
      for (int call = 1; call <= 8; ++call)
        fails += (call > 1 ? "," : "") + std::string(calls[d.kind]) + ":" +
                 std::to_string(call);
    uint64_t asked = mpfake_count("cublasLtMatmulAlgoGetHeuristic");
    uint64_t before = mpfake_count("cublasLtMatmul");
    mpfake_fail(fails.c_str());
    compare(convolution, d, random, false);
    mpfake_fail("");
    compare(convolution, d, random, seed % 4 < 2);
    EXPECT_EQ(mpfake_count("cublasLtMatmul") > before, !hasLibrary);
    EXPECT_EQ(mpfake_count("cublasLtMatmulAlgoGetHeuristic") > asked,
              isProduct);
  }
}

TEST_F(CudaConvolution, RoundsToTf32OnlyWhereAsked) {
  mprt_window_desc d = {};
  d.kind = MPRT_CONVOLUTION, d.type = MPRT_F32, d.groups = 1;
  std::fill_n(d.input, 4, 1), std::fill_n(d.output, 4, 1);
  // With these strides it is no product.
  for (int axis = 0; axis < 2; ++axis)
    d.window[axis] = d.dilation[axis] = 1, d.strides[axis] = 2;
  layOut(d, 0, false);
  float x = 1 + 0x1p-12f, one = 1;
  auto bytes = [](float value) {
    std::vector<char> bytes(4);
    std::memcpy(bytes.data(), &value, 4);
    return bytes;
  };
  for (bool tf32 : {false, true}) {
    setenv("MPRT_TF32", tf32 ? "1" : "0", 1);
    cuda::Convolution convolution(*driver, products());
    void *c = toDevice(bytes(0));
    Error error =
        convolution.run(d, stream, toDevice(bytes(x)), toDevice(bytes(one)), c);
    ASSERT_FALSE(bool(error)) << error.message();
    EXPECT_EQ(toHost(c, 4), bytes(tf32 ? one : x));
  }
  unsetenv("MPRT_TF32");
}

TEST_F(CudaConvolution, ExplainsWhatItCannotDo) {
  cuda::Convolution convolution(*driver, products());
  Random random(3);
  mprt_window_desc d = makeCase(random);
  d.kind = MPRT_CONVOLUTION, d.type = MPRT_F32;
  d.input[2] = 5, d.output[2] = 4;
  d.window[0] = 3, d.strides[0] = d.dilation[0] = d.low[0] = 1;
  auto run = [&] {
    return convolution.run(d, stream, nullptr, nullptr, nullptr);
  };
  layOut(d, 0, false);
  Error error = run();
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  EXPECT_NE(error.message().find(
                "an output of 4 rows from 5; cuDNN, which pads with 1 on both "
                "sides, makes 5"),
            std::string::npos)
      << error.message();
  d.output[2] = 5;
  layOut(d, 0, false);
  d.strides_b[0] += 1;
  d.output[1] = 2 * d.groups;
  error = run();
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  EXPECT_NE(error.message().find("a filter with strides"), std::string::npos)
      << error.message();
  d.kind = MPRT_MAX_POOL, d.output[1] = d.input[1];
  error = run();
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  EXPECT_NE(error.message().find("pools on a CUDA device are kernels"),
            std::string::npos)
      << error.message();
  d.kind = MPRT_CONVOLUTION, d.type = MPRT_F8E4M3;
  EXPECT_EQ(run().status(), MPRT_UNSUPPORTED);
}

TEST_F(CudaConvolution, ClearsTheGradientOfAnEmptyBatch) {
  cuda::Convolution convolution(*driver, products());
  Random random(5);
  mprt_window_desc d = makeCase(random);
  d.kind = MPRT_CONVOLUTION_FILTER_GRAD;
  d.input[0] = d.output[0] = 0;
  layOut(d, 0, false);
  std::vector<char> old = operand(d.type, countOf(d, 2), random);
  void *c = toDevice(old);
  ASSERT_FALSE(convolution.run(d, stream, nullptr, nullptr, c));
  EXPECT_EQ(toHost(c, old.size()), std::vector<char>(old.size()));
}

} // namespace
