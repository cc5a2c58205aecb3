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
  EXPECT_EQ(sampler.remainder(), 3u);
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
