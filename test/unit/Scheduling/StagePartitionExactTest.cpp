//===- StagePartitionExactTest.cpp - stages against all partitions --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random problems, on which the solver has to be as good as the best of all
// partitions in every figure; graphs of GPT-3's size, with the time they take;
// and orders that move what does not depend on the batch.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include "StagePartitionRandom.h"
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>
#include <map>

using namespace mpcomm;

static constexpr unsigned numInstances = 20000;

TEST(StagePartitionExact, AsAllPartitions) {
  std::map<std::string, int> kinds;
  int tied = 0;
  for (unsigned seed = 0; seed < numInstances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StagePartitionProblem problem = makeRandomStages(seed);
    ASSERT_EQ(problem.check(), "");
    StagePartitionOptions options;
    options.tolerance = seed % 4 == 0 ? 0.25 : 0;
    StagePartition best = partitionStagesReference(problem, options);
    StagePartition plan = partitionStages(problem, options);
    ASSERT_EQ(plan.error.empty(), best.error.empty()) << plan.error;
    if (!best.error.empty()) {
      ASSERT_EQ(plan.missingBytes, best.missingBytes);
      ++kinds[best.error];
      continue;
    }
    ASSERT_EQ(plan.verify(problem), "");
    ASSERT_EQ(best.verify(problem), "");
    ASSERT_EQ(plan.leastSeconds, best.leastSeconds);
    ASSERT_EQ(plan.boundaryBytes, best.boundaryBytes);
    ASSERT_EQ(plan.peakBytes, best.peakBytes);
    ASSERT_EQ(plan.secondsWithoutMemory, best.secondsWithoutMemory);
    ASSERT_EQ(plan.secondsWithoutConstraints, best.secondsWithoutConstraints);
    ASSERT_EQ(plan.secondsWithoutTransfers, best.secondsWithoutTransfers);
    ASSERT_EQ(plan.binding, best.binding);
    if (options.tolerance == 0) {
      ASSERT_EQ(plan.seconds, best.seconds);
    }
    ++kinds[getName(plan.binding)];
    tied += !plan.tiedParameters.empty();
  }
  // Each kind of instance is there.
  for (const char *kind : {"compute", "transfer", "memory", "constraint",
                           "too little memory", "no partition"}) {
    std::cout << kind << ": " << kinds[kind] << "\n";
    EXPECT_GT(kinds[kind], 50) << kind;
  }
  EXPECT_GT(tied, 1000);
}

/// Larger ones: what trying all partitions of 14 ops into up to 5 stages finds.
TEST(StagePartitionExact, AsAllPartitionsOfMoreOps) {
  for (unsigned seed = 100000; seed < 100500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StagePartitionProblem problem = makeRandomStages(seed, 14);
    StagePartitionOptions options;
    options.explain = false;
    StagePartition best = partitionStagesReference(problem, options);
    StagePartition plan = partitionStages(problem, options);
    ASSERT_EQ(plan.error.empty(), best.error.empty()) << plan.error;
    ASSERT_EQ(plan.missingBytes, best.missingBytes);
    ASSERT_EQ(plan.seconds, best.seconds);
    ASSERT_EQ(plan.boundaryBytes, best.boundaryBytes);
    ASSERT_EQ(plan.peakBytes, best.peakBytes);
  }
}

/// By op: bytes of values, and of gradients, from before it to after it.
static std::vector<std::pair<int64_t, int64_t>>
getPassing(const StagePartitionProblem &problem,
           const std::vector<int> &order) {
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[order[i]] = int(i);
  std::vector<std::pair<int64_t, int64_t>> result(order.size());
  for (const StagePartitionProblem::Value &value : problem.values) {
    int last = -1;
    for (const std::vector<int> *ops : {&value.consumers, &value.keepers})
      for (int op : *ops)
        last = std::max(last, place[op]);
    if (value.producer < 0)
      continue;
    for (int i = place[value.producer] + 1; i < last; ++i) {
      result[order[i]].first += value.bytes;
      result[order[i]].second += value.gradientBytes;
    }
  }
  return result;
}

/// Whether an op depends on the batch.
static std::vector<bool> getBatched(const StagePartitionProblem &problem) {
  std::vector<bool> result(problem.ops.size(), false);
  for (size_t i = 0; i < result.size(); ++i)
    for (const StagePartitionProblem::Value &value : problem.values)
      if (value.producer < 0 ? value.isBatch : bool(result[value.producer]))
        for (const std::vector<int> *ops : {&value.consumers, &value.keepers})
          for (int op : *ops)
            if (op == int(i))
              result[i] = true;
  return result;
}

TEST(StagePartitionExact, OrdersLetNoMorePass) {
  int numMoved = 0;
  for (unsigned seed = 0; seed < numInstances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    StagePartitionProblem problem = makeRandomStages(seed, 14);
    std::vector<int> order = arrangeForStages(problem), identity = order;
    std::sort(identity.begin(), identity.end());
    for (size_t i = 0; i < order.size(); ++i)
      ASSERT_EQ(identity[i], int(i));
    ASSERT_EQ(order.size(), problem.ops.size());
    // check() refuses what is not in topological order.
    ASSERT_EQ(reorder(problem, order).check(), "");
    numMoved += order != identity;
    // Ops that stay are in order: those that depend on the batch, those with
    // a given stage.
    std::vector<bool> isBatched = getBatched(problem);
    auto before = getPassing(problem, identity);
    auto after = getPassing(problem, order);
    int last = -1;
    for (int op : order) {
      if (!isBatched[op] && problem.ops[op].stage < 0)
        continue;
      EXPECT_GT(op, last);
      last = op;
      EXPECT_LE(after[op].first, before[op].first) << "op " << op;
      EXPECT_LE(after[op].second, before[op].second) << "op " << op;
    }
  }
  EXPECT_GT(numMoved, 1000);
}

/// Prints what it took; the least bound on time is what is shown to be enough.
static StagePartition solveTimed(const StagePartitionProblem &problem,
                                 const std::string &name,
                                 StagePartitionOptions options = {}) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  StagePartition plan = partitionStages(problem, options);
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::cout << name << ": " << problem.ops.size() << " ops, "
            << problem.stages.size() << " stages, " << seconds << " s; balance "
            << plan.balance << ", binds " << getName(plan.binding) << ", "
            << plan.boundaryBytes << " bytes over boundaries\n";
  EXPECT_EQ(plan.verify(problem), "") << name;
  return plan;
}

/// The least time of the slowest of p stages, for computation alone: as many
/// ops into each stage as fit, and the least time with which that is enough.
static double findLeastOfChain(const StagePartitionProblem &problem, int p) {
  std::vector<int64_t> ticks;
  int64_t low = 0, high = 0;
  for (const StagePartitionProblem::Op &op : problem.ops) {
    ticks.push_back(0);
    for (double seconds : {op.forward, op.backwardInput, op.backwardWeight})
      ticks.back() += std::llround(seconds * 1e12);
    low = std::max(low, ticks.back());
    high += ticks.back();
  }
  while (low < high) {
    int64_t middle = (low + high) / 2, sum = 0;
    int count = 1;
    for (int64_t op : ticks) {
      count += sum + op > middle;
      sum = sum + op > middle ? op : sum + op;
    }
    if (count <= p)
      high = middle;
    else
      low = middle + 1;
  }
  return double(low) * 1e-12;
}

TEST(StagePartitionExact, GPT3) {
  StagePartitionProblem problem = makeGPT(96, 1);
  ASSERT_EQ(problem.check(), "");
  EXPECT_GT(problem.ops.size(), 100000u);
  std::vector<int> order = arrangeForStages(problem);
  EXPECT_EQ(reorder(problem, order).check(), "");
  double reductionSeconds = 2e-3;
  std::swap(problem.parameters[0].reductionSeconds, reductionSeconds);
  for (int p : {8, 64, 256}) {
    problem.stages.assign(p, {});
    StagePartition free = solveTimed(problem, "computation alone");
    EXPECT_DOUBLE_EQ(free.leastSeconds, findLeastOfChain(problem, p));
  }
  std::swap(problem.parameters[0].reductionSeconds, reductionSeconds);
  // A link of 25 GB/s and 10 us, nothing hidden.
  problem.linkLatency = 1e-5;
  problem.linkSecondsPerByte = 1 / 25e9;
  problem.exposedShare = 1;
  problem.boundaryBuffers = 2;
  // Chunks are smaller than layers: one large op decides, and the others have
  // much freedom.
  solveTimed(problem, "transfers exposed");
  problem.stages.assign(64, {});
  StagePartition exposed = solveTimed(problem, "transfers exposed");
  EXPECT_EQ(exposed.binding, StageBinding::Transfer);
  StagePartitionOptions tolerant;
  tolerant.tolerance = 0.01;
  StagePartition cheap = solveTimed(problem, "the same, 1 % given", tolerant);
  EXPECT_LE(cheap.boundaryBytes, exposed.boundaryBytes);
  EXPECT_LE(cheap.seconds, 1.01 * exposed.seconds);
  // 1F1B: the first stage has 64 micro-batches in flight; then with bounds
  // that bind.
  for (int s = 0; s < 64; ++s)
    problem.stages[s].inFlight = 64 - s;
  StagePartition stashed = solveTimed(problem, "1F1B");
  for (int eighths : {7, 5}) {
    for (StagePartitionProblem::Stage &stage : problem.stages)
      stage.memoryBytes = stashed.peakBytes * eighths / 8;
    StagePartition tight =
        solveTimed(problem, std::to_string(eighths) + "/8 of that memory");
    EXPECT_LE(tight.peakBytes, stashed.peakBytes * eighths / 8);
    EXPECT_GT(tight.leastSeconds, tight.secondsWithoutMemory);
    EXPECT_DOUBLE_EQ(tight.secondsWithoutMemory, stashed.seconds);
  }
  for (StagePartitionProblem::Stage &stage : problem.stages)
    stage.memoryBytes = 0;
  StagePartition none = partitionStages(problem);
  EXPECT_GT(none.missingBytes, 0);
  for (StagePartitionProblem::Stage &stage : problem.stages)
    stage.memoryBytes = none.missingBytes;
  StagePartition least = solveTimed(problem, "the least memory");
  EXPECT_EQ(least.peakBytes, none.missingBytes);
  for (StagePartitionProblem::Stage &stage : problem.stages)
    --stage.memoryBytes;
  EXPECT_EQ(partitionStages(problem).missingBytes, 1);
}

/// One op outweighs all others: they may be cut anywhere, everything crosses
/// the same, and only memory decides.
TEST(StagePartitionExact, LongChain) {
  StagePartitionProblem problem;
  problem.stages.resize(64);
  int n = 100000;
  for (int i = 0; i < n; ++i) {
    double seconds = i == n / 3 ? 1 : 1e-6;
    problem.ops.push_back({seconds, seconds, 0, -1});
    problem.values.push_back({64, 64, i, false, {}, {i}});
    if (i + 1 < n)
      readValue(problem, i, i + 1);
    problem.parameters.push_back({1 + i % 7, 0, {i}});
  }
  StagePartition plan = solveTimed(problem, "long chain");
  EXPECT_DOUBLE_EQ(plan.seconds, 2);
  // That op is alone in its stage; the others have the least peak, up to an op.
  EXPECT_LE(plan.peakBytes, int64_t(n) * (64 + 4) / 63 + 64 + 7);
}
