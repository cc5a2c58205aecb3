//===- RobustLineTest.cpp - a straight line through noisy times -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "calibrate/RobustLine.h"

#include <gtest/gtest.h>
#include <random>

using namespace mpcomm::run;

static std::vector<TimedSize> line(double alpha, double beta) {
  std::vector<TimedSize> points;
  for (double bytes = 1024; bytes <= 16 << 20; bytes *= 4)
    points.push_back({bytes, alpha + beta * bytes});
  return points;
}

TEST(RobustLine, FindsAnExactLine) {
  RobustLine fit = fitLine(line(1e-4, 8e-9));
  EXPECT_NEAR(fit.alpha, 1e-4, 1e-10);
  EXPECT_NEAR(fit.beta, 8e-9, 1e-15);
  EXPECT_LT(fit.worstError, 1e-9);
}

/// Two of eight points are far off; the line does not move.
TEST(RobustLine, LooksPastOutliers) {
  std::vector<TimedSize> points = line(1e-4, 8e-9);
  points[1].seconds *= 5;
  points[6].seconds *= 3;
  RobustLine fit = fitLine(points);
  EXPECT_NEAR(fit.alpha, 1e-4, 1e-9);
  EXPECT_NEAR(fit.beta, 8e-9, 1e-13);
  EXPECT_NEAR(fit.worstError, 0.8, 1e-3);
  EXPECT_LT(fit.medianError, 1e-6);
}

/// No alpha and no beta below zero, whatever the points say.
TEST(RobustLine, StaysAboveZero) {
  RobustLine falling = fitLine({{1000, 3e-3}, {2000, 2e-3}, {3000, 1e-3}});
  EXPECT_GE(falling.alpha, 0);
  EXPECT_EQ(falling.beta, 0);
  RobustLine steep = fitLine({{1000, 1e-6}, {2000, 4e-6}, {3000, 9e-6}});
  EXPECT_EQ(steep.alpha, 0);
  EXPECT_GT(steep.beta, 0);
}

/// As good as a fine grid of lines.
TEST(RobustLine, IsOptimal) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.3);
  for (int instance = 0; instance < 20; ++instance) {
    std::vector<TimedSize> points = line(1e-4, 8e-9);
    for (TimedSize &p : points)
      p.seconds *= noise(random);
    auto loss = [&](double alpha, double beta) {
      double sum = 0;
      for (const TimedSize &p : points)
        sum += std::abs(p.seconds - alpha - beta * p.bytes) / p.seconds;
      return sum;
    };
    RobustLine fit = fitLine(points);
    double found = loss(fit.alpha, fit.beta);
    for (double alpha = 0; alpha < 3e-4; alpha += 3e-6)
      for (double beta = 0; beta < 3e-8; beta += 3e-10)
        ASSERT_LE(found, loss(alpha, beta) + 1e-12) << instance;
  }
}

TEST(RobustLine, FewPoints) {
  EXPECT_EQ(fitLine({}).alpha, 0);
  RobustLine one = fitLine({{1000, 1e-3}});
  EXPECT_NEAR(one.alpha + 1000 * one.beta, 1e-3, 1e-12);
  EXPECT_EQ(medianOf({}), 0);
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 2, 3}), 2.5);
}
