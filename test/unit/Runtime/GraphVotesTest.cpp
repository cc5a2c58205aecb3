//===- GraphVotesTest.cpp - ranks that take the same graphs, or none ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rank 0 of two on the double of the CUDA driver; a test is the other one.
//
//===----------------------------------------------------------------------===//

#include "session/GraphVotes.h"
#include "TwoRanks.h"
#include "device/cuda/CudaDevice.h"
#include "session/Context.h"

#include "mpcomm/Runtime/mprt.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>

using namespace mprt;

namespace {

int32_t clear(mprt_context *context, void *const *buffers, void *) {
  mprt_zero(context, 0, buffers[0], 64);
  return mprt_status_of(context);
}

/// A device with choices to make, of which it keeps what it is told.
struct Choosing : cuda::CudaDevice {
  using CudaDevice::CudaDevice;
  std::vector<LibraryVote> unsettled() const override { return mine; }
  void settle(std::span<const LibraryVote> votes) override {
    told.assign(votes.begin(), votes.end());
  }
  std::vector<LibraryVote> mine, told;

  static std::unique_ptr<Choosing> create() {
    const cuda::Driver &driver = **cuda::Driver::load();
    cuda::CUcontext context = nullptr;
    EXPECT_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), cuda::CUDA_SUCCESS);
    auto made = std::make_unique<Choosing>(driver, 0, context, "a device",
                                           cuda::Chip{90, 4}, /*rank=*/0);
    EXPECT_FALSE(made->prepare(0, nullptr, 0));
    return made;
  }
};

/// The other rank's vote, given rank 0's.
using Other = std::function<Expected<GraphVote>(const GraphVote &)>;

struct RankZero {
  SilentWorld ranks;
  std::unique_ptr<Choosing> device;
  std::unique_ptr<Context> context;
  std::vector<GraphVote> votes;
  void *sets[3];

  explicit RankZero(Other other) {
    setenv("MPRT_CUDA_LIBRARY", MPCOMM_FAKE_CUDA, 1);
    device = Choosing::create();
    for (void *&set : sets)
      set = device->allocate(64).take();
    ContextOptions options;
    options.device = device.get();
    options.gather = [this, other](const void *mine, void *all,
                                   uint64_t bytes) {
      GraphVote vote;
      EXPECT_EQ(bytes, sizeof(vote));
      memcpy(&vote, mine, sizeof(vote));
      votes.push_back(vote);
      Expected<GraphVote> theirs = other(vote);
      if (!theirs)
        return theirs.error();
      memcpy(all, &vote, sizeof(vote));
      memcpy(static_cast<char *>(all) + sizeof(vote), &*theirs, sizeof(vote));
      return Error();
    };
    context = Context::create(options, &ranks, {}).take();
  }

  /// A call with that set of buffers; whether it was a graph.
  bool call(int set) {
    uint64_t before = context->stats().graphSteps;
    (void)context->call(clear, &sets[set], 1, nullptr);
    return context->stats().graphSteps > before;
  }
  /// Calls with these sets: a letter each, `g` for a graph.
  std::string calls(const char *which) {
    std::string text;
    for (; *which; ++which)
      text += call(*which - '0') ? 'g' : 'c';
    EXPECT_FALSE(context->synchronize());
    return text;
  }
};

Expected<GraphVote> agree(const GraphVote &vote) { return vote; }

} // namespace

TEST(GraphVotes, TakeGraphsTogether) {
  RankZero setup(agree);
  EXPECT_EQ(setup.calls("01010101"), "ccgggggg");
  // Two for each graph that is taken, one for each that could be replayed.
  ASSERT_EQ(setup.votes.size(), 8u);
  const GraphVote::State states[] = {
      GraphVote::Takes, GraphVote::Takes, GraphVote::Takes, GraphVote::Takes,
      GraphVote::Has,   GraphVote::Has,   GraphVote::Has,   GraphVote::Has};
  const unsigned graphs[] = {0, 0, 1, 1, 0, 1, 0, 1};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(setup.votes[i].state, states[i]) << i;
    EXPECT_EQ(setup.votes[i].graph, graphs[i]) << i;
  }
}

TEST(GraphVotes, TellTheDeviceWhatAllRanksWant) {
  RankZero setup([](const GraphVote &vote) -> Expected<GraphVote> {
    GraphVote theirs = vote;
    theirs.libraries[1] = {7, 0};
    return theirs;
  });
  for (uint64_t key = 5; key < 85; ++key)
    setup.device->mine.push_back({key, 1});
  // Before the first vote a rank of two decides nothing.
  EXPECT_EQ(setup.calls("00"), "cc");
  EXPECT_TRUE(setup.device->told.empty());
  EXPECT_EQ(setup.calls("0"), "g");
  // As many as there is room for, from both.
  ASSERT_EQ(setup.device->told.size(), 128u);
  for (uint64_t i = 0; i < 128; ++i) {
    uint64_t key = i == 65 ? 7 : 5 + i % 64;
    EXPECT_EQ(setup.device->told[i].key, key) << i;
    EXPECT_EQ(setup.device->told[i].wants, i != 65) << i;
  }
}

TEST(GraphVotes, EndAfterAWhile) {
  RankZero setup(agree);
  std::string sets(40, '0');
  EXPECT_EQ(setup.calls(sets.c_str()), "cc" + std::string(38, 'g'));
  EXPECT_EQ(setup.votes.size(), 17u);
  // A new set is voted on at any time.
  EXPECT_EQ(setup.calls("10"), "gg");
  EXPECT_EQ(setup.votes.size(), 19u);
}

TEST(GraphVotes, SetsThatChangeDifferently) {
  // The other rank has one set.
  RankZero setup([](const GraphVote &vote) -> Expected<GraphVote> {
    GraphVote theirs = vote;
    theirs.graph = 0;
    if (vote.call > 1)
      theirs.state = GraphVote::Has;
    return theirs;
  });
  EXPECT_EQ(setup.calls("01010101"), "ccgccccc");
  EXPECT_EQ(setup.context->graphNote(),
            "the buffers of a step change in other ways on rank 1 than on rank "
            "0");
  EXPECT_EQ(setup.votes.size(), 3u);
}

TEST(GraphVotes, ARankThatRefuses) {
  RankZero setup([](const GraphVote &vote) -> Expected<GraphVote> {
    GraphVote theirs = vote;
    theirs.state = GraphVote::Refuses;
    theirs.setReason("no, thank you");
    return theirs;
  });
  EXPECT_EQ(setup.calls("000000"), "cccccc");
  EXPECT_EQ(setup.context->graphNote(), "rank 1: no, thank you");
  EXPECT_EQ(setup.votes.size(), 1u);
}

TEST(GraphVotes, ARankThatDoesNotCome) {
  RankZero setup([](const GraphVote &) -> Expected<GraphVote> {
    return Error(MPRT_TIMEOUT, "timed out");
  });
  EXPECT_FALSE(setup.call(0) || setup.call(0) || setup.call(0));
  Error error = setup.context->error();
  EXPECT_EQ(error.status(), MPRT_TIMEOUT);
  EXPECT_EQ(error.message(),
            "the ranks have not agreed on the graph of a step: timed out");
}

TEST(GraphVotes, ARankThatFails) {
  int votes = 0;
  RankZero setup([&](const GraphVote &vote) -> Expected<GraphVote> {
    GraphVote theirs = vote;
    if (++votes == 2) {
      theirs.state = GraphVote::Fails;
      theirs.setReason("NCCL says no");
    }
    return theirs;
  });
  EXPECT_FALSE(setup.call(0) || setup.call(0) || setup.call(0));
  EXPECT_EQ(setup.context->error().status(), MPRT_PEER_FAILED);
  EXPECT_EQ(setup.context->error().message(), "rank 1: NCCL says no");
}
