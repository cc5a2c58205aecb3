//===- SamplerTest.cpp - the order of samples -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order is a contract: a Python twin in test/Runtime/run checks whole runs.
//
//===----------------------------------------------------------------------===//

#include "data/Sampler.h"

#include "support/SplitMix64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace mpcomm::run;

// The published first outputs of splitmix64 from state 1234567.
TEST(Sampler, SplitMix64KnownValues) {
  SplitMix64 generator(1234567);
  EXPECT_EQ(generator.next(), 6457827717110365317u);
  EXPECT_EQ(generator.next(), 3203168211198807973u);
  EXPECT_EQ(generator.next(), 9817491932198370423u);
}

TEST(Sampler, EpochIsAPermutationWithoutItsRemainder) {
  Sampler sampler(103, 5, 4, /*seed=*/7, /*shuffle=*/true);
  EXPECT_EQ(sampler.stepsPerEpoch(), 5u);
  EXPECT_EQ(sampler.dropped(), 3u);
  std::vector<uint64_t> seen;
  for (uint64_t step = 0; step < 5; ++step)
    for (uint64_t rank = 0; rank < 4; ++rank)
      for (uint64_t index : sampler.indices(step, rank))
        seen.push_back(index);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_LT(seen.back(), 103u);
}

// What the twins in Python give.
TEST(Sampler, PermutationKnownValues) {
  Permutation permutation(10, 3 * 0x9E3779B97F4A7C15u + 2);
  std::vector<uint64_t> images;
  for (uint64_t i = 0; i < 10; ++i)
    images.push_back(permutation(i));
  EXPECT_EQ(images, (std::vector<uint64_t>{6, 8, 1, 0, 4, 7, 2, 9, 3, 5}));
}

TEST(Sampler, EveryPermutationIsOne) {
  for (uint64_t count = 1; count < 300; ++count) {
    Permutation permutation(count, count * 17);
    std::vector<uint64_t> images(count);
    for (uint64_t i = 0; i < count; ++i)
      images[i] = permutation(i);
    std::sort(images.begin(), images.end());
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(images[i], i) << count;
  }
  // Of a domain that no table holds: invertible where no two are equal.
  Permutation large((uint64_t(1) << 40) + 12345, 3);
  std::vector<uint64_t> images;
  for (uint64_t i = 0; i < 100'000; ++i)
    images.push_back(large(i * 1'000'003));
  std::sort(images.begin(), images.end());
  EXPECT_EQ(std::unique(images.begin(), images.end()), images.end());
  EXPECT_LT(images.back(), (uint64_t(1) << 40) + 12345);
}

// Over many seeds each sample comes first, and second after a given first one,
// equally often. Of 6 x 20,000 draws with p = 1/6 (standard deviation of a
// count 52.7), and 30 ordered pairs with p = 1/30 (25.4), six deviations are
// allowed.
TEST(Sampler, PermutationsAreUniform) {
  constexpr int draws = 20'000;
  int first[6] = {}, pairs[6][6] = {};
  for (uint64_t seed = 0; seed < draws; ++seed) {
    Permutation permutation(6, seed * 0x9E3779B97F4A7C15u);
    ++first[permutation(0)];
    ++pairs[permutation(0)][permutation(1)];
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(first[i], draws / 6.0, 6 * 52.7);
    for (int j = 0; j < 6; ++j)
      EXPECT_NEAR(pairs[i][j], i == j ? 0 : draws / 30.0, 6 * 25.4);
  }
}

TEST(Sampler, TheLastBatchWraps) {
  Sampler sampler(103, 5, 4, 7, true, LastBatch::Wrap);
  EXPECT_EQ(sampler.stepsPerEpoch(), 6u);
  EXPECT_EQ(sampler.dropped(), 0u);
  std::vector<uint64_t> seen;
  for (uint64_t step = 6; step < 12; ++step)
    for (uint64_t rank = 0; rank < 4; ++rank)
      for (uint64_t index : sampler.indices(step, rank))
        seen.push_back(index);
  ASSERT_EQ(seen.size(), 120u);
  EXPECT_TRUE(std::equal(seen.begin() + 103, seen.end(), seen.begin()));
  seen.resize(103);
  std::sort(seen.begin(), seen.end());
  for (uint64_t i = 0; i < 103; ++i)
    EXPECT_EQ(seen[i], i);
}

TEST(Sampler, FewerSamplesThanABatchWrap) {
  Sampler sampler(3, 8, 1, 7, false, LastBatch::Wrap);
  EXPECT_EQ(sampler.stepsPerEpoch(), 1u);
  auto indices = sampler.indices(4, 0);
  EXPECT_EQ(std::vector<uint64_t>(indices.begin(), indices.end()),
            (std::vector<uint64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Sampler, RanksShareTheGlobalBatch) {
  Sampler one(64, 8, 1, 3, true), four(64, 2, 4, 3, true);
  for (uint64_t step = 0; step < 24; ++step) {
    auto whole = one.indices(step, 0);
    std::vector<uint64_t> parts;
    for (uint64_t rank = 0; rank < 4; ++rank)
      for (uint64_t index : four.indices(step, rank))
        parts.push_back(index);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), parts.begin()));
  }
}

TEST(Sampler, JumpsToAnyStep) {
  Sampler walked(30, 3, 2, 11, true), jumped(30, 3, 2, 11, true);
  std::vector<uint64_t> last;
  for (uint64_t step = 0; step <= 17; ++step) {
    auto indices = walked.indices(step, 1);
    last.assign(indices.begin(), indices.end());
  }
  auto indices = jumped.indices(17, 1);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), indices.begin()));
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  Sampler a(50, 50, 1, 0, true), b(50, 50, 1, 1, true);
  auto copy = [](std::span<const uint64_t> s) {
    return std::vector<uint64_t>(s.begin(), s.end());
  };
  auto first = copy(a.indices(0, 0));
  EXPECT_NE(first, copy(a.indices(1, 0)));
  EXPECT_NE(first, copy(b.indices(0, 0)));
  EXPECT_EQ(first, copy(a.indices(0, 0)));
}

TEST(Sampler, WithoutShuffleTheOrderOfTheFile) {
  Sampler sampler(10, 2, 2, 5, false);
  auto indices = sampler.indices(3, 1); // second epoch, second step of two
  EXPECT_EQ(indices[0], 6u);
  EXPECT_EQ(indices[1], 7u);
}

TEST(Sampler, OneSample) {
  Sampler sampler(1, 1, 1, 0, true);
  EXPECT_EQ(sampler.indices(5, 0)[0], 0u);
}
