//===- OverlapTest.cpp - orders that hide communication -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small cases by hand, then random ones: list scheduling against branch and
// bound, and that against all orders.
//
//===----------------------------------------------------------------------===//

#include "OverlapRandom.h"
#include "References.h"
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>

using namespace mpcomm;
using namespace mpcomm::test;

static OverlapStep run(int node) { return {RankInstruction::Compute, node}; }
static OverlapStep start(int node) { return {RankInstruction::Start, node}; }
static OverlapStep await(int node) { return {RankInstruction::Await, node}; }

/// Two gradients of 2 s, each with an all_reduce of 2 s.
static OverlapProblem twoGradients() {
  OverlapProblem problem;
  problem.streams = {{}};
  problem.links = {{true}};
  problem.nodes = {compute(2), collective(0, 0, 2, 10), compute(2),
                   collective(0, 0, 2, 10)};
  problem.values = {{5, 0, {1}}, {5, 2, {3}}};
  return problem;
}

TEST(Overlap, StartsEarlyAndAwaitsLate) {
  OverlapProblem problem = twoGradients();
  ASSERT_EQ(problem.check(), "");
  OverlapSchedule schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.inputSeconds, 8);
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
  EXPECT_DOUBLE_EQ(problem.lowerBound(), 6);
  EXPECT_EQ(schedule.steps,
            (std::vector<OverlapStep>{run(0), start(1), run(2), start(3),
                                      await(1), await(3)}));
  // Without a search, and with computation left where it is.
  OverlapOptions options;
  options.reorderCompute = false;
  options.searchSteps = 0;
  problem.nodes[2].after = {0};
  EXPECT_EQ(scheduleList(problem, options).steps, schedule.steps);
  // Both buffers and both stagings; the input holds one of each at a time.
  EXPECT_EQ(schedule.peakBytes, 30);
  EXPECT_EQ(schedule.inputPeakBytes, 15);
}

/// The second gradient beside the first in flight: 20 bytes. Its staging, once
/// the first is awaited at 4 s, at no cost. With 19 bytes nothing overlaps.
TEST(Overlap, KeepsAMemoryBound) {
  OverlapProblem problem = twoGradients();
  problem.memoryBound = 20;
  OverlapSchedule schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
  EXPECT_EQ(schedule.peakBytes, 20);
  EXPECT_EQ(schedule.steps,
            (std::vector<OverlapStep>{run(0), start(1), run(2), await(1),
                                      start(3), await(3)}));
  problem.memoryBound = 19;
  schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 8);
  EXPECT_DOUBLE_EQ(schedule.unboundedSeconds, 6);
  EXPECT_EQ(schedule.peakBytes, 15);
  problem.memoryBound = 14;
  EXPECT_EQ(scheduleList(problem).error,
            "expects at most 14 bytes, but the program takes 15 as it is "
            "and 15 with no collective in flight");
  EXPECT_EQ(scheduleExact(problem).error,
            "no order keeps the bound of 14 bytes");
  EXPECT_EQ(scheduleReference(problem).error,
            "no order keeps the bound of 14 bytes");
}

/// The gradient of the weights is independent of the rest of the pass, and
/// stands last; its long collective hides if it comes first.
TEST(Overlap, ReordersComputation) {
  OverlapProblem problem;
  problem.streams = {{}};
  problem.links = {{true}};
  problem.nodes = {compute(5), compute(1), collective(0, 0, 5)};
  problem.values = {{1, 0, {}, true}, {1, 1, {2}}};
  OverlapSchedule schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
  OverlapOptions options;
  options.reorderCompute = false;
  schedule = scheduleList(problem, options);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 11);
}

/// A short collective that a long one would hold up overtakes it, unless the
/// stream keeps its order.
TEST(Overlap, OrderOfAStream) {
  OverlapProblem problem;
  problem.streams = {{}};
  problem.links = {{true}};
  problem.nodes = {compute(1), collective(0, 0, 9), collective(0, 0, 1),
                   compute(9)};
  problem.values = {{1, 0, {1, 2}}, {1, 2, {3}}};
  OverlapSchedule schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 11);
  problem.streams[0].keepOrder = true;
  schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 20);
  EXPECT_DOUBLE_EQ(scheduleExact(problem).seconds, 20);
}

/// The first gradient feeds a collective of 3 s that the last computation needs
/// and one of 9 s that nothing needs; the second gradient, 1 s later, one of
/// 1 s that the last computation needs. The long one must not be queued before.
TEST(Overlap, HoldsAStartBack) {
  OverlapProblem problem;
  problem.streams = {{}};
  problem.links = {{true}};
  problem.nodes = {compute(1), collective(0, 0, 3), collective(0, 0, 9),
                   compute(1), collective(0, 0, 1), compute(9)};
  problem.nodes[3].after = {0};
  problem.values = {{1, 0, {1, 2}}, {1, 3, {4}}, {1, 1, {5}}, {1, 4, {5}}};
  OverlapOptions options;
  options.searchSteps = 0;
  OverlapSchedule schedule = scheduleList(problem, options);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 14);
}

TEST(Overlap, ConflictingStreams) {
  OverlapProblem problem = twoGradients();
  problem.links[0].contends = false;
  problem.streams.resize(2);
  problem.nodes[3].stream = 1;
  problem.nodes[2].seconds = 1;
  problem.nodes[2].after = {0};
  EXPECT_DOUBLE_EQ(scheduleList(problem).seconds, 5);
  problem.conflicts = {{0, 1}};
  OverlapSchedule schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
  // An input that breaks it is mended.
  problem.input = {run(0), start(1), run(2), start(3), await(1), await(3)};
  EXPECT_EQ(problem.check(), "");
  schedule = scheduleList(problem);
  EXPECT_EQ(schedule.verify(problem), "");
  EXPECT_DOUBLE_EQ(schedule.seconds, 6);
}

/// Facts for the reasons: of 12 s of computation, 1 feeds the collective and 9
/// need it.
TEST(Overlap, Simulation) {
  OverlapProblem problem;
  problem.streams = {{}};
  problem.links = {{true}};
  problem.nodes = {compute(1), collective(0, 0, 5), compute(2), compute(9)};
  problem.values = {{1, 0, {1}}, {1, 1, {3}}};
  std::vector<OverlapStep> steps = {run(0), start(1), run(2), await(1), run(3)};
  SimProblem simulated = problem.toSimProblem(steps, /*facts=*/true);
  ASSERT_EQ(simulated.check(), "");
  const SimCollective &made = simulated.classes[0].collectives[0];
  EXPECT_EQ(made.producer, 0);
  EXPECT_EQ(made.consumer, 4);
  EXPECT_DOUBLE_EQ(made.independentSeconds, 2);
  SimResult result = simulate(simulated);
  EXPECT_EQ(result.classes[0].collectives[0].reason,
            SimReason::NothingToHideUnder);
  EXPECT_DOUBLE_EQ(result.lowerBound, 15);
  EXPECT_DOUBLE_EQ(problem.lowerBound(), 15);
}

TEST(Overlap, ChecksItsInput) {
  OverlapProblem good = twoGradients();
  good.streams.resize(2);
  ASSERT_EQ(good.check(), "");
  auto wrong = [&](auto change) {
    OverlapProblem problem = good;
    change(problem);
    return problem.check();
  };
  EXPECT_EQ(wrong([](auto &p) { p.commRateUnderCompute = 2; }),
            "expects rates above 0 and at most 1, got 2.000000");
  EXPECT_EQ(wrong([](auto &p) { p.staticBytes = -1; }),
            "expects static bytes that are not negative");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[0].seconds = -1; }),
            "node 0 has no finite non-negative seconds");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[1].stagingBytes = -1; }),
            "node 1 has a negative size");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[1].stream = 2; }),
            "node 1 names stream 2 of 2");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[1].link = 1; }),
            "node 1 names link 1 of 1");
  EXPECT_EQ(wrong([](auto &p) { p.nodes[1].after = {2}; }),
            "node 1 comes after node 2, which does not precede it");
  EXPECT_EQ(wrong([](auto &p) { p.values[0].bytes = -1; }),
            "value 0 has a negative size");
  EXPECT_EQ(wrong([](auto &p) { p.values[0].producer = 4; }),
            "value 0 names node 4 of 4");
  EXPECT_EQ(wrong([](auto &p) { p.values[1].users = {2}; }),
            "value 1 has node 2 as its user, which does not follow its "
            "producer");
  EXPECT_EQ(wrong([](auto &p) { p.conflicts = {{1, 1}}; }),
            "expects conflicts between two streams");
  EXPECT_EQ(wrong([](auto &p) { p.input = {start(1)}; }),
            "the start of node 1 precedes the end of node 0, on which it "
            "depends");
  EXPECT_EQ(wrong([](auto &p) { p.input = {run(0)}; }),
            "expects 6 steps, got 1");
}

TEST(Overlap, VerifyFindsWhatIsWrong) {
  OverlapProblem problem = twoGradients();
  problem.memoryBound = 20;
  OverlapSchedule good = scheduleList(problem);
  ASSERT_EQ(good.verify(problem), "");
  auto wrong = [&](auto change) {
    OverlapSchedule schedule = good;
    change(schedule);
    return schedule.verify(problem);
  };
  EXPECT_EQ(wrong([](auto &s) { std::swap(s.steps[0], s.steps[1]); }),
            "the start of node 1 precedes the end of node 0, on which it "
            "depends");
  EXPECT_EQ(wrong([](auto &s) { std::swap(s.steps[1], s.steps[3]); }),
            "the await of node 1 precedes its start");
  EXPECT_EQ(wrong([](auto &s) { s.steps[2] = s.steps[0]; }), "node 0 occurs twice");
  EXPECT_EQ(wrong([](auto &s) { s.steps[0].kind = RankInstruction::Start; }),
            "the start of node 0 is of no collective");
  EXPECT_EQ(wrong([](auto &s) { s.steps[1].kind = RankInstruction::Compute; }),
            "node 1 runs a collective as computation");
  EXPECT_EQ(wrong([](auto &s) { std::swap(s.steps[3], s.steps[4]); }),
            "expects at most 20 bytes, takes 30");
  EXPECT_EQ(wrong([](auto &s) { --s.peakBytes; }), "states 19 bytes, takes 20");
  EXPECT_EQ(wrong([](auto &s) { s.seconds = 5; }),
            "states 5.000000 seconds, takes 6.000000");
  problem.streams.resize(2);
  problem.nodes[3].stream = 1;
  problem.memoryBound = 30;
  problem.conflicts = {{1, 0}};
  EXPECT_EQ(wrong([](auto &s) { std::swap(s.steps[3], s.steps[4]); }),
            "the start of node 3 on stream 1 while stream 0, with which it "
            "conflicts, has a collective in flight");
  problem.conflicts.clear();
  problem.nodes[3].stream = 0;
  problem.streams[0].keepOrder = true;
  problem.input = {run(2), start(3), run(0), start(1), await(3), await(1)};
  EXPECT_EQ(wrong([](auto &) {}),
            "the start of node 1 overtakes node 3 on a stream that keeps its "
            "order");
}

/// Optimal is optimal: against every order, with the simulator as the judge.
TEST(Overlap, ExactAgainstReference) {
  for (unsigned seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    OverlapProblem problem =
        randomProblem(random, 1 + seed % 4, seed % 3, /*slows=*/seed % 2);
    ASSERT_EQ(problem.check(), "");
    OverlapSchedule exact = scheduleExact(problem);
    OverlapSchedule reference = scheduleReference(problem);
    ASSERT_EQ(exact.verify(problem), "");
    ASSERT_EQ(reference.verify(problem), "");
    ASSERT_NEAR(exact.seconds, reference.seconds, 1e-9);
    ASSERT_LE(problem.lowerBound(), reference.seconds + 1e-9);
  }
}

/// List scheduling against the optimum, on graphs of any form and on backward
/// passes. Proven (docs/Design/Overlap.md): at full rates and with s streams,
/// at most 1 + s times the optimum. Measured here: 0.7 % above it
/// on average.
TEST(Overlap, ListAgainstExact) {
  std::vector<double> ratios;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    bool slows = seed % 4 == 1;
    OverlapProblem problem =
        seed % 4 == 3
            ? backward(random, 2 + (seed % 8 == 7))
            : randomProblem(random, 2 + seed % 5, 1 + seed % 3, slows);
    if (seed % 4 == 3)
      randomBound(random, problem);
    OverlapSchedule list = scheduleList(problem);
    ASSERT_EQ(list.error, "");
    ASSERT_EQ(list.verify(problem), ""); // keeps the memory bound, too
    ASSERT_LE(list.seconds, list.inputSeconds + 1e-12);
    ASSERT_LE(list.unboundedSeconds, list.seconds);
    OverlapSchedule exact = scheduleExact(problem);
    ASSERT_EQ(exact.verify(problem), "");
    ASSERT_LE(exact.seconds, list.seconds + 1e-9);
    ASSERT_LE(problem.lowerBound(), exact.seconds + 1e-9);
    if (exact.seconds == 0)
      continue;
    if (!slows) {
      ASSERT_LE(list.seconds,
                (1 + double(problem.streams.size())) * exact.seconds + 1e-9);
    }
    ratios.push_back(list.seconds / exact.seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  double sum = 0;
  for (double ratio : ratios)
    sum += ratio;
  auto optimal = std::upper_bound(ratios.begin(), ratios.end(), 1 + 1e-9);
  double mean = sum / double(ratios.size());
  double share = double(optimal - ratios.begin()) / double(ratios.size());
  std::printf("list / exact: mean %.4f, 90%% %.4f, 99%% %.4f, most %.4f; "
              "optimal on %.1f%% of %zu\n",
              mean, ratios[ratios.size() * 9 / 10],
              ratios[ratios.size() * 99 / 100], ratios.back(), 100 * share,
              ratios.size());
  EXPECT_LE(mean, 1.01);
  EXPECT_GE(share, 0.9);
}

/// An input that is optimal stays as fast.
TEST(Overlap, NeverWorse) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    OverlapProblem problem = randomProblem(random, 2 + seed % 5, 1 + seed % 3,
                                           /*slows=*/seed % 4 == 1);
    OverlapSchedule exact = scheduleExact(problem);
    problem.input = exact.steps;
    ASSERT_EQ(problem.check(), "");
    for (int searchSteps : {0, 20}) {
      OverlapOptions options;
      options.searchSteps = searchSteps;
      OverlapSchedule list = scheduleList(problem, options);
      ASSERT_EQ(list.verify(problem), "");
      ASSERT_EQ(list.inputSeconds, exact.seconds);
      ASSERT_LE(list.seconds, list.inputSeconds);
    }
  }
}

/// Moves of starts and awaits alone leave the order of computation.
TEST(Overlap, KeepsTheOrderOfComputation) {
  OverlapOptions options;
  options.reorderCompute = false;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    OverlapProblem problem =
        randomProblem(random, 6, 1 + seed % 4, /*slows=*/seed % 2);
    OverlapSchedule list = scheduleList(problem, options);
    ASSERT_EQ(list.verify(problem), "");
    ASSERT_LE(list.seconds, list.inputSeconds + 1e-12);
    int last = -1;
    for (const OverlapStep &step : list.steps)
      if (step.kind == RankInstruction::Compute) {
        ASSERT_LT(last, step.node);
        last = step.node;
      }
  }
}

/// The same problem has the same order every time.
TEST(Overlap, IsDeterministic) {
  std::mt19937 random(7);
  OverlapProblem problem = backward(random, 30);
  problem.memoryBound = problem.peakBytes(problem.inputSteps()) + 2;
  EXPECT_EQ(scheduleList(problem).steps, scheduleList(problem).steps);
}

/// A backward pass of 10,000 layers, 50,000 steps: at the lower bound, with
/// as good as no memory to spare and without a bound.
TEST(Overlap, LargeProblemsAreFast) {
  std::mt19937 random(1);
  OverlapProblem problem = backward(random, 10000);
  ASSERT_EQ(problem.check(), "");
  for (bool isBounded : {false, true}) {
    if (isBounded)
      problem.memoryBound = problem.peakBytes(problem.inputSteps()) + 3;
    auto begin = std::chrono::steady_clock::now();
    OverlapSchedule list = scheduleList(problem);
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(list.verify(problem), "");
    EXPECT_LE(list.seconds, problem.lowerBound() * 1.001);
    RecordProperty(isBounded ? "bounded_ms" : "free_ms",
                   int(elapsed.count() * 1000));
    EXPECT_LT(elapsed.count(), 20); // 0.4 s unsanitized and alone
  }
}
