//===- GatheringReference.cpp - the best gathers by trying all ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The twin of solveGathers(): every sequence of runs is tried, and played
// forwards: buckets start as early as they can, computation stops where it has
// to.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include <algorithm>

using namespace mpcomm;

double mpcomm::playGathers(const GatheringProblem &problem,
                           const std::vector<std::vector<int64_t>> &buckets) {
  double free = 0;
  std::vector<double> arrival(problem.tensors.size());
  for (const std::vector<int64_t> &bucket : buckets) {
    int64_t bytes = 0;
    for (int64_t i : bucket) {
      bytes += problem.tensors[i].bytes;
      free = std::max(free, problem.tensors[i].ready);
    }
    free += problem.costs[problem.tensors[bucket.front()].key].at(bytes);
    for (int64_t i : bucket)
      arrival[i] = free;
  }
  double now = 0, done = 0; // the time, and the computation until then
  for (size_t i = 0; i < problem.tensors.size(); ++i) {
    now += problem.tensors[i].needed - done;
    done = problem.tensors[i].needed;
    now = std::max(now, arrival[i]);
  }
  return now + problem.computeEnd - done;
}

namespace {
struct Enumeration {
  const GatheringProblem &problem;
  std::vector<std::vector<int64_t>> lines; // tensors by key
  std::vector<std::vector<int64_t>> buckets;
  double best = BucketingProblem::never;
  size_t fewest = 0;

  void extend(std::vector<size_t> done) {
    bool complete = true;
    for (size_t l = 0; l < lines.size(); ++l) {
      complete &= done[l] == lines[l].size();
      std::vector<int64_t> bucket;
      int64_t bytes = 0;
      for (size_t to = done[l]; to < lines[l].size(); ++to) {
        bucket.push_back(lines[l][to]);
        bytes += problem.tensors[lines[l][to]].bytes;
        if (bucket.size() > 1 && bytes > problem.capBytes)
          break;
        buckets.push_back(bucket);
        std::vector<size_t> next = done;
        next[l] = to + 1;
        extend(next);
        buckets.pop_back();
      }
    }
    if (!complete)
      return;
    double end = playGathers(problem, buckets);
    if (end < best || (end == best && buckets.size() < fewest)) {
      best = end;
      fewest = buckets.size();
    }
  }
};
} // namespace

GatheringOptimum
mpcomm::solveGathersReference(const GatheringProblem &problem) {
  Enumeration all{problem, {}, {}};
  all.lines.resize(problem.costs.size());
  for (size_t i = 0; i < problem.tensors.size(); ++i)
    all.lines[problem.tensors[i].key].push_back(static_cast<int64_t>(i));
  all.extend(std::vector<size_t>(all.lines.size(), 0));
  return {all.best, all.fewest};
}
