//===- CostCurve.h - time of a collective by its size -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost of a collective as a function of its bytes, shared by the cost
// model, bucketing and the joint planner: the minimum of lines latency +
// secondsPerByte * bytes, one per algorithm. Times are seconds.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_COSTCURVE_H
#define MPCOMM_SCHEDULING_COSTCURVE_H

#include <cstdint>
#include <vector>

namespace mpcomm {

/// The cost of one algorithm: latency + secondsPerByte * bytes.
struct CostLine {
  double latency = 0;
  double secondsPerByte = 0;
  /// Index of the link that bounds it; -1: a link that never contends.
  int link = -1;
  /// The caller's number of the algorithm.
  int algorithm = 0;

  double at(int64_t bytes) const {
    return latency + secondsPerByte * static_cast<double>(bytes);
  }
};

/// The minimum of its pieces, of which there is at least one. So the curve is
/// concave, and one collective never costs more than several that carry the
/// same bytes.
struct CostCurve {
  std::vector<CostLine> pieces;

  /// The index of the cheapest piece; the first of equals.
  unsigned bestIndex(int64_t bytes) const;
  const CostLine &best(int64_t bytes) const { return pieces[bestIndex(bytes)]; }
  double at(int64_t bytes) const { return best(bytes).at(bytes); }
  /// The fewest bytes for which bytes / at(bytes) reaches `fraction` (between 0
  /// and 1, both excluded) of its limit for large sizes; 0 if bytes cost
  /// nothing.
  int64_t getSaturatingBytes(double fraction = 0.9) const;

  /// The curve of these lines without those that are never the minimum. Pieces
  /// are in the order of increasing latency, so of decreasing seconds per byte.
  /// Time: O(n log n).
  static CostCurve getEnvelope(std::vector<CostLine> lines);
};

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_COSTCURVE_H
