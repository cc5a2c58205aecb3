//===- PipelineFixedTest.cpp - the literature's schedules and figures -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every schedule verifies, for every number of micro-batches; its bubble is the
// formula's and its activations are the table's. Times are whole numbers, so
// figures are compared exactly.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>

using namespace mpcomm;

static constexpr PipelineKind allKinds[] = {
    PipelineKind::GPipe, PipelineKind::OneFOneB, PipelineKind::Interleaved,
    PipelineKind::ZBH1, PipelineKind::ZBV};

static bool hasChunks(PipelineKind kind) {
  return kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
}

static PipelineSchedule make(PipelineKind kind, int p, int m, int v) {
  PipelineScheduleOr made = makePipelineSchedule(kind, p, m, v);
  EXPECT_EQ(made.error, "");
  return made.schedule;
}

/// Every virtual stage costs the same.
static PipelineCosts equalCosts(const PipelineSchedule &schedule,
                                double forward = 1, double input = 1,
                                double weight = 1) {
  PipelineCosts costs;
  costs.stages.assign(schedule.virtualStages(), {forward, input, weight});
  return costs;
}

static std::string label(PipelineKind kind, int p, int m, int v) {
  return std::string(pipelineKindName(kind)) + " p=" + std::to_string(p) +
         " m=" + std::to_string(m) + " v=" + std::to_string(v);
}

/// Calls `test(kind, p, m, v)` for all kinds, p in 1..16, m in 1..4p, and v in
/// 2..4 for interleaved schedules.
template <typename Fn> static void forAll(Fn test) {
  for (PipelineKind kind : allKinds)
    for (int p = 1; p <= 16; ++p)
      for (int m = 1; m <= 4 * p; ++m)
        for (int v = 1 + hasChunks(kind);
             v <= (kind == PipelineKind::Interleaved ? 4
                   : kind == PipelineKind::ZBV       ? 2
                                                     : 1);
             ++v) {
          SCOPED_TRACE(label(kind, p, m, v));
          test(kind, p, m, v);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

TEST(PipelineFixed, AllVerify) {
  int count = 0;
  forAll([&](PipelineKind kind, int p, int m, int v) {
    ASSERT_EQ(make(kind, p, m, v).verify(), "");
    ++count;
  });
  std::printf("%d schedules verify\n", count);
}

/// The four-stage pictures of the papers, written down by hand.
TEST(PipelineFixed, SmallOrders) {
  EXPECT_EQ(make(PipelineKind::GPipe, 2, 2, 1).str(), "0F0,0F1,0B0,0B1\n"
                                                      "1F0,1F1,1B0,1B1\n");
  EXPECT_EQ(make(PipelineKind::OneFOneB, 2, 4, 1).str(),
            "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n"
            "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  EXPECT_EQ(make(PipelineKind::Interleaved, 2, 2, 2).str(),
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
  EXPECT_EQ(make(PipelineKind::ZBH1, 2, 3, 1).str(),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
  EXPECT_EQ(make(PipelineKind::ZBV, 2, 2, 2).str(),
            "0F0,0F1,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,0I1,0W1\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1I0,1W0,2I1,2W1,1I1,1W1\n");
}

/// One rank's idle time over that of all it does: as the papers write it, and
/// as idleFormula() has it.
TEST(PipelineFixed, BubbleSharesAreTheFormulas) {
  int count = 0;
  forAll([&](PipelineKind kind, int p, int m, int v) {
    PipelineSchedule schedule = make(kind, p, m, v);
    PipelineTiming timing = timePipeline(schedule, equalCosts(schedule));
    ASSERT_EQ(timing.error, "");
    double work = 3.0 * v * m;
    double idle = idleFormula(kind, p, m, v, 1, 1, 1);
    ASSERT_EQ(timing.computeEnd, work + idle);
    ASSERT_EQ(timing.seconds, work + idle);
    // Of computed shares the last digits are rounded: one division, one
    // difference from 1.
    ASSERT_NEAR(timing.bubbleShare, idle / (work + idle), 4e-16);
    if (m < p)
      return;
    ++count;
    double share = 0; // as the papers write it
    switch (kind) {
    case PipelineKind::GPipe:
    case PipelineKind::OneFOneB:
      share = double(p - 1) / (m + p - 1);
      break;
    case PipelineKind::Interleaved:
      share = double(p - 1) / (v * m + p - 1);
      break;
    case PipelineKind::ZBH1: // (p - 1) (F + I - W) of m (F + I + W)
      share = double(p - 1) / (3 * m + p - 1);
      break;
    case PipelineKind::ZBV:
      // From 2 p - 1 on, the last rank's wait for its first micro-batch alone.
      if (m < 2 * p - 1)
        return;
      share = double(p - 1) / (6 * m + p - 1);
      // Seen from each rank's own first start: nothing.
      ASSERT_EQ(timing.span, work);
      ASSERT_EQ(timing.spanBubbleShare, 0);
      break;
    }
    ASSERT_NEAR(timing.bubbleShare, share, 4e-16);
  });
  std::printf("%d schedules of m >= p\n", count);
}

/// Where forward and backward differ, too.
TEST(PipelineFixed, FormulasOfUnequalActions) {
  struct Actions {
    double forward, input, weight;
  };
  for (Actions is : {Actions{2, 3, 1}, {3, 2, 1}, {1, 3, 1}, {4, 3, 3}})
    forAll([&](PipelineKind kind, int p, int m, int v) {
      if (kind == PipelineKind::ZBV || v > 3 || p > 8)
        return;
      PipelineSchedule schedule = make(kind, p, m, v);
      PipelineTiming timing = timePipeline(
          schedule, equalCosts(schedule, is.forward, is.input, is.weight));
      ASSERT_EQ(timing.seconds, v * m * (is.forward + is.input + is.weight) +
                                    idleFormula(kind, p, m, v, is.forward,
                                                is.input, is.weight));
    });
}

/// Activations in units of a virtual stage's, of one micro-batch: v of them are
/// a rank's layers.
TEST(PipelineFixed, ActivationPeaksAreTheTable) {
  forAll([&](PipelineKind kind, int p, int m, int v) {
    std::vector<int64_t> peaks = make(kind, p, m, v).peaks();
    ASSERT_EQ(int(peaks.size()), p);
    int64_t most = *std::max_element(peaks.begin(), peaks.end());
    for (int r = 0; r < p; ++r) {
      switch (kind) {
      case PipelineKind::GPipe:
        ASSERT_EQ(peaks[r], m);
        break;
      case PipelineKind::OneFOneB:
        ASSERT_EQ(peaks[r], std::min(m, p - r));
        break;
      case PipelineKind::Interleaved:
        // With p | m: (v p + p - 1) / v layers' worth on rank 0, that is
        // p (1 + (p - 1) / (p v)), as Korthikanti et al. 2022 have it.
        if (m % p == 0) {
          ASSERT_EQ(peaks[r],
                    std::min(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1));
        }
        if (m >= p) {
          int groups = m / p, group = (m + groups - 1) / groups;
          ASSERT_EQ(peaks[r],
                    std::min(v * m, 2 * (p - 1 - r) + (v - 1) * group + 1));
        }
        break;
      case PipelineKind::ZBH1:
        // p - r forwards, and r put-off weight gradients.
        ASSERT_EQ(peaks[r], std::min(m, p));
        break;
      case PipelineKind::ZBV:
        ASSERT_LE(peaks[r], 2 * p);
        break;
      }
    }
    if (kind == PipelineKind::ZBH1) { // 1F1B's
      ASSERT_EQ(most, make(PipelineKind::OneFOneB, p, m, 1).peaks()[0]);
    }
    if (kind == PipelineKind::ZBV) { // p layers' worth
      ASSERT_EQ(most, std::min(2 * m, 2 * p));
    }
  });
}

/// What W needs of an activation is less than all: of a rank's p - r forwards
/// all, of its r put-off weight gradients the part.
TEST(PipelineFixed, HeldForWeights) {
  PipelineMemory memory;
  memory.activations.assign(4, 10);
  memory.held.assign(4, 4);
  memory.fixed = {100, 200, 300, 400};
  std::vector<int64_t> peaks = make(PipelineKind::ZBH1, 4, 8, 1).peaks(memory);
  EXPECT_EQ(peaks, (std::vector<int64_t>{140, 234, 328, 422}));
}

TEST(PipelineFixed, Errors) {
  using K = PipelineKind;
  auto error = [](K kind, int p, int m, int v) {
    return makePipelineSchedule(kind, p, m, v).error;
  };
  EXPECT_EQ(error(K::GPipe, 0, 4, 1),
            "gpipe: ranks=0: expected a number from 1 to 16777216");
  EXPECT_EQ(error(K::OneFOneB, 2, 0, 1),
            "1f1b: microbatches=0: expected a number from 1 to 16777216");
  EXPECT_EQ(error(K::OneFOneB, 1 << 20, 1 << 20, 1),
            "1f1b: stages=1048576 microbatches=1048576: expected at "
            "most 16777216 actions");
  EXPECT_EQ(error(K::ZBH1, 2, 4, 2), "zb-h1: expected 1 chunk a rank, found 2");
  EXPECT_EQ(error(K::Interleaved, 2, 4, 1),
            "interleaved: expected 2 chunks a rank or more, found 1");
  EXPECT_EQ(error(K::ZBV, 2, 4, 3), "zb-v: expected 2 chunks a rank, found 3");
}

TEST(PipelineFixed, Names) {
  for (PipelineKind kind : allKinds)
    EXPECT_EQ(parsePipelineKind(pipelineKindName(kind)), kind);
  EXPECT_EQ(parsePipelineKind("zero"), std::nullopt);
}
