//===- MonitorTest.cpp - what ranks wait for ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks come to a collective at times that are known here, on clocks that have
// nothing to do with one another.
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Monitor.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace mprt;

static mprt_collective collective(uint32_t id, uint32_t communicator = 0,
                                  mprt_collective_kind kind = MPRT_ALL_REDUCE) {
  mprt_collective made = {};
  made.id = id;
  made.kind = uint8_t(kind);
  made.communicator = communicator;
  return made;
}

/// Steps of ranks that compute so long, in ns, before a collective that takes
/// `transfer`.
static std::vector<RankTimes> play(const std::vector<uint64_t> &compute,
                                   uint64_t transfer, int steps = 5) {
  uint64_t last = *std::max_element(compute.begin(), compute.end());
  std::vector<RankTimes> ranks;
  for (size_t r = 0; r < compute.size(); ++r) {
    CollectiveClock clock;
    clock.enable(true);
    StepTimes times;
    uint64_t origin = 1000000007ull * (r + 3); // of its clock
    for (int step = 0; step < steps; ++step) {
      uint64_t begin = origin + compute[r], end = origin + last + transfer;
      clock.finish(collective(4), begin, end);
      clock.wait(collective(4), end - begin);
      times.add(1e-9 * double(end - origin), 1e-9 * double(end - begin),
                clock.take());
      origin = end;
    }
    ranks.push_back(times.take({4}));
  }
  return ranks;
}

TEST(Monitor, TellsTransferFromWaiting) {
  NetworkView view =
      lookAt(play({80000000, 100000000, 60000000}, 30000000), {0, 0, 0}, 2);
  EXPECT_NEAR(view.step, 0.13, 1e-9);
  EXPECT_NEAR(view.communication, 0.03, 1e-9);
  EXPECT_NEAR(view.compute, 0.1, 1e-9);
  EXPECT_NEAR(view.exposed, 0.07, 1e-9);
  EXPECT_NEAR(view.waited[0], 0.02, 1e-9);
  EXPECT_NEAR(view.waited[1], 0, 1e-9);
  EXPECT_NEAR(view.waited[2], 0.04, 1e-9);
  EXPECT_NEAR(view.transferOf[0], 0.03, 1e-9);
  EXPECT_NEAR(view.lateOf[0], 0.04, 1e-9);
  ASSERT_TRUE(view.straggler);
  EXPECT_EQ(*view.straggler, 1u);
  EXPECT_NEAR(view.lateness, 0.02, 1e-9);
}

TEST(Monitor, ASlowNetworkIsNoSlowRank) {
  NetworkView view = lookAt(play({100000000, 101000000}, 900000000), {0, 0}, 0);
  EXPECT_FALSE(view.straggler);
  EXPECT_NEAR(view.communication, 0.9, 1e-9);
}

TEST(Monitor, NamesWhoeverIsLate) {
  std::mt19937 random(3);
  for (int number = 0; number < 500; ++number) {
    std::vector<uint64_t> compute(2 + random() % 7);
    for (uint64_t &time : compute)
      time = 100000000 + random() % 3000000;
    unsigned slow = random() % compute.size();
    compute[slow] += 40000000;
    std::vector<unsigned> group(compute.size(), 0);
    NetworkView view =
        lookAt(play(compute, 1 + random() % 300000000), group, 0);
    ASSERT_TRUE(view.straggler);
    EXPECT_EQ(*view.straggler, slow);
  }
}

TEST(Monitor, GroupsAreComparedByThemselves) {
  // Two stages; the second moves more, and one of its ranks is late.
  std::vector<RankTimes> first = play({100000000, 100000000}, 10000000),
                         second = play({50000000, 90000000}, 70000000);
  first.insert(first.end(), second.begin(), second.end());
  NetworkView view = lookAt(first, {0, 0, 1, 1}, 0);
  EXPECT_NEAR(view.communication, 0.07, 1e-9);
  ASSERT_TRUE(view.straggler);
  EXPECT_EQ(*view.straggler, 3u);
  EXPECT_NEAR(view.transferOf[0], 0.01, 1e-9);
}

TEST(Monitor, ClockCountsOverlapsOnce) {
  CollectiveClock clock;
  clock.finish(collective(1), 0, 50);
  EXPECT_EQ(clock.take().busyNanoseconds, 0u) << "it is off";
  clock.enable(true);
  clock.finish(collective(2, 1), 150, 200); // on another communicator
  clock.finish(collective(1), 100, 300);
  clock.finish(collective(3), 120, 350); // began while the one before ran
  clock.finish(collective(9, 2, MPRT_RECV), 0, 1000);
  CollectiveTimes times = clock.take();
  EXPECT_EQ(times.busyNanoseconds, 250u);
  EXPECT_EQ(times.byId[1].busyNanoseconds, 200u);
  EXPECT_EQ(times.byId[2].busyNanoseconds, 50u);
  EXPECT_EQ(times.byId[3].busyNanoseconds, 50u);
  EXPECT_EQ(times.byId[9].busyNanoseconds, 1000u);
  EXPECT_EQ(clock.take().byId.size(), 0u);
}

TEST(Monitor, MediansLeaveOutWhatHappensOnce) {
  StepTimes times;
  for (double seconds : {9.0, 1.0, 1.1, 0.9, 1.0})
    times.add(seconds, 0.5, {});
  RankTimes taken = times.take({});
  EXPECT_EQ(taken.step, 1.0);
  EXPECT_EQ(taken.compute, 0.5);
  EXPECT_EQ(times.steps(), 0u);
}

TEST(Monitor, SlowLink) {
  auto links = [](std::vector<double> seconds) {
    std::vector<LinkTime> made;
    for (unsigned i = 0; i < seconds.size(); ++i)
      made.push_back({i, unsigned((i + 1) % seconds.size()), seconds[i]});
    return made;
  };
  EXPECT_FALSE(findSlowLink(links({1, 9})))
      << "which of two is as it should be?";
  EXPECT_FALSE(findSlowLink(links({1, 1.2, 0.9, 1.9})));
  auto found = findSlowLink(links({1, 1.2, 5, 1.1}));
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "the link from rank 2 to rank 3");
  found = findSlowLink(links({1, 1.2, 5, 4}));
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "the links of rank 3");
  found = findSlowLink(links({4, 1.2, 1, 5}));
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "the links of rank 0");
  found = findSlowLink(links({4, 1.2, 5, 1}));
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "the link from rank 2 to rank 3");
}
