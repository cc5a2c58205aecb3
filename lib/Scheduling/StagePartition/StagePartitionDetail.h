//===- StagePartitionDetail.h - figures of ranges of ops --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the solver and evaluate() share. Cut c, for c = 0..n, lies before op c;
// a range [i, j) of ops lies between two cuts. Time is counted in picoseconds.
// Letters as in docs/Design/StagePartition.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONDETAIL_H
#define MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONDETAIL_H

#include "mpcomm/Scheduling/StagePartition/StagePartition.h"
#include <cmath>

namespace mpcomm::stages {

using Ticks = int64_t;

inline Ticks toTicks(double seconds) { return std::llround(seconds * 1e12); }
inline double toSeconds(Ticks ticks) { return double(ticks) * 1e-12; }

/// All ticks of a problem together, and all bytes, are less.
constexpr double maxFigure = 0x1p60;

/// What a cut costs that these bytes cross.
struct CutFigures {
  /// What each of the two stages beside it waits; how long its link is busy.
  Ticks exposed = 0, link = 0;
  /// Bytes over it in both directions, and of each stage's buffers for it.
  int64_t bytes = 0, buffer = 0;
};
CutFigures getCutFigures(const StagePartitionProblem &problem,
                         int64_t forwardBytes, int64_t gradientBytes);

/// Of an op: all its parts.
Ticks getTicks(const StagePartitionProblem::Op &op);

/// The op that reads `value` last, forward or backward; its producer if none
/// does. -1: a value from outside that nobody reads.
int getLastReader(const StagePartitionProblem::Value &value);

/// What ranges of ops add up, each value and parameter once a range.
struct Sum {
  int64_t activation = 0, parameter = 0;
  Ticks reduction = 0;
  Sum &operator+=(const Sum &other) {
    activation += other.activation;
    parameter += other.parameter;
    reduction += other.reduction;
    return *this;
  }
  friend Sum operator+(Sum x, const Sum &y) { return x += y; }
  friend Sum operator-(const Sum &x, const Sum &y) {
    return {x.activation - y.activation, x.parameter - y.parameter,
            x.reduction - y.reduction};
  }
  bool operator==(const Sum &) const = default;
};

/// A problem as arrays over ops and cuts, and items: kept values with their
/// keepers, parameters with their users, each op once and in order.
struct Figures {
  std::vector<Ticks> ops;
  /// By cut, 0..n; nothing crosses the first and the last.
  std::vector<CutFigures> cuts;
  struct Item {
    Sum sum;
    /// Its ops are positions[begin, end).
    int begin = 0, end = 0;
  };
  std::vector<Item> items;
  std::vector<int> positions;

  explicit Figures(const StagePartitionProblem &problem);
  /// The same with the last op first.
  Figures mirrored() const;
  /// The same with transfers and sums of tied parameters at no cost in time.
  Figures withoutTransfers() const;
};

/// Weighted points (x, y), of which those of a rectangle are added up: a
/// wavelet matrix (Claude, Navarro and Ordonez, "The wavelet matrix: an
/// efficient wavelet tree for large alphabets", Information Systems 47, 2015)
/// with a prefix sum a level.
class RectangleSum {
public:
  struct Point {
    int x = 0, y = 0;
    Sum sum;
  };
  /// Points with 0 <= x, y < n. Time and memory: O(m log n) for m points.
  void build(std::vector<Point> points, int n);
  bool empty() const { return start.empty(); }
  /// All points with x0 <= x < x1 and y < y1, for 0 <= x0 <= x1 <= n, y1 <= n.
  /// Time: O(log n).
  Sum query(int x0, int x1, int y1) const;

private:
  struct Level {
    /// Of the first k points in this level's order: how many have a 0 bit.
    std::vector<int> zeros;
    /// Of the first k points in the next level's order: their sum.
    std::vector<Sum> sums;
  };
  std::vector<Level> levels;
  /// The first point with x >= c.
  std::vector<int> start;
};

/// Figures of all ranges.
class Line {
public:
  explicit Line(const Figures &figures);

  int n = 0;
  /// Ticks of the ops before a cut.
  std::vector<Ticks> compute;
  std::vector<CutFigures> cuts;
  /// Over the items: all their ops before a cut, and the first op of each.
  std::vector<Sum> all, first;
  /// Reduction ticks of items with an op before and one after the cut.
  std::vector<Ticks> tied;
  /// By cut c: the least of cuts[i].exposed - compute[i] over cuts i up to c,
  /// and of compute[j] + cuts[j].exposed over cuts j from c on, without the
  /// first and the last cut. A stage from c or before to d or after takes at
  /// least leastBefore[c] + leastAfter[d].
  std::vector<Ticks> leastBefore, leastAfter;
  /// Of all cuts but the first and the last.
  int64_t leastBuffer = 0, mostBuffer = 0;

  /// Of items with an op in [i, j), each once. Time: O(log n).
  Sum sum(int i, int j) const {
    Sum result = first[j] - first[i];
    return repeats.empty() ? result : result + repeats.query(i, j, i);
  }
  bool hasReductions() const { return !inside.empty(); }
  /// Reduction ticks of items with an op in [i, j) and one outside; `within`
  /// is sum(i, j).reduction. Time: O(log n).
  Ticks reduction(int i, int j, Ticks within) const {
    return inside.empty() ? 0 : within - inside.query(i, j, j).reduction;
  }
  /// Reduction ticks of items with their first op in [i, c) and their last
  /// after cut c. Time: O(log n).
  Ticks leaving(int i, int c) const {
    return inside.empty() ? 0
                          : (first[c] - first[i]).reduction -
                                inside.query(i, c, c).reduction;
  }
  /// As StagePartition::Stage::seconds and ::memoryBytes.
  Ticks time(int i, int j) const;
  int64_t bytes(int i, int j, int64_t inFlight) const;

private:
  /// Ops of items (x) that are not the item's first, by the op before (y); and
  /// first ops (x) of items with several ops and a reduction, by the last (y).
  RectangleSum repeats, inside;
};

} // namespace mpcomm::stages

#endif // MPCOMM_LIB_SCHEDULING_STAGEPARTITION_STAGEPARTITIONDETAIL_H
