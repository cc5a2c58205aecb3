//===- RobustLine.h - a straight line through noisy times -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of transfers span orders of magnitude and some of them are disturbed.
// The line alpha + beta * n is chosen that minimises the sum of |t - line| / t:
// each point counts by its relative error, large ones no more than small ones,
// and an outlier pulls no harder the further out it lies (least absolute
// deviations; Laplace 1793, Bloomfield and Steiger, Least Absolute Deviations,
// 1983). Some optimal line goes through two of the points, or through one where
// alpha or beta is held at 0, so that all of these are tried.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_CALIBRATE_ROBUSTLINE_H
#define MPCOMM_RUN_CALIBRATE_ROBUSTLINE_H

#include <vector>

namespace mpcomm::run {

struct TimedSize {
  double bytes;
  double seconds; ///< positive
};

struct RobustLine {
  double alpha = 0; ///< seconds, not negative
  double beta = 0;  ///< seconds a byte, not negative
  /// The median and the largest of |t - line| / t.
  double medianError = 0, worstError = 0;
};

/// Fits `points`. O(n^3) for n points; all zero where there is none.
RobustLine fitLine(const std::vector<TimedSize> &points);

/// The middle value, or the mean of the two; 0 where there is none.
double medianOf(std::vector<double> values);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_CALIBRATE_ROBUSTLINE_H
