//===- BucketingTest.cpp - the bucketing problem, its plans and baselines -===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cases worked out by hand. Against brute force: BucketingExactTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Bucketing/Bucketing.h"
#include "References.h"
#include <functional>
#include <gtest/gtest.h>

using namespace mpcomm;

using Objective = BucketingObjective;

/// Three tensors of 10 bytes, ready at 10, 20 and 30, and then compute ends;
/// a collective takes 4 + a second a byte.
static BucketingProblem makeSmall() {
  BucketingProblem problem;
  problem.costs = {{{{4, 1}}}};
  for (int i = 0; i < 3; ++i) {
    BucketingProblem::Tensor tensor;
    tensor.bytes = 10;
    tensor.ready = 10 * (i + 1);
    problem.tensors.push_back(tensor);
  }
  problem.computeEnd = 30;
  return problem;
}

/// The bytes of a plan's buckets.
static std::vector<int64_t> sizes(const BucketingPlan &plan) {
  std::vector<int64_t> result;
  for (const BucketingPlan::Bucket &bucket : plan.buckets)
    result.push_back(bucket.bytes);
  return result;
}

using Sizes = std::vector<int64_t>;

TEST(Bucketing, WeighsLatencyAgainstWaiting) {
  BucketingProblem problem = makeSmall();
  BucketingPlan plan = solveBuckets(problem, {Objective::CommunicationEnd});
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_TRUE(plan.proven);
  // Alone: 10..24, 24..38, 38..52. Two and one: 20..44, 44..58. All: 30..64.
  // One and two: 10..24, 30..54.
  EXPECT_EQ(plan.communicationEnd, 52);
  EXPECT_EQ(sizes(plan), (Sizes{10, 10, 10}));
  EXPECT_EQ(plan.buckets[1].open, 20);
  EXPECT_EQ(plan.buckets[1].start, 24);
  EXPECT_EQ(plan.buckets[1].finish, 38);
  EXPECT_EQ(plan.bucketOfTensor(problem), (Sizes{0, 1, 2}));
  // With a latency of 7, alone: 27, 44, 61; one and two: 27, 57.
  problem.costs[0].pieces[0].latency = 7;
  plan = solveBuckets(problem, {Objective::CommunicationEnd});
  EXPECT_EQ(plan.communicationEnd, 57);
  EXPECT_EQ(sizes(plan), (Sizes{10, 20}));
}

TEST(Bucketing, CountsWhatComesAfterABucket) {
  BucketingProblem problem = makeSmall();
  problem.costs[0].pieces[0].latency = 11;
  for (BucketingProblem::Tensor &tensor : problem.tensors)
    tensor.consumer = 20;
  // For the end of communication one and two is best (10..31, 31..62; updates
  // to 102). Alone: 10..31, 31..52, 52..73: updates 31..51, 52..72, 73..93.
  EXPECT_EQ(solveBuckets(problem, {Objective::CommunicationEnd}).stepEnd, 102);
  BucketingPlan plan = solveBuckets(problem);
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_EQ(plan.stepEnd, 93);
  EXPECT_EQ(sizes(plan), (Sizes{10, 10, 10}));
  EXPECT_TRUE(plan.proven);
}

TEST(Bucketing, AmongEqualsTakesTheFewest) {
  BucketingProblem problem = makeSmall();
  problem.computeEnd = 100; // all is hidden whatever the buckets
  EXPECT_EQ(sizes(solveBuckets(problem)), (Sizes{30}));
  // Any number of collectives for the first two, which have time to spare.
  problem.tensors[2].ready = 90;
  BucketingPlan plan = solveBuckets(problem, {Objective::CommunicationEnd});
  EXPECT_EQ(plan.communicationEnd, 104);
  EXPECT_EQ(sizes(plan), (Sizes{20, 10}));
  // Past the limit of steps, by merging neighbours: the same here.
  EXPECT_EQ(
      sizes(solveBuckets(problem, {Objective::CommunicationEnd, 1e-12, 0})),
      (Sizes{20, 10}));
}

TEST(Bucketing, ToleranceBuysFewerCollectives) {
  BucketingProblem problem = makeSmall();
  // 52 at the least; all in one: 64; two: 54.
  EXPECT_EQ(
      sizes(solveBuckets(problem, {Objective::CommunicationEnd, 0.05})).size(),
      2u);
  EXPECT_EQ(
      sizes(solveBuckets(problem, {Objective::CommunicationEnd, 0.25})).size(),
      1u);
}

TEST(Bucketing, UsesEachPieceWhereItIsTheCheapest) {
  BucketingProblem problem = makeSmall();
  problem.costs[0].pieces = {{4, 1}, {14, 0.25}};
  BucketingPlan plan = solveBuckets(problem, {Objective::CommunicationEnd});
  // All: 30 + 14 + 7.5 = 51.5. One and two: 24, then 30 + 14 + 5 = 49.
  EXPECT_EQ(plan.communicationEnd, 49);
  EXPECT_EQ(sizes(plan), (Sizes{10, 20}));
  EXPECT_EQ(plan.buckets[0].piece, 0u);
  EXPECT_EQ(plan.buckets[1].piece, 1u);
}

TEST(Bucketing, SplitsWhereTheUpdateCanBegin) {
  BucketingProblem problem = makeSmall();
  problem.tensors.resize(1);
  problem.tensors[0].bytes = 40;
  problem.tensors[0].elementBytes = 4;
  problem.tensors[0].consumer = 40;
  problem.costs[0].pieces = {{1, 1}};
  problem.computeEnd = 10;
  EXPECT_EQ(solveBuckets(problem).stepEnd, 10 + 41 + 40);
  problem.splitBytes = 20;
  // Halves: 10..31, 31..52; updates 31..51, 52..72.
  BucketingPlan plan = solveBuckets(problem);
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_EQ(plan.stepEnd, 72);
  EXPECT_EQ(sizes(plan), (Sizes{20, 20}));
  EXPECT_EQ(plan.slices[1].offset, 20);
  // No use for the end of communication, and then it is not done.
  EXPECT_EQ(sizes(solveBuckets(problem, {Objective::CommunicationEnd})),
            (Sizes{40}));
  problem.tensors[0].splittable = false;
  EXPECT_EQ(sizes(solveBuckets(problem)), (Sizes{40}));
}

TEST(Bucketing, KeepsToTheMemoryBound) {
  BucketingProblem problem = makeSmall();
  problem.costs[0].pieces = {{11, 0}};
  // Unbounded: all at 30..41. One and two: 21, then 30..41 too: so one bucket.
  EXPECT_EQ(sizes(solveBuckets(problem)), (Sizes{30}));
  problem.streams[0].memoryBytes = 20;
  // The first is alive from 10 to 21, the second opens at 20: 20 + 10 bytes
  // were alive with one and two. Alone: 21, 32, 43; at 30 the second and third.
  BucketingPlan plan = solveBuckets(problem);
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_TRUE(plan.proven);
  // Two and one: 20..31, the third opens at 30 with 20 alive: too many.
  EXPECT_EQ(sizes(plan), (Sizes{10, 10, 10}));
  EXPECT_EQ(plan.peakBytes, (Sizes{20}));
  problem.streams[0].memoryBytes = 19;
  plan = solveBuckets(problem);
  EXPECT_EQ(plan.error, "stream 0: no plan keeps to 19 bytes alive; with every "
                        "tensor alone there are 20");
  EXPECT_TRUE(plan.buckets.empty());
}

TEST(Bucketing, MeetsDeadlinesOrSaysThatItCannot) {
  BucketingProblem problem = makeSmall();
  problem.computeEnd = 100;
  problem.tensors[1].deadline = 38;
  EXPECT_EQ(sizes(solveBuckets(problem)), (Sizes{10, 10, 10}));
  problem.tensors[1].deadline = 33;
  EXPECT_EQ(solveBuckets(problem).error,
            "stream 0: no plan meets the deadlines");
}

TEST(Bucketing, SeveralKeysShareAStream) {
  BucketingProblem problem = makeSmall();
  problem.costs.push_back({{{100, 0}}});
  problem.tensors[0].key = 1;
  // The second and third first (20..34, 34..48, then to 148), or the first one
  // first: 10..110, 110..134.
  BucketingPlan plan = solveBuckets(problem, {Objective::CommunicationEnd});
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_EQ(plan.communicationEnd, 134);
  EXPECT_EQ(plan.buckets.size(), 2u);
  EXPECT_TRUE(plan.proven);
}

TEST(Bucketing, EmptyAndZeroSized) {
  BucketingProblem problem;
  problem.computeEnd = 3;
  BucketingPlan plan = solveBuckets(problem);
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_EQ(plan.stepEnd, 3);
  EXPECT_TRUE(plan.proven);
  problem = makeSmall();
  for (BucketingProblem::Tensor &tensor : problem.tensors)
    tensor.bytes = 0;
  problem.splitBytes = 4;
  plan = solveBuckets(problem);
  EXPECT_EQ(plan.verify(problem), "");
  EXPECT_EQ(plan.stepEnd, 34);
  EXPECT_EQ(sizes(plan), (Sizes{0}));
}

TEST(Bucketing, ChecksItsInput) {
  auto error = [](std::function<void(BucketingProblem &)> change) {
    BucketingProblem problem = makeSmall();
    change(problem);
    std::string text = problem.check();
    // The solver and the baselines say the same, and do not go on.
    EXPECT_EQ(solveBuckets(problem).error, text);
    EXPECT_EQ(solveBucketsReference(problem).error, text);
    EXPECT_EQ(bucketLikeDDP(problem).error, text);
    return text;
  };
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error([](auto &p) { p.tensors.clear(); }), "");
  EXPECT_EQ(error([](auto &p) { p.computeEnd = -1; }),
            "expects an end of compute that is finite and not negative");
  EXPECT_EQ(error([](auto &p) { p.capBytes = 0; }),
            "expects a cap of at least a byte, got 0");
  EXPECT_EQ(error([](auto &p) {
              p.capBytes = 8;
              p.splitBytes = 9;
            }),
            "expects parts of 0 to 8 bytes (the cap), got 9");
  EXPECT_EQ(error([](auto &p) { p.streams[0].memoryBytes = -1; }),
            "stream 0 expects a finite time and a memory bound, neither "
            "negative");
  EXPECT_EQ(error([](auto &p) { p.costs[0].pieces.clear(); }),
            "key 0 has no cost");
  EXPECT_EQ(error([](auto &p) { p.costs[0].pieces[0].latency = -1; }),
            "key 0 expects costs that are finite and not negative");
  EXPECT_EQ(error([](auto &p) { p.tensors[1].bytes = -1; }),
            "tensor 1 has a negative size");
  EXPECT_EQ(error([&](auto &p) { p.tensors[1].consumer = nan; }),
            "tensor 1 expects times that are finite and not negative");
  EXPECT_EQ(error([&](auto &p) { p.tensors[1].deadline = nan; }),
            "tensor 1 has a deadline that is not a number");
  EXPECT_EQ(error([](auto &p) { p.tensors[1].ready = 9; }),
            "tensor 1 is ready before the tensor ahead of it");
  EXPECT_EQ(error([](auto &p) { p.tensors[1].stream = 1; }),
            "tensor 1 is on stream 1 of 1");
  EXPECT_EQ(error([](auto &p) { p.tensors[1].key = -1; }),
            "tensor 1 has key -1 of 1");
  EXPECT_EQ(error([](auto &p) { p.tensors[1].elementBytes = 0; }),
            "tensor 1 expects elements of at least a byte, got 0");
  EXPECT_EQ(error([](auto &p) {
              p.tensors[1].elementBytes = 4;
              p.splitBytes = 6;
            }),
            "tensor 1 has elements of 4 bytes, which parts of 6 would cut");
  EXPECT_EQ(error([](auto &p) {
              p.tensors[0].bytes = p.tensors[1].bytes = int64_t(1) << 62;
              p.costs[0].pieces[0] = {0, 0};
            }),
            "expects less than 2^63 bytes in all");
  EXPECT_EQ(error([](auto &p) {
              p.tensors[0].bytes = int64_t(1) << 40;
              p.splitBytes = 1;
            }),
            "expects less than 2^31 tensors and parts of them");
}

TEST(Bucketing, VerifyFindsWhatIsWrong) {
  BucketingProblem problem = makeSmall();
  problem.capBytes = 20;
  problem.splitBytes = 4;
  problem.tensors[0].splittable = false;
  BucketingPlan good = bucketOnePerTensor(problem);
  ASSERT_EQ(good.verify(problem), "");
  auto error = [&](std::function<void(BucketingPlan &)> change,
                   bool evaluate = true) {
    BucketingPlan plan = good;
    change(plan);
    if (evaluate)
      plan.evaluate(problem);
    return plan.verify(problem);
  };
  EXPECT_EQ(error([](auto &p) { p.error = "no luck"; }), "no luck");
  EXPECT_EQ(error([](auto &p) { p.buckets[1].begin = 0; }),
            "bucket 1 does not begin where the one before ends, or is empty");
  EXPECT_EQ(error([](auto &p) { p.buckets[2].end = 4; }, false),
            "bucket 2 does not begin where the one before ends, or is empty");
  EXPECT_EQ(error([](auto &p) { p.slices[1].tensor = 7; }, false),
            "bucket 1 holds a tensor that does not exist");
  EXPECT_EQ(error([](auto &p) { std::swap(p.slices[0], p.slices[1]); }),
            "bucket 0 : slice of tensor 1 is out of order or there twice");
  EXPECT_EQ(error([](auto &p) { p.slices[1].tensor = 0; }),
            "bucket 1 : slice of tensor 0 is out of order or there twice");
  EXPECT_EQ(error([](auto &p) { p.slices[1].bytes = 11; }),
            "bucket 1 : slice of tensor 1 does not begin where the one before "
            "ends, or is too long");
  EXPECT_EQ(error([](auto &p) { p.slices[1].offset = 4; }),
            "bucket 1 : slice of tensor 1 does not begin where the one before "
            "ends, or is too long");
  EXPECT_EQ(error([](auto &p) { p.slices[1].bytes = 6; }),
            "bucket 1 : slice of tensor 1 is cut at byte 6, where it must not "
            "be");
  EXPECT_EQ(error([](auto &p) { p.slices[0].bytes = 4; }),
            "bucket 0 : slice of tensor 0 is cut at byte 4, where it must not "
            "be");
  EXPECT_EQ(error([](auto &p) { p.slices[2].bytes = 8; }),
            "tensor 2 is not in a bucket, or not all of it");
  EXPECT_EQ(error([](auto &p) { p.buckets.pop_back(); }),
            "expects every slice in a bucket");
  EXPECT_EQ(error([](auto &p) {
              p.buckets[0].end = 3;
              p.buckets.resize(1);
            }),
            "bucket 0 holds 30 bytes, more than 20");
  EXPECT_EQ(error([](auto &p) { p.buckets[1].finish += 1; }, false),
            "bucket 1 has figures that do not follow from its tensors");
  EXPECT_EQ(error([](auto &p) { p.stepEnd += 1; }, false),
            "has ends or a peak that do not follow from its buckets");
  problem.tensors[1].deadline = 37;
  EXPECT_EQ(good.verify(problem),
            "bucket 1 finishes after the deadline of tensor 1");
  problem.tensors[1].deadline = 38;
  problem.streams[0].memoryBytes = 19;
  EXPECT_EQ(good.verify(problem), "stream 0 has 20 bytes alive, more than 19");
  problem.streams[0].memoryBytes = 20;
  EXPECT_EQ(good.verify(problem), "");
  problem.tensors[1].deadline = BucketingProblem::never;
  problem.costs.push_back(problem.costs[0]);
  problem.tensors[1].key = 1;
  EXPECT_EQ(error([](auto &p) {
              p.buckets[1].end = 3;
              p.buckets.pop_back();
            }),
            "bucket 1 holds tensors of several streams or keys");
  problem.computeEnd = -1;
  EXPECT_EQ(good.verify(problem),
            "expects an end of compute that is finite and not negative");
}

/// Baselines' rules, in units of a byte.
TEST(Bucketing, Baselines) {
  BucketingProblem problem = makeSmall();
  for (int i = 3; i < 6; ++i) {
    problem.tensors.push_back(problem.tensors.back());
    problem.tensors.back().ready = 31 + 8 * (i - 3);
    problem.tensors.back().elementBytes = 5;
  }
  // The first bucket closes at 10 or more, the others at 25 or more.
  EXPECT_EQ(sizes(bucketLikeDDP(problem, 25, 10)), (Sizes{10, 30, 20}));
  EXPECT_EQ(sizes(bucketLikeXLA(problem, 25)), (Sizes{20, 20, 20}));
  EXPECT_EQ(sizes(bucketLikeXLA(problem, 5)), (Sizes{10, 10, 10, 10, 10, 10}));
  // Elements: 10, 10, 10, 2, 2, 2.
  EXPECT_EQ(sizes(bucketLikeMegatron(problem, 22)), (Sizes{30, 30}));
  EXPECT_EQ(sizes(bucketLikeMegatron(problem, 32)), (Sizes{40, 20}));
  // Ready at 10, 20, 30, 31, 39, 47: 10..24; at 24 one more: ..38; at 38 the
  // two of 30 and 31: ..62; then the rest.
  EXPECT_EQ(sizes(bucketLikeHorovod(problem, 100, 1)), (Sizes{10, 10, 20, 20}));
  // With ticks 25 apart: 10, 35 (20, 30, 31 are ready), 73.
  EXPECT_EQ(sizes(bucketLikeHorovod(problem, 100, 25)), (Sizes{10, 30, 20}));
  EXPECT_EQ(sizes(bucketLikeHorovod(problem, 20, 25)), (Sizes{10, 20, 10, 20}));
  EXPECT_EQ(sizes(bucketAllInOne(problem)), (Sizes{60}));
  // Latency 4. Starts at 10, the next is ready at 20: alone, to 24. Starts at
  // 24, the next at 30: alone, to 38. Starts at 38: 31 is before 42, 39 too;
  // then starts at 39, and 47 is not before 43.
  EXPECT_EQ(sizes(bucketLikeMGWFBP(problem)), (Sizes{10, 10, 30, 10}));
  // Rules without a cap of their own keep to the problem's. MG-WFBP: 30 and 31
  // from 38 to 62; what follows is ready at 39 and at 47, before 66.
  problem.capBytes = 25;
  EXPECT_EQ(sizes(bucketAllInOne(problem)), (Sizes{20, 20, 20}));
  EXPECT_EQ(sizes(bucketLikeMegatron(problem, 32)), (Sizes{20, 20, 20}));
  EXPECT_EQ(sizes(bucketLikeMGWFBP(problem)), (Sizes{10, 10, 20, 20}));
}
