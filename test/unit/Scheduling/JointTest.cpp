//===- JointTest.cpp - buckets and order chosen together ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step by hand whose gradients come too late in the order of the program,
// then random steps: never worse than one pass over buckets and order, never
// below the bound, and against all partitions with optimal orders.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Overlap/Joint.h"
#include "OverlapRandom.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

using namespace mpcomm;
using namespace mpcomm::test;

/// Adds a node that uses what `operands` make, and makes a value.
static int add(JointProblem &problem, OverlapProblem::Node node,
               std::vector<int> operands, bool output = false) {
  int n = int(problem.step.nodes.size());
  problem.step.nodes.push_back(node);
  problem.step.values.push_back({1, n, {}, output});
  for (int operand : operands)
    problem.step.values[operand].users.push_back(n);
  return n;
}

/// Makes what `gradient` makes a tensor of `bytes`, with a consumer.
static void addTensor(JointProblem &problem, int gradient, int64_t bytes,
                      double consumer, int key = 0) {
  const CostCurve &cost = problem.buckets.costs[key];
  OverlapProblem::Node node;
  node.stream = 0;
  node.link = 0;
  node.latency = cost.best(bytes).latency;
  node.transfer = cost.best(bytes).secondsPerByte * double(bytes);
  int reduced = add(problem, node, {gradient});
  BucketingProblem::Tensor tensor;
  tensor.bytes = bytes;
  tensor.key = key;
  problem.buckets.tensors.push_back(tensor);
  problem.nodes.push_back(reduced);
  if (consumer > 0)
    add(problem, compute(consumer), {reduced}, /*output=*/true);
}

static JointProblem emptyStep(CostCurve cost) {
  JointProblem problem;
  problem.step.links = {{true}};
  problem.step.streams = {{}};
  problem.buckets.costs = {std::move(cost)};
  for (CostLine &piece : problem.buckets.costs[0].pieces)
    piece.link = 0;
  return problem;
}

/// The gradients of the inputs first, 10 s each, then those of the weights, 1 s
/// each: ready at 41, 42, 43 and 44 s, where the only thing to do is a bucket
/// of all four: 44 + 1 + 4 * 8 = 77 s. Each takes 1 + 8 s alone. If those of
/// the weights come as early as they can, at 1, 12, 23 and 34 s, each hides
/// under the next 11 s but the last one: 44 s of computation, and what is left
/// of the last: 34 + 9 = 43.
TEST(Joint, PlansAgainstTheOrderOfTheSchedule) {
  JointProblem problem = emptyStep({{{1, 1}}});
  std::vector<int> inputs, weights;
  int gradient = add(problem, compute(0), {});
  std::vector<int> chain = {gradient};
  for (int l = 0; l < 4; ++l)
    chain.push_back(add(problem, compute(10), {chain.back()}));
  problem.step.values[chain.back()].output = true;
  for (int l = 0; l < 4; ++l)
    weights.push_back(add(problem, compute(1), {chain[l]}));
  for (int l = 0; l < 4; ++l)
    addTensor(problem, weights[l], 8, 0);
  ASSERT_EQ(problem.check(), "");
  JointPlan plan = planJointly(problem);
  ASSERT_EQ(plan.error, "");
  EXPECT_TRUE(plan.isReordered);
  EXPECT_DOUBLE_EQ(plan.seconds, 44);
  EXPECT_GT(plan.firstSeconds, plan.seconds);
  EXPECT_DOUBLE_EQ(plan.lowerBound, 44);
  EXPECT_DOUBLE_EQ(plan.orderBound, 44);
  // In the order of the program all 32 s are after the first gradient, and the
  // last 8 s after the last one, with a share of the latency.
  std::vector<int> program(9);
  std::iota(program.begin(), program.end(), 0);
  EXPECT_DOUBLE_EQ(problem.lowerBound(program), 41 + 1 + 32);
  EXPECT_GE(plan.tried, 2);
}

TEST(Joint, ChecksItsInput) {
  JointProblem good = emptyStep({{{1, 1}}});
  int gradient = add(good, compute(1), {});
  addTensor(good, gradient, 4, 1);
  addTensor(good, gradient, 4, 1);
  ASSERT_EQ(good.check(), "");
  auto wrong = [&](auto change) {
    JointProblem problem = good;
    change(problem);
    return problem.check();
  };
  EXPECT_EQ(wrong([](auto &p) { p.step.nodes[0].seconds = -1; }),
            "node 0 has no finite non-negative seconds");
  EXPECT_EQ(wrong([](auto &p) { p.nodes.pop_back(); }),
            "expects a node for each of 2 tensors, got 1");
  EXPECT_EQ(wrong([](auto &p) { p.buckets.streams.clear(); }),
            "expects the streams of the step for the buckets");
  EXPECT_EQ(wrong([](auto &p) { p.buckets.costs[0].pieces[0].link = 1; }),
            "key 0 names link 1 of 1");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[0] = 0; }),
            "tensor 0 names no collective");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[1] = p.nodes[0]; }),
            "tensor 1 names a collective of another one's");
  EXPECT_EQ(wrong([](auto &p) { p.buckets.tensors[0].stream = 1; }),
            "tensor 0 is on another stream than its collective");
  EXPECT_EQ(wrong([](auto &p) { p.step.nodes[p.nodes[1]].after = {2}; }),
            "tensor 1 comes after another one");
}

/// Layers in any of the orders in which programs are written.
static JointProblem randomStep(std::mt19937 &random, int layers) {
  CostCurve cost;
  int pieces = 1 + below(random, 2);
  for (int i = 0; i < pieces; ++i)
    cost.pieces.push_back({double(1 + 3 * i), i ? 0.5 : 1.0});
  JointProblem problem = emptyStep(cost);
  problem.step.links[0].contends = below(random, 2);
  if (below(random, 3) == 0)
    problem.step.computeRateUnderComm = 0.75;
  if (below(random, 3) == 0)
    problem.step.commRateUnderCompute = 0.5 + 0.25 * below(random, 2);
  if (below(random, 3) == 0)
    problem.buckets.costs.push_back({{{2, 0.5, 0}}});
  if (below(random, 4) == 0)
    problem.buckets.capBytes = 4 + below(random, 8);
  if (below(random, 4) == 0)
    problem.buckets.splitBytes = 3;
  std::vector<int> chain = {add(problem, compute(below(random, 4)), {})};
  std::vector<int> weights;
  int style = below(random, 3); // weights at once, mixed, at the end
  auto addWeights = [&](size_t upTo) {
    while (weights.size() < upTo)
      weights.push_back(
          add(problem, compute(1 + below(random, 4)), {chain[weights.size()]}));
  };
  for (int l = 0; l < layers; ++l) {
    chain.push_back(add(problem, compute(1 + below(random, 5)), {chain[l]}));
    if (style == 0 || (style == 1 && below(random, 2)))
      addWeights(chain.size() - 1);
  }
  addWeights(layers);
  int keys = int(problem.buckets.costs.size());
  for (int gradient : weights)
    addTensor(problem, gradient, 1 + below(random, 10), 0.5 * below(random, 4),
              below(random, keys));
  return problem;
}

static void verify(const JointProblem &problem, const JointPlan &plan) {
  ASSERT_EQ(plan.error, "");
  EXPECT_LE(plan.seconds, plan.firstSeconds);
  EXPECT_EQ(plan.lowerBound, problem.lowerBound());
  EXPECT_LE(plan.lowerBound, plan.seconds + 1e-9);
  EXPECT_LE(plan.lowerBound, plan.orderBound + 1e-9);
  // With computation in this order.
  OverlapOptions fixed{/*reorderCompute=*/false, /*searchSteps=*/0};
  OverlapProblem inOrder = bucketStep(problem, plan.order, plan.plan);
  EXPECT_LE(plan.orderBound, scheduleList(inOrder, fixed).seconds + 1e-9);
  OverlapProblem bucketed = bucketStep(problem, plan.order, plan.plan);
  ASSERT_EQ(bucketed.check(), "");
  JointOptions options;
  OverlapSchedule schedule = scheduleList(bucketed, options.schedule);
  EXPECT_EQ(schedule.verify(bucketed), "");
  EXPECT_EQ(schedule.seconds, plan.seconds);
  std::vector<int64_t> bytes(problem.nodes.size(), 0);
  for (const BucketingPlan::Slice &slice : plan.plan.slices)
    bytes[slice.tensor] += slice.bytes;
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(bytes[i], problem.buckets.tensors[i].bytes);
}

TEST(Joint, NeverWorse) {
  int better = 0, reordered = 0;
  double gain = 0;
  const int problems = 4000;
  for (unsigned seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    JointProblem problem = randomStep(random, 2 + below(random, 8));
    ASSERT_EQ(problem.check(), "");
    JointPlan plan = planJointly(problem);
    verify(problem, plan);
    if (HasFatalFailure())
      return;
    better += plan.seconds < plan.firstSeconds * (1 - 1e-9);
    reordered += plan.isReordered;
    gain += plan.firstSeconds / plan.seconds;
    // One pass over buckets and order, by hand.
    JointOptions once;
    once.rounds = 0;
    once.tolerance = 1e9;
    EXPECT_EQ(planJointly(problem, once).seconds, plan.firstSeconds);
  }
  std::printf("joint: better on %d of %d, mean gain %.4f\n", better, problems,
              gain / problems);
  EXPECT_EQ(better, reordered);
  EXPECT_GE(better, problems / 20);
}

/// All partitions of tensors of one key, each with an optimal order: the bound
/// holds for them, and what is found is near them.
TEST(Joint, AgainstAllPartitions) {
  double sum = 0, worst = 1, first = 0;
  const int problems = 300;
  for (unsigned seed = 0; seed < problems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    JointProblem problem = randomStep(random, 2 + seed % 2);
    JointPlan found = planJointly(problem);
    verify(problem, found);
    size_t count = problem.nodes.size();
    double best = found.seconds;
    std::vector<int> group(count, 0);
    auto tryPartition = [&] {
      BucketingPlan plan;
      for (int g = 0; g <= *std::max_element(group.begin(), group.end()); ++g) {
        BucketingPlan::Bucket bucket;
        bucket.begin = int64_t(plan.slices.size());
        for (size_t i = 0; i < count; ++i)
          if (group[i] == g) {
            const BucketingProblem::Tensor &tensor = problem.buckets.tensors[i];
            if (bucket.bytes > 0 && bucket.key != tensor.key)
              return;
            bucket.key = tensor.key;
            bucket.bytes += tensor.bytes;
            plan.slices.push_back({int64_t(i), 0, tensor.bytes});
          }
        bucket.end = int64_t(plan.slices.size());
        if (bucket.end - bucket.begin > 1 &&
            bucket.bytes > problem.buckets.capBytes)
          return;
        bucket.piece =
            problem.buckets.costs[bucket.key].bestIndex(bucket.bytes);
        plan.buckets.push_back(bucket);
      }
      OverlapSchedule exact =
          scheduleExact(bucketStep(problem, found.order, plan));
      ASSERT_EQ(exact.error, "");
      best = std::min(best, exact.seconds);
    };
    // Restricted growth strings.
    while (true) {
      tryPartition();
      int i = int(count) - 1;
      for (; i > 0; --i)
        if (group[i] <= *std::max_element(group.begin(), group.begin() + i))
          break;
      if (i == 0)
        break;
      ++group[i];
      std::fill(group.begin() + i + 1, group.end(), 0);
    }
    ASSERT_LE(found.lowerBound, best + 1e-9);
    sum += found.seconds / best;
    first += found.firstSeconds / best;
    worst = std::max(worst, found.seconds / best);
  }
  std::printf(
      "joint / best of all partitions and orders: mean %.4f, most %.4f; "
      "first pass %.4f\n",
      sum / problems, worst, first / problems);
  EXPECT_LE(sum / problems, 1.02);
}

TEST(Joint, IsDeterministic) {
  std::mt19937 random(3);
  JointProblem problem = randomStep(random, 12);
  EXPECT_EQ(planJointly(problem).order, planJointly(problem).order);
}
