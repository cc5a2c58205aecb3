//===- GatheringTest.cpp - buckets of gathers against all plans -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random instances in small whole numbers, in which doubles do not round: plans
// have to reach exactly the end that trying all reaches, played forwards; and
// steps of gathers and reductions, where both are planned apart.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Bucketing/Gathering.h"
#include "References.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace mpcomm;

static constexpr unsigned numInstances = 5000;

namespace {
/// Small whole numbers, the same from a seed everywhere.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t upTo(int64_t most) { return engine() % (most + 1); }
  bool oneIn(int64_t n) { return upTo(n - 1) == 0; }
  CostCurve makeCost() {
    CostCurve cost;
    for (int64_t p = upTo(2); p >= 0; --p)
      cost.pieces.push_back({double(upTo(8)), double(upTo(3))});
    return cost;
  }

private:
  std::mt19937 engine;
};
} // namespace

static GatheringProblem makeGathers(Random &random, int keys, bool isReady) {
  GatheringProblem problem;
  for (int k = 0; k < keys; ++k)
    problem.costs.push_back(random.makeCost());
  int64_t count = 1 + random.upTo(6), most = 1 + random.upTo(8);
  int64_t gap = random.upTo(12), begin = random.upTo(20);
  double needed = double(begin);
  for (int64_t i = 0; i < count; ++i) {
    GatheringProblem::Tensor &tensor = problem.tensors.emplace_back();
    tensor.bytes = random.upTo(most);
    tensor.key = int(random.upTo(keys - 1));
    tensor.ready = isReady ? 0 : double(random.upTo(begin));
    tensor.needed = needed;
    needed += double(random.upTo(gap));
  }
  problem.computeEnd = needed + double(random.upTo(10));
  if (random.oneIn(3))
    problem.capBytes = 1 + random.upTo(3 * most);
  return problem;
}

static std::vector<std::vector<int64_t>> getBuckets(const BucketingPlan &plan) {
  std::vector<std::vector<int64_t>> buckets;
  for (const BucketingPlan::Bucket &bucket : plan.buckets) {
    std::vector<int64_t> &tensors = buckets.emplace_back();
    for (int64_t k = bucket.begin; k < bucket.end; ++k)
      tensors.push_back(plan.slices[k].tensor);
  }
  return buckets;
}

/// What a plan says of itself holds: starts and finishes are possible, and
/// computation that waits for them ends when the plan says.
static void checkTimes(const GatheringProblem &problem,
                       const BucketingPlan &plan) {
  double free = 0;
  for (const BucketingPlan::Bucket &bucket : plan.buckets) {
    ASSERT_GE(bucket.start, free);
    ASSERT_GE(bucket.start, bucket.ready);
    ASSERT_EQ(bucket.finish,
              bucket.start + problem.costs[bucket.key].at(bucket.bytes));
    free = bucket.finish;
    for (int64_t k = bucket.begin; k < bucket.end; ++k)
      ASSERT_LE(bucket.finish + problem.computeEnd -
                    problem.tensors[plan.slices[k].tensor].needed,
                plan.stepEnd);
  }
}

static void compareWithAll(int keys, bool isReady) {
  for (unsigned seed = 0; seed < numInstances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    GatheringProblem problem = makeGathers(random, keys, isReady);
    ASSERT_EQ(problem.check(), "");
    BucketingPlan plan = solveGathers(problem);
    ASSERT_EQ(plan.error, "");
    ASSERT_TRUE(plan.proven);
    GatheringOptimum best = solveGathersReference(problem);
    ASSERT_EQ(plan.stepEnd, best.stepEnd);
    ASSERT_EQ(plan.buckets.size(), best.buckets);
    ASSERT_EQ(playGathers(problem, getBuckets(plan)), best.stepEnd);
    ASSERT_LE(problem.mirror().lowerBound(BucketingObjective::StepEnd),
              best.stepEnd);
    checkTimes(problem, plan);
  }
}

TEST(Gathering, OneKey) { compareWithAll(1, /*isReady=*/true); }
TEST(Gathering, OneKeyReadyLate) { compareWithAll(1, /*isReady=*/false); }
TEST(Gathering, SeveralKeys) { compareWithAll(2, /*isReady=*/true); }

/// Under a memory bound the live bytes, from a bucket's start to the last first
/// use of its tensors, stay within it.
TEST(Gathering, Memory) {
  unsigned bounded = 0;
  for (unsigned seed = 0; seed < numInstances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    GatheringProblem problem = makeGathers(random, 1, /*isReady=*/true);
    double unbounded = solveGathers(problem).stepEnd;
    problem.memoryBytes = random.upTo(24);
    BucketingPlan plan = solveGathers(problem);
    if (!plan.error.empty())
      continue;
    ASSERT_GE(plan.stepEnd, unbounded);
    bounded += plan.stepEnd > unbounded;
    checkTimes(problem, plan);
    for (const BucketingPlan::Bucket &at : plan.buckets) {
      int64_t alive = 0;
      for (const BucketingPlan::Bucket &bucket : plan.buckets) {
        int64_t last = plan.slices[bucket.end - 1].tensor;
        // As late as the end of the step allows.
        double use =
            plan.stepEnd - problem.computeEnd + problem.tensors[last].needed;
        if (bucket.start <= at.start && at.start < use)
          alive += bucket.bytes;
      }
      ASSERT_LE(alive, problem.memoryBytes);
    }
  }
  EXPECT_GT(bounded, 0u);
}

TEST(Gathering, Malformed) {
  GatheringProblem problem;
  problem.costs.emplace_back().pieces.push_back({1, 1});
  problem.computeEnd = 10;
  problem.tensors = {{1, 0, 5, 0}, {1, 0, 4, 0}};
  EXPECT_EQ(problem.check(),
            "tensor 1 is needed before the tensor ahead of it");
  problem.tensors = {{1, 0, 5, 0}, {1, 6, 7, 0}};
  EXPECT_EQ(problem.check(),
            "a tensor is ready only after the first use of another");
  problem.tensors = {{1, 0, 11, 0}};
  EXPECT_EQ(problem.check(),
            "tensor 0 expects times in the step that computation takes");
  problem.tensors = {{1, 0, 5, 1}};
  EXPECT_EQ(solveGathers(problem).error, "tensor 0 has key 1 of 1");
}

//===----------------------------------------------------------------------===//
// Gathers and reductions of one step
//===----------------------------------------------------------------------===//

/// The ends of the runs of `n` tensors, by the bits of `cuts`.
static std::vector<std::vector<int64_t>> getRuns(int64_t n, unsigned cuts) {
  std::vector<std::vector<int64_t>> runs(1);
  for (int64_t i = 0; i < n; ++i) {
    runs.back().push_back(i);
    if (i + 1 < n && (cuts >> i & 1))
      runs.emplace_back();
  }
  return runs;
}

/// The end of a step whose computation waits for gathers, and which reductions
/// wait for; they are on channels of their own.
static double playStep(const GatheringProblem &gathers,
                       const std::vector<std::vector<int64_t>> &gathered,
                       const BucketingProblem &reductions,
                       const std::vector<std::vector<int64_t>> &reduced) {
  // Tensors are ready late by what the uses before them wait.
  auto getDelay = [&](double time) {
    double delay = 0, free = 0;
    for (const std::vector<int64_t> &bucket : gathered) {
      int64_t bytes = 0;
      for (int64_t i : bucket) {
        bytes += gathers.tensors[i].bytes;
        free = std::max(free, gathers.tensors[i].ready);
      }
      free += gathers.costs[0].at(bytes);
      for (int64_t i : bucket)
        if (gathers.tensors[i].needed <= time)
          delay = std::max(delay, free - gathers.tensors[i].needed);
    }
    return delay;
  };
  double end = reductions.computeEnd + getDelay(reductions.computeEnd);
  double free = 0;
  for (const std::vector<int64_t> &bucket : reduced) {
    int64_t bytes = 0;
    double consumer = 0;
    for (int64_t i : bucket) {
      const BucketingProblem::Tensor &tensor = reductions.tensors[i];
      bytes += tensor.bytes;
      consumer += tensor.consumer;
      free = std::max(free, tensor.ready + getDelay(tensor.ready));
    }
    free += reductions.costs[0].at(bytes);
    end = std::max(end, free) + consumer;
  }
  return end;
}

/// Planned apart, both are the best plan of the step where gradients are ready
/// after the last first use (the backward pass after the forward pass):
/// whatever the gathers delay comes before all that the reductions do. Where
/// they alternate, the end is at most twice the best: the delay of the gathers
/// and the end of the reductions are each at most that.
TEST(Gathering, WithReductions) {
  unsigned worse = 0;
  double worst = 1;
  for (unsigned seed = 0; seed < numInstances / 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    bool alternates = random.oneIn(2);
    GatheringProblem gathers = makeGathers(random, 1, /*isReady=*/true);
    gathers.capBytes = BucketingProblem::unlimited;
    gathers.tensors.resize(std::min<size_t>(gathers.tensors.size(), 4));
    BucketingProblem reductions;
    reductions.costs.push_back(random.makeCost());
    double time = alternates ? 0 : gathers.computeEnd;
    for (int64_t i = random.upTo(3); i >= 0; --i) {
      BucketingProblem::Tensor &tensor = reductions.tensors.emplace_back();
      tensor.bytes = random.upTo(8);
      tensor.ready = time += double(random.upTo(10));
      tensor.consumer = double(random.upTo(5));
      tensor.splittable = false;
    }
    gathers.computeEnd = reductions.computeEnd =
        std::max(time, gathers.computeEnd) + double(random.upTo(10));

    double best = BucketingProblem::never;
    auto g = int64_t(gathers.tensors.size());
    auto r = int64_t(reductions.tensors.size());
    for (unsigned a = 0; a < 1u << (g - 1); ++a)
      for (unsigned b = 0; b < 1u << (r - 1); ++b)
        best = std::min(
            best, playStep(gathers, getRuns(g, a), reductions, getRuns(r, b)));
    double end = playStep(gathers, getBuckets(solveGathers(gathers)),
                          reductions, getBuckets(solveBuckets(reductions)));
    if (!alternates) {
      ASSERT_EQ(end, best);
    }
    ASSERT_LE(end, 2 * best);
    worse += end > best;
    worst = std::max(worst, best > 0 ? end / best : 1);
  }
  RecordProperty("worse", std::to_string(worse));
  RecordProperty("worst", std::to_string(worst));
  std::printf("worse than the best: %u, worst ratio %.3f\n", worse, worst);
}
