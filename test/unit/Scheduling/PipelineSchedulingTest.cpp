//===- PipelineSchedulingTest.cpp - the choice of a pipeline schedule -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against every order there is on small problems; on larger ones never worse
// than the schedules of the literature, never below the bound.
//
//===----------------------------------------------------------------------===//

#include "PipelineRandom.h"
#include "References.h"
#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <limits>
#include <map>

using namespace mpcomm;
using namespace mpcomm::test;

static void compareWithAll(int p, int m, const PipelinePlacement &placement,
                           int instances) {
  int better = 0;
  for (int seed = 0; seed < instances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem;
    problem.stages = p;
    problem.candidates = {PipelineRandom(seed).candidate(p, m, placement)};
    ASSERT_EQ(problem.check(), "");
    PipelineChoice best = choosePipelineScheduleReference(problem);
    PipelineChoice choice = choosePipelineSchedule(problem);
    ASSERT_EQ(best.error, "");
    ASSERT_EQ(choice.error, "");
    ASSERT_EQ(choice.schedule.verify(problem.candidates[0].memory), "");
    ASSERT_EQ(choice.timing.seconds, best.timing.seconds);
    ASSERT_TRUE(choice.proven);
    ASSERT_EQ(choice.lowerBound, best.timing.seconds);
    ASSERT_LE(problem.lowerBound(problem.candidates[0]), best.timing.seconds);
    better += choice.name == "searched";
  }
  std::printf("p=%d m=%d, %zu stages: %d equal the best of all orders, %d of "
              "them searched\n",
              p, m, placement.size(), instances, better);
}

TEST(PipelineScheduling, EqualsAllOrders) {
  auto loop = makeLoopPlacement, v = makeVPlacement;
  compareWithAll(1, 3, loop(1, 1), 100);
  compareWithAll(2, 1, loop(2, 1), 100);
  compareWithAll(2, 2, loop(2, 1), 3000);
  compareWithAll(2, 3, loop(2, 1), 1000);
  compareWithAll(3, 2, loop(3, 1), 3000);
  compareWithAll(4, 2, loop(4, 1), 1000);
  compareWithAll(3, 3, loop(3, 1), 10);
  compareWithAll(2, 4, loop(2, 1), 5);
  compareWithAll(2, 1, loop(2, 2), 1000);
  compareWithAll(2, 1, v(2, 2), 1000);
  compareWithAll(3, 1, v(3, 2), 100);
  compareWithAll(1, 2, v(1, 2), 20);
}

/// Ranks of one and of several stages, neighbours on one rank, in any order.
TEST(PipelineScheduling, EqualsAllOrdersOfAnyPlacement) {
  compareWithAll(2, 1, {1, 0, 0, 1}, 500);
  compareWithAll(2, 1, {0, 0, 1}, 500);
  compareWithAll(2, 2, {1, 0}, 500);
  compareWithAll(3, 1, {2, 0, 0, 1, 2}, 100);
  compareWithAll(2, 1, {0, 1, 1, 1, 0}, 20);
  compareWithAll(2, 2, {0, 1, 1}, 20);
  compareWithAll(3, 2, {2, 0, 1}, 200);
}

/// The orders of one rank from `done` (by stage, F, I and W) on, as the
/// reference will try them.
static double countOrders(const PipelineCandidate &is,
                          const PipelineSchedule &shape, int rank,
                          std::vector<int> &done,
                          std::map<std::vector<int>, double> &known) {
  int64_t bytes = is.memory.fixedOf(rank);
  int left = 0;
  std::vector<int> own = shape.stagesByRank()[rank];
  for (int stage : own) {
    const int *by = &done[3 * stage];
    bytes += (by[0] - by[1]) * is.memory.activation(stage) +
             (by[1] - by[2]) * is.memory.heldOf(stage);
    left += 3 * is.microbatches - by[0] - by[1] - by[2];
  }
  if (bytes > is.memory.limit(rank))
    return 0;
  if (!left)
    return 1;
  if (auto at = known.find(done); at != known.end())
    return at->second;
  double count = 0;
  for (int i = 0; i < int(done.size()); ++i) {
    if (shape.rankOf(i / 3) != rank)
      continue;
    if (done[i] == is.microbatches || (i % 3 && done[i] == done[i - 1]))
      continue;
    ++done[i];
    count += countOrders(is, shape, rank, done, known);
    --done[i];
  }
  return known[done] = count;
}

/// In any placement there is a schedule, it can run, and it is never below the
/// bound; where ranks have other numbers, the literature's takes as long.
TEST(PipelineScheduling, AnyPlacement) {
  int proven = 0;
  PipelineOptions options;
  options.stepLimit = 1 << 10;
  options.improveLimit = 1 << 13;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineRandom random(seed);
    PipelineProblem problem;
    problem.stages = 1 + random.upTo(4);
    PipelinePlacement placement =
        random.placement(problem.stages, random.upTo(2 * problem.stages));
    problem.candidates = {
        random.candidate(problem.stages, 1 + random.upTo(7), placement)};
    ASSERT_EQ(problem.check(), "");
    PipelineChoice choice = choosePipelineSchedule(problem, options);
    ASSERT_EQ(choice.error, "");
    ASSERT_EQ(choice.schedule.placement, placement);
    ASSERT_EQ(choice.schedule.verify(problem.candidates[0].memory), "");
    ASSERT_GE(choice.timing.seconds,
              problem.lowerBound(problem.candidates[0]) * (1 - 1e-9));
    proven += choice.proven;
  }
  std::printf("%d of 500 proven\n", proven);
  EXPECT_GT(proven, 50);
  for (PipelineKind kind :
       {PipelineKind::OneFOneB, PipelineKind::Interleaved, PipelineKind::ZBV}) {
    int chunks = kind == PipelineKind::OneFOneB ? 1 : 2;
    PipelineSchedule usual = makePipelineSchedule(kind, 3, 6, chunks).schedule;
    PipelinePlacement renamed = usual.placement;
    for (int &rank : renamed)
      rank = (rank + 1) % 3;
    PipelineScheduleOr made = makePipelineSchedule(kind, 3, 6, renamed);
    ASSERT_EQ(made.error, "");
    EXPECT_EQ(made.schedule.verify(), "");
    EXPECT_EQ(made.schedule.ranks[1], usual.ranks[0]);
    PipelineCosts costs;
    costs.stages.assign(usual.virtualStages(), {1, 1, 1});
    EXPECT_EQ(timePipeline(made.schedule, costs).seconds,
              timePipeline(usual, costs).seconds);
  }
  auto error = [](PipelineKind kind, const PipelinePlacement &placement) {
    return makePipelineSchedule(kind, 2, 2, placement).error;
  };
  EXPECT_EQ(error(PipelineKind::Interleaved, {0, 1, 1, 0}),
            "interleaved: expected stages on ranks 0,1,0,1, or on the same in "
            "other numbers");
  EXPECT_EQ(error(PipelineKind::OneFOneB, {0, 1, 1}),
            "1f1b: expected stages on ranks 0,1, or on the same in other "
            "numbers");
  EXPECT_EQ(error(PipelineKind::OneFOneB, {1, 1}),
            "1f1b: expected stages on ranks 0,1, or on the same in other "
            "numbers");
  EXPECT_EQ(error(PipelineKind::OneFOneB, {1, 2}),
            "1f1b: expected stages on ranks 0,1, or on the same in other "
            "numbers");
}

/// Several chunks of several micro-batches, where memory leaves few orders.
TEST(PipelineScheduling, EqualsAllOrdersInTightMemory) {
  int compared = 0, better = 0;
  for (int seed = 0; compared < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem;
    problem.stages = 2;
    problem.candidates = {PipelineRandom(seed).candidate(
        2, 2, seed % 2 ? makeVPlacement(2, 2) : makeLoopPlacement(2, 2), true)};
    double orders = 1;
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<int> done(12);
      std::map<std::vector<int>, double> known;
      orders *= countOrders(problem.candidates[0],
                            problem.candidates[0].shape(2), rank, done, known);
    }
    if (orders > 2e6)
      continue;
    ++compared;
    PipelineChoice best = choosePipelineScheduleReference(problem);
    PipelineChoice choice = choosePipelineSchedule(problem);
    ASSERT_EQ(choice.timing.seconds, best.timing.seconds);
    ASSERT_TRUE(choice.proven);
    better += choice.name == "searched";
  }
  std::printf("%d compared, %d of them searched\n", compared, better);
}

/// All orders of one rank of two (one stage): any order of micro-batches, any
/// of them with B or with I and W.
static std::vector<std::vector<PipelineAction>> anyOrders(int m, int stage) {
  using Kind = PipelineActionKind;
  std::vector<std::vector<PipelineAction>> all;
  for (int fused = 0; fused < 1 << m; ++fused) {
    std::vector<PipelineAction> actions;
    for (int k = 0; k < m; ++k) {
      actions.push_back({Kind::Forward, k, stage});
      if (fused >> k & 1) {
        actions.push_back({Kind::Backward, k, stage});
        continue;
      }
      actions.push_back({Kind::InputBackward, k, stage});
      actions.push_back({Kind::WeightBackward, k, stage});
    }
    // All permutations in which each micro-batch's actions keep their order.
    std::vector<int> of; // micro-batches, one for each of their actions
    for (const PipelineAction &action : actions)
      of.push_back(action.microbatch);
    do {
      std::vector<int> next(m);
      for (int k = 0, first = 0; k < m; ++k) {
        next[k] = first;
        first += fused >> k & 1 ? 2 : 3;
      }
      std::vector<PipelineAction> order;
      for (int k : of)
        order.push_back(actions[next[k]++]);
      all.push_back(order);
    } while (std::next_permutation(of.begin(), of.end()));
  }
  return all;
}

/// Neither another order of micro-batches nor B makes anything shorter.
TEST(PipelineScheduling, OrderedAndSplitLosesNothing) {
  std::vector<std::vector<PipelineAction>> orders[] = {anyOrders(2, 0),
                                                       anyOrders(2, 1)};
  EXPECT_EQ(orders[0].size(), 20u + 10 + 10 + 6);
  int compared = 0;
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem;
    problem.stages = 2;
    problem.candidates = {PipelineRandom(seed).candidate(2, 2, {0, 1})};
    const PipelineCandidate &is = problem.candidates[0];
    PipelineSchedule schedule = is.shape(2);
    double best = std::numeric_limits<double>::infinity();
    for (const auto &first : orders[0])
      for (const auto &second : orders[1]) {
        schedule.ranks = {first, second};
        if (!schedule.verify(is.memory).empty())
          continue;
        ++compared;
        best = std::min(best, timePipeline(schedule, is.costs).seconds);
      }
    ASSERT_EQ(choosePipelineScheduleReference(problem).timing.seconds, best);
    ASSERT_EQ(choosePipelineSchedule(problem).timing.seconds, best);
  }
  std::printf("%d schedules\n", compared);
}

/// What must hold of any choice.
static void checkChoice(const PipelineProblem &problem,
                        const PipelineChoice &choice) {
  ASSERT_EQ(choice.error, "");
  const PipelineCandidate &is = problem.candidates[choice.candidate];
  ASSERT_EQ(choice.schedule.verify(is.memory), "");
  ASSERT_EQ(choice.timing.seconds,
            timePipeline(choice.schedule, is.costs).seconds);
  double bound = std::numeric_limits<double>::infinity();
  for (const PipelineCandidate &candidate : problem.candidates)
    bound = std::min(bound, problem.lowerBound(candidate));
  ASSERT_LE(bound, choice.timing.seconds);
  ASSERT_LE(bound, choice.lowerBound);
  ASSERT_LE(choice.lowerBound, choice.timing.seconds);
  if (choice.proven) {
    ASSERT_NEAR(choice.lowerBound, choice.timing.seconds,
                1e-9 * choice.timing.seconds);
  }
  for (const PipelineChoice::Baseline &baseline : choice.baselines) {
    if (baseline.error.empty()) {
      ASSERT_LE(bound, baseline.seconds);
      ASSERT_LE(choice.timing.seconds, baseline.seconds * (1 + 1e-9));
    }
  }
}

static double bestOfLiterature(const PipelineChoice &choice) {
  double best = std::numeric_limits<double>::infinity();
  for (const PipelineChoice::Baseline &baseline : choice.baselines)
    if (baseline.error.empty() && baseline.name != "searched")
      best = std::min(best, baseline.seconds);
  return best;
}

/// Two numbers of micro-batches and, of up to 4 ranks, up to 2 chunks.
static PipelineProblem makeProblem(unsigned seed, int mostRanks, int mostM) {
  PipelineRandom random(seed);
  PipelineProblem problem;
  problem.stages = 1 + random.upTo(mostRanks - 1);
  for (int n = 1 + random.upTo(2); n > 0; --n) {
    int chunks = 1 + random.upTo(1), m = 1 + random.upTo(mostM - 1);
    auto make = random.oneIn(2) ? makeVPlacement : makeLoopPlacement;
    problem.candidates.push_back(
        random.candidate(problem.stages, m, make(problem.stages, chunks)));
  }
  return problem;
}

/// With few steps to spend, so that the search is mostly not exact.
TEST(PipelineScheduling, NeverWorseThanTheLiterature) {
  int better = 0, proven = 0, only = 0, count = 3000;
  double gap = 0;
  PipelineOptions options;
  options.stepLimit = 1 << 11;
  options.improveLimit = 1 << 15;
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem = makeProblem(seed, 6, 12);
    ASSERT_EQ(problem.check(), "");
    PipelineChoice choice = choosePipelineSchedule(problem, options);
    checkChoice(problem, choice);
    if (HasFatalFailure())
      return;
    proven += choice.proven;
    only += bestOfLiterature(choice) > 1e300;
    better += choice.timing.seconds < bestOfLiterature(choice);
    gap += choice.timing.seconds / choice.lowerBound - 1;
  }
  std::printf("of %d: %d better than the literature (%d where none of it fits "
              "memory), %d proven, mean distance to the bound %.2f %%\n",
              count, better, only, proven, 100 * gap / count);
  EXPECT_GT(better * 2, count);
}

/// The best schedule of the literature that fits a candidate, found here.
static double timeLiterature(const PipelineProblem &problem) {
  double best = std::numeric_limits<double>::infinity();
  for (const PipelineCandidate &is : problem.candidates)
    for (PipelineKind kind :
         {PipelineKind::GPipe, PipelineKind::OneFOneB,
          PipelineKind::Interleaved, PipelineKind::ZBH1, PipelineKind::ZBV}) {
      PipelineScheduleOr made = makePipelineSchedule(
          kind, problem.stages, is.microbatches, is.placement);
      if (made.error.empty() && made.schedule.verify(is.memory).empty())
        best = std::min(best, timePipeline(made.schedule, is.costs).seconds);
    }
  return best;
}

/// All p from 2 to 16 and m from p to 4 p, every stage's costs drawn alone: one
/// chunk, two in a loop and two in a V, in turn.
TEST(PipelineScheduling, NeverWorseOnUpTo16Ranks) {
  int count = 0, better = 0, only = 0;
  PipelineOptions options;
  options.stepLimit = 1 << 8;
  options.improveLimit = 1 << 12;
  for (int p = 2; p <= 16; ++p)
    for (int m = p; m <= 4 * p; ++m, ++count) {
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      PipelineRandom random(1000 * p + m);
      PipelineProblem problem;
      problem.stages = p;
      problem.candidates = {random.candidate(
          p, m,
          count % 3 == 2 ? makeVPlacement(p, 2)
                         : makeLoopPlacement(p, 1 + count % 3))};
      PipelineChoice choice = choosePipelineSchedule(problem, options);
      checkChoice(problem, choice);
      if (HasFatalFailure())
        return;
      double best = timeLiterature(problem);
      ASSERT_LE(choice.timing.seconds, best * (1 + 1e-9));
      better += choice.timing.seconds < best * (1 - 1e-9);
      only += best > 1e300;
    }
  std::printf("of %d: %d better than the literature (%d where none of it fits "
              "memory)\n",
              count, better, only);
  EXPECT_EQ(count, 420);
  EXPECT_GT(better * 2, count);
}

/// Where steps suffice, the search is exact; without it, lists and moves are
/// mostly as good, and never better.
TEST(PipelineScheduling, NoStepsAgainstMany) {
  int equal = 0, exact = 0, count = 400;
  double worst = 1;
  PipelineOptions many, few;
  many.stepLimit = 1 << 18;
  few.stepLimit = 1; // none
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem = makeProblem(50000 + seed, 3, 4);
    if (seed % 2) { // what several chunks can do in tight memory
      PipelineRandom random(seed);
      problem.stages = 2 + random.upTo(1);
      auto make = seed % 4 == 1 ? makeVPlacement : makeLoopPlacement;
      problem.candidates = {random.candidate(problem.stages, 2 + random.upTo(1),
                                             make(problem.stages, 2), true)};
    }
    PipelineChoice best = choosePipelineSchedule(problem, many);
    PipelineChoice choice = choosePipelineSchedule(problem, few);
    checkChoice(problem, best);
    checkChoice(problem, choice);
    if (HasFatalFailure())
      return;
    if (!best.proven)
      continue;
    ++exact;
    double ratio = choice.timing.seconds / best.timing.seconds;
    ASSERT_GE(ratio, 1 - 1e-9);
    if (choice.proven) {
      ASSERT_LE(ratio, 1 + 1e-9);
    }
    equal += ratio < 1 + 1e-9;
    worst = std::max(worst, ratio);
  }
  std::printf("of %d, %d with many steps exact; none reach %d of these, worst "
              "%.4f\n",
              count, exact, equal, worst);
  EXPECT_GT(exact * 2, count);
}

/// All virtual stages cost the same, no transfers.
static PipelineCandidate equalStages(int m, const PipelinePlacement &placement,
                                     PipelineCosts::Stage stage) {
  PipelineCandidate made;
  made.microbatches = m;
  made.placement = placement;
  made.costs.stages.assign(placement.size(), stage);
  return made;
}

/// Under equal costs: in a V, ZB-V meets the bound; of the schedules of one
/// chunk ZB-H1 is the best, and in less memory than it takes 1F1B; where memory
/// is for one micro-batch, none of the literature but with m = 1 fits.
TEST(PipelineScheduling, EqualCosts) {
  for (int p : {2, 4, 8}) {
    PipelineProblem problem;
    problem.stages = p;
    problem.candidates = {
        equalStages(2 * p, makeVPlacement(p, 2), {1, 1, 1}),
        equalStages(2 * p, makeLoopPlacement(p, 1), {2, 2, 2})};
    PipelineChoice choice = choosePipelineSchedule(problem);
    EXPECT_EQ(choice.name, "zb-v");
    EXPECT_EQ(choice.timing.seconds, 6 * 2 * p + p - 1);
    EXPECT_TRUE(choice.proven);
    EXPECT_EQ(choice.baselines[0].name, "zb-v");
    EXPECT_EQ(choice.baselines[1].name, "gpipe");
    EXPECT_EQ(choice.baselines[2].name, "1f1b");
    EXPECT_EQ(choice.baselines[3].name, "zb-h1");

    PipelineOptions fixed;
    fixed.search = false;
    problem.candidates.erase(problem.candidates.begin());
    choice = choosePipelineSchedule(problem, fixed);
    EXPECT_EQ(choice.name, "zb-h1");
    EXPECT_EQ(choice.timing.seconds, 6 * 2 * p + 2 * (p - 1));
    PipelineMemory &memory = problem.candidates[0].memory;
    memory.limits.assign(p, p);
    memory.limits.back() = 1;
    choice = choosePipelineSchedule(problem, fixed);
    EXPECT_EQ(choice.name, "1f1b");
    EXPECT_EQ(choice.timing.seconds, 6 * (2 * p + p - 1));
    std::string last = std::to_string(p - 1);
    EXPECT_EQ(choice.baselines[2].error, "rank " + last + ": at " + last +
                                             "F1 it holds 2, " +
                                             "expected at most 1");
    memory.limits.assign(p, 1);
    choice = choosePipelineSchedule(problem, fixed);
    EXPECT_EQ(choice.error, "no schedule of the literature fits the memory, "
                            "and none is searched");
    choice = choosePipelineSchedule(problem);
    EXPECT_EQ(choice.name, "searched");
    EXPECT_EQ(choice.schedule.verify(memory), "");
    // One micro-batch at a time: all of the way there and back, and as rank 0
    // is back, its W.
    EXPECT_EQ(choice.timing.seconds, 2 * p * (4. * p + 2));
  }
}

/// Latency makes few micro-batches better, bubbles many. Two ranks, 12 s of F
/// and 24 s of B for the whole batch on each, and 1 s for each transfer.
TEST(PipelineScheduling, ChoosesTheNumberOfMicrobatches) {
  for (double overhead : {0., 4.}) {
    PipelineProblem problem;
    problem.stages = 2;
    for (int m : {1, 2, 4, 12}) {
      PipelineCandidate made =
          equalStages(m, makeLoopPlacement(2, 1),
                      {12. / m + overhead, 12. / m + overhead, 12. / m});
      made.costs.forwardTransfer = {1};
      made.costs.backwardTransfer = {1};
      problem.candidates.push_back(made);
    }
    PipelineChoice choice = choosePipelineSchedule(problem);
    checkChoice(problem, choice);
    // Bound of rank 1: the first F and its transfer, then all that it does.
    // With m = 12: 1 + 1 + 36. With overhead 4, m = 2: 10 + 1 + 36 + 16.
    EXPECT_EQ(choice.schedule.microbatches, overhead ? 2 : 12);
    EXPECT_GE(choice.timing.seconds, overhead ? 63 : 38);
  }
}

/// What waits after rank 0's last action makes it end first.
TEST(PipelineScheduling, EndsEarlyWhatHasMoreAfterIt) {
  PipelineProblem problem;
  problem.stages = 2;
  problem.candidates = {equalStages(4, makeLoopPlacement(2, 1), {1, 1, 1})};
  problem.candidates[0].costs.after = {6, 0};
  PipelineChoice choice = choosePipelineSchedule(problem);
  checkChoice(problem, choice);
  // Rank 0 has 12 s of work and 6 s after it. It need not wait: a third
  // forward fills the second that I0 needs, which no schedule of the literature
  // does.
  EXPECT_EQ(choice.timing.seconds, 18);
  EXPECT_EQ(bestOfLiterature(choice), 19);
}

TEST(PipelineScheduling, Errors) {
  PipelineProblem problem;
  problem.stages = 2;
  EXPECT_EQ(choosePipelineSchedule(problem).error,
            "expected at least one candidate");
  problem.candidates = {equalStages(4, makeLoopPlacement(2, 1), {1, 1, 1})};
  problem.candidates[0].costs.stages.pop_back();
  EXPECT_EQ(choosePipelineSchedule(problem).error,
            "candidate 0: costs of 1 virtual stages: expected 2");
  problem.candidates = {equalStages(1, makeVPlacement(2, 2), {1, 1, 1})};
  problem.candidates[0].memory.fixed = {10, 10};
  problem.candidates[0].memory.limits = {12, 11};
  EXPECT_EQ(choosePipelineSchedule(problem).error,
            "no candidate fits the memory: rank 1 needs 12 for one micro-batch "
            "of candidate 0, expected at most 11");
  EXPECT_EQ(choosePipelineScheduleReference(problem).error,
            "no order of any candidate fits the memory");
}

/// 16 ranks, 2 chunks, 128 micro-batches: 12,288 actions.
TEST(PipelineScheduling, LargePipelines) {
  PipelineRandom random(5);
  for (int chunks : {1, 2}) {
    PipelineProblem problem;
    problem.stages = 16;
    problem.candidates = {
        equalStages(128, makeVPlacement(16, chunks), {10, 10, 10})};
    for (PipelineCosts::Stage &stage : problem.candidates[0].costs.stages)
      stage = {double(8 + random.upTo(4)), double(8 + random.upTo(4)),
               double(8 + random.upTo(4))};
    PipelineChoice choice = choosePipelineSchedule(problem);
    checkChoice(problem, choice);
    if (HasFatalFailure())
      return;
    double best = bestOfLiterature(choice);
    std::printf("v=%d: %s %g, literature %g, bound %g\n", chunks,
                choice.name.c_str(), choice.timing.seconds, best,
                choice.lowerBound);
  }
}
