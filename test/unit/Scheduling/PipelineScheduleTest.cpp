//===- PipelineScheduleTest.cpp - schedules as data, and their times ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where stages are and what travels on which channel; what the verifier
// refuses, in its words; times worked out by hand.
//
//===----------------------------------------------------------------------===//

#include "PipelineRandom.h"
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace mpcomm;
using namespace mpcomm::test;

static PipelineSchedule make(PipelineKind kind, int p, int m, int v = 1) {
  PipelineScheduleOr made = makePipelineSchedule(kind, p, m, v);
  EXPECT_EQ(made.error, "");
  return made.schedule;
}

/// Orders of actions in PyTorch's words, whether or not they can run.
static PipelineSchedule write(int m, const PipelinePlacement &placement,
                              const std::vector<std::string> &orders) {
  PipelineSchedule schedule;
  schedule.stages = int(orders.size());
  schedule.microbatches = m;
  schedule.placement = placement;
  for (const std::string &order : orders) {
    auto &actions = schedule.ranks.emplace_back();
    std::istringstream words(order);
    char letter;
    for (PipelineAction action;
         words >> action.stage >> letter >> action.microbatch;) {
      action.kind = PipelineActionKind(std::string("FBIW").find(letter));
      actions.push_back(action);
    }
  }
  return schedule;
}

/// Two stages on two ranks, in the given orders.
static PipelineSchedule two(int m, const std::string &first,
                            const std::string &second) {
  return write(m, {0, 1}, {first, second});
}

TEST(PipelineSchedule, Placement) {
  EXPECT_EQ(makeLoopPlacement(3, 3),
            (PipelinePlacement{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(makeVPlacement(3, 3),
            (PipelinePlacement{0, 1, 2, 2, 1, 0, 0, 1, 2}));
  PipelineSchedule schedule;
  schedule.stages = 3;
  schedule.placement = {1, 0, 0, 2, 1, 0};
  EXPECT_EQ(schedule.checkShape(), "");
  EXPECT_EQ(schedule.stagesByRank(),
            (std::vector<std::vector<int>>{{1, 2, 5}, {0, 4}, {3}}));
  EXPECT_TRUE(schedule.isLocal(1));
  EXPECT_FALSE(schedule.isLocal(2));
  schedule.placement = {1, 0, 3};
  EXPECT_EQ(schedule.checkShape(),
            "stage 2 is placed on rank 3, expected ranks from 0 to 2");
  schedule.placement = {1, 0, -1};
  EXPECT_EQ(schedule.checkShape(),
            "stage 2 is placed on rank -1, expected ranks from 0 to 2");
  schedule.placement = {1, 0, 0, 1};
  EXPECT_EQ(schedule.checkShape(),
            "rank 2 has no stage, expected each rank to have one");
  schedule.placement = {};
  EXPECT_EQ(schedule.checkShape(),
            "stages=0: expected a number from 1 to 16777216");
}

/// On a channel, a rank sends or receives, to or from one rank.
static void expectOnePeer(const PipelineSchedule &schedule) {
  std::map<std::pair<int, int>, std::pair<bool, int>> uses;
  for (int edge = 0; edge + 1 < schedule.virtualStages(); ++edge)
    for (bool backward : {false, true}) {
      int channel = schedule.channelOf(edge, backward);
      if (schedule.isLocal(edge)) {
        EXPECT_EQ(channel, -1);
        continue;
      }
      EXPECT_GE(channel, 0);
      EXPECT_LT(channel, schedule.channels());
      int from = schedule.rankOf(backward ? edge + 1 : edge);
      int to = schedule.rankOf(backward ? edge : edge + 1);
      for (auto [rank, use] :
           {std::pair{from, std::pair{true, to}}, {to, {false, from}}}) {
        auto [at, added] = uses.insert({{channel, rank}, use});
        EXPECT_TRUE(added || at->second == use) << "rank " << rank;
      }
    }
}

TEST(PipelineSchedule, ChannelsHaveOnePeerAndDirection) {
  for (int p = 1; p <= 9; ++p)
    for (int v = 1; v <= 4; ++v)
      for (bool zigzag : {false, true}) {
        SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v));
        PipelineSchedule schedule;
        schedule.stages = p;
        schedule.placement =
            zigzag ? makeVPlacement(p, v) : makeLoopPlacement(p, v);
        expectOnePeer(schedule);
        // A rank has a send and a receive each way for each of its stages, and
        // a colour more in rings of an odd number.
        bool isOddRing = !zigzag && v > 1 && p % 2 == 1;
        EXPECT_LE(schedule.channels(), 2 * v * (isOddRing ? 3 : 2));
      }
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineRandom random(seed);
    PipelineSchedule schedule;
    schedule.stages = 1 + random.upTo(6);
    schedule.placement = random.placement(schedule.stages, random.upTo(12));
    ASSERT_EQ(schedule.checkShape(), "");
    expectOnePeer(schedule);
  }
  // One stage a rank: a send and a receive each way.
  PipelineSchedule line = make(PipelineKind::GPipe, 4, 4);
  EXPECT_EQ(line.channels(), 4);
  EXPECT_EQ(line.channelOf(0, false), line.channelOf(2, false));
  EXPECT_NE(line.channelOf(0, false), line.channelOf(1, false));
  EXPECT_NE(line.channelOf(0, false), line.channelOf(0, true));
}

/// On a channel beside those of edges, too, a rank has one peer, to which it
/// only sends or from which it only receives.
TEST(PipelineSchedule, ExchangeChannels) {
  for (int stages = 1; stages <= 9; ++stages) {
    PipelineSchedule schedule;
    schedule.stages = stages;
    schedule.placement = makeLoopPlacement(stages, 1);
    // By channel and rank: what it does there.
    std::map<std::pair<int, int>, std::pair<int, bool>> roles;
    for (int from = 0; from < stages; ++from)
      for (int to = 0; to < stages; ++to) {
        if (from == to)
          continue;
        int channel = schedule.exchangeChannelOf(from, to);
        EXPECT_GE(channel, schedule.channels());
        EXPECT_LT(channel, schedule.channels() + 2 * stages);
        std::pair<int, bool> sends{to, true}, receives{from, false};
        auto first = roles.try_emplace({channel, from}, sends).first;
        auto second = roles.try_emplace({channel, to}, receives).first;
        EXPECT_EQ(first->second, sends) << stages << " " << from << " " << to;
        EXPECT_EQ(second->second, receives)
            << stages << " " << from << " " << to;
      }
  }
}

TEST(PipelineSchedule, Messages) {
  std::vector<PipelineMessage> messages =
      two(2, "0F0 0F1 0B0 0B1", "1F0 1I0 1F1 1I1 1W0 1W1").messages();
  ASSERT_EQ(messages.size(), 4u);
  // F1 of rank 0, its action 1, for action 2 of rank 1.
  EXPECT_FALSE(messages[1].backward);
  EXPECT_EQ(messages[1].microbatch, 1);
  EXPECT_EQ(messages[1].sender, 0);
  EXPECT_EQ(messages[1].made, 1);
  EXPECT_EQ(messages[1].needed, 2);
  // I1 of rank 1, its action 3, for B1 of rank 0.
  EXPECT_TRUE(messages[3].backward);
  EXPECT_EQ(messages[3].made, 3);
  EXPECT_EQ(messages[3].receiver, 0);
  EXPECT_EQ(messages[3].needed, 3);
}

TEST(PipelineSchedule, VerifierSaysWhatIsWrong) {
  EXPECT_EQ(two(1, "0F0 0B0", "1F0 1I0 1W0").verify(), "");
  EXPECT_EQ(two(1, "0F0 0B0", "1F0").verify(),
            "rank 1: expected 1B0 (or 1I0 and 1W0), which is missing");
  EXPECT_EQ(two(1, "0B0", "1F0 1B0").verify(),
            "rank 0: expected 0F0, which is missing");
  EXPECT_EQ(two(1, "0F0 0B0", "1F0 1F0 1B0").verify(),
            "rank 1: 1F0 is also at action 0, expected it once");
  EXPECT_EQ(two(1, "0F0 0I0", "1F0 1B0").verify(),
            "rank 0: 0I0 without 0W0, expected both, or 0B0");
  EXPECT_EQ(two(1, "0F0 0B0 0W0", "1F0 1B0").verify(),
            "rank 0: 0W0 beside 0B0, expected one of the two");
  EXPECT_EQ(two(1, "0B0 0F0", "1F0 1B0").verify(),
            "rank 0: 0B0 is before 0F0 at action 1, expected it after that");
  EXPECT_EQ(two(1, "0F0 0W0 0I0", "1F0 1B0").verify(),
            "rank 0: 0W0 is before 0I0 at action 2, expected it after that");
  EXPECT_EQ(two(2, "0F0 0F1 0B0 0B1", "1F1 1F0 1B0 1B1").verify(),
            "rank 1: 1F1 receives on channel 0 from rank 0, which there sends "
            "first for 1F0: expected that before it");
  EXPECT_EQ(two(2, "0F0 0F1 0B0 0B1", "1F0 1F1 1B1 1B0").verify(),
            "rank 0: 0B0 receives on channel 1 from rank 1, which there sends "
            "first for 0B1: expected that before it");
  EXPECT_EQ(two(2, "0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1").verify(),
            "rank 0: 0B0 waits for 1B0 of rank 1, which comes after 1F1 "
            "there; rank 1: 1F1 waits for 0F1 of rank 0, which comes after "
            "0B0 there: expected orders without such a cycle");
  // A cycle that rank 0 is not in, though it waits for it.
  EXPECT_EQ(write(2, {0, 1, 2},
                  {"0F0 0F1 0B0 0B1", "1F0 1I0 1F1 1W0 1B1", "2F0 2F1 2B0 2B1"})
                .verify(),
            "rank 1: 1I0 waits for 2B0 of rank 2, which comes after 2F1 "
            "there; rank 2: 2F1 waits for 1F1 of rank 1, which comes after "
            "1I0 there: expected orders without such a cycle");
  EXPECT_EQ(write(1, {0, 0}, {"0F0 1F0 0B0 1B0"}).verify(),
            "rank 0: 0B0 is before 1B0 at action 3, expected it after that");
  EXPECT_EQ(write(1, {0, 0}, {"0F0 1F0 1B0 0B0"}).verify(), "");
  EXPECT_EQ(write(1, {0, 0}, {"1F0 0F0 1B0 0B0"}).verify(),
            "rank 0: 1F0 is before 0F0 at action 1, expected it after that");
}

/// Ranks of different numbers of stages, neighbours on one rank, in any order.
TEST(PipelineSchedule, VerifierTakesAnyPlacement) {
  EXPECT_EQ(write(2, {1, 0, 0, 1, 0},
                  {"1F0 2F0 1F1 2F1 4F0 4B0 4F1 4B1 2I0 1B0 2B1 1B1 2W0",
                   "0F0 0F1 3F0 3F1 3B0 3B1 0B0 0B1"})
                .verify(),
            "");
  EXPECT_EQ(write(1, {1, 0, 0}, {"1F0 2F0 2B0 1B0 0B0", "0F0"}).verify(),
            "rank 0: 0B0 is of stage 0, expected it on rank 1");
  EXPECT_EQ(write(1, {1, 0, 0}, {"1F0 2F0 2B0 1B0 3F0", "0F0 0B0"}).verify(),
            "rank 0: 3F0 is of stage 3, expected one from 0 to 2");
}

TEST(PipelineSchedule, VerifierRefusesFigures) {
  PipelineSchedule schedule = two(1, "0F0 0B0", "1F0 1B0");
  schedule.ranks[1][0].microbatch = 1;
  EXPECT_EQ(schedule.verify(),
            "rank 1: 1F1 is of micro-batch 1, expected one from 0 to 0");
  schedule.ranks.pop_back();
  EXPECT_EQ(schedule.verify(), "orders of 1 ranks, expected 2");
  schedule.microbatches = 0;
  EXPECT_EQ(schedule.verify(),
            "microbatches=0: expected a number from 1 to 16777216");
}

TEST(PipelineSchedule, VerifierKeepsMemory) {
  PipelineSchedule schedule =
      two(3, "0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2");
  PipelineMemory memory;
  memory.limits = {2, 1};
  EXPECT_EQ(schedule.verify(memory), "");
  memory.limits = {1, 1};
  EXPECT_EQ(schedule.verify(memory),
            "rank 0: at 0F1 it holds 2, expected at most 1");
  memory = {{10, 20}, {}, {5, 7}, {25, 26}};
  EXPECT_EQ(schedule.verify(memory),
            "rank 1: at 1F0 it holds 27, expected at most 26");
  memory.limits = {25, 6};
  EXPECT_EQ(schedule.verify(memory),
            "rank 1: holds 7 without activations, expected at most 6");
  memory.limits = {25, 27};
  EXPECT_EQ(schedule.verify(memory), "");
  // What is held between I and W counts.
  PipelineSchedule split = two(2, "0F0 0F1 0B0 0B1", "1F0 1I0 1F1 1I1 1W0 1W1");
  memory = {{1, 10}, {1, 4}, {}, {2, 13}};
  EXPECT_EQ(split.verify(memory),
            "rank 1: at 1F1 it holds 14, expected at most 13");
  memory.held = {1, 3};
  EXPECT_EQ(split.verify(memory), "");
  memory.held = {2, 3};
  EXPECT_EQ(split.verify(memory),
            "virtual stage 0: activations of 1, of which 2 are held for W: "
            "expected 0 <= held <= activations <= 68719476736");
}

/// F takes 2, I 3, W 1 on rank 0 and 4, 5, 6 on rank 1; 10 there, 20 back.
TEST(PipelineTiming, ByHand) {
  PipelineCosts costs;
  costs.stages = {{2, 3, 1}, {4, 5, 6}};
  costs.forwardTransfer = {10};
  costs.backwardTransfer = {20};
  PipelineSchedule schedule =
      two(2, "0F0 0F1 0I0 0W0 0B1", "1F0 1B0 1F1 1I1 1W1");
  PipelineTiming timing = timePipeline(schedule, costs);
  ASSERT_EQ(timing.error, "");
  // F1's message is made at 4, but travels after F0's: 22. B0 ends at 27, so
  // I0 starts at 47; I1 ends at 36, and its message travels from 47 to 67.
  auto check = [&](int rank, std::vector<std::pair<double, double>> expected) {
    ASSERT_EQ(timing.actions[rank].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(timing.actions[rank][i].start, expected[i].first) << i;
      EXPECT_EQ(timing.actions[rank][i].end, expected[i].second) << i;
    }
  };
  check(0, {{0, 2}, {2, 4}, {47, 50}, {50, 51}, {67, 71}});
  check(1, {{12, 16}, {16, 27}, {27, 31}, {31, 36}, {36, 42}});
  EXPECT_EQ(timing.seconds, 71);
  EXPECT_EQ(timing.span, 71);
  EXPECT_EQ(timing.busy, (std::vector<double>{12, 30}));
  EXPECT_DOUBLE_EQ(timing.bubbleShare, 1 - 42. / (2 * 71));
  EXPECT_EQ(timing.peaks, (std::vector<int64_t>{2, 1}));
  // Rank 1 has 40 s left after its last action at 42.
  costs.after = {3, 40};
  timing = timePipeline(schedule, costs);
  EXPECT_EQ(timing.seconds, 82);
  EXPECT_EQ(timing.computeEnd, 71);
}

TEST(PipelineTiming, Errors) {
  PipelineSchedule schedule = two(1, "0F0 0B0", "1F0 1B0");
  PipelineCosts costs;
  EXPECT_EQ(timePipeline(schedule, costs).error,
            "costs of 0 virtual stages: expected 2");
  costs.stages.assign(2, {1, 1, 1});
  costs.forwardTransfer = {1, 1};
  EXPECT_EQ(timePipeline(schedule, costs).error,
            "2 forward transfers: expected 1, one for each edge, or none");
  costs.forwardTransfer = {-1};
  EXPECT_EQ(timePipeline(schedule, costs).error,
            "edge 0: expected finite times of 0 or more");
  costs.forwardTransfer = {};
  schedule.ranks[0].pop_back();
  EXPECT_EQ(timePipeline(schedule, costs).error,
            "rank 0: expected 0B0 (or 0I0 and 0W0), which is missing");
}
