//===- PipelineScheduleTest.cpp - schedules as data, text, times ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where stages are and what travels on which channel; what the verifier
// refuses, in its words; the text form, there and back; times worked out by
// hand.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule.h"
#include <cstdio>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mpcomm;

static PipelineSchedule make(PipelineKind kind, int p, int m, int v = 1) {
  PipelineScheduleOr made = makePipelineSchedule(kind, p, m, v);
  EXPECT_EQ(made.error, "");
  return made.schedule;
}

static PipelineSchedule parse(const std::string &text) {
  PipelineScheduleOr made = parsePipelineSchedule(text);
  EXPECT_EQ(made.error, "");
  return made.schedule;
}

/// Two stages in one chunk, in the given orders.
static PipelineSchedule two(int m, const std::string &first,
                            const std::string &second) {
  return parse("mpcomm-pipeline-1 stages=2 chunks=1 microbatches=" +
               std::to_string(m) + "\n0: " + first + "\n1: " + second + "\n");
}

TEST(PipelineSchedule, Placement) {
  PipelineSchedule schedule;
  schedule.stages = 3;
  schedule.chunks = 3;
  const int loop[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  const int v[] = {0, 1, 2, 2, 1, 0, 0, 1, 2};
  for (int stage = 0; stage < 9; ++stage) {
    schedule.placement = PipelinePlacement::Loop;
    EXPECT_EQ(schedule.rankOf(stage), loop[stage]);
    EXPECT_EQ(schedule.stageOf(loop[stage], stage / 3), stage);
    schedule.placement = PipelinePlacement::V;
    EXPECT_EQ(schedule.rankOf(stage), v[stage]);
    EXPECT_EQ(schedule.stageOf(v[stage], stage / 3), stage);
  }
  EXPECT_TRUE(schedule.isLocal(2));
  EXPECT_FALSE(schedule.isLocal(3));
}

/// On a channel, a rank sends or receives, to or from one rank.
TEST(PipelineSchedule, ChannelsHaveOnePeerAndDirection) {
  for (auto placement : {PipelinePlacement::Loop, PipelinePlacement::V})
    for (int p = 1; p <= 9; ++p)
      for (int v = 1; v <= 4; ++v) {
        PipelineSchedule schedule;
        schedule.stages = p;
        schedule.chunks = v;
        schedule.placement = placement;
        std::map<std::pair<int, int>, std::pair<bool, int>> uses;
        for (int edge = 0; edge + 1 < p * v; ++edge)
          for (bool backward : {false, true}) {
            if (schedule.isLocal(edge))
              continue;
            int channel = schedule.channelOf(edge, backward);
            EXPECT_GE(channel, 0);
            EXPECT_LT(channel, schedule.channels());
            int from = schedule.rankOf(backward ? edge + 1 : edge);
            int to = schedule.rankOf(backward ? edge : edge + 1);
            for (auto [rank, use] :
                 {std::pair{from, std::pair{true, to}}, {to, {false, from}}}) {
              auto [at, added] = uses.insert({{channel, rank}, use});
              EXPECT_TRUE(added || at->second == use)
                  << "p=" << p << " v=" << v << " rank " << rank;
            }
          }
      }
  // One chunk: a channel by direction and parity.
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
      two(2, "F0 F1 B0 B1", "F0 I0 F1 I1 W0 W1").messages();
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
  EXPECT_EQ(two(1, "F0 B0", "F0 I0 W0").verify(), "");
  EXPECT_EQ(two(1, "F0 B0", "F0").verify(),
            "rank 1: expected B0 (or I and W of it), which is missing");
  EXPECT_EQ(two(1, "B0", "F0 B0").verify(),
            "rank 0: expected F0, which is missing");
  EXPECT_EQ(two(1, "F0 B0", "F0 F0 B0").verify(),
            "rank 1: F0 is action 0 and 1, expected it once");
  EXPECT_EQ(two(1, "F0 I0", "F0 B0").verify(),
            "rank 0: I0 without W0, expected both, or B0");
  EXPECT_EQ(two(1, "F0 B0 W0", "F0 B0").verify(),
            "rank 0: W0 beside B0, expected one of the two");
  EXPECT_EQ(two(1, "B0 F0", "F0 B0").verify(),
            "rank 0: B0 stands before F0, expected it after that");
  EXPECT_EQ(two(1, "F0 W0 I0", "F0 B0").verify(),
            "rank 0: W0 stands before I0, expected it after that");
  EXPECT_EQ(two(2, "F0 F1 B0 B1", "F1 F0 B0 B1").verify(),
            "rank 1: F1 receives on channel 0 from rank 0, which there sends "
            "first for F0: expected that before it");
  EXPECT_EQ(two(2, "F0 F1 B0 B1", "F0 F1 B1 B0").verify(),
            "rank 0: B0 receives on channel 3 from rank 1, which there sends "
            "first for B1: expected that before it");
  EXPECT_EQ(two(2, "F0 B0 F1 B1", "F0 F1 B0 B1").verify(),
            "rank 0: B0 waits for B0 of rank 1, behind F1 there; rank 1: F1 "
            "waits for F1 of rank 0, behind B0 there: expected orders without "
            "such a cycle");
  // A cycle that rank 0 is not in, though it waits for it.
  EXPECT_EQ(parse("mpcomm-pipeline-1 stages=3 chunks=1 microbatches=2\n"
                  "0: F0 F1 B0 B1\n1: F0 I0 F1 W0 B1\n2: F0 F1 B0 B1\n")
                .verify(),
            "rank 1: I0 waits for B0 of rank 2, behind F1 there; rank 2: F1 "
            "waits for F1 of rank 1, behind I0 there: expected orders without "
            "such a cycle");
  PipelineSchedule turn =
      parse("mpcomm-pipeline-1 stages=1 chunks=2 microbatches=1 placement=v\n"
            "0: F0.0 F0.1 B0.0 B0.1\n");
  EXPECT_EQ(turn.verify(),
            "rank 0: B0.0 stands before B0.1, expected it after that");
  std::swap(turn.ranks[0][2], turn.ranks[0][3]);
  EXPECT_EQ(turn.verify(), "");
  std::swap(turn.ranks[0][0], turn.ranks[0][1]);
  EXPECT_EQ(turn.verify(),
            "rank 0: F0.1 stands before F0.0, expected it after that");
}

TEST(PipelineSchedule, VerifierRefusesFigures) {
  PipelineSchedule schedule = two(1, "F0 B0", "F0 B0");
  schedule.ranks[1][0].microbatch = 1;
  EXPECT_EQ(schedule.verify(),
            "rank 1: action 0 is of micro-batch 1 and chunk 0, expected "
            "micro-batches below 1 and chunks below 1");
  schedule.ranks.pop_back();
  EXPECT_EQ(schedule.verify(), "orders of 1 ranks, expected 2");
  schedule.chunks = 0;
  EXPECT_EQ(schedule.verify(),
            "chunks=0: expected a number from 1 to 16777216");
}

TEST(PipelineSchedule, VerifierKeepsMemory) {
  PipelineSchedule schedule = two(3, "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2");
  PipelineMemory memory;
  memory.limits = {2, 1};
  EXPECT_EQ(schedule.verify(memory), "");
  memory.limits = {1, 1};
  EXPECT_EQ(schedule.verify(memory),
            "rank 0: at F1 it holds 2, expected at most 1");
  memory = {{10, 20}, {}, {5, 7}, {25, 26}};
  EXPECT_EQ(schedule.verify(memory),
            "rank 1: at F0 it holds 27, expected at most 26");
  memory.limits = {25, 6};
  EXPECT_EQ(schedule.verify(memory),
            "rank 1: holds 7 without activations, expected at most 6");
  memory.limits = {25, 27};
  EXPECT_EQ(schedule.verify(memory), "");
  // What is held between I and W counts.
  PipelineSchedule split = two(2, "F0 F1 B0 B1", "F0 I0 F1 I1 W0 W1");
  memory = {{1, 10}, {1, 4}, {}, {2, 13}};
  EXPECT_EQ(split.verify(memory),
            "rank 1: at F1 it holds 14, expected at most 13");
  memory.held = {1, 3};
  EXPECT_EQ(split.verify(memory), "");
  memory.held = {2, 3};
  EXPECT_EQ(split.verify(memory),
            "virtual stage 0: activations of 1, of which 2 are held for W: "
            "expected 0 <= held <= activations <= 68719476736");
}

TEST(PipelineText, ErrorsNameTheLine) {
  auto error = [](const std::string &text) {
    return parsePipelineSchedule(text).error;
  };
  std::string head = "mpcomm-pipeline-1 stages=1 chunks=1 microbatches=2\n";
  EXPECT_EQ(error(""), "line 1: expected 'mpcomm-pipeline-1', found the end of "
                       "the text");
  EXPECT_EQ(error("# no\n\npipeline"),
            "line 3: expected 'mpcomm-pipeline-1', found 'pipeline'");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=x"),
            "line 1: expected 'stages=' and a number, found 'stages=x'");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=2"),
            "line 1: expected 'chunks=' and a number, found the end of the "
            "line");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=0 chunks=1 microbatches=1"),
            "line 1: stages=0: expected a number from 1 to 16777216");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=1 chunks=2 microbatches=1\n"),
            "line 1: expected 'placement=loop' or 'placement=v', found the end "
            "of the line");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=1 chunks=1 microbatches=1 x"),
            "line 1: expected the end of the line, found 'x'");
  EXPECT_EQ(error(head), "line 2: expected '0:', found the end of the text");
  EXPECT_EQ(error(head + "1: F0"), "line 2: expected '0:', found '1:'");
  EXPECT_EQ(error(head + "\n0: F0 G1"),
            "line 3: expected an action: F, B, I or W and a micro-batch, found "
            "'G1'");
  EXPECT_EQ(error(head + "0: F0 F2"),
            "line 2: expected 'F' and a micro-batch from 0 to 1, found 'F2'");
  EXPECT_EQ(error(head + "0: F01"),
            "line 2: expected 'F' and a micro-batch from 0 to 1, found 'F01'");
  EXPECT_EQ(error(head + "0: F0.0"),
            "line 2: expected an action without chunk, as chunks=1, found "
            "'F0.0'");
  EXPECT_EQ(error("mpcomm-pipeline-1 stages=1 chunks=2 microbatches=1 "
                  "placement=v\n0: F0.2"),
            "line 2: expected an action with '.' and a chunk from 0 to 1, "
            "found 'F0.2'");
  EXPECT_EQ(error(head + "0: F0 B0\n1: F0"),
            "line 3: expected the end of the text after 1 ranks, found '1:'");
}

TEST(PipelineText, CommentsAndSpaces) {
  PipelineSchedule schedule = parse(
      "# ours\r\n\nmpcomm-pipeline-1  stages=1 chunks=1\tmicrobatches=1 # p\n"
      "   0:  F0   B0 # both\n# end");
  EXPECT_EQ(schedule.verify(), "");
  EXPECT_EQ(schedule.str(),
            "mpcomm-pipeline-1 stages=1 chunks=1 microbatches=1\n0: F0 B0\n");
}

TEST(PipelineText, RoundTrip) {
  for (PipelineKind kind :
       {PipelineKind::GPipe, PipelineKind::OneFOneB, PipelineKind::Interleaved,
        PipelineKind::ZBH1, PipelineKind::ZBV})
    for (int p = 1; p < 6; ++p)
      for (int m = 1; m < 13; ++m) {
        bool two =
            kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
        PipelineSchedule schedule = make(kind, p, m, two ? 2 : 1);
        EXPECT_EQ(parse(schedule.str()), schedule);
      }
}

/// A text with a few characters changed is refused with a line, or is a
/// schedule that is written and read again as it is; neither it nor its
/// verifier crash.
TEST(PipelineText, Fuzzed) {
  std::mt19937 random(17);
  auto upTo = [&](size_t most) { return random() % (most + 1); };
  const std::string letters = "FBIW0123456789.:= \n#-+vloop\t\r\0x";
  unsigned refused = 0, read = 0, verified = 0;
  for (int round = 0; round < 40000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    auto kind = PipelineKind(upTo(4));
    bool chunked =
        kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
    std::string text =
        make(kind, 1 + int(upTo(3)), 1 + int(upTo(4)), 1 + chunked).str();
    // Half of them are left as they are up to the orders.
    size_t from = upTo(1) ? 0 : text.find('\n');
    for (size_t n = upTo(3); n > 0; --n) {
      size_t at = from + upTo(text.size() - 1 - from);
      switch (upTo(3)) {
      case 0:
        text[at] = letters[upTo(letters.size() - 1)];
        break;
      case 1:
        text.erase(at, 1 + upTo(4));
        break;
      case 2:
        text.insert(at, 1, letters[upTo(letters.size() - 1)]);
        break;
      case 3:
        std::swap(text[at], text[from + upTo(text.size() - 1 - from)]);
        break;
      }
      if (text.size() <= from)
        break;
    }
    PipelineScheduleOr parsed = parsePipelineSchedule(text);
    if (!parsed.error.empty()) {
      ++refused;
      ASSERT_EQ(parsed.error.substr(0, 5), "line ") << parsed.error;
      continue;
    }
    ++read;
    PipelineScheduleOr again = parsePipelineSchedule(parsed.schedule.str());
    ASSERT_EQ(again.error, "");
    ASSERT_EQ(again.schedule, parsed.schedule);
    if (parsed.schedule.verify().empty()) {
      ++verified;
      PipelineCosts costs;
      costs.stages.assign(parsed.schedule.virtualStages(), {1, 1, 1});
      ASSERT_EQ(timePipeline(parsed.schedule, costs).error, "");
    }
  }
  std::printf("%u refused, %u read, of which %u verify\n", refused, read,
              verified);
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(read - verified, 1000u);
  EXPECT_GT(verified, 1000u);
}

/// F takes 2, I 3, W 1 on rank 0 and 4, 5, 6 on rank 1; 10 there, 20 back.
TEST(PipelineTiming, ByHand) {
  PipelineCosts costs;
  costs.stages = {{2, 3, 1}, {4, 5, 6}};
  costs.forwardTransfer = {10};
  costs.backwardTransfer = {20};
  PipelineSchedule schedule = two(2, "F0 F1 I0 W0 B1", "F0 B0 F1 I1 W1");
  PipelineTiming timing = timePipeline(schedule, costs);
  ASSERT_EQ(timing.error, "");
  // F1's message is made at 4, but travels behind F0's: 22. B0 ends at 27, so
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
  // Rank 1 has 40 s left behind its last action at 42.
  costs.after = {3, 40};
  timing = timePipeline(schedule, costs);
  EXPECT_EQ(timing.seconds, 82);
  EXPECT_EQ(timing.computeEnd, 71);
}

TEST(PipelineTiming, Errors) {
  PipelineSchedule schedule = two(1, "F0 B0", "F0 B0");
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
            "rank 0: expected B0 (or I and W of it), which is missing");
}
