//===- CostCurve.h - what a collective takes by its size --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost of a collective as a function of its bytes, as cost model, bucketing
// and joint choice share it: the least of some lines latency + secondsPerByte *
// bytes, one for each way to run it. Times are seconds.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_COSTCURVE_H
#define MPCOMM_SCHEDULING_COSTCURVE_H

#include <cstdint>
#include <vector>

namespace mpcomm {

/// One way to run a collective: latency + secondsPerByte * bytes.
struct CostLine {
  double latency = 0;
  double secondsPerByte = 0;
  /// Index of the link that bounds it; -1: a link that never contends.
  int link = -1;
  /// What the caller knows the way by.
  int algorithm = 0;

  double at(int64_t bytes) const {
    return latency + secondsPerByte * static_cast<double>(bytes);
  }
};

/// The least of its pieces, so concave, and never larger for one collective
/// than for its parts together. There is at least one piece.
struct CostCurve {
  std::vector<CostLine> pieces;

  /// The index of the cheapest piece; the first of equals.
  unsigned bestIndex(int64_t bytes) const;
  const CostLine &best(int64_t bytes) const { return pieces[bestIndex(bytes)]; }
  double at(int64_t bytes) const { return best(bytes).at(bytes); }
  /// The fewest bytes for which bytes / at(bytes) reaches `fraction` (between 0
  /// and 1, both excluded) of what it tends to for many; 0 where bytes cost
  /// nothing.
  int64_t getSaturatingBytes(double fraction = 0.9) const;

  /// The curve of these lines without those that are never the least: pieces by
  /// latency, ascending, and so by seconds a byte, descending. Time:
  /// O(n log n).
  static CostCurve getEnvelope(std::vector<CostLine> lines);
};

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_COSTCURVE_H
