//===- StagePartitionReference.cpp - the best stages, by trying all -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every partition, by evaluate() alone.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include "StagePartition/StagePartitionDetail.h"
#include <algorithm>
#include <optional>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::stages;

/// Calls `visit` with every partition of the ops into stages.
template <typename Visit>
static void forEachPartition(const StagePartitionProblem &problem,
                             Visit visit) {
  int n = int(problem.ops.size()), p = int(problem.stages.size());
  StagePartition plan;
  plan.stages.resize(p);
  auto place = [&](auto &place, int s, int begin) -> void {
    if (s + 1 == p) {
      plan.stages[s] = {.begin = begin, .end = n};
      plan.evaluate(problem);
      visit(plan);
      return;
    }
    for (int end = begin + 1; end <= n - (p - 1 - s); ++end) {
      plan.stages[s] = {.begin = begin, .end = end};
      place(place, s + 1, end);
    }
  };
  if (p <= n)
    place(place, 0, 0);
}

static bool obeysGiven(const StagePartitionProblem &problem,
                       const StagePartition &plan) {
  std::vector<int> stageOf = plan.stageOfOp();
  for (size_t i = 0; i < stageOf.size(); ++i)
    if (problem.ops[i].stage >= 0 && problem.ops[i].stage != stageOf[i])
      return false;
  return true;
}

/// The bytes that the bounds lack; at most 0 if they are kept.
static int64_t getMissing(const StagePartitionProblem &problem,
                          const StagePartition &plan) {
  int64_t missing = std::numeric_limits<int64_t>::min();
  for (size_t s = 0; s < plan.stages.size(); ++s)
    missing = std::max(missing, plan.stages[s].memoryBytes -
                                    problem.stages[s].memoryBytes);
  return missing;
}

/// The least time of the slowest stage.
static std::optional<double> findLeast(const StagePartitionProblem &problem) {
  std::optional<double> least;
  forEachPartition(problem, [&](const StagePartition &plan) {
    if (obeysGiven(problem, plan) && getMissing(problem, plan) <= 0)
      least = std::min(least.value_or(plan.seconds), plan.seconds);
  });
  return least;
}

static void explain(const StagePartitionProblem &problem,
                    StagePartition &best) {
  StagePartitionProblem without = problem;
  for (StagePartitionProblem::Stage &stage : without.stages)
    stage.memoryBytes = StagePartitionProblem::unlimited;
  best.secondsWithoutMemory = *findLeast(without);
  without = problem;
  for (StagePartitionProblem::Op &op : without.ops)
    op.stage = -1;
  best.secondsWithoutConstraints = *findLeast(without);
  without = problem;
  without.linkLatency = without.linkSecondsPerByte = 0;
  for (StagePartitionProblem::Parameter &parameter : without.parameters)
    parameter.reductionSeconds = 0;
  best.secondsWithoutTransfers = *findLeast(without);
  double fastest =
      std::min({best.secondsWithoutMemory, best.secondsWithoutConstraints,
                best.secondsWithoutTransfers});
  best.binding = fastest == best.leastSeconds           ? StageBinding::Compute
                 : fastest == best.secondsWithoutMemory ? StageBinding::Memory
                 : fastest == best.secondsWithoutConstraints
                     ? StageBinding::Constraint
                     : StageBinding::Transfer;
}

StagePartition
mpcomm::partitionStagesReference(const StagePartitionProblem &problem,
                                 const StagePartitionOptions &options) {
  StagePartition best;
  best.error = problem.check();
  if (!best.error.empty())
    return best;
  std::optional<double> least = findLeast(problem);
  if (!least) {
    bool any = false;
    forEachPartition(problem, [&](const StagePartition &plan) {
      if (!obeysGiven(problem, plan))
        return;
      int64_t missing = getMissing(problem, plan);
      best.missingBytes = any ? std::min(best.missingBytes, missing) : missing;
      any = true;
    });
    best.error = any ? "too little memory" : "no partition";
    return best;
  }
  Ticks ticks = toTicks(*least);
  ticks += Ticks(std::floor(double(ticks) * options.tolerance));
  auto key = [](const StagePartition &plan) {
    return std::tuple(plan.boundaryBytes, plan.peakBytes);
  };
  forEachPartition(problem, [&](const StagePartition &plan) {
    if (!obeysGiven(problem, plan) || getMissing(problem, plan) > 0 ||
        toTicks(plan.seconds) > ticks)
      return;
    if (best.stages.empty() || key(plan) < key(best))
      best = plan;
  });
  best.leastSeconds = *least;
  if (options.explain)
    explain(problem, best);
  return best;
}
