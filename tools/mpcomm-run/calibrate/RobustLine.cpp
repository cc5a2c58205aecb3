//===- RobustLine.cpp - a straight line through noisy times ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "calibrate/RobustLine.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mpcomm::run;

double mpcomm::run::medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

RobustLine mpcomm::run::fitLine(const std::vector<TimedSize> &points) {
  RobustLine best;
  double least = std::numeric_limits<double>::infinity();
  auto consider = [&](double alpha, double beta) {
    if (!(alpha >= 0) || !(beta >= 0))
      return;
    double sum = 0;
    for (const TimedSize &p : points)
      sum += std::fabs(p.seconds - alpha - beta * p.bytes) / p.seconds;
    if (sum < least) {
      least = sum;
      best.alpha = alpha;
      best.beta = beta;
    }
  };
  for (size_t i = 0; i < points.size(); ++i) {
    const TimedSize &p = points[i];
    consider(p.seconds, 0);
    if (p.bytes > 0)
      consider(0, p.seconds / p.bytes);
    for (size_t j = 0; j < i; ++j) {
      const TimedSize &q = points[j];
      if (p.bytes == q.bytes)
        continue;
      double beta = (p.seconds - q.seconds) / (p.bytes - q.bytes);
      consider(p.seconds - beta * p.bytes, beta);
    }
  }
  std::vector<double> errors;
  for (const TimedSize &p : points)
    errors.push_back(std::fabs(p.seconds - best.alpha - best.beta * p.bytes) /
                     p.seconds);
  best.medianError = medianOf(errors);
  if (!errors.empty())
    best.worstError = *std::max_element(errors.begin(), errors.end());
  return best;
}
