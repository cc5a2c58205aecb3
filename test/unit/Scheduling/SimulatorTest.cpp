//===- SimulatorTest.cpp - step time of rank programs on streams ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closed forms first, then random problems against the slow twin and what must
// hold of all of them.
//
//===----------------------------------------------------------------------===//

#include "SimulatorRandom.h"
#include "mpcomm/Scheduling/Simulator/Timeline.h"
#include <chrono>
#include <gtest/gtest.h>

using namespace mpcomm;
using namespace mpcomm::test;

/// One class, `streams` communicators of it alone, one link.
static SimProblem oneClass(int streams, bool contends = true) {
  SimProblem problem;
  problem.classes.resize(1);
  for (int i = 0; i < streams; ++i)
    problem.communicators.push_back({{0}});
  problem.links = {{contends}};
  return problem;
}

static SimCollective collective(int communicator, double latency,
                                double transfer, int link = 0) {
  SimCollective made;
  made.communicator = communicator;
  made.latency = latency;
  made.transfer = transfer;
  made.link = link;
  return made;
}

TEST(Simulator, HidesUnderComputation) {
  SimProblem problem = oneClass(1);
  // 1 s of latency and 3 s of transfer beside 3 s of computation.
  problem.classes[0].collectives = {collective(0, 1, 3)};
  problem.classes[0].instructions = {compute(2), start(0), compute(3), await(0),
                                     compute(5)};
  ASSERT_EQ(problem.check(), "");
  SimResult result = simulate(problem);
  EXPECT_EQ(result.error, "");
  EXPECT_DOUBLE_EQ(result.seconds, 2 + 4 + 5);
  EXPECT_DOUBLE_EQ(result.lowerBound, 2 + 4 + 5);
  const SimClassResult &seen = result.classes[0];
  EXPECT_DOUBLE_EQ(seen.compute, 10);
  EXPECT_DOUBLE_EQ(seen.exposed, 1);
  EXPECT_DOUBLE_EQ(seen.slowdown, 0);
  EXPECT_DOUBLE_EQ(seen.collectives[0].ready, 2);
  EXPECT_DOUBLE_EQ(seen.collectives[0].end, 6);
  EXPECT_DOUBLE_EQ(seen.collectives[0].awaited, 5);
  EXPECT_DOUBLE_EQ(seen.collectives[0].hidden, 3);
  EXPECT_DOUBLE_EQ(seen.collectives[0].exposed, 1);
  EXPECT_DOUBLE_EQ(seen.begin[3], 5);
  EXPECT_DOUBLE_EQ(seen.end[3], 6);
}

TEST(Simulator, OneStreamIsFirstInFirstOut) {
  SimProblem problem = oneClass(1);
  problem.classes[0].collectives = {collective(0, 0, 4), collective(0, 0, 1)};
  problem.classes[0].instructions = {start(0), compute(1), start(1), await(1),
                                     await(0)};
  SimResult result = simulate(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 5);
  EXPECT_DOUBLE_EQ(result.classes[0].collectives[1].ready, 1);
  EXPECT_DOUBLE_EQ(result.classes[0].collectives[1].start, 4);
  EXPECT_EQ(result.classes[0].collectives[1].reason, SimReason::StreamOrder);
  EXPECT_EQ(result.classes[0].collectives[1].reasonIndex, 0);
}

/// Two transfers of 4 s, the second 2 s later. Shared: 2 s alone, then both at
/// half rate until the first ends at 2 + 2 * 2, then the second's last 2 s.
TEST(Simulator, SharesAContendingLink) {
  for (bool contends : {true, false}) {
    SimProblem problem = oneClass(2, contends);
    problem.classes[0].collectives = {collective(0, 0, 4), collective(1, 0, 4)};
    problem.classes[0].instructions = {start(0), compute(2), start(1)};
    SimResult result = simulate(problem);
    EXPECT_DOUBLE_EQ(result.classes[0].collectives[0].end, contends ? 6 : 4);
    EXPECT_DOUBLE_EQ(result.classes[0].collectives[1].end, contends ? 8 : 6);
    EXPECT_DOUBLE_EQ(result.lowerBound, contends ? 8 : 6);
    // Latency is not shared.
    problem.classes[0].collectives[1].latency = 4;
    result = simulate(problem);
    EXPECT_DOUBLE_EQ(result.classes[0].collectives[0].end, 4);
    EXPECT_DOUBLE_EQ(result.classes[0].collectives[1].end, 10);
  }
}

/// Transfers of different classes have ports of their own.
TEST(Simulator, ClassesDoNotShareALink) {
  SimProblem problem = oneClass(1);
  problem.classes.resize(2);
  problem.communicators.push_back({{1}});
  for (int c : {0, 1}) {
    problem.classes[c].collectives = {collective(c, 0, 4)};
    problem.classes[c].instructions = {start(0), await(0)};
  }
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 4);
}

/// 4 s of computation at rate 1/2 until the collective of 2 s (at rate 1/4, so
/// 8 s) ends: they would end together at 8.
TEST(Simulator, SlowsWhatOverlaps) {
  SimProblem problem = oneClass(1);
  problem.computeRateUnderComm = 0.5;
  problem.commRateUnderCompute = 0.25;
  problem.classes[0].collectives = {collective(0, 0, 2)};
  problem.classes[0].instructions = {start(0), compute(5), await(0)};
  SimResult result = simulate(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 8 + 1);
  EXPECT_DOUBLE_EQ(result.classes[0].slowdown, 4);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 0);
  // The slow parts end with the computation: 2 s at 1/2, 3/4 of it left.
  problem.classes[0].instructions = {start(0), compute(1), await(0)};
  result = simulate(problem);
  EXPECT_DOUBLE_EQ(result.seconds, 2 + 1.5);
  EXPECT_DOUBLE_EQ(result.classes[0].exposed, 1.5);
}

/// What overlap must cost. 5 s of computation, a transfer of 2 s.
TEST(Simulator, LowerBoundUnderSlowDown) {
  SimProblem problem = oneClass(1);
  problem.classes[0].collectives = {collective(0, 0, 2)};
  problem.classes[0].instructions = {start(0), compute(5), await(0)};
  // Overlap gains 0.9 + 0.9 - 1 of each second; 2 / 0.9 of them move all.
  problem.computeRateUnderComm = problem.commRateUnderCompute = 0.9;
  SimResult result = simulate(problem);
  EXPECT_NEAR(result.seconds, 5 + 0.1 * 2 / 0.9, 1e-12);
  EXPECT_NEAR(result.lowerBound, result.seconds, 1e-12);
  // As long as what it overlaps with is there: 1 s before it, 3 s after.
  problem.classes[0].instructions = {compute(1), start(0), compute(1), await(0),
                                     compute(3)};
  result = simulate(problem);
  EXPECT_NEAR(result.seconds, 4 + 1 / 0.9 + 2 - 1, 1e-12);
  EXPECT_NEAR(result.lowerBound, result.seconds, 1e-12);
  // Latency hides better: 2 s at a rate of 0.9.
  problem.classes[0].collectives = {collective(0, 2, 0)};
  problem.classes[0].instructions = {start(0), compute(5), await(0)};
  result = simulate(problem);
  EXPECT_NEAR(result.seconds, 5 + 0.1 * 2, 1e-12);
  EXPECT_NEAR(result.lowerBound, result.seconds, 1e-12);
  // At 0.5 and 0.25 overlap loses: 9 s, but 7 with the await first.
  problem.classes[0].collectives = {collective(0, 0, 2)};
  problem.computeRateUnderComm = 0.5;
  problem.commRateUnderCompute = 0.25;
  EXPECT_DOUBLE_EQ(simulate(problem).lowerBound, 7);
  std::swap(problem.classes[0].instructions[1],
            problem.classes[0].instructions[2]);
  EXPECT_DOUBLE_EQ(simulate(problem).seconds, 7);
}

/// GPipe of two stages and m micro-batches of f seconds forward, s to send:
/// the second stage ends after f + s + m f if s <= f.
TEST(Simulator, Pipeline) {
  const int micro = 5;
  const double forward = 3, send = 2;
  SimProblem problem;
  problem.classes.resize(2);
  problem.communicators = {{{0, 1}}};
  problem.links = {{true}};
  for (int i = 0; i < micro; ++i) {
    auto &first = problem.classes[0], &second = problem.classes[1];
    first.collectives.push_back(collective(0, 0.5, send - 0.5));
    second.collectives.push_back(collective(0, 0.5, send - 0.5));
    first.instructions.push_back(compute(forward));
    first.instructions.push_back(start(i));
    // Each recv is posted before the computation on the one before it.
    second.instructions.insert(
        second.instructions.begin() + (i ? 3 * i - 1 : 0), start(i));
    second.instructions.push_back(await(i));
    second.instructions.push_back(compute(forward));
  }
  ASSERT_EQ(problem.check(), "");
  SimResult result = simulate(problem);
  EXPECT_DOUBLE_EQ(result.seconds, forward + send + micro * forward);
  EXPECT_DOUBLE_EQ(result.classes[1].exposed, forward + send);
  // Of the 5 s, 3 pass before the first class has made what it sends.
  EXPECT_EQ(result.classes[1].collectives[0].reason, SimReason::LatePeer);
  EXPECT_EQ(result.classes[1].collectives[0].reasonIndex, -1);
}

/// n equal buckets, each t seconds, made every g < t seconds: the last ends at
/// g + n t, and (n - 1) g of the transfers is hidden.
TEST(Simulator, SaturatedStream) {
  const int n = 7;
  const double g = 2, t = 3;
  SimProblem problem = oneClass(1);
  SimProgram &program = problem.classes[0];
  for (int i = 0; i < n; ++i) {
    program.collectives.push_back(collective(0, 1, t - 1));
    program.instructions.push_back(compute(g));
    program.instructions.push_back(start(i));
  }
  SimResult result = simulate(problem);
  EXPECT_DOUBLE_EQ(result.seconds, g + n * t);
  EXPECT_DOUBLE_EQ(result.lowerBound, result.seconds);
  double hidden = 0;
  for (const SimCollectiveResult &seen : result.classes[0].collectives)
    hidden += seen.hidden;
  EXPECT_DOUBLE_EQ(hidden, (n - 1) * g);
}

TEST(Simulator, Memory) {
  SimProblem problem = oneClass(1);
  SimProgram &program = problem.classes[0];
  program.staticBytes = 100;
  program.collectives = {collective(0, 0, 4)};
  program.instructions = {compute(1, 10, 0), start(0, 20), compute(2, 5, 10),
                          await(0, 25)};
  SimResult result = simulate(problem);
  EXPECT_EQ(result.classes[0].peakBytes, 135);
  EXPECT_EQ(peakBytes(program), 135);
  std::vector<std::pair<double, int64_t>> expected = {
      {0, 100}, {0, 110}, {1, 135}, {3, 125}, {5, 100}};
  EXPECT_EQ(result.classes[0].memory, expected);
}

TEST(Simulator, Reasons) {
  SimProblem problem = oneClass(1);
  SimProgram &program = problem.classes[0];
  auto reason = [&] { return simulate(problem).classes[0].collectives[0]; };
  program.collectives = {collective(0, 0, 4)};
  program.instructions = {compute(1), start(0), compute(1), await(0)};
  EXPECT_EQ(reason().reason, SimReason::NothingToHideUnder);
  // Computation enough, but it needs the collective.
  program.instructions.push_back(compute(9));
  EXPECT_EQ(reason().reason, SimReason::Dependency);
  EXPECT_EQ(reason().reasonIndex, 4);
  program.collectives[0].independentSeconds = 1;
  EXPECT_EQ(reason().reason, SimReason::NothingToHideUnder);
  program.collectives[0].belowSaturatingSize = true;
  EXPECT_EQ(reason().reason, SimReason::BelowSaturatingSize);
  program.collectives[0].userCap = true;
  EXPECT_EQ(reason().reason, SimReason::UserCap);
  program.collectives[0].memoryBound = true;
  EXPECT_EQ(reason().reason, SimReason::MemoryBound);
  std::swap(program.instructions[3], program.instructions[4]);
  EXPECT_EQ(reason().reason, SimReason::None);
}

TEST(Simulator, WaitsForAPeer) {
  // Class 1 waits from 0 on for what class 0 sends at 10 and 1 s later is
  // there.
  SimProblem problem;
  problem.classes.resize(2);
  problem.communicators = {{{0, 1}}};
  problem.links = {{true}};
  problem.classes[0].collectives = {collective(0, 0, 1)};
  problem.classes[0].instructions = {compute(10), start(0), compute(5),
                                     await(0)};
  problem.classes[1].collectives = {collective(0, 0, 1)};
  problem.classes[1].collectives[0].belowSaturatingSize = true;
  problem.classes[1].instructions = {start(0), await(0), compute(1)};
  SimResult result = simulate(problem);
  EXPECT_EQ(result.classes[0].collectives[0].reason, SimReason::None);
  EXPECT_DOUBLE_EQ(result.classes[1].collectives[0].exposed, 11);
  EXPECT_EQ(result.classes[1].collectives[0].reason, SimReason::LatePeer);
  EXPECT_STREQ(toString(SimReason::LatePeer), "late-peer");
  // Ranks of its own class are never late.
  problem.classes[0].instructions = {start(0), compute(1), await(0)};
  problem.classes[0].collectives[0].transfer = 4;
  result = simulate(problem);
  EXPECT_EQ(result.classes[1].collectives[0].reason,
            SimReason::BelowSaturatingSize);
}

TEST(Simulator, Deadlock) {
  SimProblem problem;
  problem.classes.resize(2);
  problem.communicators = {{{0, 1}}, {{0, 1}}};
  problem.links = {{true}};
  for (SimProgram &program : problem.classes)
    program.collectives = {collective(0, 0, 1), collective(1, 0, 1)};
  problem.classes[0].instructions = {start(0), await(0), start(1), await(1)};
  problem.classes[1].instructions = {start(1), await(1), start(0), await(0)};
  ASSERT_EQ(problem.check(), "");
  EXPECT_EQ(simulate(problem).error,
            "deadlock: class 0 waits at instruction 1 for collective 0 on "
            "communicator 0, where class 1 is missing; class 1 waits at "
            "instruction 1 for collective 1 on communicator 1, where class 0 "
            "is missing");
  EXPECT_LT(simulateSeconds(problem), 0);
  // Started early, they pass each other.
  problem.classes[0].instructions = {start(0), start(1), await(0), await(1)};
  EXPECT_EQ(simulate(problem).error, "");
  // One class does not take part.
  problem.classes[1].collectives = {collective(1, 0, 1)};
  problem.classes[1].instructions = {compute(1), start(0), await(0)};
  EXPECT_EQ(simulate(problem).error,
            "deadlock: class 0 waits at instruction 2 for collective 0 on "
            "communicator 0, where class 1 is missing; class 1 has ended");
}

TEST(Simulator, ChecksItsInput) {
  SimProblem good = oneClass(1);
  good.classes[0].collectives = {collective(0, 0, 1)};
  good.classes[0].instructions = {compute(1), start(0), await(0), compute(1)};
  good.classes[0].collectives[0].producer = 0;
  good.classes[0].collectives[0].consumer = 3;
  ASSERT_EQ(good.check(), "");
  auto wrong = [&](auto change) {
    SimProblem problem = good;
    change(problem);
    return problem.check();
  };
  EXPECT_EQ(wrong([](auto &p) { p.computeRateUnderComm = 0; }),
            "expects rates above 0 and at most 1, got 0.000000");
  EXPECT_EQ(wrong([](auto &p) { p.communicators[0].classes = {}; }),
            "communicator 0 has no class");
  EXPECT_EQ(wrong([](auto &p) { p.communicators[0].classes = {0, 0}; }),
            "communicator 0 names class 0 twice");
  EXPECT_EQ(wrong([](auto &p) { p.communicators[0].classes = {1}; }),
            "communicator 0 names class 1 of 1");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].multiplicity = 0; }),
            "class 0 stands for no rank");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].staticBytes = -1; }),
            "class 0 has a negative size");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].collectives[0].latency = -1; }),
            "class 0: collective 0 has no finite non-negative seconds");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].collectives[0].link = 1; }),
            "class 0: collective 0 names link 1 of 1");
  EXPECT_EQ(
      wrong([](auto &p) { p.classes[0].collectives[0].communicator = 1; }),
      "class 0: collective 0 is on communicator 1, which the class is no "
      "member of");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions[1] = await(0); }),
            "class 0: instruction 1 awaits collective 0 before its start");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions[2] = start(0); }),
            "class 0: instruction 2 starts collective 0 a second time");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions[3] = await(0); }),
            "class 0: instruction 3 awaits collective 0 a second time");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions[1].collective = 7; }),
            "class 0: instruction 1 names collective 7 of 1");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions.resize(1); }),
            "class 0: collective 0 names an instruction of 1");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].collectives[0].producer = 3; }),
            "class 0: collective 0 starts before its producer");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].collectives[0].consumer = 0; }),
            "class 0: collective 0 is awaited after its consumer");
  EXPECT_EQ(wrong([](auto &p) { p.classes[0].instructions[0].frees = -1; }),
            "class 0: instruction 0 has a negative size");
}

TEST(Simulator, AgainstTheTwin) {
  int deadlocks = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SimProblem problem = randomProblem(random, /*crossed=*/seed % 2);
    ASSERT_EQ(problem.check(), "");
    SimResult result = simulate(problem);
    TwinResult twin = simulateTwin(problem);
    ASSERT_EQ(!result.error.empty(), twin.deadlock) << result.error;
    deadlocks += twin.deadlock;
    if (twin.deadlock) {
      EXPECT_LT(simulateSeconds(problem), 0);
      continue;
    }
    ASSERT_NEAR(result.seconds, twin.seconds, 1e-9);
    EXPECT_EQ(simulateSeconds(problem), result.seconds);
    for (size_t c = 0; c < problem.classes.size(); ++c) {
      ASSERT_NEAR(result.classes[c].seconds, twin.classSeconds[c], 1e-9);
      for (size_t k = 0; k < twin.start[c].size(); ++k) {
        const SimCollectiveResult &seen = result.classes[c].collectives[k];
        ASSERT_NEAR(seen.start, twin.start[c][k], 1e-9);
        ASSERT_NEAR(seen.end, twin.end[c][k], 1e-9);
      }
    }
  }
  EXPECT_GT(deadlocks, 50);
  EXPECT_LT(deadlocks, 2000);
}

/// Work is conserved, times are in order, and the lower bound is one.
TEST(Simulator, Invariants) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SimProblem problem = randomProblem(random, /*crossed=*/false);
    SimResult result = simulate(problem);
    ASSERT_EQ(result.error, "");
    double last = 0;
    for (size_t c = 0; c < problem.classes.size(); ++c) {
      const SimClassResult &seen = result.classes[c];
      EXPECT_NEAR(seen.seconds, seen.compute + seen.slowdown + seen.exposed,
                  1e-9);
      last = std::max(last, seen.seconds);
      int64_t most = 0;
      for (auto [time, bytes] : seen.memory)
        most = std::max(most, bytes);
      EXPECT_EQ(most, seen.peakBytes);
      for (size_t k = 0; k < seen.collectives.size(); ++k) {
        const SimCollectiveResult &one = seen.collectives[k];
        const SimCollective &made = problem.classes[c].collectives[k];
        EXPECT_LE(one.ready, one.start);
        EXPECT_GE(one.end, one.start + made.latency + made.transfer - 1e-9);
        EXPECT_NEAR(one.exposed, std::max(0.0, one.end - one.awaited), 1e-9);
        EXPECT_LE(one.hidden, one.end - one.start + 1e-9);
        EXPECT_EQ(one.reason == SimReason::None,
                  one.exposed <= 1e-9 * result.seconds);
      }
    }
    EXPECT_EQ(result.seconds, last);
    EXPECT_LE(result.lowerBound, result.seconds + 1e-9);
    EXPECT_EQ(result.lowerBound, lowerBound(problem));
  }
}

/// With full rates and nothing that contends, time is a longest path: more
/// latency, bytes or computation anywhere makes nothing earlier.
TEST(Simulator, Monotone) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SimProblem problem = randomProblem(random, /*crossed=*/false);
    double slowed = simulateSeconds(problem);
    problem.computeRateUnderComm = problem.commRateUnderCompute = 1;
    for (SimLink &link : problem.links)
      link.contends = false;
    double before = simulateSeconds(problem);
    EXPECT_LE(before, slowed + 1e-9);
    for (SimProgram &program : problem.classes) {
      for (SimCollective &made : program.collectives) {
        made.latency += random() % 3;
        made.transfer += random() % 3;
      }
      for (RankInstruction &instruction : program.instructions)
        if (instruction.kind == RankInstruction::Compute)
          instruction.seconds += random() % 2;
    }
    EXPECT_GE(simulateSeconds(problem), before - 1e-9);
  }
}

/// One class for n ranks, and n classes of one rank, are equal to the last bit.
TEST(Simulator, FoldedIsUnfolded) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SimProblem folded = randomProblem(random, /*crossed=*/false);
    int copies = 2 + seed % 4;
    SimProblem unfolded = folded;
    unfolded.classes.clear();
    size_t classes = folded.classes.size();
    for (int i = 0; i < copies; ++i)
      unfolded.classes.insert(unfolded.classes.end(), folded.classes.begin(),
                              folded.classes.end());
    for (SimCommunicator &communicator : unfolded.communicators) {
      std::vector<int> members = communicator.classes;
      for (int i = 1; i < copies; ++i)
        for (int c : members)
          communicator.classes.push_back(c + i * int(classes));
    }
    SimResult one = simulate(folded), all = simulate(unfolded);
    ASSERT_EQ(one.seconds, all.seconds);
    ASSERT_EQ(one.lowerBound, all.lowerBound);
    for (size_t c = 0; c < all.classes.size(); ++c) {
      const SimClassResult &copy = all.classes[c];
      const SimClassResult &original = one.classes[c % classes];
      ASSERT_EQ(copy.begin, original.begin);
      ASSERT_EQ(copy.end, original.end);
      for (size_t k = 0; k < copy.collectives.size(); ++k) {
        ASSERT_EQ(copy.collectives[k].end, original.collectives[k].end);
        ASSERT_EQ(copy.collectives[k].hidden, original.collectives[k].hidden);
        ASSERT_EQ(copy.collectives[k].reason, original.collectives[k].reason);
      }
    }
  }
}

/// Against all sets of jobs.
TEST(Simulator, OneMachineBound) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<OneMachineJob> jobs;
    for (int i = 0; i < 7; ++i)
      jobs.push_back(
          {double(random() % 20), double(random() % 6), double(random() % 20)});
    double best = 0;
    for (unsigned set = 1; set < 1u << jobs.size(); ++set) {
      double head = 1e9, sum = 0, tail = 1e9;
      for (size_t i = 0; i < jobs.size(); ++i)
        if (set >> i & 1) {
          head = std::min(head, jobs[i].head);
          sum += jobs[i].seconds;
          tail = std::min(tail, jobs[i].tail);
        }
      best = std::max(best, head + sum + tail);
    }
    EXPECT_DOUBLE_EQ(oneMachineBound(jobs), best);
  }
}

/// 100,000 instructions in each of four classes on three streams.
TEST(Simulator, LargeProgramsAreFast) {
  SimProblem problem;
  problem.classes.resize(4);
  problem.communicators = {{{0, 1, 2, 3}}, {{0, 1}}, {{2, 3}}};
  problem.links = {{true}};
  problem.computeRateUnderComm = 0.9;
  problem.commRateUnderCompute = 0.9;
  for (int c = 0; c < 4; ++c) {
    SimProgram &program = problem.classes[c];
    for (int i = 0; program.instructions.size() < 100000; ++i) {
      int k = int(program.collectives.size());
      program.collectives.push_back(collective(i % 2 ? 0 : 1 + c / 2, 0.1, 1));
      for (int j = 0; j < 8; ++j)
        program.instructions.push_back(compute(0.2));
      program.instructions.push_back(start(k));
      if (k >= 4)
        program.instructions.push_back(await(k - 4));
    }
  }
  ASSERT_EQ(problem.check(), "");
  auto begin = std::chrono::steady_clock::now();
  SimResult result = simulate(problem);
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.error, "");
  RecordProperty("milliseconds", int(elapsed.count() * 1000));
  EXPECT_LT(elapsed.count(), 10); // 0.2 s unsanitized and alone
}

TEST(Simulator, TimelineAsJson) {
  Timeline timeline;
  timeline.name = "a \"step\"\n";
  timeline.seconds = 0.1;
  timeline.streams = {{"compute", 0, {{"matmul", "f.mlir:3", 0, 0.05}}}};
  timeline.streams[0].events.push_back({"await", "", 0.05, 0.1, 7});
  timeline.collectives.resize(1);
  timeline.collectives[0].id = 7;
  timeline.memory = {{0, 10}, {0.05, 20}};
  EXPECT_EQ(
      toJson(timeline),
      R"({"schema": "mpcomm-timeline-1", "name": "a \"step\"\u000a", )"
      R"("kind": "simulated", "cluster": "", "ranks": 1, "seconds": 0.1, )"
      R"("lower_bound": 0, "compute": 0, "exposed": 0, "peak_bytes": 0, )"
      R"("streams": [
{"name": "compute", "rank": 0, "events": [
{"name": "matmul", "location": "f.mlir:3", "begin": 0, "end": 0.05},
{"name": "await", "location": "", "begin": 0.05, "end": 0.1, "flow": 7}]}], )"
      R"("collectives": [
{"id": 7, "name": "", "location": "", "bytes": 0, "tensors": 0, "ready": 0, )"
      R"("start": 0, "end": 0, "awaited": 0, "hidden": 0, "exposed": 0, )"
      R"("reason": "", "detail": ""}], "memory": [
[0, 10],
[0.05, 20]]}
)");
}
