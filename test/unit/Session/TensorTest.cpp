//===- DTypeTest.cpp - element types and shapes ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Overflow of shapes, exact narrowing of 16-bit floats, the scan for NaN.
//
//===----------------------------------------------------------------------===//

#include "support/Tensor.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace mprt;

TEST(DType, NamesRoundTrip) {
  for (DType type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16, MPRT_I8, MPRT_U8,
                     MPRT_I16, MPRT_I32, MPRT_I64, MPRT_BOOL}) {
    EXPECT_EQ(mprt::parseDType(nameOf(type)), type);
    EXPECT_EQ(mprt::parseSafetensorsDType(mprt::safetensorsNameOf(type)), type);
  }
  EXPECT_FALSE(mprt::parseDType("F32"));
  EXPECT_FALSE(mprt::parseSafetensorsDType("f32"));
  // Types of the ABI that no tensor has.
  EXPECT_FALSE(mprt::parseDType(nameOf(MPRT_F8E4M3)));
  EXPECT_FALSE(mprt::parseSafetensorsDType("F8_E5M2"));
}

TEST(DType, BytesOfShape) {
  EXPECT_EQ(bytesOf(MPRT_F32, {}), 4u);
  EXPECT_EQ(bytesOf(MPRT_F32, {2, 3}), 24u);
  EXPECT_EQ(bytesOf(MPRT_I64, {5, 0, 7}), 0u);
}

TEST(DType, OverflowingShapesAreRefused) {
  int64_t big = int64_t(1) << 32;
  EXPECT_FALSE(elementsOf({big, big}));
  EXPECT_FALSE(elementsOf({-1}));
  EXPECT_FALSE(elementsOf({std::numeric_limits<int64_t>::max(), 3}));
  EXPECT_TRUE(elementsOf({big, 1 << 30}));
  EXPECT_FALSE(bytesOf(MPRT_F32, {big, 1 << 30}));
}

// Every half and every bfloat16 that is no NaN survives widening and narrowing.
TEST(DType, SixteenBitFloatsRoundTrip) {
  for (DType type : {MPRT_F16, MPRT_BF16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      uint16_t in = static_cast<uint16_t>(bits), out = 0;
      double value = loadFloat(type, &in, 0);
      if (std::isnan(value))
        continue;
      storeNumber(type, &out, 0, value);
      ASSERT_EQ(in, out) << nameOf(type);
    }
}

TEST(DType, NarrowingRoundsToNearestEven) {
  auto half = [](double value) {
    uint16_t bits;
    storeNumber(MPRT_F16, &bits, 0, value);
    return bits;
  };
  EXPECT_EQ(half(1.0 + 0x1p-11), 0x3c00); // tie, to even
  EXPECT_EQ(half(1.0 + 3 * 0x1p-11), 0x3c02);
  EXPECT_EQ(half(65519.0), 0x7bff);
  EXPECT_EQ(half(65520.0), 0x7c00);
  EXPECT_EQ(half(0x1p-25), 0x0000);        // tie, to even
  EXPECT_EQ(half(0x1p-25 * 1.01), 0x0001); // above the tie
  uint16_t bits;
  storeNumber(MPRT_BF16, &bits, 0, 1.0 + 0x1p-8);
  EXPECT_EQ(bits, 0x3f80);
  storeNumber(MPRT_BF16, &bits, 0, std::nan(""));
  EXPECT_TRUE(std::isnan(loadFloat(MPRT_BF16, &bits, 0)));
}

TEST(DType, FindsTheFirstNonFinite) {
  std::vector<float> values(5000, 1.5f);
  EXPECT_EQ(findNonFinite(MPRT_F32, values.data(), 5000), 5000u);
  values[4321] = std::numeric_limits<float>::infinity();
  values[4500] = std::nanf("");
  EXPECT_EQ(findNonFinite(MPRT_F32, values.data(), 5000), 4321u);
  EXPECT_EQ(findNonFinite(MPRT_F32, values.data(), 4321), 4321u);
  std::vector<double> doubles(3, 0.0);
  doubles[2] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(findNonFinite(MPRT_F64, doubles.data(), 3), 2u);
  uint16_t halves[] = {0x7bff, 0xfc01};
  EXPECT_EQ(findNonFinite(MPRT_F16, halves, 2), 1u);
  uint16_t bfloats[] = {0x7f7f, 0x7f80};
  EXPECT_EQ(findNonFinite(MPRT_BF16, bfloats, 2), 1u);
}

TEST(DType, CountsWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16}) {
    SCOPED_TRACE(std::string(nameOf(type)));
    std::vector<char> data(3000 * sizeOf(type));
    auto count = [&](bool infinityIsFine) {
      NonFinite found = countNonFinite(type, data.data(), 3000, infinityIsFine);
      return std::pair(found.count, found.first);
    };
    using Pair = std::pair<uint64_t, uint64_t>;
    EXPECT_EQ(count(false), Pair(0, 0));
    storeNumber(type, data.data(), 1500, -inf);
    EXPECT_EQ(count(false), Pair(1, 1500));
    EXPECT_EQ(count(true), Pair(0, 0));
    storeNumber(type, data.data(), 2999, std::nan(""));
    EXPECT_EQ(count(false), Pair(2, 1500));
    EXPECT_EQ(count(true), Pair(1, 2999));
  }
  const uint32_t integers[2] = {0x7fc00000u, 0x7f800000u};
  EXPECT_EQ(countNonFinite(MPRT_I32, integers, 2, false).count, 0u);
}

// Against a look at each element alone, with few of them bad and with many.
TEST(DType, ScansAsElementByElement) {
  std::mt19937 random(7); // NOLINT: the same at each run
  for (DType type : {MPRT_F32, MPRT_F64, MPRT_F16, MPRT_BF16})
    for (unsigned percent : {0, 1, 50, 100}) {
      SCOPED_TRACE(std::string(nameOf(type)) + ", " + std::to_string(percent));
      const size_t count = 2500;
      std::vector<char> data(count * sizeOf(type));
      for (size_t i = 0; i < count; ++i) {
        const double bad[] = {std::nan(""), -std::nan(""), HUGE_VAL, -HUGE_VAL};
        storeNumber(type, data.data(), i,
                    random() % 100 < percent ? bad[random() % 4] : -1e4);
      }
      for (bool infinityIsFine : {false, true}) {
        NonFinite expected;
        for (size_t i = count; i-- > 0;) {
          double value = loadFloat(type, data.data(), i);
          if (std::isnan(value) || (!infinityIsFine && std::isinf(value))) {
            ++expected.count;
            expected.first = i;
          }
        }
        NonFinite found =
            countNonFinite(type, data.data(), count, infinityIsFine);
        EXPECT_EQ(found.count, expected.count);
        EXPECT_EQ(found.first, expected.first);
        EXPECT_EQ(findNonFinite(type, data.data(), count, infinityIsFine),
                  expected.count ? expected.first : count);
      }
    }
}

TEST(DType, PrintableEscapesControlCharacters) {
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(printable(std::string(500, 'x'), 10), "xxxxxxxxxx...");
}
