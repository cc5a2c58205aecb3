//===- BucketingSolve.cpp - the best buckets of a problem -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which method solves which stream, how streams that share the compute stream
// are improved in turn, and the bound that none can beat.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include <algorithm>
#include <numeric>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::bucketing;

static constexpr int64_t unlimited = BucketingProblem::unlimited;

/// About the runs that solveStates() looks at for one end.
static double countSteps(const StreamProblem &stream) {
  double states = 1, items = 0;
  for (const Line &line : stream.lines) {
    states *= line.size() + 1;
    items += line.size();
  }
  return states * items / 2;
}

/// The line with items tied together in pairs, where both fit into a bucket.
/// `first` is, by boundary, the boundary of the line before; it is replaced.
static Line tiePairs(const Line &line, int64_t mostBytes,
                     std::vector<int32_t> &first) {
  Line tied;
  tied.stream = line.stream;
  tied.key = line.key;
  tied.cost = line.cost;
  std::vector<int32_t> boundaries;
  int32_t j = 0;
  while (true) {
    boundaries.push_back(first[j]);
    tied.bytesBefore.push_back(line.bytesBefore[j]);
    tied.work.push_back(line.work[j]);
    tied.deadline.push_back(line.deadline[j]);
    if (j == line.size())
      break;
    tied.open.push_back(line.open[j]);
    bool pair = j + 2 <= line.size() &&
                line.bytesBefore[j + 2] - line.bytesBefore[j] <= mostBytes;
    j += pair ? 2 : 1;
    tied.ready.push_back(line.ready[j - 1]);
  }
  first = std::move(boundaries);
  return tied;
}

/// solveStates(), with items tied together until it comes to an end within the
/// step limit.
static StreamPlan solveTied(const StreamProblem &stream) {
  if (countSteps(stream) <= double(stream.stepLimit)) {
    StreamPlan plan = solveStates(stream);
    if (plan.exact)
      return plan;
  }
  StreamProblem tied = stream;
  std::vector<std::vector<int32_t>> first;
  for (Line &line : tied.lines) {
    first.emplace_back(line.size() + 1);
    std::iota(first.back().begin(), first.back().end(), 0);
  }
  // Not so large that hardly any bucket keeps to the memory bound.
  int64_t mostBytes = std::min(stream.capBytes, stream.memoryBytes / 8);
  StreamPlan plan;
  while (true) {
    size_t longest = 0;
    for (size_t l = 1; l < tied.lines.size(); ++l)
      if (tied.lines[l].size() > tied.lines[longest].size())
        longest = l;
    int32_t size = tied.lines[longest].size();
    tied.lines[longest] =
        tiePairs(tied.lines[longest], mostBytes, first[longest]);
    bool stuck = tied.lines[longest].size() == size;
    if (!stuck && countSteps(tied) > double(stream.stepLimit))
      continue;
    // Where nothing can be tied any more, only a small problem is worth a try.
    if (!stuck || countSteps(tied) <= 64 * double(stream.stepLimit))
      plan = solveStates(tied);
    if (stuck || plan.feasible)
      break;
  }
  plan.exact = false;
  plan.bound = stream.floor;
  for (BucketRun &run : plan.runs) {
    run.from = first[run.line][run.from];
    run.to = first[run.line][run.to];
  }
  return plan;
}

static StreamPlan solveStream(const StreamProblem &stream) {
  StreamPlan plan;
  if (stream.lines.empty()) {
    plan.feasible = true;
    plan.value = plan.bound = stream.floor;
    return plan;
  }
  if (stream.lines.size() == 1) {
    // If the memory bound does not bind, it is as if it were not there.
    plan = solveLine(stream);
    if (!plan.feasible || stream.memoryBytes == unlimited ||
        stream.peakBytes(plan.runs) <= stream.memoryBytes)
      return plan;
  }
  double bound = plan.bound;
  plan = solveTied(stream);
  plan.bound = std::max(plan.bound, bound);
  return plan;
}

/// Of the plans with an end of at most `end`, one with as few runs as can be
/// found.
static void reduceRuns(const StreamProblem &stream, double end,
                       std::vector<BucketRun> &runs) {
  std::vector<BucketRun> fewer;
  if (stream.lines.size() == 1 && stream.memoryBytes == unlimited)
    fewer = fewestOnLine(stream, end, runs);
  else if (!stream.lines.empty() &&
           countSteps(stream) <= double(stream.stepLimit))
    fewer = fewestByStates(stream, end, runs);
  if (!fewer.empty())
    runs = std::move(fewer);
  mergeNeighbours(stream, end, runs);
}

static std::string explain(const StreamProblem &stream, size_t s, bool exact) {
  StreamProblem relaxed = stream;
  relaxed.memoryBytes = unlimited;
  std::string text = exact ? "no plan" : "found no plan that";
  text = "stream " + std::to_string(s) + ": " + text;
  if (stream.memoryBytes == unlimited || !solveStream(relaxed).feasible)
    return text + " meets the deadlines";
  std::vector<BucketRun> alone;
  for (size_t l = 0; l < stream.lines.size(); ++l)
    for (int32_t k = 0; k < stream.lines[l].size(); ++k)
      alone.push_back({static_cast<int32_t>(l), k, k + 1});
  auto ready = [&](const BucketRun &run) {
    return stream.lines[run.line].ready[run.from];
  };
  std::sort(alone.begin(), alone.end(),
            [&](const BucketRun &x, const BucketRun &y) {
              return std::tuple(ready(x), x.line, x.from) <
                     std::tuple(ready(y), y.line, y.from);
            });
  return text + " keeps to " + std::to_string(stream.memoryBytes) +
         " bytes alive; with every tensor alone there are " +
         std::to_string(stream.peakBytes(alone));
}

/// What the consumers of all streams but one see.
static Arrivals arrivalsOfOthers(const std::vector<StreamProblem> &streams,
                                 const std::vector<StreamPlan> &plans,
                                 size_t s) {
  std::vector<std::pair<double, double>> buckets;
  for (size_t other = 0; other < streams.size(); ++other) {
    if (other == s)
      continue;
    std::vector<double> finish = streams[other].finishes(plans[other].runs);
    for (size_t b = 0; b < finish.size(); ++b) {
      const BucketRun &run = plans[other].runs[b];
      const Line &line = streams[other].lines[run.line];
      buckets.push_back({finish[b], line.work[run.from] - line.work[run.to]});
    }
  }
  return Arrivals(std::move(buckets));
}

/// Improves streams that share the compute stream, each with the others as they
/// are, while that helps.
static void descend(std::vector<StreamProblem> &streams,
                    std::vector<StreamPlan> &plans, double bound) {
  double floor = streams.front().floor, value = BucketingProblem::never;
  size_t idle = 0; // streams in a row that did not help
  for (size_t round = 0; round < 16 * streams.size(); ++round) {
    size_t s = round % streams.size();
    StreamProblem &stream = streams[s];
    stream.others = arrivalsOfOthers(streams, plans, s);
    stream.floor = std::max(floor, stream.others.end());
    double now = stream.value(plans[s].runs);
    if (now - bound <= stream.tolerance * now)
      return;
    StreamPlan plan = solveStream(stream);
    if (plan.feasible && plan.value < now - stream.tolerance * now) {
      plans[s].runs = std::move(plan.runs);
      now = plan.value;
    }
    idle = now < value - stream.tolerance * now ? 0 : idle + 1;
    value = now;
    if (idle > streams.size())
      return;
  }
}

/// Replaces a plan that is not proven by one of the baselines' where that is
/// better.
static void considerBaselines(const BucketingProblem &problem,
                              BucketingObjective objective,
                              BucketingPlan &plan) {
  for (BucketingPlan baseline :
       {bucketLikeMGWFBP(problem), bucketLikeDDP(problem),
        bucketLikeXLA(problem), bucketLikeHorovod(problem),
        bucketLikeMegatron(problem), bucketLikeFSDP(problem),
        bucketOnePerTensor(problem), bucketAllInOne(problem)})
    if (baseline.verify(problem).empty() &&
        (!plan.error.empty() ||
         baseline.value(objective) < plan.value(objective)))
      plan = std::move(baseline);
}

BucketingPlan mpcomm::solveBuckets(const BucketingProblem &problem,
                                   const BucketingOptions &options) {
  BucketingPlan plan;
  plan.error = problem.check();
  if (!plan.error.empty())
    return plan;
  std::vector<StreamProblem> streams = buildStreams(problem, options.objective);
  // Sums of n numbers may differ by n roundings.
  double tolerance =
      std::max({options.tolerance, 1e-12, 0x1p-51 * problem.tensors.size()});
  std::vector<StreamPlan> plans;
  double bound = 0, value = 0;
  for (size_t s = 0; s < streams.size(); ++s) {
    streams[s].tolerance = tolerance;
    streams[s].stepLimit = options.stepLimit;
    plans.push_back(solveStream(streams[s]));
    if (!plans[s].feasible) {
      plan.error = explain(streams[s], s, plans[s].exact);
      if (!plans[s].exact)
        considerBaselines(problem, options.objective, plan);
      return plan;
    }
    bound = std::max(bound, plans[s].bound);
    value = std::max(value, plans[s].value);
  }
  bool together =
      streams.size() > 1 && options.objective == BucketingObjective::StepEnd;
  if (together)
    descend(streams, plans, bound);

  // What may be spent on fewer collectives.
  std::vector<std::vector<BucketRun>> runs(streams.size());
  for (size_t s = 0; s < streams.size(); ++s) {
    if (together) {
      streams[s].others = arrivalsOfOthers(streams, plans, s);
      value = streams[s].value(plans[s].runs);
      value = std::max(value, streams[s].others.end());
    }
    double end = std::max(value, bound * (1 + tolerance));
    reduceRuns(streams[s], end, plans[s].runs);
    runs[s] = plans[s].runs;
  }
  plan = buildPlan(problem, streams, runs);
  plan.error.clear();
  auto isProven = [&] {
    return plan.value(options.objective) - bound <=
           2 * tolerance * plan.value(options.objective);
  };
  if (!isProven()) {
    bound = std::max(bound, problem.lowerBound(options.objective));
    considerBaselines(problem, options.objective, plan);
  }
  plan.proven = isProven();
  return plan;
}

/// The end of communication of a stream of several lines: what is not ready at
/// some time starts later, and costs no less than all of its line together.
static double boundOfLines(const StreamProblem &stream) {
  struct Item {
    double ready;
    size_t line;
    int32_t index;
  };
  std::vector<Item> items;
  for (size_t l = 0; l < stream.lines.size(); ++l)
    for (int32_t k = 0; k < stream.lines[l].size(); ++k)
      items.push_back({stream.lines[l].ready[k], l, k});
  std::sort(items.begin(), items.end(), [](const Item &x, const Item &y) {
    return std::tie(x.ready, x.line, x.index) <
           std::tie(y.ready, y.line, y.index);
  });
  std::vector<double> cost(stream.lines.size(), 0);
  double bound = 0, all = 0;
  for (size_t k = items.size(); k-- > 0;) {
    const Line &line = stream.lines[items[k].line];
    cost[items[k].line] = line.cost->at(line.bytesBefore.back() -
                                        line.bytesBefore[items[k].index]);
    all = std::accumulate(cost.begin(), cost.end(), 0.0);
    bound = std::max(bound, items[k].ready + all);
  }
  return std::max(bound, stream.free + all);
}

double BucketingProblem::lowerBound(BucketingObjective objective) const {
  if (!check().empty())
    return 0;
  double bound = 0;
  for (const StreamProblem &stream : buildStreams(*this, objective)) {
    bound = std::max(bound, stream.floor);
    for (const Line &line : stream.lines) {
      std::vector<double> f = earliestFinishes(line, stream.free, capBytes);
      for (int32_t j = 0; j < line.size(); ++j)
        bound = std::max(bound, stream.endOf(f[j + 1], line.work[j]));
    }
    if (stream.lines.size() > 1)
      bound = std::max(bound, boundOfLines(stream));
  }
  return bound;
}
