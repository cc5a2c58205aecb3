//===- KernelGroupsTest.cpp - which loop nests run in one kernel ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small problems whose groups are worked out by hand, and invariants on random
// ones.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "mpcomm/Analysis/KernelGroups/Destinations.h"
#include "gtest/gtest.h"
#include <random>

using namespace mpcomm;
using OpKind = KernelProblem::OpKind;

namespace {

constexpr unsigned kMaxOperands = 32;

/// Blocks over a space of 8 x 4 elements of 4 bytes.
struct Block {
  KernelProblem problem;

  int addValue(int64_t elements, int maker = -1) {
    KernelProblem::Value value;
    value.bytes = 4 * elements;
    value.maker = maker;
    problem.values.push_back(value);
    int number = static_cast<int>(problem.values.size()) - 1;
    if (maker >= 0)
      problem.ops[maker].results.push_back(number);
    return number;
  }
  int addOp(OpKind kind, llvm::ArrayRef<int> uses) {
    KernelProblem::Op op;
    op.kind = kind;
    problem.ops.push_back(op);
    int number = static_cast<int>(problem.ops.size()) - 1;
    for (int value : uses)
      problem.values[value].users.push_back(number);
    return number;
  }
  /// A nest over `sizes` that reads values by indices; its result is indexed by
  /// `written`, all other loops are reductions.
  int addNest(llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<LoopNest::Read> reads,
              llvm::ArrayRef<int64_t> written) {
    LoopNest nest;
    nest.sizes = llvm::to_vector(sizes);
    int64_t elements = 1;
    for (size_t loop = 0; loop < sizes.size(); ++loop) {
      bool isReduction = !llvm::is_contained(written, int64_t(loop));
      nest.isReduction.push_back(isReduction);
      elements *= isReduction ? 1 : sizes[loop];
    }
    llvm::SmallVector<int> uses;
    for (const LoopNest::Read &read : reads) {
      nest.reads.push_back(read);
      uses.push_back(read.value);
    }
    int op = addOp(OpKind::Nest, uses);
    int result = addValue(elements, op);
    nest.writes.push_back({result, llvm::to_vector(written)});
    problem.ops[op].nest = static_cast<int>(problem.nests.size());
    problem.nests.push_back(std::move(nest));
    return result;
  }
  int addElementwise(llvm::ArrayRef<int> values) {
    llvm::SmallVector<LoopNest::Read> reads;
    for (int value : values)
      reads.push_back({value, {0, 1}});
    return addNest({8, 4}, reads, {0, 1});
  }
  int addOther(llvm::ArrayRef<int> values, int64_t elements = 32) {
    return addValue(elements, addOp(OpKind::Other, values));
  }
  int addProduct(llvm::ArrayRef<int> values) {
    int result = addOther(values);
    problem.ops[problem.values[result].maker].isLibraryCall = true;
    return result;
  }
  void addReturn(llvm::ArrayRef<int> values) {
    (void)addOp(OpKind::Other, values);
  }
};

/// The groups as lists of ops, `slot:op,op`.
std::string print(const KernelGroups &groups) {
  std::string text;
  for (int number : groups.getGroups()) {
    const KernelGroup &group = groups.get(number);
    text += (text.empty() ? "" : " ") + std::to_string(group.slot) + ":";
    for (const KernelMember &member : group.members)
      text += (&member == group.members.begin() ? "" : ",") +
              std::to_string(member.op);
  }
  return text;
}

std::string solve(const Block &block, unsigned maxOperands = kMaxOperands) {
  KernelGroups groups(block.problem, maxOperands);
  std::optional<KernelGroups::Error> error = groups.run();
  return error ? std::to_string(error->op) + ": " + error->why : print(groups);
}

/// Where the one output of the kernel that makes `result` goes: a value, or -1.
int getDestination(const Block &block, int result,
                   const Donations &donations = Donations()) {
  KernelGroups groups(block.problem, kMaxOperands);
  EXPECT_FALSE(groups.run());
  int number = groups.lookup(block.problem.values[result].maker);
  llvm::SmallVector<Destination> chosen = chooseDestinations(
      block.problem, groups, number, groups.get(number),
      groups.getOperands(number), donations, /*reuseOperands=*/true);
  EXPECT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen.front().result, result);
  return chosen.front().tensor;
}

} // namespace

TEST(KernelGroupsTest, ChainRunsAtItsLastOp) {
  Block block;
  int x = block.addValue(32);
  int a = block.addElementwise({x}), b = block.addElementwise({a});
  int c = block.addElementwise({b});
  block.addReturn({c});
  KernelGroups groups(block.problem, kMaxOperands);
  ASSERT_FALSE(groups.run());
  EXPECT_EQ(print(groups), "2:0,1,2");
  // Reads x and writes c, 32 elements of 4 bytes each.
  EXPECT_EQ(groups.getOperands(groups.lookup(0)).countBytes(block.problem),
            256);
}

TEST(KernelGroupsTest, SumOfRowIsThereInItsRow) {
  Block block;
  int x = block.addValue(32);
  int sum = block.addNest({8, 4}, {{x, {0, 1}}}, {0});
  int y = block.addNest({8, 4}, {{x, {0, 1}}, {sum, {0}}}, {0, 1});
  block.addReturn({y});
  EXPECT_EQ(solve(block), "1:0,1");
}

TEST(KernelGroupsTest, SumOverRowsEndsItsKernel) {
  Block block;
  int x = block.addValue(32);
  int sum = block.addNest({8, 4}, {{x, {0, 1}}}, {1});
  int y = block.addNest({8, 4}, {{x, {0, 1}}, {sum, {1}}}, {0, 1});
  block.addReturn({y});
  EXPECT_EQ(solve(block), "0:0 1:1");
}

TEST(KernelGroupsTest, OtherOrderEndsAKernel) {
  Block block;
  int x = block.addValue(32);
  int a = block.addElementwise({x});
  int b = block.addNest({4, 8}, {{a, {1, 0}}}, {0, 1});
  block.addReturn({b});
  EXPECT_EQ(solve(block), "0:0 1:1");
}

TEST(KernelGroupsTest, NoCycleThroughWhatIsNoNest) {
  // c needs what the product makes of a: the two cannot run at once. d needs
  // nothing later than a and joins it there.
  Block block;
  int x = block.addValue(32);
  int a = block.addElementwise({x});
  int product = block.addOther({a});
  int c = block.addElementwise({a, product});
  int d = block.addElementwise({a});
  block.addReturn({c, d});
  EXPECT_EQ(solve(block), "0:0,3 2:2");
}

TEST(KernelGroupsTest, ViewOfOwnResultEndsAKernel) {
  Block block;
  int x = block.addValue(32);
  int a = block.addElementwise({x});
  int view = block.addValue(32, block.addOp(OpKind::View, {a}));
  block.problem.ops[1].source = a;
  int b = block.addElementwise({view});
  block.addReturn({b});
  EXPECT_EQ(solve(block), "0:0 2:2");
}

TEST(KernelGroupsTest, ReadersOfOneTensorShareAKernel) {
  Block block;
  int x = block.addValue(32);
  int a = block.addElementwise({x}), b = block.addElementwise({x});
  block.addReturn({a, b});
  EXPECT_EQ(solve(block), "1:0,1");
}

TEST(KernelGroupsTest, LittleInCommonIsNotWorthAKernel) {
  // 16 bytes: less than an eighth of the 272 that either kernel moves.
  Block block;
  int row = block.addValue(4), x = block.addValue(32), y = block.addValue(32);
  int a = block.addNest({8, 4}, {{x, {0, 1}}, {row, {1}}}, {0, 1});
  int b = block.addNest({8, 4}, {{y, {0, 1}}, {row, {1}}}, {0, 1});
  block.addReturn({a, b});
  EXPECT_EQ(solve(block), "0:0 1:1");
}

TEST(KernelGroupsTest, OperandsAreLimited) {
  Block block;
  int x = block.addValue(32), y = block.addValue(32);
  int a = block.addElementwise({x});
  int b = block.addElementwise({a, y});
  block.addReturn({b});
  EXPECT_EQ(solve(block, 3), "1:0,1"); // x, y and b
  EXPECT_EQ(solve(block, 2), "0:0 1:1");
}

TEST(KernelGroupsTest, CheapWorkMayBeRepeated) {
  // A value per column, computed again in every row; only if it is cheap, and
  // if nobody else needs it.
  for (bool isCheap : {false, true})
    for (bool isReturned : {false, true}) {
      Block block;
      int x = block.addValue(32), row = block.addValue(4);
      int a = block.addNest({4}, {{row, {0}}}, {0});
      block.problem.nests[0].isCheap = isCheap;
      int b = block.addNest({8, 4}, {{x, {0, 1}}, {a, {1}}}, {0, 1});
      if (isReturned)
        block.addReturn({a, b});
      else
        block.addReturn({b});
      EXPECT_EQ(solve(block), isCheap && !isReturned ? "1:0,1" : "0:0 1:1");
    }
}

TEST(KernelGroupsTest, SaysWhatIsNoKernel) {
  Block block;
  int x = block.addValue(32);
  int a = block.addNest({4, 8}, {{x, {1, 0}}}, {0, 1});
  block.addReturn({a});
  EXPECT_EQ(solve(block), "0:0");
  // Its result is outside of the loops of the space: no prefix of them.
  KernelGroup group = KernelGroup::get(block.problem, 0);
  group.members[0].loops = {1, 0};
  EXPECT_EQ(checkGroup(block.problem, group, [](int) { return true; }),
            "would be computed once per row");
}

/// A random block: chains of elementwise work, sums of rows and over rows,
/// views, and ops that are no nests.
static Block makeRandom(std::mt19937 &random) {
  auto draw = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  Block block;
  std::vector<int> full{block.addValue(32), block.addValue(32)};
  std::vector<int> rows{block.addValue(8)}, columns{block.addValue(4)};
  auto pick = [&](const std::vector<int> &values) {
    int newest = std::max(0, static_cast<int>(values.size()) - 4);
    return values[draw(3) ? newest + draw(values.size() - newest)
                          : draw(values.size())];
  };
  for (int i = 0; i < 30; ++i)
    switch (draw(7)) {
    case 0:
      full.push_back(block.addOther({pick(full)}));
      break;
    case 1:
      rows.push_back(block.addNest({8, 4}, {{pick(full), {0, 1}}}, {0}));
      break;
    case 2:
      columns.push_back(block.addNest({8, 4}, {{pick(full), {0, 1}}}, {1}));
      break;
    case 3: {
      int source = pick(full);
      int op = block.addOp(OpKind::View, {source});
      block.problem.ops[op].source = source;
      full.push_back(block.addValue(32, op));
      break;
    }
    default:
      full.push_back(block.addNest({8, 4},
                                   {{pick(full), {0, 1}},
                                    {pick(full), {0, 1}},
                                    {pick(rows), {0}},
                                    {pick(columns), {1}}},
                                   {0, 1}));
    }
  block.addReturn({full.back(), rows.back(), columns.back()});
  return block;
}

TEST(KernelGroupsTest, RandomBlocksKeepTheInvariants) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Block block = makeRandom(random);
    const KernelProblem &problem = block.problem;
    KernelGroups groups(problem, 8);
    int64_t before = 0, after = 0;
    std::vector<int> seen(problem.ops.size(), 0);
    for (int number : groups.getGroups())
      before += groups.getOperands(number).countBytes(problem);
    ASSERT_FALSE(groups.run());
    for (int number : groups.getGroups()) {
      const KernelGroup &group = groups.get(number);
      KernelOperands operands = groups.getOperands(number);
      after += operands.countBytes(problem);
      if (group.members.size() > 1) {
        EXPECT_LE(operands.inputs.size() + operands.outputs.size(), 8u);
      }
      EXPECT_EQ(checkGroup(problem, group,
                           [&](int value) {
                             return groups.isUsedOutside(number, value);
                           }),
                "");
      EXPECT_EQ(groups.lookup(group.slot), number);
      for (const KernelMember &member : group.members) {
        ++seen[member.op];
        EXPECT_EQ(groups.lookup(member.op), number);
      }
    }
    // No merge adds traffic, and each nest is in one group.
    EXPECT_LE(after, before);
    for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op)
      EXPECT_EQ(seen[op], problem.isNest(op) ? 1 : 0);
    // What makes a value runs before what uses it, unless both are in one
    // kernel: so there is an order, that of the slots.
    for (int value = 0; value < static_cast<int>(problem.values.size());
         ++value) {
      int maker = groups.lookup(problem.values[value].maker);
      for (int user : problem.values[value].users) {
        if (problem.ops[user].kind == OpKind::View ||
            (maker >= 0 && groups.lookup(user) == maker))
          continue;
        int slot = groups.lookup(user) < 0
                       ? user
                       : groups.get(groups.lookup(user)).slot;
        EXPECT_LT(groups.getSlot(value), slot);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

TEST(DestinationsTest, WritesOverAProductThatNothingElseReads) {
  Block block;
  int product = block.addProduct({block.addValue(32)});
  int result = block.addElementwise({product});
  block.addReturn({result});
  EXPECT_EQ(getDestination(block, result), product);
}

TEST(DestinationsTest, KeepsWhatIsReadLater) {
  Block block;
  int product = block.addProduct({block.addValue(32)});
  int result = block.addElementwise({product});
  block.addReturn({result, product});
  EXPECT_EQ(getDestination(block, result), -1);
}

TEST(DestinationsTest, KeepsWhatIsNoProduct) {
  Block block;
  int other = block.addOther({block.addValue(32)});
  int result = block.addElementwise({other});
  block.addReturn({result});
  EXPECT_EQ(getDestination(block, result), -1);
}

TEST(DestinationsTest, KeepsWhatIsReadByAnotherIndex) {
  Block block;
  int product = block.addProduct({block.addValue(32)});
  int result = block.addNest({8, 8}, {{product, {1, 0}}}, {0, 1});
  block.addReturn({result});
  EXPECT_EQ(getDestination(block, result), -1);
}

TEST(DestinationsTest, KeepsWhatHasAnotherType) {
  Block block;
  int product = block.addProduct({block.addValue(32)});
  int result = block.addElementwise({product});
  static const char narrow = 0;
  block.problem.values[result].type = &narrow;
  block.addReturn({result});
  EXPECT_EQ(getDestination(block, result), -1);
}

TEST(DestinationsTest, WritesOverADonatedArgumentFirst) {
  Block block;
  int argument = block.addValue(32);
  int product = block.addProduct({block.addValue(32)});
  int result = block.addElementwise({product, argument});
  block.addReturn({result});
  EXPECT_EQ(getDestination(block, result), product);
  Donations donations;
  donations[result] = argument;
  EXPECT_EQ(getDestination(block, result, donations), argument);
}

TEST(DestinationsTest, KeepsADonatedArgumentThatIsReadLater) {
  Block block;
  int argument = block.addValue(32);
  int result = block.addElementwise({argument});
  int later = block.addOther({argument, result});
  block.addReturn({result, later});
  Donations donations;
  donations[result] = argument;
  EXPECT_EQ(getDestination(block, result, donations), -1);
}
