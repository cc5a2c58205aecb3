//===- BucketingDetail.h - shared by the bucketing solvers ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem as the solvers see it: a stream is one line of items for each
// key; an item is a tensor, a part of one, or (where the exact method would
// take too long) a few of them tied together. A plan of a stream is a sequence
// of runs, each of consecutive items of one line.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_BUCKETING_BUCKETINGDETAIL_H
#define MPCOMM_LIB_SCHEDULING_BUCKETING_BUCKETINGDETAIL_H

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include <algorithm>

namespace mpcomm::bucketing {

/// The items of one stream and key. Boundary j lies before item j; there are
/// n + 1 of them.
struct Line {
  int stream = 0;
  int key = 0;
  const CostCurve *cost = nullptr;
  /// By item: when its first tensor is ready, and its last.
  std::vector<double> open, ready;
  /// S: by boundary, the bytes of the items before it.
  std::vector<int64_t> bytesBefore;
  /// By boundary: seconds of the consumers of the items after it.
  std::vector<double> work;
  /// By boundary: the least deadline of the items after it. (Later items finish
  /// no earlier, so an item's deadline binds all before it.)
  std::vector<double> deadline;
  /// By item; empty in a line of tied items.
  std::vector<BucketingPlan::Slice> parts;

  int32_t size() const { return static_cast<int32_t>(ready.size()); }
};

/// Items [from, to) of a line of the stream.
struct BucketRun {
  int32_t line = 0;
  int32_t from = 0;
  int32_t to = 0;
};

/// When the consumers of other streams' buckets come to the compute stream.
class Arrivals {
public:
  Arrivals() = default;
  /// Pairs of a bucket's finish and its consumers' seconds, in any order.
  explicit Arrivals(std::vector<std::pair<double, double>> buckets);
  bool empty() const { return time.empty(); }
  /// The end of the step is at least delayed(finish) + w if a bucket finishes
  /// at `finish` and it and those after it on its stream have consumers of w:
  /// the latest, over all t up to `finish`, of t and the others' work that
  /// arrives at t or later. Nondecreasing.
  double delayed(double finish) const;
  /// The latest finish with delayed(finish) <= bound.
  double latestFinish(double bound) const;
  /// The end that these alone come to.
  double end() const { return time.empty() ? 0 : reach.back(); }

private:
  std::vector<double> time;  // sorted
  std::vector<double> after; // work that arrives at time[k] or later
  std::vector<double> reach; // max over l <= k of time[l] + after[l]
};

/// One stream's share of the problem.
struct StreamProblem {
  std::vector<Line> lines;
  double free = 0;
  int64_t capBytes = BucketingProblem::unlimited;
  int64_t memoryBytes = BucketingProblem::unlimited;
  /// Whether work after a bucket counts; else the end of communication is
  /// sought.
  bool stepEnd = true;
  Arrivals others;
  /// No end is below this one.
  double floor = 0;
  double tolerance = 0;
  int64_t stepLimit = 0;

  double endOf(double finish, double work) const {
    if (!stepEnd)
      return finish;
    return (others.empty() ? finish : others.delayed(finish)) + work;
  }
  double latestFinish(double end, double work) const {
    if (!stepEnd)
      return end;
    return others.empty() ? end - work : others.latestFinish(end - work);
  }
  /// The end of a plan, at least `floor`.
  double value(const std::vector<BucketRun> &runs) const;
  /// When the runs finish, one after the other.
  std::vector<double> finishes(const std::vector<BucketRun> &runs) const;
  /// Most bytes of the runs alive at one time.
  int64_t peakBytes(const std::vector<BucketRun> &runs) const;
};

struct StreamPlan {
  bool feasible = false;
  /// No plan has a smaller value (by more than the tolerance).
  bool exact = true;
  double value = 0;
  /// No plan has a value below this one.
  double bound = 0;
  std::vector<BucketRun> runs;
};

enum class Attempt { Missed, Found, GaveUp };

/// Lowers the value of `plan` to the least, given that no end below `low` can
/// be had. `attempt(end, runs, value, needed)` looks for runs with an end of at
/// most `end` and gives their value, or says in `needed` with which larger end
/// it would have gone another way. Ends are tried between the two, halving,
/// and, after each success, just below it: that is mostly a miss, and the last.
/// Returns the new `low`.
template <typename AttemptFn>
double searchEnd(StreamPlan &plan, double low, double tolerance,
                 AttemptFn attempt) {
  tolerance = std::max(tolerance, 1e-14); // rounding
  double end = low;
  for (bool probe = true; plan.value - low > tolerance * plan.value;) {
    std::vector<BucketRun> runs;
    double needed = BucketingProblem::never, value = plan.value;
    Attempt result = attempt(end, runs, value, needed);
    if (result == Attempt::GaveUp) {
      plan.exact = false;
      return 0;
    }
    if (result == Attempt::Missed) {
      low = std::max(end, std::min(needed, plan.value));
      end = low + (plan.value - low) / 2;
      probe = true;
      continue;
    }
    if (value < plan.value) {
      plan.value = value;
      plan.runs = std::move(runs);
    }
    if (end <= low || value > end * (1 + tolerance))
      break; // the least, up to rounding
    end = probe ? std::max(low, plan.value * (1 - tolerance))
                : low + (plan.value - low) / 2;
    probe = !probe;
  }
  return std::min(low, plan.value);
}

/// The streams of a well-formed problem, with tensors split as it allows if
/// `split`.
std::vector<StreamProblem> buildStreams(const BucketingProblem &problem,
                                        BucketingObjective objective,
                                        bool split = true);
/// The plan that these runs (by stream) are, evaluated.
BucketingPlan buildPlan(const BucketingProblem &problem,
                        const std::vector<StreamProblem> &streams,
                        const std::vector<std::vector<BucketRun>> &runs);

/// Earliest finishes of the first i items of a line, for i up to n, without
/// deadlines and memory bound: f of the recurrence. Time: O(n p).
std::vector<double> earliestFinishes(const Line &line, double free,
                                     int64_t capBytes);

/// A stream of one line, its memory bound left out of account.
StreamPlan solveLine(const StreamProblem &stream);
/// Of the plans of a stream of one line with an end of at most `end`, one with
/// the fewest runs, if it has less than `known` and `stepLimit` allows to find
/// it; else none. Ignores the memory bound.
std::vector<BucketRun> fewestOnLine(const StreamProblem &stream, double end,
                                    const std::vector<BucketRun> &known);

/// Any stream, by labels on the number of items done of each line.
StreamPlan solveStates(const StreamProblem &stream);
/// As fewestOnLine().
std::vector<BucketRun> fewestByStates(const StreamProblem &stream, double end,
                                      const std::vector<BucketRun> &known);

/// Merges neighbours of one line while the end stays at most `end`, until no
/// two can be merged.
void mergeNeighbours(const StreamProblem &stream, double end,
                     std::vector<BucketRun> &runs);

} // namespace mpcomm::bucketing

#endif // MPCOMM_LIB_SCHEDULING_BUCKETING_BUCKETINGDETAIL_H
