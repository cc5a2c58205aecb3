//===- CoreTest.cpp - types, meshes, traces, reductions -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Reduce.h"
#include "session/Flight.h"
#include "session/Mesh.h"
#include "support/DType.h"
#include "support/Trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace mprt;

namespace {

TEST(DTypeTest, HalfRoundTrip) {
  // Every f16 and every bf16 is a float and comes back as it was.
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float half = f16ToFloat(uint16_t(bits));
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(half))));
    else
      ASSERT_EQ(floatToF16(half), bits);
    float brain = bf16ToFloat(uint16_t(bits));
    if (std::isnan(brain))
      EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(brain))));
    else
      ASSERT_EQ(floatToBf16(brain), bits);
  }
}

/// As "FP8 Formats for Deep Learning" (arXiv 2209.05433) has them.
TEST(DTypeTest, EightBitsAreFloats) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    int sign = bits & 0x80 ? -1 : 1;
    auto valueOf = [&](unsigned fractionBits, int bias) {
      unsigned exponent = (bits & 0x7f) >> fractionBits;
      double fraction = (bits & ((1u << fractionBits) - 1)) /
                        std::ldexp(1.0, int(fractionBits));
      return sign * (exponent ? std::ldexp(1 + fraction, int(exponent) - bias)
                              : std::ldexp(fraction, 1 - bias));
    };
    float e4m3 = f8E4M3ToFloat(uint8_t(bits)),
          e5m2 = f8E5M2ToFloat(uint8_t(bits));
    if ((bits & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(e4m3));
    else
      EXPECT_EQ(e4m3, valueOf(3, 7)) << bits;
    EXPECT_EQ(std::signbit(e4m3), sign < 0);
    if ((bits & 0x7f) > 0x7c)
      EXPECT_TRUE(std::isnan(e5m2));
    else if ((bits & 0x7f) == 0x7c)
      EXPECT_EQ(e5m2, sign * std::numeric_limits<float>::infinity());
    else
      EXPECT_EQ(e5m2, valueOf(2, 15)) << bits;
    auto byte = uint8_t(bits);
    if (!std::isnan(e4m3))
      EXPECT_EQ(loadFloat(MPRT_F8E4M3, &byte, 0), e4m3);
  }
  EXPECT_EQ(f8E4M3ToFloat(0x7e), 448);
  EXPECT_EQ(f8E5M2ToFloat(0x7b), 57344);
}

TEST(DTypeTest, RoundsToNearestEven) {
  EXPECT_EQ(floatToF16(1.0f + 0x1p-11f), 0x3c00);   // tie: down to even
  EXPECT_EQ(floatToF16(1.0f + 0x1.8p-10f), 0x3c02); // tie: up to even
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);          // to infinity
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);          // the largest
  EXPECT_EQ(floatToF16(0x1p-25f), 0x0000);          // half the smallest: to 0
  EXPECT_EQ(floatToF16(0x1.8p-25f), 0x0001);
  EXPECT_EQ(floatToBf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(floatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(MeshTest, GroupsAreRowMajor) {
  std::vector<unsigned> mesh = {2, 4};
  EXPECT_EQ(groupOf(mesh, {1}, 5), (std::vector<unsigned>{4, 5, 6, 7}));
  EXPECT_EQ(groupOf(mesh, {0}, 5), (std::vector<unsigned>{1, 5}));
  EXPECT_EQ(groupOf(mesh, {0, 1}, 5).size(), 8u);
  EXPECT_EQ(groupOf(mesh, {}, 5), (std::vector<unsigned>{5}));
  EXPECT_EQ(groupOf({2, 3, 2}, {0, 2}, 3), (std::vector<unsigned>{2, 3, 8, 9}));
}

TEST(FlightTest, KeepsTheLastAndHowFarTheyCame) {
  FlightRecorder flight(3);
  mprt_collective call{};
  for (uint32_t id = 1; id <= 5; ++id) {
    call.id = id;
    EXPECT_EQ(flight.enqueue(call, id + 10), id);
  }
  flight.start(4);
  flight.start(5);
  flight.finish(5);
  flight.finish(4, 123, 456); // known better by the communicator
  flight.start(2);            // no longer kept
  flight.finish(6);           // not called yet
  std::vector<FlightEntry> entries = flight.entries();
  ASSERT_EQ(entries.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(entries[i].number, i + 3);
    EXPECT_EQ(entries[i].collective.id, i + 3);
    EXPECT_EQ(entries[i].place, i + 13);
    EXPECT_NE(entries[i].enqueued, 0u);
  }
  EXPECT_STREQ(stateOf(entries[0]), "enqueued");
  EXPECT_EQ(entries[0].started, 0u);
  EXPECT_EQ(entries[1].started, 123u);
  EXPECT_EQ(entries[1].done, 456u);
  EXPECT_STREQ(stateOf(entries[2]), "done");
  EXPECT_LE(entries[2].enqueued, entries[2].started);
  EXPECT_LE(entries[2].started, entries[2].done);
}

TEST(FlightTest, KeepsNothingWhereNothingIsAskedFor) {
  FlightRecorder flight(0);
  EXPECT_EQ(flight.enqueue(mprt_collective{}, 1), 0u);
  flight.start(0);
  flight.finish(0);
  EXPECT_TRUE(flight.entries().empty());
}

TEST(TraceTest, KeepsTheNewest) {
  Trace trace;
  trace.record({});
  EXPECT_TRUE(trace.events().empty());
  trace.enable(3);
  for (uint64_t i = 0; i < 5; ++i) {
    TraceEvent event{};
    event.begin = i;
    trace.record(event);
  }
  std::vector<TraceEvent> events = trace.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].begin, 2u);
  EXPECT_EQ(events[2].begin, 4u);
  EXPECT_EQ(trace.dropped(), 2u);
}

/// Reduces `inputs` into a new buffer.
template <typename T>
std::vector<T> reduce(mprt_dtype type, mprt_reduction reduction,
                      const std::vector<std::vector<T>> &inputs) {
  std::vector<const void *> pointers;
  for (const std::vector<T> &input : inputs)
    pointers.push_back(input.data());
  std::vector<T> result(inputs[0].size());
  void *output = result.data();
  findReduce(type, type,
             reduction)({pointers.data(), unsigned(inputs.size()), &output, 1,
                         result.size(), unsigned(inputs.size())});
  return result;
}

TEST(ReduceTest, NaNReachesMinimumAndMaximum) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> left(40, 1), right(40, 2);
  left[3] = nan;   // in the vectors
  right[35] = nan; // in the rest
  for (mprt_reduction reduction : {MPRT_MIN, MPRT_MAX}) {
    std::vector<float> result =
        reduce<float>(MPRT_F32, reduction, {left, right});
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(std::isnan(result[size_t(i)]), i == 3 || i == 35);
  }
}

TEST(ReduceTest, SixteenBitSumsAreRoundedOnce) {
  // 256 + 1 + 1 is 258 in float; in bf16, 256 + 1 would stay 256 each time.
  std::vector<std::vector<uint16_t>> inputs(
      3, std::vector<uint16_t>(33, floatToBf16(1)));
  inputs[0].assign(33, floatToBf16(256));
  for (uint16_t bits : reduce<uint16_t>(MPRT_BF16, MPRT_SUM, inputs))
    EXPECT_EQ(bf16ToFloat(bits), 258.0f);
}

TEST(ReduceTest, IntegersWrap) {
  std::vector<std::vector<int8_t>> inputs(2, std::vector<int8_t>(40, 100));
  for (int8_t value : reduce<int8_t>(MPRT_I8, MPRT_SUM, inputs))
    EXPECT_EQ(value, -56);
  std::vector<std::vector<int16_t>> factors(2, std::vector<int16_t>(40, -1));
  for (int16_t value : reduce<int16_t>(MPRT_I16, MPRT_PROD, factors))
    EXPECT_EQ(value, 1);
}

TEST(ReduceTest, MeansOfIntegersAreRefused) {
  for (mprt_dtype type : {MPRT_I8, MPRT_I32, MPRT_I64, MPRT_BOOL})
    EXPECT_EQ(findReduce(type, type, MPRT_MEAN), nullptr);
  EXPECT_EQ(findReduce(MPRT_F8E4M3, MPRT_F32, MPRT_SUM), nullptr);
}

} // namespace
