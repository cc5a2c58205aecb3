//===- EventPlacementTest.cpp - events between streams --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/EventPlacement/EventPlacement.h"
#include "References.h"
#include <gtest/gtest.h>
#include <random>

using namespace mpcomm;

/// `records>waits`, as in "e0@0>1,2": event 0 after 0, for which 1 and 2 wait.
static std::string describe(const EventPlan &plan) {
  std::string text;
  for (size_t r = 0; r < plan.records.size(); ++r) {
    text += (r ? " e" : "e") + std::to_string(plan.records[r].event) + "@" +
            std::to_string(plan.records[r].operation);
    char separator = '>';
    for (const auto &wait : plan.waits)
      if (wait.record == static_cast<int64_t>(r)) {
        text += separator + std::to_string(wait.operation);
        separator = ',';
      }
  }
  return text;
}

static std::string place(const EventProblem &problem) {
  EXPECT_EQ(problem.check(), "");
  EventPlan plan = placeEvents(problem);
  EXPECT_EQ(plan.verify(problem), "");
  return describe(plan);
}

TEST(EventPlacement, NothingCrossesStreams) {
  EXPECT_EQ(place({}), "");
  EXPECT_EQ(place({{{0, {}}, {0, {0}}, {0, {0, 1}}}}), "");
  EXPECT_EQ(place({{{0, {}}, {1, {}}, {0, {}}}}), "");
}

TEST(EventPlacement, OneRecordServesSeveralStreams) {
  EXPECT_EQ(place({{{0, {}}, {1, {0}}, {2, {0}}}}), "e0@0>1,2");
}

TEST(EventPlacement, OrderWithinAStreamImpliesTheRest) {
  // The second on stream 1 has what it needs, as the first has.
  EXPECT_EQ(place({{{0, {}}, {1, {0}}, {1, {0}}}}), "e0@0>1");
  // Whoever waits for the second on stream 1 has the first, now and later.
  EXPECT_EQ(place({{{1, {}}, {1, {}}, {0, {0, 1}}, {0, {0}}}}), "e0@1>2");
}

TEST(EventPlacement, AnotherStreamImpliesIt) {
  // 2 waits for 1, which waited for 0.
  EXPECT_EQ(place({{{0, {}}, {1, {0}}, {2, {0, 1}}}}), "e0@0>1 e0@1>2");
}

/// b1 needs a1, b2 needs a2: one wait would do, if b1 waited for a2.
TEST(EventPlacement, AddsNoOrder) {
  EventProblem problem{{{0, {}}, {0, {}}, {1, {0}}, {1, {1}}}};
  EXPECT_EQ(place(problem), "e0@0>2 e1@1>3");
  EventPlan fewer{{{1, 0}}, {{2, 0}}, 1};
  EXPECT_EQ(fewer.verify(problem),
            "operation 2 waits for operation 1, which it does not need");
}

TEST(EventPlacement, EventsAreUsedAgain) {
  // The wait before 2 is issued when 2 is recorded after.
  EXPECT_EQ(place({{{0, {}}, {1, {0}}, {0, {1}}, {1, {2}}}}),
            "e0@0>1 e0@1>2 e0@2>3");
  EXPECT_EQ(place({{{0, {}}, {0, {}}, {1, {0}}, {1, {1}}, {0, {3}}}}),
            "e0@0>2 e1@1>3 e0@3>4");
}

TEST(EventPlacement, ChecksItsInput) {
  EXPECT_EQ((EventProblem{{{-1, {}}}}.check()), "operation 0 is on stream -1");
  EXPECT_EQ((EventProblem{{{0, {0}}}}.check()),
            "operation 0 depends on operation 0, which is not before it");
  EXPECT_EQ((EventProblem{{{0, {}}, {0, {-1}}}}.check()),
            "operation 1 depends on operation -1, which is not before it");
}

TEST(EventPlacement, VerifyFindsWhatIsWrong) {
  EventProblem problem{{{0, {}}, {1, {0}}, {0, {}}, {1, {2}}}};
  auto verify = [&](const EventPlan &plan) { return plan.verify(problem); };
  EXPECT_EQ(verify({{{0, 0}, {2, 0}}, {{1, 0}, {3, 1}}, 1}), "");
  EXPECT_EQ(verify({{{0, 0}}, {{1, 0}}, 1}),
            "operation 3 does not wait for operation 2");
  EXPECT_EQ(verify({{{0, 0}, {2, 1}}, {{1, 0}, {3, 1}}, 1}),
            "record 1 has no event");
  EXPECT_EQ(verify({{{2, 0}, {0, 0}}, {}, 1}), "record 1 is out of order");
  EXPECT_EQ(verify({{{2, 0}}, {{1, 0}}, 1}), "wait 0 is out of order");
  EXPECT_EQ(verify({{{0, 0}}, {{1, 1}}, 1}), "wait 0 is out of order");
  EventProblem late{{{0, {}}, {0, {}}, {1, {0}}, {1, {1}}}};
  EXPECT_EQ((EventPlan{{{0, 0}, {1, 0}}, {{2, 0}, {3, 1}}, 1}.verify(late)),
            "wait 0 finds event 0 recorded anew");
}

static EventProblem makeRandom(unsigned seed) {
  std::mt19937 random(seed);
  EventProblem problem;
  int64_t streams = 2 + random() % 3;
  size_t size = 1 + random() % 7;
  unsigned chance = 1 + random() % 4; // of 5, that b needs a
  for (size_t b = 0; b < size; ++b) {
    problem.operations.push_back({int64_t(random() % streams), {}});
    for (size_t a = 0; a < b; ++a)
      if (random() % 5 < chance)
        problem.operations[b].after.push_back(int64_t(a));
    std::shuffle(problem.operations[b].after.begin(),
                 problem.operations[b].after.end(), random);
  }
  return problem;
}

/// Waits, records and events are as few as the search over all finds; since
/// the fewest waits are unique, they are the same ones.
TEST(EventPlacement, AgainstReference) {
  size_t waits = 0, dependences = 0;
  for (unsigned seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EventProblem problem = makeRandom(seed);
    ASSERT_EQ(problem.check(), "");
    EventPlan plan = placeEvents(problem);
    EventPlan best = placeEventsReference(problem);
    ASSERT_EQ(best.verify(problem), "");
    ASSERT_EQ(plan.verify(problem), "");
    ASSERT_EQ(plan.waits.size(), best.waits.size());
    ASSERT_EQ(plan.records.size(), best.records.size());
    ASSERT_EQ(plan.events, best.events);
    for (size_t w = 0; w < plan.waits.size(); ++w) {
      ASSERT_EQ(plan.waits[w].operation, best.waits[w].operation);
      ASSERT_EQ(plan.waits[w].record, best.waits[w].record);
    }
    waits += plan.waits.size();
    for (const auto &operation : problem.operations)
      dependences += operation.after.size();
  }
  // The instances are no trivial ones.
  EXPECT_GT(waits, 6000u);
  EXPECT_GT(dependences, 2 * waits);
}

/// Longer programs, for the parts of the checks that ask no reference: each
/// wait that is left out leaves a dependence open.
TEST(EventPlacement, NoWaitCanBeLeftOut) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    EventProblem problem;
    int64_t streams = 2 + random() % 8;
    for (int64_t b = 0; b < 200; ++b) {
      problem.operations.push_back({int64_t(random() % streams), {}});
      for (unsigned k = random() % 4; b > 0 && k > 0; --k)
        problem.operations[b].after.push_back(random() % b);
    }
    EventPlan plan = placeEvents(problem);
    ASSERT_EQ(plan.verify(problem), "");
    for (size_t w = 0; w < plan.waits.size(); ++w) {
      EventPlan less = plan;
      less.waits.erase(less.waits.begin() + w);
      ASSERT_NE(less.verify(problem), "") << "without wait " << w;
    }
  }
}
