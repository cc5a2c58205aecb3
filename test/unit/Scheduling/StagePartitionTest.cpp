//===- StagePartitionTest.cpp - small graphs cut into stages --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Graphs small enough to work out by hand, one for each thing that a cut
// costs; what is wrong with a problem, with a partition, or with both together.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/StagePartition/StagePartition.h"
#include "References.h"
#include <functional>
#include <gtest/gtest.h>

using namespace mpcomm;

/// A chain: op i takes seconds[i] in each direction, and makes a value of
/// bytes[i] that the next op reads and keeps.
static StagePartitionProblem makeChain(const std::vector<double> &seconds,
                                       const std::vector<int64_t> &bytes,
                                       int numStages) {
  StagePartitionProblem problem;
  problem.stages.resize(numStages);
  for (size_t i = 0; i < seconds.size(); ++i) {
    problem.ops.push_back({seconds[i], seconds[i], 0, -1});
    StagePartitionProblem::Value value;
    value.bytes = value.gradientBytes = bytes[i];
    value.producer = int(i);
    if (i + 1 < seconds.size())
      value.consumers = value.keepers = {int(i) + 1};
    problem.values.push_back(value);
  }
  return problem;
}

using Ends = std::vector<int>;

/// Solves, verifies, and gives the end of each stage; or the error.
static StagePartition solve(const StagePartitionProblem &problem, Ends &ends) {
  StagePartition plan = partitionStages(problem);
  if (plan.error.empty()) {
    EXPECT_EQ(plan.verify(problem), "");
  }
  ends.clear();
  for (const StagePartition::Stage &stage : plan.stages)
    ends.push_back(stage.end);
  return plan;
}

// 1+2+3 | 4 | 5 in each direction.
TEST(StagePartition, BalancesComputation) {
  Ends ends;
  StagePartition plan =
      solve(makeChain({1, 2, 3, 4, 5}, {1, 1, 1, 1, 1}, 3), ends);
  EXPECT_EQ(ends, (Ends{3, 4, 5}));
  EXPECT_EQ(plan.seconds, 12);
  EXPECT_EQ(plan.balance, 12 * 3 / 30.);
  EXPECT_EQ(plan.binding, StageBinding::Compute);
  EXPECT_EQ(plan.boundaryBytes, 4);
  EXPECT_EQ(plan.stageOfOp(), (std::vector<int>{0, 0, 0, 1, 2}));
}

// The slowest stage is op 0; the cut after op 2 is the cheapest.
TEST(StagePartition, TiesGoToTheFewestBytes) {
  Ends ends;
  StagePartitionProblem problem =
      makeChain({9, 1, 1, 1, 1}, {1, 7, 3, 5, 0}, 3);
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{1, 3, 5}));
  EXPECT_EQ(plan.boundaryBytes, 2 * (1 + 3));
  // Those who would give a ninth for fewer bytes get no fewer here ...
  EXPECT_EQ(partitionStages(problem, {.tolerance = 1 / 9.}).stages[0].end, 1);
  // ... but if op 1 sends less, they do.
  problem.values[1].bytes = problem.values[1].gradientBytes = 0;
  EXPECT_EQ(partitionStages(problem).boundaryBytes, 2 * (0 + 1));
  plan = partitionStages(problem, {.tolerance = 1 / 8.9});
  EXPECT_EQ(plan.boundaryBytes, 2 * (0 + 1));
  problem.values[2].bytes = problem.values[2].gradientBytes = 0;
  plan = partitionStages(problem, {.tolerance = 1 / 8.9});
  EXPECT_EQ(plan.boundaryBytes, 0);
  EXPECT_EQ(plan.seconds, 20);
  EXPECT_EQ(plan.leastSeconds, 18);
}

// Cuts cost nothing; two stages of ops with 8, 1, 1, 8, 1 bytes of parameters.
// Time allows every cut that leaves op 0 alone or not: the peak decides.
TEST(StagePartition, FurtherTiesGoToTheSmallestPeak) {
  StagePartitionProblem problem =
      makeChain({0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 2);
  int64_t bytes[] = {8, 1, 1, 8, 1};
  for (int i = 0; i < 5; ++i)
    problem.parameters.push_back({bytes[i], 0, {i}});
  Ends ends;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{3, 5}));
  EXPECT_EQ(plan.peakBytes, 10);
}

// Op 0's value goes to ops 1 and 3: it crosses both cuts, once each, and is
// kept where it is read. The gradient comes back the same way.
TEST(StagePartition, ValuesAreHandedOn) {
  StagePartitionProblem problem = makeChain({1, 1, 1}, {10, 1, 0}, 3);
  problem.values[0].consumers = problem.values[0].keepers = {1, 2, 2, 1};
  problem.values[0].gradientBytes = 4;
  Ends ends;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(plan.boundaryBytes, (10 + 4) + (10 + 4 + 1 + 1));
  EXPECT_EQ(plan.stages[0].sentBytes, 10);
  EXPECT_EQ(plan.stages[1].returnedBytes, 4);
  EXPECT_EQ(plan.stages[1].sentBytes, 11);
  EXPECT_EQ(plan.stages[2].returnedBytes, 5);
  EXPECT_EQ(plan.stages[0].activationBytes, 0);
  EXPECT_EQ(plan.stages[1].activationBytes, 10);
  EXPECT_EQ(plan.stages[2].activationBytes, 11);
  // In one stage it is kept once.
  problem.stages.resize(1);
  plan = solve(problem, ends);
  EXPECT_EQ(plan.stages[0].activationBytes, 11);
  EXPECT_EQ(plan.boundaryBytes, 0);
}

// Every op keeps 10 bytes. 1F1B in two stages: the first has two micro-batches
// in flight, so it takes fewer ops where memory is short.
TEST(StagePartition, MemoryByMicroBatchesInFlight) {
  StagePartitionProblem problem =
      makeChain({1, 1, 1, 1, 1, 1}, {10, 10, 10, 10, 10, 10}, 2);
  for (int i = 0; i < 6; ++i)
    problem.values[i].keepers = {i};
  problem.stages[0].inFlight = 2;
  Ends ends;
  EXPECT_EQ(solve(problem, ends).peakBytes, 60);
  EXPECT_EQ(ends, (Ends{3, 6}));
  problem.stages[0].memoryBytes = problem.stages[1].memoryBytes = 40;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{2, 6}));
  EXPECT_EQ(plan.seconds, 8);
  EXPECT_EQ(plan.secondsWithoutMemory, 6);
  EXPECT_EQ(plan.binding, StageBinding::Memory);
  // With 30 bytes: one op and five, or the like; two ops and four miss 10.
  problem.stages[0].memoryBytes = problem.stages[1].memoryBytes = 30;
  plan = solve(problem, ends);
  EXPECT_EQ(plan.missingBytes, 10);
  EXPECT_EQ(plan.missingStage, 1);
  EXPECT_EQ(plan.error,
            "expected 10 bytes more memory in each stage: with them stage 1 of "
            "ops [2, 6) uses all of its 40");
  EXPECT_EQ(plan.verify(problem), plan.error);
}

// Two bytes a buffer, two buffers at each side.
TEST(StagePartition, Buffers) {
  StagePartitionProblem problem = makeChain({1, 1, 1}, {1, 1, 1}, 3);
  problem.boundaryBuffers = 2;
  Ends ends;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(plan.stages[0].bufferBytes, 4);
  EXPECT_EQ(plan.stages[1].bufferBytes, 8);
  EXPECT_EQ(plan.stages[1].memoryBytes, 9);
  EXPECT_EQ(plan.peakBytes, 9);
}

// An embedding and a head of 100 bytes share their parameter.
TEST(StagePartition, TiedParameters) {
  StagePartitionProblem problem = makeChain({2, 1, 1, 2}, {1, 1, 1, 0}, 2);
  problem.parameters.push_back({100, 0.5, {3, 0}});
  problem.parameters.push_back({7, 9, {0, 1, 0}});
  Ends ends;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{2, 4}));
  EXPECT_EQ(plan.tiedParameters, (std::vector<int>{0}));
  EXPECT_EQ(plan.stages[0].parameterBytes, 107);
  EXPECT_EQ(plan.stages[1].parameterBytes, 100);
  EXPECT_EQ(plan.stages[0].reductionSeconds, 0.5);
  EXPECT_EQ(plan.seconds, 6.5);
  EXPECT_EQ(plan.secondsWithoutTransfers, 6);
  EXPECT_EQ(plan.binding, StageBinding::Transfer);
}

// 5 s of computation at each end, 10 bytes between at half a second each, there
// and back; after op 2 just one byte.
TEST(StagePartition, Transfers) {
  StagePartitionProblem problem = makeChain({2, 1, 1, 2}, {10, 10, 1, 0}, 2);
  problem.linkLatency = 1;
  problem.linkSecondsPerByte = 0.5;
  problem.exposedShare = 0.5;
  Ends ends;
  // After op 1: 6 + 0.5 * 12; after op 2: 8 + 0.5 * 3.
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{3, 4}));
  EXPECT_EQ(plan.seconds, 9.5);
  EXPECT_EQ(plan.stages[0].exposedSeconds, 1.5);
  EXPECT_EQ(plan.stages[0].linkSeconds, 1.5);
  EXPECT_EQ(plan.secondsWithoutTransfers, 6);
  EXPECT_EQ(plan.binding, StageBinding::Transfer);
  // Hidden, the link must keep up: 6 s there and 6 s back at a time ...
  problem.exposedShare = 0;
  EXPECT_EQ(solve(problem, ends).seconds, 6);
  EXPECT_EQ(ends, (Ends{2, 4}));
  // ... or in turn.
  problem.linkDuplex = false;
  EXPECT_EQ(solve(problem, ends).seconds, 8);
  EXPECT_EQ(ends, (Ends{3, 4}));
}

TEST(StagePartition, GivenStages) {
  StagePartitionProblem problem =
      makeChain({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, 3);
  problem.ops[3].stage = 0;
  Ends ends;
  StagePartition plan = solve(problem, ends);
  EXPECT_EQ(ends, (Ends{4, 5, 6}));
  EXPECT_EQ(plan.secondsWithoutConstraints, 4);
  EXPECT_EQ(plan.binding, StageBinding::Constraint);
  // What agrees with the best costs nothing.
  problem.ops[3].stage = 1;
  EXPECT_EQ(solve(problem, ends).binding, StageBinding::Compute);
}

TEST(StagePartition, ImpossibleStages) {
  Ends ends;
  auto error = [&](std::vector<std::pair<int, int>> given, int numStages) {
    StagePartitionProblem problem =
        makeChain({1, 1, 1, 1}, {1, 1, 1, 1}, numStages);
    for (auto [op, stage] : given)
      problem.ops[op].stage = stage;
    EXPECT_EQ(problem.check(), "");
    EXPECT_FALSE(partitionStagesReference(problem).error.empty());
    return solve(problem, ends).error;
  };
  EXPECT_EQ(error({}, 5),
            "expected at most as many stages as ops, got 5 stages of 4 ops");
  EXPECT_EQ(error({{1, 1}, {2, 0}}, 2),
            "op 2 of stage 0 comes after op 1 of stage 1");
  EXPECT_EQ(error({{0, 0}, {2, 3}}, 4),
            "expected at least 2 ops between op 0 of stage 0 and op 2 of stage "
            "3, got 1");
  EXPECT_EQ(error({{1, 2}}, 3),
            "expected at least 2 ops before op 1 of stage 2, got 1");
  EXPECT_EQ(error({{2, 0}}, 3),
            "expected at least 2 ops after op 2 of stage 0, got 1");
}

// 0: mask's iota, 1: its comparison, 2: embedding of tokens, 3 and 4: two casts
// of parameters, 5: a product that reads 3, 6: attention that reads 1 and 4.
TEST(StagePartition, ArrangesWhatDoesNotDependOnTheBatch) {
  StagePartitionProblem problem;
  problem.ops.resize(7);
  auto addValue = [&](int producer, std::vector<int> consumers) {
    StagePartitionProblem::Value value;
    value.producer = producer;
    value.bytes = 4;
    value.consumers = consumers;
    problem.values.push_back(value);
  };
  addValue(-1, {2});
  problem.values[0].isBatch = true;
  addValue(0, {1});
  addValue(1, {6});
  addValue(2, {5});
  addValue(3, {5});
  addValue(4, {6});
  addValue(5, {6});
  using Order = std::vector<int>;
  EXPECT_EQ(arrangeForStages(problem), (Order{2, 3, 5, 0, 1, 4, 6}));
  // What is given a stage stays.
  problem.ops[1].stage = 0;
  EXPECT_EQ(arrangeForStages(problem), (Order{0, 1, 2, 3, 5, 4, 6}));
  problem.ops[1].stage = -1;
  // What makes less than it shares with others stays too.
  problem.values[1].consumers = {1, 2};
  problem.values[2].bytes = 3;
  EXPECT_EQ(arrangeForStages(problem), (Order{0, 1, 2, 3, 5, 4, 6}));
  StagePartitionProblem moved = reorder(problem, {0, 1, 2, 3, 5, 4, 6});
  EXPECT_EQ(moved.check(), "");
  EXPECT_EQ(moved.values[3].consumers, (Order{4}));
  EXPECT_EQ(moved.values[6].producer, 4);
}

TEST(StagePartition, ChecksItsInput) {
  auto error = [](std::function<void(StagePartitionProblem &)> change) {
    StagePartitionProblem problem = makeChain({1, 1, 1}, {1, 1, 1}, 2);
    problem.parameters.push_back({1, 1, {0, 2}});
    change(problem);
    std::string text = problem.check();
    EXPECT_EQ(partitionStages(problem).error, text);
    EXPECT_EQ(partitionStagesReference(problem).error, text);
    return text;
  };
  double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error([](auto &) {}), "");
  EXPECT_EQ(error([](auto &p) { p.stages.clear(); }),
            "expected at least a stage");
  EXPECT_EQ(error([&](auto &p) { p.linkLatency = infinite; }),
            "expected a link's latency and seconds a byte that are finite and "
            "not negative");
  EXPECT_EQ(error([](auto &p) { p.exposedShare = 1.5; }),
            "expected a share from 0 to 1 of exposed transfers, got 1.500000");
  EXPECT_EQ(error([](auto &p) { p.boundaryBuffers = -1; }),
            "expected at least 0 buffers a boundary, got -1");
  EXPECT_EQ(error([](auto &p) { p.stages[1].inFlight = -1; }),
            "stage 1: expected micro-batches and a memory bound, neither "
            "negative");
  EXPECT_EQ(error([](auto &p) { p.ops[1].backwardWeight = -1; }),
            "op 1: expected seconds that are finite and not negative");
  EXPECT_EQ(error([](auto &p) { p.ops[1].stage = 2; }),
            "op 1: expected a stage in [-1, 2), got 2");
  EXPECT_EQ(error([](auto &p) { p.values[1].gradientBytes = -2; }),
            "value 1: expected at least 0 bytes, got -2");
  EXPECT_EQ(error([](auto &p) { p.values[1].producer = 3; }),
            "value 1: expected a producer in [-1, 3), got 3");
  EXPECT_EQ(error([](auto &p) { p.values[1].consumers = {1}; }),
            "value 1: expected consumers in [2, 3), got 1");
  EXPECT_EQ(error([](auto &p) { p.values[1].keepers = {0}; }),
            "value 1: expected keepers in [1, 3), got 0");
  EXPECT_EQ(error([](auto &p) { p.parameters[0].bytes = -1; }),
            "parameter 0: expected at least 0 bytes, got -1");
  EXPECT_EQ(error([](auto &p) { p.parameters[0].reductionSeconds = -1; }),
            "parameter 0: expected seconds that are finite and not negative");
  EXPECT_EQ(error([](auto &p) { p.parameters[0].users = {}; }),
            "parameter 0: expected a user");
  EXPECT_EQ(error([](auto &p) { p.parameters[0].users = {3}; }),
            "parameter 0: expected users in [0, 3), got 3");
  EXPECT_EQ(error([](auto &p) { p.ops[0].forward = 2e6; }),
            "expected less than 2^60 picoseconds in all");
  EXPECT_EQ(error([](auto &p) { p.parameters[0].bytes = int64_t(1) << 59; }),
            "expected less than 2^60 bytes in all");
}

TEST(StagePartition, VerifyFindsWhatIsWrong) {
  StagePartitionProblem problem = makeChain({1, 2, 3, 4}, {1, 2, 3, 4}, 2);
  problem.ops[1].stage = 0;
  problem.stages[1].memoryBytes = 3;
  StagePartition good = partitionStages(problem);
  ASSERT_EQ(good.verify(problem), "");
  ASSERT_EQ(good.stages[0].end, 3);
  auto error = [&](std::function<void(StagePartition &)> change,
                   bool evaluate) {
    StagePartition plan = good;
    change(plan);
    if (evaluate)
      plan.evaluate(problem);
    return plan.verify(problem);
  };
  auto cutAt = [](int cut) {
    return
        [cut](StagePartition &p) { p.stages[0].end = p.stages[1].begin = cut; };
  };
  EXPECT_EQ(error([](auto &p) { p.error = "no luck"; }, false), "no luck");
  EXPECT_EQ(error([](auto &p) { p.stages.pop_back(); }, false),
            "expected 2 stages, got 1");
  EXPECT_EQ(error([](auto &p) { p.stages[1].begin = 2; }, false),
            "stage 1: does not begin where the one before ends, or is empty");
  EXPECT_EQ(error(cutAt(4), false),
            "stage 1: does not begin where the one before ends, or is empty");
  EXPECT_EQ(error([](auto &p) { p.stages[1].end = 5; }, false),
            "expected the last stage to end at op 4, got 5");
  EXPECT_EQ(error(cutAt(1), true), "op 1: expected in stage 0, got 1");
  EXPECT_EQ(error(cutAt(2), true), "stage 1: needs 5 bytes, more than 3");
  EXPECT_EQ(error(cutAt(2), false),
            "stage 0: has figures that do not follow from its ops");
  EXPECT_EQ(error([](auto &p) { p.stages[1].sentBytes = 1; }, false),
            "stage 1: has figures that do not follow from its ops");
  EXPECT_EQ(error([](auto &p) { p.peakBytes += 1; }, false),
            "has figures that do not follow from its stages");
  problem.exposedShare = -1;
  EXPECT_EQ(good.verify(problem),
            "expected a share from 0 to 1 of exposed transfers, got -1.000000");
}
