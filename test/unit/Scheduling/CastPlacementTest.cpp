//===- CastPlacementTest.cpp - cast placement against all plans -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random graphs, on which the cut has to come to exactly the assignment that
// trying all of them comes to; and graphs whose plan is known.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/CastPlacement/CastPlacement.h"
#include "References.h"
#include <chrono>
#include <gtest/gtest.h>
#include <iostream>
#include <random>

using namespace mpcomm;

static constexpr unsigned numInstances = 10000;

/// `op` reads `value`.
static void read(CastProblem &problem, int value, int op) {
  problem.values[value].consumers.push_back(op);
}

static int addOp(CastProblem &problem, CastClass precision,
                 std::vector<int> operands) {
  int op = int(problem.ops.size());
  problem.ops.push_back(precision);
  for (int value : operands)
    read(problem, value, op);
  return op;
}

static int addValue(CastProblem &problem, int64_t bytes, int producer,
                    ValueKind kind = ValueKind::Exact, bool isNarrow = false) {
  CastProblem::Value value;
  value.bytes = bytes;
  value.producer = producer;
  value.kind = kind;
  value.isNarrow = isNarrow;
  problem.values.push_back(value);
  return int(problem.values.size()) - 1;
}

static CastProblem makeProblem(unsigned seed) {
  std::mt19937 engine(seed);
  auto upTo = [&](int64_t most) { return int64_t(engine() % (most + 1)); };
  CastProblem problem;
  int64_t most = upTo(9), reach = 1 + upTo(6);
  for (int64_t i = upTo(3); i >= 0; --i)
    addValue(problem, upTo(most), -1, ValueKind(upTo(2)), upTo(3) == 0);
  int64_t numOps = 1 + upTo(11);
  for (int64_t i = 0; i < numOps; ++i) {
    std::vector<int> operands;
    int64_t values = int64_t(problem.values.size());
    for (int64_t n = upTo(3); n > 0; --n)
      operands.push_back(int(values - 1 - upTo(std::min(values, reach) - 1)));
    int op = addOp(problem, CastClass(upTo(3)), operands);
    for (int64_t n = upTo(2); n > 0; --n)
      addValue(problem, upTo(most), op);
  }
  return problem;
}

TEST(CastPlacement, AsAllAssignments) {
  int64_t casts = 0, exact = 0;
  for (unsigned seed = 0; seed < numInstances; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CastProblem problem = makeProblem(seed);
    ASSERT_EQ(problem.check(), "");
    CastPlan best = placeCastsReference(problem), plan = placeCasts(problem);
    ASSERT_EQ(verify(problem, plan), "");
    ASSERT_EQ(verify(problem, best), "");
    ASSERT_EQ(plan.bytes, best.bytes);
    ASSERT_EQ(plan.casts, best.casts);
    ASSERT_EQ(plan.isNarrow, best.isNarrow);
    casts += plan.casts;
    for (ValueKind kind : getValueKinds(problem))
      exact += kind == ValueKind::Exact;
  }
  // The instances are not trivial.
  EXPECT_GT(casts, numInstances);
  EXPECT_GT(exact, numInstances);
}

// product -> transpose -> product: nothing is cast between them.
TEST(CastPlacement, MovesFollowProducts) {
  CastProblem problem;
  int x = addValue(problem, 8, -1);
  int a = addOp(problem, CastClass::Narrow, {x});
  int t = addOp(problem, CastClass::Moves, {addValue(problem, 8, a)});
  addOp(problem, CastClass::Narrow, {addValue(problem, 8, t)});
  CastPlan plan = placeCasts(problem);
  EXPECT_EQ(plan.isNarrow, std::vector<bool>({true, true, true}));
  EXPECT_EQ(plan.casts, 1);
  EXPECT_EQ(plan.bytes, 8);
}

// Two products and a sum read a slice of an exact value of ten times its size:
// the slice is cut in the wide type, and cast once.
TEST(CastPlacement, CastsTheSmallerSideOnce) {
  CastProblem problem;
  int x = addValue(problem, 80, -1);
  int slice = addOp(problem, CastClass::Moves, {x});
  int s = addValue(problem, 8, slice);
  addOp(problem, CastClass::Narrow, {s});
  addOp(problem, CastClass::Narrow, {s});
  CastPlan plan = placeCasts(problem);
  EXPECT_FALSE(plan.isNarrow[0]);
  EXPECT_EQ(plan.casts, 1);
  EXPECT_EQ(plan.bytes, 8);
}

// A movement of an exact value that an op in the wide type reads too keeps its
// bits, even where casting before it would be cheaper.
TEST(CastPlacement, KeepsExactValuesExact) {
  CastProblem problem;
  int x = addValue(problem, 1, -1);
  int broadcast = addOp(problem, CastClass::Moves, {x});
  int b = addValue(problem, 80, broadcast);
  addOp(problem, CastClass::Narrow, {b});
  addOp(problem, CastClass::Wide, {b});
  CastPlan plan = placeCasts(problem);
  EXPECT_FALSE(plan.isNarrow[0]);
  EXPECT_EQ(plan.bytes, 80);
  plan.isNarrow[0] = true;
  EXPECT_EQ(verify(problem, plan),
            "value 1: loses bits for an op in the wide type");
}

// A sum of a product and a bias may be narrow, one of a product and an exact
// value not.
TEST(CastPlacement, PromoteFollowsItsInputs) {
  for (ValueKind kind : {ValueKind::Neutral, ValueKind::Exact}) {
    CastProblem problem;
    int x = addValue(problem, 8, -1), bias = addValue(problem, 1, -1, kind);
    int dot = addOp(problem, CastClass::Narrow, {x});
    int sum =
        addOp(problem, CastClass::Promote, {addValue(problem, 8, dot), bias});
    addOp(problem, CastClass::Narrow, {addValue(problem, 8, sum)});
    CastPlan plan = placeCasts(problem);
    EXPECT_EQ(plan.isNarrow[1], kind == ValueKind::Neutral);
    EXPECT_EQ(plan.bytes, kind == ValueKind::Neutral ? 9 : 24);
    EXPECT_EQ(getValueKinds(problem)[3], kind == ValueKind::Neutral
                                             ? ValueKind::Narrow
                                             : ValueKind::Exact);
  }
}

TEST(CastPlacement, CheckNamesThePlace) {
  CastProblem problem;
  int x = addValue(problem, -1, -1);
  EXPECT_EQ(problem.check(), "value 0: expected at least 0 bytes, got -1");
  problem.values[x].bytes = 1;
  int op = addOp(problem, CastClass::Narrow, {x});
  int y = addValue(problem, 1, op);
  read(problem, y, op);
  EXPECT_EQ(problem.check(), "value 1: expected consumers in [1, 1), got 0");
  problem.values[y].consumers.clear();
  problem.values[y].producer = 1;
  EXPECT_EQ(problem.check(), "value 1: expected a producer in [-1, 1), got 1");
  problem.values[y].producer = op;
  problem.values[y].bytes = INT64_MAX / 2;
  EXPECT_EQ(problem.check(), "value 1: expected fewer bytes in all");
  problem.values[y].bytes = 1;
  EXPECT_EQ(problem.check(), "");
}

TEST(CastPlacement, VerifySeesWrongPlans) {
  CastProblem problem;
  int x = addValue(problem, 4, -1);
  addOp(problem, CastClass::Narrow, {x});
  CastPlan plan = placeCasts(problem);
  EXPECT_EQ(verify(problem, plan), "");
  plan.bytes = 3;
  EXPECT_EQ(verify(problem, plan), "expected 1 casts of 4 bytes, got 1 of 3");
  plan.isNarrow[0] = false;
  EXPECT_EQ(verify(problem, plan), "op 0: runs in a type that it must not");
  plan.isNarrow.clear();
  EXPECT_EQ(verify(problem, plan), "expected a type for each op");
}

/// Layers of a transformer's shape: products, elementwise ops and movements
/// between them, a stream of exact values past them.
static CastProblem makeLayers(int numOps, unsigned seed) {
  std::mt19937 engine(seed);
  CastProblem problem;
  int stream = addValue(problem, 64, -1), now = stream;
  while (int(problem.ops.size()) < numOps) {
    unsigned draw = engine() % 16;
    int64_t bytes = 16 + engine() % 64;
    if (draw < 3) {
      now = addValue(problem, bytes, addOp(problem, CastClass::Narrow, {now}));
    } else if (draw < 5) {
      int op = addOp(problem, CastClass::Wide, {now, stream});
      stream = now = addValue(problem, 64, op);
    } else {
      int other = int(engine() % 8);
      other = int(problem.values.size()) - 1 - other;
      std::vector<int> operands = {now};
      if (draw < 8 && other >= 0)
        operands.push_back(other);
      int op = addOp(problem, draw % 2 ? CastClass::Moves : CastClass::Promote,
                     operands);
      now = addValue(problem, bytes, op);
    }
  }
  return problem;
}

TEST(CastPlacement, HundredThousandOps) {
  using Clock = std::chrono::steady_clock;
  double seconds[2];
  for (int large : {0, 1}) {
    CastProblem problem = makeLayers(large ? 100000 : 10000, 1);
    ASSERT_EQ(problem.check(), "");
    Clock::time_point start = Clock::now();
    CastPlan plan = placeCasts(problem);
    seconds[large] =
        std::chrono::duration<double>(Clock::now() - start).count();
    EXPECT_EQ(verify(problem, plan), "");
    EXPECT_GT(plan.casts, 0);
  }
  RecordProperty("seconds_10k", std::to_string(seconds[0]));
  RecordProperty("seconds_100k", std::to_string(seconds[1]));
  std::cout << seconds[0] << " s, " << seconds[1] << " s\n";
  EXPECT_LT(seconds[1], 10);
}

// One chain of ops that may run in either type, between two products.
TEST(CastPlacement, LongChain) {
  CastProblem problem;
  int now = addValue(problem, 4, addOp(problem, CastClass::Narrow, {}));
  for (int i = 0; i < 100000; ++i)
    now = addValue(problem, 1 + i % 7, addOp(problem, CastClass::Moves, {now}));
  addOp(problem, CastClass::Wide, {now});
  CastPlan plan = placeCasts(problem);
  EXPECT_EQ(verify(problem, plan), "");
  EXPECT_EQ(plan.bytes, 1);
}
