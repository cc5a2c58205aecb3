//===- PipelineCsvTest.cpp - schedules as PyTorch's CSV -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is written is read as it was, of every placement, also with bubbles and
// lowered; what is wrong is refused with its row and column.
//
//===----------------------------------------------------------------------===//

#include "PipelineRandom.h"
#include <cstdio>
#include <gtest/gtest.h>
#include <regex>

using namespace mpcomm;
using namespace mpcomm::test;

static std::string error(const std::string &text) {
  return parsePipelineSchedule(text).error;
}

static PipelineSchedule parse(const std::string &text) {
  PipelineScheduleOr read = parsePipelineSchedule(text);
  EXPECT_EQ(read.error, "") << text;
  return read.schedule;
}

/// Of the literature, or searched for a random placement.
static PipelineSchedule makeSchedule(unsigned seed) {
  PipelineRandom random(seed);
  PipelineKind kind = PipelineKind(random.upTo(4));
  bool two = kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
  if (random.oneIn(2))
    return makePipelineSchedule(kind, 1 + random.upTo(4), 1 + random.upTo(9),
                                two ? 2 : 1)
        .schedule;
  PipelineOptions options;
  options.stepLimit = 1 << 8;
  options.improveLimit = 1 << 10;
  return choosePipelineSchedule(random.problem(), options).schedule;
}

TEST(PipelineCsv, RoundTrip) {
  int uneven = 0;
  const std::regex grammar("([0-9]+[FBIW][0-9]+(,[0-9]+[FBIW][0-9]+)*\n)+");
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineSchedule schedule = makeSchedule(seed);
    std::string text = schedule.str();
    ASSERT_TRUE(std::regex_match(text, grammar)) << text;
    ASSERT_EQ(parse(text), schedule) << text;
    uneven += schedule.virtualStages() % schedule.stages != 0;
  }
  EXPECT_GT(uneven, 50);
}

/// Python's csv module ends lines with CR LF, and quotes a row of one bubble; a
/// bubble is an empty cell.
TEST(PipelineCsv, BubblesAndSpaces) {
  PipelineSchedule expected = parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(expected.stages, 2);
  EXPECT_EQ(expected.microbatches, 2);
  EXPECT_EQ(expected.placement, (PipelinePlacement{0, 1}));
  EXPECT_EQ(
      parse("0F0,0F1,,,0B0,0B1,\r\n,1F0,\"1B0\",\"\", 1F1 ,\t1B1\r\n\r\n"),
      expected);
  EXPECT_EQ(parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"), expected);
}

TEST(PipelineCsv, PlacementIsThatOfTheRows) {
  PipelineSchedule schedule =
      parse("1F0,2F0,2I0,1I0,2W0,1W0\n0F0,3F0,3B0,0B0\n");
  EXPECT_EQ(schedule.placement, (PipelinePlacement{1, 0, 0, 1}));
  EXPECT_EQ(schedule.verify(), "");
}

/// DualPipe's pairs are taken one after the other; what is for sharded
/// parameters is left out.
TEST(PipelineCsv, OverlappedAndSharded) {
  EXPECT_EQ(parse("0UNSHARD,0F0,(0F1;0B0)OVERLAP_F_B,0B1,0REDUCE_GRAD,"
                  "0RESHARD\n"),
            parse("0F0,0F1,0B0,0B1\n"));
  EXPECT_EQ(parse("0F0,( 0F1 ; 0I0 ; 0W0 )OVERLAP_F_B,0B1\n"),
            parse("0F0,0F1,0I0,0W0,0B1\n"));
}

/// As torch.distributed.pipelining lowers it: receives are early.
TEST(PipelineCsv, Lowered) {
  const std::string first = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,"
                            "0B1\n",
                    second = "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,"
                             "1SEND_B1\n";
  EXPECT_EQ(parse(first + second), parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"));
  EXPECT_EQ(error(first + "1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            "row 2: expected 1RECV_F1, which is missing");
  EXPECT_EQ(error(first + "1F0,1RECV_F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,"
                          "1SEND_B1\n"),
            "row 2, column 2: 1RECV_F0 is after 1F0 at column 1, expected it "
            "before that");
  EXPECT_EQ(
      error("0SEND_F0,0F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n" + second),
      "row 1, column 1: 0SEND_F0 is before 0F0 at column 2, expected it "
      "after that");
  EXPECT_EQ(error(first + "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,"
                          "1SEND_B1,1SEND_F1\n"),
            "row 2, column 9: expected no 1SEND_F1: nothing travels there");
  EXPECT_EQ(error(first + "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1SEND_B0,1F1,"
                          "1B1,1SEND_B1\n"),
            "row 2, column 6: 1SEND_B0 is also at column 5, expected it once");
  // Nothing travels between two stages of a rank.
  EXPECT_EQ(error("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n"),
            "row 1, column 3: expected no 1RECV_F0: nothing travels there");
}

TEST(PipelineCsv, ErrorsNameRowAndColumn) {
  const std::string action =
      "expected an action: a stage, F, B, I or W, and a micro-batch, as in "
      "1F0, found ";
  EXPECT_EQ(error(""), "row 1: expected actions of rank 0, found none");
  EXPECT_EQ(error("0F0,0B0\n\n1F0,1B0"),
            "row 2: expected actions of rank 1, found none");
  EXPECT_EQ(error("0F0,0B0\n,,\n1F0,1B0"),
            "row 2: expected actions of rank 1, found none");
  EXPECT_EQ(error("0F0,,F1"), "row 1, column 3: " + action + "'F1'");
  for (std::string word :
       {"0F", "0FF0", "0F0x", "0f0", "0F0 0F1", "F0.1", "0G1", "0F-1", "0 F0",
        "0F16777216", "0F99999999999999999999",
        "\x01"
        "0F0",
        "0SEND0", "0SEND_F", "\"0F0", "0F0;0B0"})
    EXPECT_EQ(error("0F0," + word).substr(0, 17), "row 1, column 2: ") << word;
  EXPECT_EQ(error("0F0,\x01y"), "row 1, column 2: " + action + "'?y'");
  EXPECT_EQ(error("0F0," + std::string(50, '7')),
            "row 1, column 2: " + action + "'" + std::string(40, '7') + "...'");
  EXPECT_EQ(error("0UNSHARD1"),
            "row 1, column 1: expected no micro-batch after UNSHARD, found "
            "'0UNSHARD1'");
  for (std::string word : {"(0F0)", "(0F0;0B0)OVERLAP", "()OVERLAP_F_B",
                           "(0F0;0B0", "(0F0)OVERLAP_F_B x"})
    EXPECT_EQ(error(word),
              "row 1, column 1: expected actions that overlap, as in "
              "(0F1;1B0)OVERLAP_F_B, found '" +
                  word + "'");
  EXPECT_EQ(error("(0F0;0UNSHARD)OVERLAP_F_B"),
            "row 1, column 1: " + action + "'0UNSHARD'");
  EXPECT_EQ(error("(0F0;;0B0)OVERLAP_F_B"),
            "row 1, column 1: " + action + "''");
  // Of all rows together.
  EXPECT_EQ(error("0F0,0B0\n1F0,1B0,0F1"),
            "row 2, column 3: stage 0 is also at row 1, column 1, expected it "
            "in one row");
  EXPECT_EQ(error("0F0,0B0\n2F0,2B0"),
            "expected stages from 0 to 2, found no action of stage 1");
  // Of the verifier.
  EXPECT_EQ(error("0F0,,0F0,0B0"),
            "row 1, column 3: 0F0 is also at column 1, expected it once");
  EXPECT_EQ(error("0F0,0B0,,0F1"),
            "row 1: expected 0B1 (or 0I1 and 0W1), which is missing");
  EXPECT_EQ(error("0F0,0I0,0W0\n1F0,1I0"),
            "row 2, column 2: 1I0 without 1W0, expected both, or 1B0");
  EXPECT_EQ(error("0B0,,,0F0"),
            "row 1, column 1: 0B0 is before 0F0 at column 4, expected it after "
            "that");
  EXPECT_EQ(error("0F0,,0B0,0F1,0B1\n,1F0,1F1,1B0,1B1"),
            "row 1, column 3: 0B0 waits for 1B0 of rank 1, which comes after "
            "1F1 there; row 2, column 3: 1F1 waits for 0F1 of rank 0, which "
            "comes after 0B0 there: expected orders without such a cycle");
  EXPECT_EQ(error("0F0,0F1,0B0,0B1\n,,1F1,1F0,1B0,1B1"),
            "row 2, column 3: 1F1 receives on channel 0 from rank 0, which "
            "there sends first for 1F0: expected that before it");
  // As many as no schedule has: refused before they are counted out.
  EXPECT_EQ(error("0F9999999,0B9999999"),
            "stages=1 microbatches=10000000: expected at most 16777216 "
            "actions");
}

/// A text with a few characters changed is refused with a row, or is a schedule
/// that is written and read again as it is.
TEST(PipelineCsv, Mutated) {
  PipelineRandom random(17);
  const std::string letters = "FBIW0123456789,,;()\n\r \"_SENDRCVOLAP\tx-.\x80";
  int refused = 0, read = 0, changed = 0;
  std::vector<PipelineSchedule> schedules;
  for (unsigned seed = 0; seed < 200; ++seed)
    schedules.push_back(makeSchedule(seed));
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const PipelineSchedule &schedule = schedules[round % schedules.size()];
    std::string text = schedule.str();
    auto anywhere = [&] { return size_t(random.upTo(int(text.size()) - 1)); };
    auto anyLetter = [&] {
      return letters[random.upTo(int(letters.size()) - 1)];
    };
    for (int n = random.upTo(3); n > 0 && !text.empty(); --n) {
      switch (size_t at = anywhere(); random.upTo(5)) {
      case 0:
        text[at] = anyLetter();
        break;
      case 1:
        text.erase(at, 1 + random.upTo(6));
        break;
      case 2:
        text.insert(at, 1, anyLetter());
        break;
      case 3:
        std::swap(text[at], text[anywhere()]);
        break;
      case 4: // a bubble
        at = text.find(',', at);
        text.insert(at == text.npos ? 0 : at, ",");
        break;
      default: { // two cells in the other order
        size_t from = text.find(',', at) + 1, to = text.find(',', from);
        size_t end = text.find_first_of(",\n", to + 1);
        if (from > 0 && to != text.npos && end != text.npos)
          text.replace(from, end - from,
                       text.substr(to + 1, end - to - 1) + "," +
                           text.substr(from, to - from));
      }
      }
    }
    PipelineScheduleOr made = parsePipelineSchedule(text);
    if (!made.error.empty()) {
      ++refused;
      bool ofAll = made.error.starts_with("expected stages") ||
                   made.error.starts_with("stages=");
      ASSERT_TRUE(ofAll || made.error.starts_with("row ")) << made.error;
      continue;
    }
    ++read;
    changed += !(made.schedule == schedule);
    ASSERT_EQ(made.schedule.verify(), "") << text;
    ASSERT_EQ(parse(made.schedule.str()), made.schedule);
    PipelineCosts costs;
    costs.stages.assign(made.schedule.virtualStages(), {1, 1, 1});
    ASSERT_EQ(timePipeline(made.schedule, costs).error, "");
  }
  std::printf("%d refused, %d read, of which %d are other schedules\n", refused,
              read, changed);
  EXPECT_GT(refused, 5000);
  EXPECT_GT(read, 2000);
  EXPECT_GT(changed, 50);
}
