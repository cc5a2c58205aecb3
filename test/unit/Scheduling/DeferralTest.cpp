//===- DeferralTest.cpp - reductions that end in the next step ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Deferral/Deferral.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace mpcomm;

namespace {

using Items = std::vector<DeferralItem>;

/// The model by ticks of one second: in each, the link carries what is first in
/// its queue, and compute goes on unless it waits.
double tick(const Items &items, const std::vector<bool> &isDeferred,
            double compute) {
  std::vector<double> left;
  for (const DeferralItem &item : items)
    left.push_back(item.seconds);
  double clock = 0, now = 0;
  auto isDone = [&](size_t i) { return left[i] == 0; };
  for (;; ++now) {
    // The link: deferred items by need, all of them before the others; those by
    // when they are ready.
    size_t next = items.size();
    for (size_t i = 0; i < items.size(); ++i) {
      bool isBetter = next == items.size() ||
                      (isDeferred[i] && !isDeferred[next]) ||
                      (isDeferred[i] == isDeferred[next] &&
                       (isDeferred[i] ? items[i].needed < items[next].needed
                                      : items[i].ready < items[next].ready));
      if (!isDone(i) && isBetter)
        next = i;
    }
    bool mayCompute = clock < compute;
    for (size_t i = 0; i < items.size(); ++i)
      mayCompute &= !isDeferred[i] || isDone(i) || items[i].needed > clock;
    bool sends = next != items.size() &&
                 (isDeferred[next] || items[next].ready <= clock);
    if (next == items.size() && clock == compute)
      return now;
    if (!sends && !mayCompute)
      return -1; // stands still
    if (sends)
      --left[next];
    if (mayCompute)
      ++clock;
  }
}

Items makeItems(std::mt19937 &random, int count, int compute, int slowest) {
  auto draw = [&](int least, int most) {
    return static_cast<double>(
        std::uniform_int_distribution<int>(least, most)(random));
  };
  Items items(count);
  for (DeferralItem &item : items) {
    item.needed = draw(0, compute - 1);
    item.ready = draw(static_cast<int>(item.needed) + 1, compute);
    item.seconds = draw(1, slowest);
    item.bytes = static_cast<int64_t>(draw(1, 9));
  }
  return items;
}

TEST(Deferral, TheModelIsThatOfTicks) {
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    int compute = 5 + round % 20, count = 1 + round % 7;
    Items items = makeItems(random, count, compute, 1 + round % 9);
    std::vector<bool> isDeferred(count);
    for (int i = 0; i < count; ++i)
      isDeferred[i] = random() % 2;
    EXPECT_EQ(simulateDeferral(items, isDeferred, compute),
              tick(items, isDeferred, compute))
        << "round " << round;
  }
}

/// The least of all subsets.
double tryAll(const Items &items, double compute) {
  double best = tick(items, std::vector<bool>(items.size(), false), compute);
  for (unsigned set = 1; set < (1u << items.size()); ++set) {
    std::vector<bool> isDeferred;
    for (size_t i = 0; i < items.size(); ++i)
      isDeferred.push_back(set >> i & 1);
    best = std::min(best, tick(items, isDeferred, compute));
  }
  return best;
}

TEST(Deferral, TheChoiceIsTheBestOfItsFamilyAndNearThatOfAllSubsets) {
  std::mt19937 random(2);
  int pays = 0, best = 0;
  double chosen = 0, least = 0;
  for (int round = 0; round < 1000; ++round) {
    int compute = 10 + round % 20, count = 1 + round % 7;
    Items items = makeItems(random, count, compute, 1 + round % 9);
    std::vector<size_t> byNeed(count);
    for (int i = 0; i < count; ++i)
      byNeed[i] = i;
    std::stable_sort(byNeed.begin(), byNeed.end(), [&](size_t a, size_t b) {
      return items[a].needed < items[b].needed;
    });
    double family = tick(items, std::vector<bool>(count, false), compute);
    double nothing = family;
    for (int first = 0; first <= count; ++first)
      for (int last = 0; first + last <= count; ++last) {
        std::vector<bool> isDeferred(count, false);
        for (int i = 0; i < count; ++i)
          isDeferred[byNeed[i]] = i < first || i >= count - last;
        family = std::min(family, tick(items, isDeferred, compute));
      }
    DeferralChoice choice = chooseDeferral(items, compute);
    EXPECT_EQ(choice.before, nothing) << "round " << round;
    EXPECT_EQ(choice.after, family) << "round " << round;
    std::vector<bool> isDeferred(count, false);
    for (size_t item : choice.items)
      isDeferred[item] = true;
    EXPECT_EQ(tick(items, isDeferred, compute), choice.after)
        << "round " << round;
    double optimum = tryAll(items, compute);
    EXPECT_GE(choice.after, optimum);
    best += choice.after == optimum;
    chosen += choice.after;
    least += optimum;
    pays += optimum < nothing;
  }
  // Most instances have something to gain, and most of that is found.
  EXPECT_GT(pays, 500);
  EXPECT_GT(best, 900);
  EXPECT_LT(chosen, 1.01 * least);
}

/// Layers of a network: read in order, gradients in the other order.
Items makeLayers(int layers, double seconds) {
  Items items(layers);
  for (int i = 0; i < layers; ++i) {
    items[i].needed = i;
    items[i].ready = 3 * layers - 2 * i;
    items[i].seconds = seconds;
    items[i].bytes = 1;
  }
  return items;
}

TEST(Deferral, ABusyLinkUsesTheForwardPass) {
  // Compute takes 30, the link 40, of which it would be idle for 12.
  Items items = makeLayers(10, 4);
  DeferralChoice choice = chooseDeferral(items, 30);
  EXPECT_EQ(choice.before, 52);
  EXPECT_EQ(choice.after, 46);
  EXPECT_EQ(tryAll(items, 30), 44); // with a gap
}

TEST(Deferral, WhatIsMadeLastAndNeededFirstGainsNothing) {
  // All but the first layer is hidden already.
  DeferralChoice choice = chooseDeferral(makeLayers(10, 0.5), 30);
  EXPECT_EQ(choice.before, 30.5);
  EXPECT_EQ(choice.after, 30.5);
  EXPECT_TRUE(choice.items.empty());
}

TEST(Deferral, BytesBoundWhatIsTaken) {
  Items items = makeLayers(10, 4);
  EXPECT_TRUE(takeDeferral(items, 30, 0).items.empty());
  EXPECT_EQ(takeDeferral(items, 30, 3).items, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(takeDeferral(items, 30, 1000).items.size(), 10u);
  EXPECT_TRUE(chooseDeferral({}, 3).items.empty());
  EXPECT_EQ(chooseDeferral({}, 3).after, 3);
}

} // namespace
