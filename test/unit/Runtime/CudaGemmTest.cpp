//===- CudaGemmTest.cpp - products through cuBLASLt against the host's ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against the test doubles of the driver and of cuBLASLt, which do what the
// layouts say: a wrong leading dimension gives wrong numbers. Elements are
// small integers, so that sums are exact and results are compared bit for bit,
// with the gaps between rows, which must not change.
//
//===----------------------------------------------------------------------===//

#include "FakeDevice.h"
#include "device/cuda/Gemm.h"
#include "device/cuda/GemmProblem.h"
#include "device/host/Gemm.h"
#include "support/DType.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace mprt;
using namespace mprt::cuda;

namespace {

void setElement(uint8_t type, std::vector<char> &bytes, size_t at,
                double value) {
  char *to = bytes.data() + at * sizeOf(mprt_dtype(type));
  auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
  if (type == MPRT_F64)
    put(value);
  else if (type == MPRT_F32)
    put(float(value));
  else if (type == MPRT_F8E5M2)
    put(uint8_t(floatToF16(float(value)) >> 8));
  else if (type == MPRT_F8E4M3)
    // Of an f16, whose exponents are 8 larger, without its last 7 bits.
    put(uint8_t((value < 0) << 7 |
                (floatToF16(float(std::abs(value) / 256)) >> 7)));
  else
    put(type == MPRT_F16 ? floatToF16(float(value))
                         : floatToBf16(float(value)));
}

class CudaGemm : public FakeDevice {
protected:
  using Random = std::mt19937;

  static std::vector<char> operand(uint8_t type, size_t count, Random &random) {
    std::vector<char> bytes(count * sizeOf(mprt_dtype(type)));
    for (size_t i = 0; i < count; ++i)
      setElement(type, bytes, i, double(int(random() % 9)) - 4);
    return bytes;
  }

  /// Strides of a dense tensor, perhaps with gaps between rows: the batch
  /// dimensions and one of the matrix' two in any order, around the other one.
  static size_t layOut(Random &random, uint32_t rank, const int64_t *batch,
                       const int64_t sizes[2], bool result, int64_t strides[2],
                       int64_t *batchStrides) {
    std::vector<int> order(rank + 1);
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2)
      std::shuffle(order.begin(), order.end(), random);
    int inner = result ? 1 : int(random() % 2);
    int64_t step = std::max<int64_t>(sizes[inner], 1);
    if (random() % 3 == 0)
      step += int64_t(random() % 5);
    strides[inner] = 1;
    for (int dimension : order) {
      if (dimension == int(rank)) {
        strides[1 - inner] = step;
        step *= std::max<int64_t>(sizes[1 - inner], 1);
      } else if (!result && random() % 4 == 0) {
        batchStrides[dimension] = 0;
      } else {
        batchStrides[dimension] = step;
        step *= batch[dimension];
      }
    }
    return size_t(step);
  }

  struct Case {
    mprt_gemm_desc desc = {};
    size_t sizes[3];
  };

  static Case makeCase(Random &random) {
    static constexpr uint8_t types[][2] = {
        {MPRT_F32, MPRT_F32}, {MPRT_F64, MPRT_F64},   {MPRT_BF16, MPRT_F32},
        {MPRT_F16, MPRT_F32}, {MPRT_BF16, MPRT_BF16}, {MPRT_F16, MPRT_F16}};
    Case test;
    mprt_gemm_desc &d = test.desc;
    const uint8_t *type = types[random() % std::size(types)];
    d.type_a = d.type_b = type[0], d.type_c = type[1];
    d.accumulate = random() % 2;
    auto size = [&] {
      return random() % 20 == 0 ? 0 : 1 + int64_t(random() % 7);
    };
    d.m = size(), d.n = size(), d.k = size();
    d.batch_rank = random() % (MPRT_GEMM_MAX_BATCH + 1);
    for (uint32_t i = 0; i < d.batch_rank; ++i)
      d.batch[i] = 1 + int64_t(random() % 3);
    const int64_t a[] = {d.m, d.k}, b[] = {d.k, d.n}, c[] = {d.m, d.n};
    test.sizes[0] =
        layOut(random, d.batch_rank, d.batch, a, false, d.strides_a, d.batch_a);
    test.sizes[1] =
        layOut(random, d.batch_rank, d.batch, b, false, d.strides_b, d.batch_b);
    test.sizes[2] =
        layOut(random, d.batch_rank, d.batch, c, true, d.strides_c, d.batch_c);
    return test;
  }

  static std::string show(const mprt_gemm_desc &d) {
    std::ostringstream text;
    auto list = [&](const char *name, const int64_t *values, uint32_t count) {
      text << " " << name;
      for (uint32_t i = 0; i < count; ++i)
        text << (i ? "," : " ") << values[i];
    };
    text << nameOf(mprt_dtype(d.type_a)) << " into "
         << nameOf(mprt_dtype(d.type_c)) << " m " << d.m << " n " << d.n
         << " k " << d.k << " accumulate " << int(d.accumulate);
    list("a", d.strides_a, 2), list("b", d.strides_b, 2);
    list("c", d.strides_c, 2), list("batch", d.batch, d.batch_rank);
    list("a", d.batch_a, d.batch_rank), list("b", d.batch_b, d.batch_rank);
    list("c", d.batch_c, d.batch_rank);
    return text.str();
  }

  /// Runs the product in a graph if `captured`, and on its own if not; both
  /// must leave what the host leaves.
  void compare(cuda::Gemm &gemm, const Case &test, Random &random,
               bool captured, bool unaligned = false) {
    const mprt_gemm_desc &d = test.desc;
    std::vector<char> operands[] = {operand(d.type_a, test.sizes[0], random),
                                    operand(d.type_b, test.sizes[1], random),
                                    operand(d.type_c, test.sizes[2], random)};
    void *pointers[3];
    for (int i = 0; i < 3; ++i) {
      size_t element = operands[i].size() / std::max<size_t>(test.sizes[i], 1);
      pointers[i] =
          toDevice(operands[i], unaligned ? element * (random() % 4) : 0);
    }
    auto run = [&] {
      Error error = gemm.run(d, stream, pointers[0], pointers[1], pointers[2]);
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
    EXPECT_TRUE(result == expected) << show(d);
    freeAll();
  }

  host::Gemm host;
};

TEST_F(CudaGemm, EqualsTheHostOnRandomProducts) {
  setenv("MPRT_CUDA_TUNE", "0", 1);
  cuda::Gemm gemm(*driver);
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    mpfake_seed(seed);
    Case test = makeCase(random);
    compare(gemm, test, random, seed % 2, seed % 4 > 1);
    if (HasFailure())
      break;
  }
  unsetenv("MPRT_CUDA_TUNE");
}

/// A product of 8 bits as tensor cores have it: both operands along k.
static mprt_gemm_desc ofEightBits(uint8_t a, uint8_t b, uint8_t c, int64_t m,
                                  int64_t n, int64_t k) {
  mprt_gemm_desc d = {};
  d.type_a = a, d.type_b = b, d.type_c = c;
  d.m = m, d.n = n, d.k = k;
  d.strides_a[0] = k, d.strides_a[1] = 1;
  d.strides_b[0] = 1, d.strides_b[1] = k;
  d.strides_c[0] = n, d.strides_c[1] = 1;
  return d;
}

TEST_F(CudaGemm, MultipliesEightBits) {
  setenv("MPRT_CUDA_TUNE", "0", 1);
  cuda::Gemm gemm(*driver);
  Random random(7);
  constexpr uint8_t operands[][2] = {{MPRT_F8E4M3, MPRT_F8E4M3},
                                     {MPRT_F8E5M2, MPRT_F8E4M3},
                                     {MPRT_F8E4M3, MPRT_F8E5M2}};
  auto size = [&] { return 16 * (1 + int64_t(random() % 3)); };
  uint64_t before = mpfake_count("cublasLtMatmul/f8");
  int products = 0;
  for (const auto &[a, b] : operands)
    for (uint8_t c : {MPRT_F32, MPRT_BF16, MPRT_F16})
      for (uint8_t accumulate : {0, 1}) {
        Case test;
        mprt_gemm_desc &d = test.desc;
        d = ofEightBits(a, b, c, size(), size(), size());
        d.accumulate = accumulate;
        d.batch_rank = random() % 2, d.batch[0] = 2;
        d.batch_a[0] = d.m * d.k, d.batch_b[0] = d.n * d.k;
        d.batch_c[0] = d.m * d.n;
        auto batch = size_t(d.batch_rank ? 2 : 1);
        test.sizes[0] = batch * size_t(d.m * d.k);
        test.sizes[1] = batch * size_t(d.n * d.k);
        test.sizes[2] = batch * size_t(d.m * d.n);
        compare(gemm, test, random, products++ % 2);
      }
  EXPECT_EQ(mpfake_count("cublasLtMatmul/f8"), before + uint64_t(products));
  unsetenv("MPRT_CUDA_TUNE");
}

TEST_F(CudaGemm, RefusesEightBitsThatNoTensorCoreTakes) {
  cuda::Gemm gemm(*driver);
  std::vector<char> zeros(4096);
  void *memory = toDevice(zeros);
  auto run = [&](const mprt_gemm_desc &d) {
    return gemm.run(d, stream, memory, memory, memory).message();
  };
  mprt_gemm_desc odd =
      ofEightBits(MPRT_F8E4M3, MPRT_F8E4M3, MPRT_F32, 16, 16, 24);
  EXPECT_EQ(run(odd), "a product [16, 24] x [24, 16] of 8 bits: "
                      "cublasLtMatmulAlgoGetHeuristic: "
                      "CUBLAS_STATUS_NOT_SUPPORTED (compiled with chip=sm_80 "
                      "or numerics=exact, it is one of 16 bits)");
  mprt_gemm_desc across =
      ofEightBits(MPRT_F8E4M3, MPRT_F8E4M3, MPRT_F32, 16, 16, 16);
  std::swap(across.strides_b[0], across.strides_b[1]);
  EXPECT_NE(run(across).find("a product [16, 16] x [16, 16]"),
            std::string::npos);
  EXPECT_EQ(run(ofEightBits(MPRT_F8E5M2, MPRT_F8E5M2, MPRT_F32, 16, 16, 16)),
            "no product of f8e5m2 and f8e5m2 into f32");
  EXPECT_EQ(run(ofEightBits(MPRT_F8E4M3, MPRT_BF16, MPRT_F32, 16, 16, 16)),
            "no product of f8e4m3 and bf16 into f32");
}

TEST_F(CudaGemm, ChoosesOnceByTimingOutsideOfCaptures) {
  cuda::Gemm gemm(*driver);
  Random random(1);
  Case test;
  mprt_gemm_desc &d = test.desc;
  d.type_a = d.type_b = d.type_c = MPRT_F32;
  d.accumulate = 1; // trials must not add
  d.m = 3, d.n = 5, d.k = 7;
  d.strides_a[0] = 7, d.strides_a[1] = 1;
  d.strides_b[0] = 5, d.strides_b[1] = 1;
  d.strides_c[0] = 5, d.strides_c[1] = 1;
  test.sizes[0] = 21, test.sizes[1] = 35, test.sizes[2] = 15;
  auto counts = [] {
    return std::array{mpfake_count("cublasLtMatmulAlgoGetHeuristic"),
                      mpfake_count("cublasLtMatmul"),
                      mpfake_count("cublasLtMatmul/0")};
  };
  // In a capture: the first guess, which is the slow one, and nothing tried.
  auto before = counts();
  compare(gemm, test, random, true);
  EXPECT_EQ(counts()[0], before[0] + 1);
  EXPECT_EQ(counts()[1], before[1] + 1);
  EXPECT_EQ(counts()[2], before[2] + 1);
  // Outside: four are tried, the broken one once; then not the slow one.
  before = counts();
  compare(gemm, test, random, false);
  EXPECT_EQ(counts()[0], before[0] + 1);
  EXPECT_EQ(counts()[1], before[1] + 3 * 4 + 1 + 1);
  EXPECT_EQ(counts()[2], before[2] + 4);
  // Afterwards what was chosen, also in captures and on another device object.
  before = counts();
  compare(gemm, test, random, true);
  cuda::Gemm other(*driver);
  compare(other, test, random, false);
  EXPECT_EQ(counts()[0], before[0]);
  EXPECT_EQ(counts()[1], before[1] + 2);
  EXPECT_EQ(counts()[2], before[2]);
  EXPECT_GT(gemm.deviceBytes(), 0u);
}

TEST_F(CudaGemm, RoundsToTf32OnlyWhereAsked) {
  mprt_gemm_desc d = {};
  d.type_a = d.type_b = d.type_c = MPRT_F32;
  d.m = d.n = d.k = 1;
  d.strides_a[0] = d.strides_a[1] = d.strides_b[0] = d.strides_b[1] = 1;
  d.strides_c[0] = d.strides_c[1] = 1;
  std::vector<char> x(4), one(4);
  setElement(MPRT_F32, x, 0, 1 + 0x1p-12);
  setElement(MPRT_F32, one, 0, 1);
  for (bool tf32 : {false, true}) {
    setenv("MPRT_TF32", tf32 ? "1" : "0", 1);
    cuda::Gemm gemm(*driver);
    void *c = toDevice(one);
    ASSERT_FALSE(gemm.run(d, stream, toDevice(x), toDevice(one), c));
    EXPECT_EQ(toHost(c, 4), tf32 ? one : x);
  }
  unsetenv("MPRT_TF32");
}

TEST_F(CudaGemm, TakesBatchesTogether) {
  // [2, 3, 4] x [4, 5] with weights that all share: one product of 6 rows.
  mprt_gemm_desc d = {};
  d.type_a = d.type_b = d.type_c = MPRT_F32;
  d.m = 3, d.n = 5, d.k = 4;
  d.strides_a[0] = 4, d.strides_a[1] = 1;
  d.strides_b[0] = 5, d.strides_b[1] = 1;
  d.strides_c[0] = 5, d.strides_c[1] = 1;
  d.batch_rank = 1, d.batch[0] = 2;
  d.batch_a[0] = 12, d.batch_b[0] = 0, d.batch_c[0] = 15;
  Expected<GemmProblem> problem = makeGemmProblem(d);
  ASSERT_TRUE(bool(problem));
  EXPECT_EQ(problem->batch, 1);
  EXPECT_EQ(problem->n, 6);
  // Heads of attention, [B, T, H, D] in memory: one batch dimension and a loop.
  d.batch_rank = 2;
  d.batch[0] = 2, d.batch[1] = 8;
  d.strides_a[0] = 8 * 4, d.batch_a[0] = 3 * 8 * 4, d.batch_a[1] = 4;
  d.batch_b[0] = 8 * 20, d.batch_b[1] = 20;
  d.strides_c[0] = 8 * 5, d.batch_c[0] = 3 * 8 * 5, d.batch_c[1] = 5;
  problem = makeGemmProblem(d);
  ASSERT_TRUE(bool(problem));
  EXPECT_EQ(problem->batch, 8);
  EXPECT_EQ(problem->loop.batch_rank, 1u);
  cuda::Gemm gemm(*driver);
  EXPECT_EQ(*gemm.describePlan(d), "cuBLASLt, a batch of 8, 2 calls");
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

static double getElement(uint8_t type, const std::vector<char> &bytes,
                         size_t at) {
  const char *from = bytes.data() + at * sizeOf(mprt_dtype(type));
  float wide;
  uint16_t narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  if (type != MPRT_F32)
    return type == MPRT_BF16 ? bf16ToFloat(narrow) : f16ToFloat(narrow);
  std::memcpy(&wide, from, sizeof wide);
  return wide;
}

static double geluOf(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(u));
}

static double geluSlopeOf(double x) {
  double root = std::sqrt(2 / M_PI);
  double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

namespace {
/// What an epilogue reads and writes, and must have left.
struct Epilogued {
  std::vector<char> c, bias, matrix;

  /// Of operands, and of the product in c. All sums are of small integers,
  /// exact in each type, and what is computed in f64 is rounded once, here and
  /// there.
  void expect(const mprt_gemm_desc &d, mprt_epilogue_kind kind,
              uint8_t biasType, const std::vector<char> &a,
              const std::vector<char> &b) {
    bool ofA = kind == MPRT_BIAS_GRAD_A;
    if (ofA || kind == MPRT_BIAS_GRAD_B) {
      const int64_t *strides = ofA ? d.strides_a : d.strides_b;
      for (int64_t i = 0; i < (ofA ? d.m : d.n); ++i) {
        double sum = 0;
        for (int64_t k = 0; k < d.k; ++k)
          sum += getElement(d.type_a, ofA ? a : b,
                            size_t(strides[!ofA] * i + strides[ofA] * k));
        setElement(biasType, bias, size_t(i), sum);
      }
      return;
    }
    for (size_t i = 0; i < size_t(d.m * d.n); ++i) {
      double x = getElement(d.type_c, c, i);
      if (kind == MPRT_GELU_GRAD)
        x *= geluSlopeOf(getElement(d.type_c, matrix, i));
      else
        x += getElement(d.type_c, bias, i % size_t(d.n));
      setElement(d.type_c, c, i, kind == MPRT_BIAS_GELU ? geluOf(x) : x);
      if (kind == MPRT_BIAS_GELU_AUX)
        setElement(d.type_c, matrix, i, geluOf(x));
    }
  }
};
} // namespace

TEST_F(CudaGemm, DoesEpilogues) {
  Random random(5);
  int taken[7] = {}, refused = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    mpfake_seed(seed);
    setenv("MPRT_CUDA_TUNE", seed < 60 ? "1" : "0", 1);
    cuda::Gemm gemm(*driver);
    Case test;
    do
      test = makeCase(random);
    while (test.desc.m * test.desc.n * test.desc.k == 0);
    mprt_gemm_desc &d = test.desc;
    d.batch_rank = 0;
    if (random() % 2) {
      d.n = 8;
      d.strides_b[0] = d.k > 1 ? 8 : 1, d.strides_b[1] = 1;
      test.sizes[1] = size_t(8 * d.k);
    }
    d.strides_c[0] = d.n;
    test.sizes[2] = size_t(d.m * d.n);
    auto kind = mprt_epilogue_kind(1 + random() % 6);
    bool hasBias = GemmEpilogue::hasBias(kind),
         hasMatrix = GemmEpilogue::hasMatrix(kind);
    // Sums of 16 bits, into f32: the library may know them, or not.
    bool ofGradient = kind >= MPRT_BIAS_GRAD_A;
    uint8_t biasType = ofGradient && random() % 2 ? MPRT_F32 : d.type_c;
    bool isWide = biasType != d.type_c, knowsWide = seed % 2;
    if (knowsWide)
      setenv("MPFAKE_WIDE_BIAS", "1", 1);
    else
      unsetenv("MPFAKE_WIDE_BIAS");
    std::vector<char> a = operand(d.type_a, test.sizes[0], random),
                      b = operand(d.type_b, test.sizes[1], random);
    bool expected = d.type_c != MPRT_F64 && !d.accumulate &&
                    !(hasMatrix && d.n % 8 != 0) && !(isWide && !knowsWide);
    void *atA = toDevice(a), *atB = toDevice(b);
    size_t element = sizeOf(mprt_dtype(d.type_c));
    // The second time with other buffers, of which the plan knows nothing.
    for (int time = 0; time < 2; ++time) {
      Epilogued before = {operand(d.type_c, test.sizes[2], random),
                          operand(biasType, size_t(std::max(d.m, d.n)), random),
                          operand(d.type_c, test.sizes[2], random)};
      Epilogued after = before;
      if (expected) {
        ASSERT_FALSE(host.run(d, a.data(), b.data(), after.c.data()));
        after.expect(d, kind, biasType, a, b);
      }
      void *atC = toDevice(before.c), *atBias = toDevice(before.bias),
           *atMatrix = toDevice(before.matrix, time * element);
      bool done = false;
      auto run = [&] {
        Expected<bool> result = gemm.runWithEpilogue(
            d, stream, atA, atB, atC,
            {kind, mprt_dtype(biasType), hasBias ? atBias : nullptr,
             hasMatrix ? atMatrix : nullptr});
        ASSERT_TRUE(bool(result)) << result.error().message();
        done = *result;
      };
      if (seed % 3 == 0 && expected)
        replay(run);
      else
        run();
      EXPECT_EQ(done, expected) << show(d) << " kind " << kind;
      ++(done ? taken[kind] : refused);
      // Where it was refused nothing happened.
      EXPECT_EQ(toHost(atC, after.c.size()), after.c)
          << show(d) << " kind " << kind;
      EXPECT_EQ(toHost(atBias, after.bias.size()), after.bias)
          << show(d) << " kind " << kind;
      EXPECT_EQ(toHost(atMatrix, after.matrix.size()), after.matrix)
          << show(d) << " kind " << kind;
    }
    freeAll();
    if (HasFailure())
      break;
  }
  for (int kind = MPRT_BIAS; kind <= MPRT_BIAS_GRAD_B; ++kind)
    EXPECT_GT(taken[kind], 20) << kind;
  EXPECT_GT(refused, 100);
  unsetenv("MPRT_CUDA_TUNE");
  unsetenv("MPFAKE_WIDE_BIAS");
}

TEST_F(CudaGemm, ScalesProductsOfEightBits) {
  Random random(11);
  int taken = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    setenv("MPRT_CUDA_TUNE", round % 4 == 0 ? "1" : "0", 1);
    cuda::Gemm gemm(*driver);
    const uint8_t results[] = {MPRT_F32, MPRT_BF16, MPRT_F16};
    int64_t m = 16 * (1 + random() % 2), n = 16 * (1 + random() % 2),
            k = 16 * (1 + random() % 2);
    mprt_gemm_desc d =
        ofEightBits(MPRT_F8E4M3, random() % 2 ? MPRT_F8E4M3 : MPRT_F8E5M2,
                    results[random() % 3], m, n, k);
    bool hasBias = random() % 2;
    size_t scales = hasBias ? random() % 3 : 1 + random() % 2;
    std::vector<char> a = operand(d.type_a, size_t(m * k), random),
                      b = operand(d.type_b, size_t(k * n), random),
                      c = operand(d.type_c, size_t(m * n), random),
                      bias = operand(d.type_c, size_t(n), random);
    // A library may refuse a bias in f32: then nothing happens.
    bool expected = !hasBias || d.type_c != MPRT_F32;
    void *atA = toDevice(a), *atB = toDevice(b), *atC = toDevice(c),
         *atBias = toDevice(bias);
    GemmEpilogue epilogue = {hasBias ? MPRT_BIAS : MPRT_SCALE,
                             mprt_dtype(hasBias ? d.type_c : 0),
                             hasBias ? atBias : nullptr, nullptr};
    std::vector<float> factors;
    for (size_t i = 0; i < scales; ++i) {
      factors.push_back(0.1f * float(1 + random() % 30));
      std::vector<char> bytes(sizeof(float));
      std::memcpy(bytes.data(), &factors[i], sizeof(float));
      epilogue.scales[i] = toDevice(bytes);
    }
    uint64_t before = mpfake_count("cublasLtMatmul/scaled");
    Expected<bool> done =
        gemm.runWithEpilogue(d, stream, atA, atB, atC, epilogue);
    ASSERT_TRUE(bool(done)) << done.error().message();
    ASSERT_EQ(*done, expected);
    ++(expected ? taken : refused);
    if (expected) {
      // In f32, and rounded once.
      mprt_gemm_desc wide = d;
      wide.type_c = MPRT_F32;
      std::vector<char> sums(size_t(m * n) * sizeof(float));
      ASSERT_FALSE(host.run(wide, a.data(), b.data(), sums.data()));
      for (size_t i = 0; i < size_t(m * n); ++i) {
        auto x = float(getElement(MPRT_F32, sums, i));
        for (float factor : factors)
          x *= factor;
        if (hasBias)
          x += float(getElement(d.type_c, bias, i % size_t(n)));
        setElement(d.type_c, c, i, x);
      }
      EXPECT_EQ(mpfake_count("cublasLtMatmul/scaled") > before, scales > 0);
    }
    EXPECT_EQ(toHost(atC, c.size()), c);
    freeAll();
  }
  EXPECT_GT(taken, 30);
  EXPECT_GT(refused, 3);
  // One product with one number, two and none: algorithms are chosen for each.
  mprt_gemm_desc d =
      ofEightBits(MPRT_F8E4M3, MPRT_F8E4M3, MPRT_F32, 16, 16, 16);
  std::vector<char> ones = operand(MPRT_F8E4M3, 256, random);
  for (size_t i = 0; i < 256; ++i)
    setElement(MPRT_F8E4M3, ones, i, 1);
  void *left = toDevice(ones), *right = toDevice(ones),
       *to = toDevice(std::vector<char>(1024));
  std::vector<char> three(sizeof(float));
  setElement(MPRT_F32, three, 0, 3);
  void *number = toDevice(three);
  cuda::Gemm same(*driver);
  for (auto [count, expected] :
       {std::pair(1, 48), std::pair(2, 144), std::pair(0, 16),
        std::pair(2, 144), std::pair(1, 48)}) {
    GemmEpilogue epilogue = {MPRT_SCALE, MPRT_F32, nullptr, nullptr};
    for (int i = 0; i < count; ++i)
      epilogue.scales[size_t(i)] = number;
    if (count == 0)
      ASSERT_FALSE(same.run(d, stream, left, right, to));
    else
      ASSERT_TRUE(*same.runWithEpilogue(d, stream, left, right, to, epilogue));
    EXPECT_EQ(getElement(MPRT_F32, toHost(to, 1024), 255), expected);
  }
  freeAll();
  // Of 32 bits there are none.
  cuda::Gemm gemm(*driver);
  mprt_gemm_desc full = ofEightBits(MPRT_F32, MPRT_F32, MPRT_F32, 16, 16, 16);
  void *memory = toDevice(std::vector<char>(4096));
  GemmEpilogue scale = {MPRT_SCALE, MPRT_F32, nullptr, nullptr, {memory}};
  Expected<bool> done =
      gemm.runWithEpilogue(full, stream, memory, memory, memory, scale);
  ASSERT_TRUE(bool(done)) << done.error().message();
  EXPECT_FALSE(*done);
  unsetenv("MPRT_CUDA_TUNE");
}

TEST_F(CudaGemm, ChoosesAlgorithmsOfEpiloguesApart) {
  cuda::Gemm gemm(*driver);
  Random random(2);
  mprt_gemm_desc d = {};
  d.type_a = d.type_b = d.type_c = MPRT_F32;
  d.m = 3, d.n = 8, d.k = 5;
  d.strides_a[0] = 5, d.strides_a[1] = 1;
  d.strides_b[0] = 8, d.strides_b[1] = 1;
  d.strides_c[0] = 8, d.strides_c[1] = 1;
  void *a = toDevice(operand(MPRT_F32, 15, random)),
       *b = toDevice(operand(MPRT_F32, 40, random)),
       *c = toDevice(operand(MPRT_F32, 24, random)),
       *bias = toDevice(operand(MPRT_F32, 8, random)),
       *result = toDevice(operand(MPRT_F32, 24, random));
  auto epilogueOf = [&](mprt_epilogue_kind kind) -> GemmEpilogue {
    return {kind, MPRT_F32, GemmEpilogue::hasBias(kind) ? bias : nullptr,
            GemmEpilogue::hasMatrix(kind) ? result : nullptr};
  };
  for (int kind = 0; kind <= MPRT_BIAS_GRAD_B; ++kind) {
    mprt_gemm_desc own = d;
    auto count = [] { return mpfake_count("cublasLtMatmulAlgoGetHeuristic"); };
    auto run = [&] {
      if (kind == 0)
        return !gemm.run(own, stream, a, b, c);
      Expected<bool> done = gemm.runWithEpilogue(
          own, stream, a, b, c, epilogueOf(mprt_epilogue_kind(kind)));
      return done && *done;
    };
    auto before = count();
    EXPECT_TRUE(run());
    EXPECT_EQ(count(), before + 1);
    EXPECT_TRUE(run());
    EXPECT_EQ(count(), before + 1);
  }
  // What the library refuses, however it says so, is asked for once; what else
  // fails is an error.
  mprt_gemm_desc own = d;
  setenv("MPRT_CUDA_TUNE", "0", 1);
  for (const char *refusal :
       {"cublasLtMatmulAlgoGetHeuristic:1:15",
        "cublasLtMatmulAlgoGetHeuristic:1:7",
        "cublasLtMatmulDescSetAttribute:3:7", "cublasLtMatmul:1:15"}) {
    SCOPED_TRACE(refusal);
    own.n = 6;
    cuda::Gemm other(*driver);
    mpfake_fail(refusal);
    uint64_t asked = 0;
    for (int time = 0; time < 3; ++time) {
      Expected<bool> done =
          other.runWithEpilogue(own, stream, a, b, c, epilogueOf(MPRT_BIAS));
      ASSERT_TRUE(bool(done)) << done.error().message();
      EXPECT_FALSE(*done);
      // The product alone, which then takes its place.
      EXPECT_FALSE(other.run(own, stream, a, b, c));
      uint64_t now = mpfake_count("cublasLtMatmulAlgoGetHeuristic");
      EXPECT_TRUE(time == 0 || now == asked);
      asked = now;
    }
  }
  unsetenv("MPRT_CUDA_TUNE");
  own.n = 7;
  mpfake_fail("cublasLtMatmulAlgoGetHeuristic:1:14");
  cuda::Gemm failing(*driver);
  Expected<bool> done =
      failing.runWithEpilogue(own, stream, a, b, c, epilogueOf(MPRT_BIAS));
  ASSERT_FALSE(bool(done));
  EXPECT_EQ(done.error().status(), MPRT_INTERNAL);
}

TEST_F(CudaGemm, ExplainsWhatItCannotDo) {
  cuda::Gemm gemm(*driver);
  mprt_gemm_desc d = {};
  d.type_a = d.type_b = MPRT_I8, d.type_c = MPRT_F32;
  Error error = gemm.run(d, stream, nullptr, nullptr, nullptr);
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  d.type_a = d.type_b = MPRT_F32;
  d.m = 2, d.n = 3, d.k = 4;
  d.strides_a[0] = 0, d.strides_a[1] = 1;
  d.strides_b[0] = 3, d.strides_b[1] = 1;
  d.strides_c[0] = 3, d.strides_c[1] = 1;
  error = gemm.run(d, stream, nullptr, nullptr, nullptr);
  EXPECT_EQ(error.status(), MPRT_UNSUPPORTED);
  EXPECT_EQ(error.message(),
            "a product [2, 4] x [4, 3]: a of 2 by 4 has strides 0 and 1; "
            "expected one of them to be 1 and the other at least the size that "
            "it steps over");
  // Errors of the library and of the driver, each with the call's name.
  d.strides_a[0] = 4;
  std::vector<char> bytes(64);
  void *a = toDevice(bytes), *b = toDevice(bytes), *c = toDevice(bytes);
  for (const char *call :
       {"cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate", "cublasLtMatmulAlgoGetHeuristic"}) {
    mpfake_fail((std::string(call) + ":1:14").c_str());
    error = gemm.run(d, stream, a, b, c);
    EXPECT_EQ(error.status(), MPRT_INTERNAL);
    EXPECT_EQ(error.message(),
              "a product [2, 4] x [4, 3]: " + std::string(call) +
                  ": CUBLAS_STATUS_INTERNAL_ERROR");
  }
  // Without scratch it goes on, with algorithms that need none.
  mpfake_fail("cuMemAlloc:1");
  cuda::Gemm poor(*driver);
  error = poor.run(d, stream, a, b, c);
  EXPECT_FALSE(bool(error)) << error.message();
  EXPECT_EQ(poor.deviceBytes(), 0u);
}

} // namespace
