//===- GemmTest.cpp - matrix products against plain loops -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every type, layout and batch that mprt_gemm_desc allows, over sizes around
// the edges of the tiles. Elements are small integers over a power of two, so
// that sums are exact in f32 and results can be compared for equality.
//
//===----------------------------------------------------------------------===//

#include "device/host/Gemm.h"
#include "device/host/GemmBuiltin.h"
#include "support/DType.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

using namespace mprt;
using namespace mprt::host;

namespace {

/// A buffer of any type that a product takes, read and written as double.
struct Buffer {
  uint8_t type;
  std::vector<char> data;

  Buffer(uint8_t type, size_t count)
      : type(type), data(count * sizeOf(mprt_dtype(type))) {}

  size_t count() const { return data.size() / sizeOf(mprt_dtype(type)); }

  double get(size_t i) const {
    if (type == MPRT_F64)
      return reinterpret_cast<const double *>(data.data())[i];
    if (type == MPRT_F32)
      return reinterpret_cast<const float *>(data.data())[i];
    uint16_t bits = reinterpret_cast<const uint16_t *>(data.data())[i];
    return type == MPRT_F16 ? f16ToFloat(bits) : bf16ToFloat(bits);
  }

  void set(size_t i, double value) {
    if (type == MPRT_F64)
      reinterpret_cast<double *>(data.data())[i] = value;
    else if (type == MPRT_F32)
      reinterpret_cast<float *>(data.data())[i] = float(value);
    else
      reinterpret_cast<uint16_t *>(data.data())[i] =
          type == MPRT_F16 ? floatToF16(float(value))
                           : floatToBf16(float(value));
  }

  /// Values -4 to 4.
  void fill(uint32_t seed) {
    for (size_t i = 0; i < count(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      set(i, double(int(seed >> 16) % 5) * ((seed >> 8) & 1 ? 1 : -1));
    }
  }
};

struct Case {
  uint8_t in, out;
  int64_t m, n, k;
  bool transposeA, transposeB, accumulate;
  std::vector<int64_t> batch;
  bool broadcastB;
};

mprt_gemm_desc describe(const Case &test, int64_t padding, size_t sizes[3]) {
  mprt_gemm_desc d = {};
  d.type_a = d.type_b = test.in;
  d.type_c = test.out;
  d.accumulate = test.accumulate;
  d.m = test.m, d.n = test.n, d.k = test.k;
  int64_t rowA = (test.transposeA ? test.m : test.k) + padding;
  int64_t rowB = (test.transposeB ? test.k : test.n) + padding;
  int64_t rowC = test.n + padding;
  d.strides_a[test.transposeA ? 1 : 0] = rowA;
  d.strides_a[test.transposeA ? 0 : 1] = 1;
  d.strides_b[test.transposeB ? 1 : 0] = rowB;
  d.strides_b[test.transposeB ? 0 : 1] = 1;
  d.strides_c[0] = rowC, d.strides_c[1] = 1;
  int64_t stepA = rowA * (test.transposeA ? test.k : test.m);
  int64_t stepB = rowB * (test.transposeB ? test.n : test.k);
  int64_t stepC = rowC * test.m;
  d.batch_rank = uint32_t(test.batch.size());
  for (size_t i = test.batch.size(); i-- > 0;) {
    d.batch[i] = test.batch[i];
    d.batch_a[i] = stepA, d.batch_c[i] = stepC;
    d.batch_b[i] = test.broadcastB ? 0 : stepB;
    stepA *= test.batch[i], stepC *= test.batch[i];
    if (!test.broadcastB)
      stepB *= test.batch[i];
  }
  sizes[0] = size_t(stepA), sizes[1] = size_t(stepB), sizes[2] = size_t(stepC);
  return d;
}

void reference(const mprt_gemm_desc &d, const Buffer &a, const Buffer &b,
               Buffer &c) {
  int64_t total = 1;
  for (uint32_t i = 0; i < d.batch_rank; ++i)
    total *= d.batch[i];
  for (int64_t element = 0; element < total; ++element) {
    int64_t rest = element, atA = 0, atB = 0, atC = 0;
    for (uint32_t i = d.batch_rank; i-- > 0; rest /= d.batch[i]) {
      int64_t index = rest % d.batch[i];
      atA += index * d.batch_a[i], atB += index * d.batch_b[i];
      atC += index * d.batch_c[i];
    }
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        size_t to = size_t(atC + i * d.strides_c[0] + j);
        double sum = d.accumulate ? c.get(to) : 0;
        for (int64_t k = 0; k < d.k; ++k)
          sum += a.get(size_t(atA + i * d.strides_a[0] + k * d.strides_a[1])) *
                 b.get(size_t(atB + k * d.strides_b[0] + j * d.strides_b[1]));
        c.set(to, sum);
      }
  }
}

void check(Gemm &gemm, const Case &test, int64_t padding) {
  size_t sizes[3];
  mprt_gemm_desc d = describe(test, padding, sizes);
  Buffer a(test.in, sizes[0]), b(test.in, sizes[1]), c(test.out, sizes[2]);
  a.fill(1), b.fill(2), c.fill(3);
  Buffer expected = c;
  reference(d, a, b, expected);
  Error error = gemm.run(d, a.data.data(), b.data.data(), c.data.data());
  ASSERT_FALSE(bool(error)) << error.message();
  for (size_t i = 0; i < c.count(); ++i)
    ASSERT_EQ(c.get(i), expected.get(i))
        << nameOf(mprt_dtype(test.in)) << " into "
        << nameOf(mprt_dtype(test.out)) << " " << test.m << "x" << test.n << "x"
        << test.k << (test.transposeA ? " T" : " N")
        << (test.transposeB ? "T" : "N") << " accumulate " << test.accumulate
        << " batch rank " << test.batch.size() << " padding " << padding
        << " by " << *gemm.describePlan(d) << ", element " << i;
}

constexpr std::pair<uint8_t, uint8_t> types[] = {
    {MPRT_F32, MPRT_F32},   {MPRT_F64, MPRT_F64}, {MPRT_BF16, MPRT_F32},
    {MPRT_BF16, MPRT_BF16}, {MPRT_F16, MPRT_F32}, {MPRT_F16, MPRT_F16}};

} // namespace

TEST(Gemm, AgreesWithPlainLoops) {
  Gemm gemm;
  const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},    {7, 1, 5},
                              {5, 7, 1},    {12, 32, 16}, {13, 33, 17},
                              {64, 10, 64}, {64, 64, 96}, {3, 70, 300}};
  for (auto [in, out] : types)
    for (const auto &size : sizes)
      for (int bits = 0; bits < 16; ++bits)
        check(gemm,
              {in,
               out,
               size[0],
               size[1],
               size[2],
               bool(bits & 1),
               bool(bits & 2),
               bool(bits & 4),
               {},
               false},
              bits & 8 ? 3 : 0);
}

TEST(Gemm, StepsThroughBatches) {
  Gemm gemm;
  for (auto [in, out] : types)
    for (int bits = 0; bits < 16; ++bits)
      for (const std::vector<int64_t> &batch :
           std::vector<std::vector<int64_t>>{{3}, {2, 3}, {2, 1, 2, 2}})
        check(gemm,
              {in, out, 9, 11, 13, bool(bits & 1), bool(bits & 2),
               bool(bits & 4), batch, bool(bits & 8)},
              0);
}

TEST(Gemm, LargeSizesTakeEveryWay) {
  Gemm gemm;
  for (int bits = 0; bits < 4; ++bits)
    check(gemm,
          {MPRT_F32,
           MPRT_F32,
           150,
           600,
           520,
           bool(bits & 1),
           bool(bits & 2),
           false,
           {},
           false},
          0);
}

TEST(Gemm, BuiltinKernelCrossesItsBlocks) {
  // More than one block in each direction.
  const int64_t m = 201, n = 530, k = 270;
  std::vector<float> a(m * k), b(k * n), c(m * n, 2.0f), expected(m * n, 2.0f);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = float(int(i * 7 % 5) - 2);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = float(int(i * 11 % 7) - 3);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        expected[i * n + j] += a[i * k + p] * b[p * n + j];
  std::unique_ptr<void, void (*)(void *)> workspace(
      std::aligned_alloc(64, builtinWorkspaceBytes), std::free);
  builtinGemmF32({m,
                  n,
                  k,
                  a.data(),
                  {k, 1},
                  b.data(),
                  {n, 1},
                  c.data(),
                  n,
                  true,
                  workspace.get()});
  EXPECT_EQ(c, expected);
}

TEST(Gemm, EmptyDimensions) {
  Gemm gemm;
  check(gemm, {MPRT_F32, MPRT_F32, 3, 4, 0, false, false, false, {}, false}, 0);
  check(gemm, {MPRT_F32, MPRT_F32, 3, 4, 0, false, false, true, {}, false}, 0);
  check(gemm, {MPRT_F32, MPRT_F32, 0, 4, 5, false, false, false, {}, false}, 0);
  check(gemm, {MPRT_F32, MPRT_F32, 3, 4, 5, false, false, false, {0}, false},
        0);
}

TEST(Gemm, RefusesWhatContradictsItself) {
  Gemm gemm;
  float x[16] = {};
  mprt_gemm_desc good = {};
  good.m = good.n = good.k = 2;
  good.strides_a[0] = good.strides_b[0] = good.strides_c[0] = 2;
  good.strides_a[1] = good.strides_b[1] = good.strides_c[1] = 1;
  EXPECT_FALSE(bool(gemm.run(good, x, x + 4, x + 8)));

  mprt_gemm_desc bad = good;
  bad.type_b = MPRT_F64;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_UNSUPPORTED);
  bad = good;
  bad.type_a = bad.type_b = bad.type_c = 77;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_UNSUPPORTED);
  bad = good;
  bad.m = -1;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_INVALID_ARGUMENT);
  bad = good;
  bad.strides_c[1] = 2;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_INVALID_ARGUMENT);
  bad = good;
  bad.batch_rank = 5;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_INVALID_ARGUMENT);
  bad = good;
  bad.batch_rank = 1;
  bad.batch[0] = 2;
  EXPECT_EQ(gemm.run(bad, x, x + 4, x + 8).status(), MPRT_INVALID_ARGUMENT);
}
