//===- BucketingReference.cpp - the best buckets by trying all ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The twin of solveBuckets(). It shares the problem's parts with it but none of
// its ideas: every sequence of runs of every stream is tried, and what a plan
// comes to is counted as the problem's definition says it.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include "References.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::bucketing;

namespace {

class Enumeration {
public:
  Enumeration(const BucketingProblem &problem, BucketingObjective objective,
              const std::vector<StreamProblem> &streams)
      : problem(problem), objective(objective), streams(streams),
        runs(streams.size()) {}

  /// Tries all that follows after `done` items of each line of stream `s`.
  void extend(size_t s, std::vector<int32_t> done, double free);

  double best = BucketingProblem::never;
  std::vector<std::vector<BucketRun>> bestRuns;

private:
  struct Bucket {
    size_t stream;
    double open, finish, consumer;
    int64_t bytes;
  };
  void finish();

  const BucketingProblem &problem;
  BucketingObjective objective;
  const std::vector<StreamProblem> &streams;
  std::vector<std::vector<BucketRun>> runs;
  std::vector<Bucket> buckets;
  size_t bestCount = 0;
};

} // namespace

void Enumeration::extend(size_t s, std::vector<int32_t> done, double free) {
  if (s == streams.size())
    return finish();
  const std::vector<Line> &lines = streams[s].lines;
  done.resize(lines.size(), 0);
  bool complete = true;
  for (size_t l = 0; l < lines.size(); ++l) {
    const Line &line = lines[l];
    complete &= done[l] == line.size();
    for (int32_t to = done[l] + 1; to <= line.size(); ++to) {
      int64_t bytes = 0;
      double consumer = 0, deadline = BucketingProblem::never;
      for (int32_t k = done[l]; k < to; ++k) {
        const BucketingPlan::Slice &part = line.parts[k];
        const BucketingProblem::Tensor &tensor = problem.tensors[part.tensor];
        bytes += part.bytes;
        consumer += line.work[k] - line.work[k + 1];
        deadline = std::min(deadline, tensor.deadline);
      }
      double end = std::max(free, line.ready[to - 1]) + line.cost->at(bytes);
      if (end > deadline || (bytes > problem.capBytes && to > done[l] + 1))
        continue;
      runs[s].push_back({static_cast<int32_t>(l), done[l], to});
      buckets.push_back({s, line.open[done[l]], end, consumer, bytes});
      std::vector<int32_t> next = done;
      next[l] = to;
      extend(s, next, end);
      buckets.pop_back();
      runs[s].pop_back();
    }
  }
  if (complete)
    extend(s + 1, {}, s + 1 < streams.size() ? streams[s + 1].free : 0);
}

void Enumeration::finish() {
  for (const Bucket &at : buckets) {
    int64_t alive = 0;
    for (const Bucket &bucket : buckets)
      if (bucket.stream == at.stream && bucket.open <= at.open &&
          at.open < bucket.finish)
        alive += bucket.bytes;
    if (alive > problem.streams[at.stream].memoryBytes)
      return;
  }
  double communication = 0, step = problem.computeEnd;
  std::vector<Bucket> arrivals = buckets;
  std::sort(
      arrivals.begin(), arrivals.end(),
      [](const Bucket &x, const Bucket &y) { return x.finish < y.finish; });
  for (const Bucket &bucket : arrivals) {
    communication = std::max(communication, bucket.finish);
    step = std::max(step, bucket.finish) + bucket.consumer;
  }
  double value =
      objective == BucketingObjective::StepEnd ? step : communication;
  if (value < best || (value == best && buckets.size() < bestCount)) {
    best = value;
    bestCount = buckets.size();
    bestRuns = runs;
  }
}

BucketingPlan mpcomm::solveBucketsReference(const BucketingProblem &problem,
                                            const BucketingOptions &options) {
  BucketingPlan plan;
  plan.error = problem.check();
  if (!plan.error.empty())
    return plan;
  std::vector<StreamProblem> streams = buildStreams(problem, options.objective);
  Enumeration all(problem, options.objective, streams);
  all.extend(0, {}, streams.empty() ? 0 : streams.front().free);
  if (all.best == BucketingProblem::never) {
    plan.error = "no plan keeps to the deadlines and memory bounds";
    return plan;
  }
  plan = buildPlan(problem, streams, all.bestRuns);
  plan.proven = true;
  return plan;
}
