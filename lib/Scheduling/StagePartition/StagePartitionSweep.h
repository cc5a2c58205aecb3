//===- StagePartitionSweep.h - partitions within bounds ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass of the dynamic programme: is there a partition whose stages keep to
// a time and to their bytes, and which of them sends the fewest bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONSWEEP_H
#define MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONSWEEP_H

#include "StagePartition/StagePartitionDetail.h"

namespace mpcomm::stages {

/// More than any figure.
constexpr int64_t never = int64_t(1) << 61;

/// By boundary b = 0..p, the cuts where it may lie: [low[b], high[b]].
struct CutWindows {
  std::vector<int> low, high;
  bool empty() const;
};

/// What stages must keep to. Bytes are at most `never`, by stage.
struct Bounds {
  Ticks time = never;
  std::vector<int64_t> bytes;
};

/// Least cost of the boundaries from the front up to b where b lies at a cut,
/// for the cuts in its window; `never`: impossible.
struct Costs {
  std::vector<int> low;
  std::vector<std::vector<int64_t>> at;
  int64_t get(int boundary, int cut) const {
    int k = cut - low[boundary];
    return k < 0 || k >= int(at[boundary].size()) ? never : at[boundary][k];
  }
};

/// Where the stages of a partition end: p + 1 cuts, the first 0, the last n.
/// Empty: there is none.
using Cuts = std::vector<int>;

class Sweep {
public:
  /// `inFlight` by stage; `given` is where boundaries may lie at all.
  Sweep(const Line &line, std::vector<int64_t> inFlight, CutWindows given);

  /// Where boundaries may lie in any partition that keeps to `bounds`: the cuts
  /// that stages reach from either end if their times and bytes are no more
  /// than lower bounds say that grow with the stage. Time: O(p log^2 n).
  CutWindows narrow(const Bounds &bounds) const {
    return narrow(bounds, nullptr);
  }

  /// A partition within `bounds`. If there is none, `nextTime` is a bound on
  /// time below which there is none either.
  Cuts run(const Bounds &bounds, Ticks &nextTime) const;

  /// One with the fewest bytes over all boundaries. `costs`, if wanted, are
  /// those of all cuts. `rest`, if given, are costs of the mirrored problem
  /// under bounds at least as wide: then only a partition of at most `most`
  /// bytes is wanted.
  Cuts runForBytes(const Bounds &bounds, Costs *costs,
                   const Costs *rest = nullptr, int64_t most = never) const;

  const Line &line;
  std::vector<int64_t> inFlight;
  CutWindows given;

  int numStages() const { return int(inFlight.size()); }

private:
  struct Candidate;
  class Stack;
  CutWindows narrow(const Bounds &bounds, Ticks *nextTime) const;
  Cuts run(const Bounds &bounds, bool countBytes, Costs *costs,
           const Costs *rest, int64_t most, Ticks *nextTime) const;
};

} // namespace mpcomm::stages

#endif // MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONSWEEP_H
