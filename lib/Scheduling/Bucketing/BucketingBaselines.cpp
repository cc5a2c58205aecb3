//===- BucketingBaselines.cpp - how others choose buckets -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of other systems on our problem, to compare with.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include <algorithm>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::bucketing;

/// Cuts each line by `cut(stream, line, boundaries)`, which appends the end of
/// each run, and lets a stream run them in the order in which they are ready.
template <typename CutFn>
static BucketingPlan bucketLines(const BucketingProblem &problem, CutFn cut) {
  BucketingPlan plan;
  plan.error = problem.check();
  if (!plan.error.empty())
    return plan;
  std::vector<StreamProblem> streams =
      buildStreams(problem, BucketingObjective::StepEnd, /*split=*/false);
  std::vector<std::vector<BucketRun>> runs(streams.size());
  for (size_t s = 0; s < streams.size(); ++s) {
    const std::vector<Line> &lines = streams[s].lines;
    for (size_t l = 0; l < lines.size(); ++l) {
      std::vector<int32_t> ends;
      cut(streams[s], lines[l], ends);
      int32_t from = 0;
      for (int32_t to : ends) {
        runs[s].push_back({static_cast<int32_t>(l), from, to});
        from = to;
      }
    }
    auto key = [&](const BucketRun &run) {
      return std::tuple(lines[run.line].ready[run.to - 1], run.line, run.from);
    };
    std::sort(runs[s].begin(), runs[s].end(),
              [&](const BucketRun &x, const BucketRun &y) {
                return key(x) < key(y);
              });
  }
  return buildPlan(problem, streams, runs);
}

/// A run ends after item k, of the run from `from`, if `close(from, k)`, and
/// with the line.
template <typename CloseFn>
static BucketingPlan bucketWhere(const BucketingProblem &problem,
                                 CloseFn close) {
  return bucketLines(problem, [&](const StreamProblem &, const Line &line,
                                  std::vector<int32_t> &ends) {
    for (int32_t from = 0, k = 0; k < line.size(); ++k)
      if (k + 1 == line.size() || close(line, from, k)) {
        ends.push_back(k + 1);
        from = k + 1;
      }
  });
}

/// Whether one more item would take the run from `from` to `k` over the cap of
/// the problem; there is a next item.
static bool isFull(const BucketingProblem &problem, const Line &line,
                   int32_t from, int32_t k) {
  return line.bytesBefore[k + 2] - line.bytesBefore[from] > problem.capBytes;
}

BucketingPlan mpcomm::bucketLikeDDP(const BucketingProblem &problem,
                                    int64_t capBytes, int64_t firstBytes) {
  return bucketWhere(problem, [&](const Line &line, int32_t from, int32_t k) {
    return line.bytesBefore[k + 1] - line.bytesBefore[from] >=
           (from == 0 ? firstBytes : capBytes);
  });
}

BucketingPlan mpcomm::bucketLikeXLA(const BucketingProblem &problem,
                                    int64_t capBytes) {
  return bucketWhere(problem, [&](const Line &line, int32_t from, int32_t k) {
    return line.bytesBefore[k + 2] - line.bytesBefore[from] > capBytes;
  });
}

BucketingPlan mpcomm::bucketLikeFSDP(const BucketingProblem &problem) {
  return bucketWhere(problem, [&](const Line &line, int32_t from, int32_t k) {
    return problem.tensors[line.parts[k].tensor].module !=
               problem.tensors[line.parts[k + 1].tensor].module ||
           isFull(problem, line, from, k);
  });
}

BucketingPlan mpcomm::bucketLikeMegatron(const BucketingProblem &problem,
                                         int64_t elements) {
  int64_t count = 0;
  int32_t begin = -1;
  const Line *present = nullptr;
  return bucketWhere(problem, [&](const Line &line, int32_t from, int32_t k) {
    if (present != &line || begin != from)
      count = 0;
    present = &line;
    begin = from;
    count += line.parts[k].bytes /
             problem.tensors[line.parts[k].tensor].elementBytes;
    return count >= elements || isFull(problem, line, from, k);
  });
}

BucketingPlan mpcomm::bucketLikeHorovod(const BucketingProblem &problem,
                                        int64_t capBytes, double cycle) {
  return bucketLines(problem, [&](const StreamProblem &stream, const Line &line,
                                  std::vector<int32_t> &ends) {
    double time = stream.free, tick = 0;
    for (int32_t from = 0; from < line.size();) {
      // The first tick with something ready.
      double first = std::max(tick, line.ready[from]);
      int32_t ready = from;
      while (ready < line.size() && line.ready[ready] <= first)
        ++ready;
      time = std::max(time, first);
      for (int32_t to = from; from < ready; from = to) {
        for (++to;
             to < ready &&
             line.bytesBefore[to + 1] - line.bytesBefore[from] <= capBytes;)
          ++to;
        ends.push_back(to);
        time += line.cost->at(line.bytesBefore[to] - line.bytesBefore[from]);
      }
      tick = std::max(time, first + cycle);
    }
  });
}

BucketingPlan mpcomm::bucketLikeMGWFBP(const BucketingProblem &problem) {
  return bucketLines(problem, [&](const StreamProblem &stream, const Line &line,
                                  std::vector<int32_t> &ends) {
    double free = stream.free;
    for (int32_t from = 0, k = 0; k < line.size(); ++k) {
      int64_t bytes = line.bytesBefore[k + 1] - line.bytesBefore[from];
      const CostLine &piece = line.cost->best(bytes);
      double start = std::max(free, line.ready[k]);
      if (k + 1 < line.size() && line.ready[k + 1] < start + piece.latency &&
          !isFull(problem, line, from, k))
        continue;
      ends.push_back(k + 1);
      free = start + piece.at(bytes);
      from = k + 1;
    }
  });
}

BucketingPlan mpcomm::bucketOnePerTensor(const BucketingProblem &problem) {
  return bucketWhere(problem,
                     [](const Line &, int32_t, int32_t) { return true; });
}

BucketingPlan mpcomm::bucketAllInOne(const BucketingProblem &problem) {
  return bucketWhere(problem, [&](const Line &line, int32_t from, int32_t k) {
    return isFull(problem, line, from, k);
  });
}
