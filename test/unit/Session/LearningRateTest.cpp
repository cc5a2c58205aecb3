//===- LearningRateTest.cpp - warm-up and decay ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values worked out by hand from the formulas in LearningRate.cpp.
//
//===----------------------------------------------------------------------===//

#include "files/LearningRate.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mprt;

TEST(LearningRate, ConstantWithWarmup) {
  LearningRate rate{0.8, DecayKind::Constant, 4, 100};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.8);
  EXPECT_DOUBLE_EQ(rate.at(99), 0.8);
}

TEST(LearningRate, LinearEndsAtZero) {
  LearningRate rate{1.0, DecayKind::Linear, 0, 10};
  EXPECT_DOUBLE_EQ(rate.at(0), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.0);
  EXPECT_DOUBLE_EQ(rate.at(20), 0.0);
}

TEST(LearningRate, CosineIsHalfInTheMiddle) {
  LearningRate rate{2.0, DecayKind::Cosine, 2, 10};
  EXPECT_DOUBLE_EQ(rate.at(1), 2.0);
  EXPECT_DOUBLE_EQ(rate.at(2), 2.0);
  EXPECT_NEAR(rate.at(6), 1.0, 1e-15);
  EXPECT_NEAR(rate.at(4), 1.0 + std::sqrt(0.5), 1e-15);
}

TEST(LearningRate, WarmupAsLongAsTheRun) {
  LearningRate rate{1.0, DecayKind::Cosine, 10, 10};
  EXPECT_DOUBLE_EQ(rate.at(9), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(10), 1.0);
}
