//===- StagePartitionSolve.cpp - the best stages --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bottleneck is searched by bounds: with a looser bound there is a partition
// wherever there is one with a tighter one. First the time of the slowest
// stage, then, that being bounded, the sum of boundary bytes by one sweep from
// each end, then, both being bounded, the peak of memory. What binds is found
// by searching again without it. Proofs: docs/Design/StagePartition.md
//
//===----------------------------------------------------------------------===//

#include "StagePartition/StagePartitionSweep.h"
#include <algorithm>
#include <functional>
#include <optional>

using namespace mpcomm;
using namespace mpcomm::stages;

/// Where boundaries of p stages of at least one op may lie, in n ops.
static CutWindows makeWindows(int n, int p) {
  CutWindows windows;
  for (int b = 0; b <= p; ++b) {
    windows.low.push_back(b == p ? n : b);
    windows.high.push_back(b == 0 ? 0 : n - (p - b));
  }
  return windows;
}

/// The same for the problem's given stages: op i in stage s lies between
/// boundaries s and s + 1.
static CutWindows makeWindows(const StagePartitionProblem &problem) {
  int n = int(problem.ops.size()), p = int(problem.stages.size());
  CutWindows windows = makeWindows(n, p);
  for (int i = 0; i < n; ++i) {
    int s = problem.ops[i].stage;
    if (s < 0)
      continue;
    windows.high[s] = std::min(windows.high[s], i);
    windows.low[s + 1] = std::max(windows.low[s + 1], i + 1);
  }
  for (int b = 1; b <= p; ++b)
    windows.low[b] = std::max(windows.low[b], windows.low[b - 1] + 1);
  for (int b = p; b > 0; --b)
    windows.high[b - 1] = std::min(windows.high[b - 1], windows.high[b] - 1);
  return windows;
}

static CutWindows mirror(const CutWindows &windows, int n) {
  CutWindows result;
  for (size_t b = windows.low.size(); b-- > 0;) {
    result.low.push_back(n - windows.high[b]);
    result.high.push_back(n - windows.low[b]);
  }
  return result;
}

template <typename T> static std::vector<T> reversed(std::vector<T> list) {
  std::reverse(list.begin(), list.end());
  return list;
}

/// Which two ops' given stages contradict each other: neighbours among the ops
/// with a given stage whose stages fall, or rise by more than the ops between
/// them can fill.
static std::string explainConflict(const StagePartitionProblem &problem) {
  int n = int(problem.ops.size()), p = int(problem.stages.size());
  int last = -1, lastStage = 0;
  auto name = [](int op, int stage) {
    return "op " + std::to_string(op) + " of stage " + std::to_string(stage);
  };
  for (int i = 0; i < n; ++i) {
    int s = problem.ops[i].stage;
    if (s < 0)
      continue;
    if (last >= 0 && s < lastStage)
      return name(i, s) + " comes after " + name(last, lastStage);
    int between = i - last - 1;
    if (last >= 0 && s - lastStage - 1 > between)
      return "expected at least " + std::to_string(s - lastStage - 1) +
             " ops between " + name(last, lastStage) + " and " + name(i, s) +
             ", got " + std::to_string(between);
    if (last < 0 && s > i)
      return "expected at least " + std::to_string(s) + " ops before " +
             name(i, s) + ", got " + std::to_string(i);
    last = i;
    lastStage = s;
  }
  return "expected at least " + std::to_string(p - 1 - lastStage) +
         " ops after " + name(last, lastStage) + ", got " +
         std::to_string(n - 1 - last);
}

namespace {

/// Finds the least bound in [lower, upper] with a partition.
class BoundSearch {
public:
  /// The cuts of a partition within the bound `x`, or none; then `next` may be
  /// set to a bound below which there are none either.
  using Probe = std::function<Cuts(int64_t x, int64_t &next)>;
  /// The least bound that such cuts keep to.
  using Value = std::function<int64_t(const Cuts &)>;
  BoundSearch(Probe probe, Value value)
      : probe(std::move(probe)), value(std::move(value)) {}

  /// The best cuts so far.
  Cuts cuts;

  /// Steps from `lower` double until there is a partition; then halves. The
  /// least bound is often the lower one or little more, and tight bounds leave
  /// few cuts to look at.
  std::optional<int64_t> run(int64_t lower, int64_t upper) {
    int64_t step = std::max<int64_t>(1, lower >> 12);
    for (int64_t x = lower; !attempt(x, lower); step *= 2) {
      if (x >= upper)
        return std::nullopt;
      x = std::min(upper, std::max(lower, x + step));
    }
    while (lower < found)
      attempt(lower + (found - lower) / 2, lower);
    return found;
  }

private:
  /// False, and a larger `lower`, if there is no partition within x.
  bool attempt(int64_t x, int64_t &lower) {
    int64_t next = x + 1;
    Cuts result = probe(x, next);
    if (result.empty()) {
      lower = std::max(next, x + 1);
      return false;
    }
    cuts = std::move(result);
    found = value(cuts);
    return true;
  }

  Probe probe;
  Value value;
  int64_t found = 0;
};

} // namespace

/// The least x in [lower, upper] that `holds`, or `upper`.
template <typename Predicate>
static int64_t findFirst(int64_t lower, int64_t upper, Predicate holds) {
  while (lower < upper) {
    int64_t middle = lower + (upper - lower) / 2;
    if (holds(middle))
      upper = middle;
    else
      lower = middle + 1;
  }
  return lower;
}

static Ticks getSlowest(const Line &line, const Cuts &cuts) {
  Ticks slowest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s)
    slowest = std::max(slowest, line.time(cuts[s], cuts[s + 1]));
  return slowest;
}

/// The most bytes of a stage beyond `free[stage]`, and which stage that is.
static std::pair<int64_t, int> getLargest(const Sweep &sweep, const Cuts &cuts,
                                          const std::vector<int64_t> &free) {
  std::pair<int64_t, int> largest = {-never, 0};
  for (int s = 0; s < sweep.numStages(); ++s)
    largest = std::max(
        largest,
        {sweep.line.bytes(cuts[s], cuts[s + 1], sweep.inFlight[s]) - free[s],
         s});
  return largest;
}

/// No stage takes longer than this.
static Ticks getUpperTime(const Line &line) {
  Ticks most = 0, tied = 0;
  for (int c = 0; c <= line.n; ++c) {
    most = std::max({most, line.cuts[c].exposed, line.cuts[c].link});
    tied = std::max(tied, line.tied[c]);
  }
  return line.compute.back() + 2 * (most + tied);
}

/// The partition whose slowest stage is fastest, and its time.
static std::optional<Ticks> findTime(const Sweep &sweep, Bounds bounds,
                                     Ticks upper, Cuts &cuts) {
  Ticks lower = findFirst(0, upper, [&](Ticks time) {
    bounds.time = time;
    return !sweep.narrow(bounds).empty();
  });
  BoundSearch search(
      [&](Ticks time, Ticks &next) {
        bounds.time = time;
        return sweep.run(bounds, next);
      },
      [&](const Cuts &found) { return getSlowest(sweep.line, found); });
  std::optional<Ticks> result = search.run(lower, upper);
  cuts = search.cuts;
  return result;
}

/// By how much memory is missing, however slow stages may be.
static void explainMemory(const Sweep &sweep, const Bounds &bounds,
                          StagePartition &result) {
  auto grow = [&](int64_t bytes) {
    Bounds grown = bounds;
    grown.time = never;
    for (int64_t &bound : grown.bytes)
      bound = std::min(never, bound + bytes);
    return grown;
  };
  int64_t lower = findFirst(1, never, [&](int64_t bytes) {
    return !sweep.narrow(grow(bytes)).empty();
  });
  BoundSearch search(
      [&](int64_t bytes, int64_t &) {
        Ticks nextTime;
        return sweep.run(grow(bytes), nextTime);
      },
      [&](const Cuts &cuts) {
        return std::max<int64_t>(getLargest(sweep, cuts, bounds.bytes).first,
                                 1);
      });
  result.missingBytes = search.run(lower, never).value_or(never);
  int s = getLargest(sweep, search.cuts, bounds.bytes).second;
  result.missingStage = s;
  result.error = "expected " + std::to_string(result.missingBytes) +
                 " bytes more memory in each stage: with them stage " +
                 std::to_string(s) + " of ops [" +
                 std::to_string(search.cuts[s]) + ", " +
                 std::to_string(search.cuts[s + 1]) + ") uses all of its " +
                 std::to_string(bounds.bytes[s] + result.missingBytes);
}

/// Among the partitions within `bounds` the one with the fewest bytes over
/// boundaries, and among those the one with the smallest peak of memory.
static Cuts breakTies(const Sweep &sweep, const Line &mirrored,
                      const Bounds &bounds) {
  Sweep back(mirrored, reversed(sweep.inFlight),
             mirror(sweep.given, sweep.line.n));
  Costs rest;
  back.runForBytes({bounds.time, reversed(bounds.bytes)}, &rest);
  int64_t most = rest.get(sweep.numStages(), sweep.line.n);
  auto limit = [&](int64_t peak) {
    Bounds limited = bounds;
    for (int64_t &bytes : limited.bytes)
      bytes = std::min(bytes, peak);
    return limited;
  };
  std::vector<int64_t> none(sweep.numStages());
  auto getPeak = [&](const Cuts &cuts) {
    return getLargest(sweep, cuts, none).first;
  };
  Cuts cuts = sweep.runForBytes(bounds, nullptr, &rest, most);
  int64_t upper = getPeak(cuts);
  int64_t lower = findFirst(0, upper, [&](int64_t peak) {
    return !sweep.narrow(limit(peak)).empty();
  });
  BoundSearch search(
      [&](int64_t peak, int64_t &) {
        return peak >= upper
                   ? cuts
                   : sweep.runForBytes(limit(peak), nullptr, &rest, most);
      },
      getPeak);
  search.run(lower, upper);
  return search.cuts;
}

/// Fills in what binds.
static void explain(const StagePartitionProblem &problem,
                    const Figures &figures, const Sweep &sweep,
                    const Bounds &bounds, Ticks least, StagePartition &result) {
  Cuts cuts;
  auto solve = [&](const Sweep &other, const Bounds &otherBounds) {
    return findTime(other, otherBounds, least, cuts).value_or(least);
  };
  int p = sweep.numStages();
  Ticks memory = least, given = least, transfers = least;
  if (std::any_of(bounds.bytes.begin(), bounds.bytes.end(),
                  [](int64_t bytes) { return bytes < never; }))
    memory = solve(sweep, {never, std::vector<int64_t>(p, never)});
  CutWindows all = makeWindows(sweep.line.n, p);
  if (all.low != sweep.given.low || all.high != sweep.given.high)
    given = solve(Sweep(sweep.line, sweep.inFlight, all), bounds);
  if (sweep.line.hasReductions() || problem.linkLatency > 0 ||
      problem.linkSecondsPerByte > 0) {
    Line line(figures.withoutTransfers());
    transfers = solve(Sweep(line, sweep.inFlight, sweep.given), bounds);
  }
  result.secondsWithoutMemory = toSeconds(memory);
  result.secondsWithoutConstraints = toSeconds(given);
  result.secondsWithoutTransfers = toSeconds(transfers);
  Ticks fastest = std::min({memory, given, transfers});
  result.binding = fastest == least    ? StageBinding::Compute
                   : fastest == memory ? StageBinding::Memory
                   : fastest == given  ? StageBinding::Constraint
                                       : StageBinding::Transfer;
}

StagePartition mpcomm::partitionStages(const StagePartitionProblem &problem,
                                       const StagePartitionOptions &options) {
  StagePartition result;
  result.error = problem.check();
  if (!result.error.empty())
    return result;
  int n = int(problem.ops.size()), p = int(problem.stages.size());
  if (p > n) {
    result.error = "expected at most as many stages as ops, got " +
                   std::to_string(p) + " stages of " + std::to_string(n) +
                   " ops";
    return result;
  }
  CutWindows given = makeWindows(problem);
  if (given.empty()) {
    result.error = explainConflict(problem);
    return result;
  }
  Figures figures(problem);
  Line line(figures);
  Bounds bounds;
  std::vector<int64_t> inFlight;
  for (const StagePartitionProblem::Stage &stage : problem.stages) {
    bounds.bytes.push_back(std::min(never, stage.memoryBytes));
    inFlight.push_back(stage.inFlight);
  }
  Sweep sweep(line, std::move(inFlight), std::move(given));
  Cuts cuts;
  std::optional<Ticks> least =
      findTime(sweep, bounds, getUpperTime(line), cuts);
  if (!least) {
    explainMemory(sweep, bounds, result);
    return result;
  }
  bounds.time = *least + Ticks(std::floor(double(*least) * options.tolerance));
  cuts = breakTies(sweep, Line(figures.mirrored()), bounds);
  for (int s = 0; s < p; ++s)
    result.stages.push_back({.begin = cuts[s], .end = cuts[s + 1]});
  result.evaluate(problem);
  result.leastSeconds = toSeconds(*least);
  if (options.explain) {
    bounds.time = never;
    explain(problem, figures, sweep, bounds, *least, result);
  }
  return result;
}
