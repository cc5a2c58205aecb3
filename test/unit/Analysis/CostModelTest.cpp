//===- CostModelTest.cpp - costs of collectives by hand -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On blocks of 4 ranks with 1 us a message and 10 GB/s (0.1 ns a byte), joined
// by links of 10 us and 1 GB/s (1 ns a byte).
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "gtest/gtest.h"
#include <random>

using namespace mpcomm;
using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

static Cluster makeCluster(int64_t rails = 1) {
  Cluster cluster;
  cluster.name = "test";
  cluster.device.flops["f32"] = 1e11;
  cluster.device.memoryBandwidth = 1e10;
  cluster.device.memoryBytes = 1;
  cluster.links = {{"near", 4, 1e-6, 1e10, true, 1},
                   {"far", 0, 1e-5, 1e9, true, rails}};
  return cluster;
}

/// One axis of `ranks`.
static GroupShape getShape(const Cluster &cluster, int64_t ranks) {
  return getGroupShape(cluster, {ranks}, {true});
}

static void expectLine(const std::optional<CostCurve> &cost, double latency,
                       double secondsPerByte, int link, size_t piece = 0) {
  ASSERT_TRUE(cost.has_value());
  ASSERT_GT(cost->pieces.size(), piece);
  EXPECT_NEAR(cost->pieces[piece].latency, latency, 1e-12);
  EXPECT_NEAR(cost->pieces[piece].secondsPerByte, secondsPerByte, 1e-18);
  EXPECT_EQ(cost->pieces[piece].link, link);
}

TEST(GroupShapeTest, RowMajorOverTheMesh) {
  Cluster cluster = makeCluster();
  auto inside = [&](llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<bool> spans) {
    GroupShape shape = getGroupShape(cluster, sizes, spans);
    return std::tuple(shape.ranks, shape.inside[0], shape.inside[1]);
  };
  using Shape = std::tuple<int64_t, int64_t, int64_t>;
  // 16 consecutive ranks: four in each block of four.
  EXPECT_EQ(inside({16}, {true}), Shape(16, 4, 16));
  // dp = 4 outside of tp = 4: every rank of a dp group is in another block.
  EXPECT_EQ(inside({4, 4}, {true, false}), Shape(4, 1, 4));
  EXPECT_EQ(inside({4, 4}, {false, true}), Shape(4, 4, 4));
  EXPECT_EQ(inside({4, 4}, {true, true}), Shape(16, 4, 16));
  // dp = 8 outside of tp = 2: ranks 0, 2 | 4, 6 | ...: two in a block.
  EXPECT_EQ(inside({8, 2}, {true, false}), Shape(8, 2, 8));
  // Six ranks along the outermost axis: 0..3 and 4, 5.
  EXPECT_EQ(inside({6}, {true}), Shape(6, 4, 6));
  // Groups 0..2, 3..5, 6..8 over blocks of four: the second lies in two blocks
  // with one rank in one of them.
  EXPECT_EQ(inside({3, 3}, {false, true}), Shape(3, 1, 3));
  // Axes of size 1 do not hide that the next one is the outermost.
  EXPECT_EQ(inside({1, 6}, {false, true}), Shape(6, 4, 6));
}

TEST(CostCurveTest, OneLevel) {
  CostModel model(makeCluster());
  GroupShape four = getShape(model.getCluster(), 4);
  auto get = [&](Kind kind, Algorithm algorithm) {
    return model.getCollective(kind, four, algorithm);
  };
  // 2 (p - 1) = 6 messages; 2 * 3/4 = 1.5 of the bytes.
  expectLine(get(Kind::AllReduce, Algorithm::Ring), 6e-6, 1.5e-10, 0);
  expectLine(get(Kind::ReduceScatter, Algorithm::Ring), 3e-6, 0.75e-10, 0);
  // The payload is a rank's own block: 3 of them come in.
  expectLine(get(Kind::AllGather, Algorithm::Ring), 3e-6, 3e-10, 0);
  // Pairwise exchange: 3 messages of a quarter.
  expectLine(get(Kind::AllToAll, Algorithm::Ring), 3e-6, 0.75e-10, 0);
  // d = 2; one chunk: 2 * 2 messages of everything.
  expectLine(get(Kind::AllReduce, Algorithm::Tree), 4e-6, 4e-10, 0);
  // Four chunks: 2 (2 + 3) messages, 2 (1 + 1/4) of the bytes.
  expectLine(get(Kind::AllReduce, Algorithm::Tree), 10e-6, 2.5e-10, 0, 1);
  expectLine(get(Kind::Broadcast, Algorithm::Tree), 2e-6, 2e-10, 0);
  // 2 log2 p = 4 messages, 1.5 of the bytes.
  expectLine(get(Kind::AllReduce, Algorithm::Halving), 4e-6, 1.5e-10, 0);
  expectLine(get(Kind::AllGather, Algorithm::Halving), 2e-6, 3e-10, 0);
  // Bruck: 2 messages of half.
  expectLine(get(Kind::AllToAll, Algorithm::Halving), 2e-6, 1e-10, 0);
  expectLine(get(Kind::Barrier, Algorithm::Halving), 2e-6, 0, 0);
  // One step in which three others get everything; or two of 3/4.
  expectLine(get(Kind::AllReduce, Algorithm::Direct), 1e-6, 3e-10, 0, 0);
  expectLine(get(Kind::AllReduce, Algorithm::Direct), 2e-6, 1.5e-10, 0, 1);
  expectLine(get(Kind::Send, Algorithm::Direct), 1e-6, 1e-10, 0);
  // To a root as from a root; by halving: 2 messages and 3/4 to reduce, as many
  // for the root to gather.
  expectLine(get(Kind::Reduce, Algorithm::Tree), 2e-6, 2e-10, 0);
  expectLine(get(Kind::Reduce, Algorithm::Halving), 4e-6, 1.5e-10, 0);
  // A rank's own block is the payload of a gather, all of them a scatter's.
  expectLine(get(Kind::Gather, Algorithm::Ring), 3e-6, 3e-10, 0);
  expectLine(get(Kind::Gather, Algorithm::Direct), 1e-6, 3e-10, 0);
  expectLine(get(Kind::Scatter, Algorithm::Ring), 3e-6, 0.75e-10, 0);
  expectLine(get(Kind::Scatter, Algorithm::Direct), 1e-6, 0.75e-10, 0);
  expectLine(get(Kind::Permute, Algorithm::Direct), 1e-6, 1e-10, 0);
  EXPECT_FALSE(get(Kind::Permute, Algorithm::Ring).has_value());
  EXPECT_FALSE(get(Kind::ReduceScatter, Algorithm::Tree).has_value());
  EXPECT_FALSE(get(Kind::AllReduce, Algorithm::Hierarchical).has_value());
}

TEST(CostCurveTest, TwoLevels) {
  CostModel model(makeCluster());
  GroupShape all = getShape(model.getCluster(), 16);
  auto get = [&](Kind kind, Algorithm algorithm) {
    return model.getCollective(kind, all, algorithm);
  };
  // A chain of 16 ranks has 15 hops, 3 of them between blocks: 12 + 30 us. One
  // rail: all of 2 * 15/16 of the bytes leaves a block through one link.
  expectLine(get(Kind::AllReduce, Algorithm::Ring), 84e-6, 1.875e-9, 1);
  // Depth 2 inside and 2 across: 2 + 20 us, twice.
  expectLine(get(Kind::AllReduce, Algorithm::Tree), 44e-6, 8e-9, 1);
  // Inside 3/4 and across a quarter of 3/4, twice: 0.15 + 0.375 ns.
  expectLine(get(Kind::AllReduce, Algorithm::Halving), 44e-6, 0.525e-9, 1);
  EXPECT_FALSE(get(Kind::AllReduce, Algorithm::Direct).has_value());
  // 3 peers near and 12 far, 1/16 of the bytes to each: 123 us;
  // 3/16 * 0.1 + 12/16 * 1 ns.
  expectLine(get(Kind::AllToAll, Algorithm::Ring), 123e-6, 0.76875e-9, 1);
  // 3 near and 12 far blocks for the root; what a rank gives goes far at most.
  expectLine(get(Kind::Gather, Algorithm::Ring), 123e-6, 12.3e-9, 1);
  expectLine(get(Kind::Scatter, Algorithm::Ring), 123e-6, 0.76875e-9, 1);
  expectLine(get(Kind::Permute, Algorithm::Direct), 10e-6, 1e-9, 1);
  // Inside 3 blocks in one step, then across 3 of 4 blocks each: 1 + 10 us,
  // 0.3 + 12 ns. A scatter is the reverse: 3/4 across, then 3/4 of a quarter.
  expectLine(get(Kind::Gather, Algorithm::Hierarchical), 11e-6, 12.3e-9, 1);
  expectLine(get(Kind::Scatter, Algorithm::Hierarchical), 11e-6, 0.76875e-9, 1);
  // reduce_scatter and all_gather inside, all_reduce of a quarter across. The
  // least latency: 1 + 1 us in one step inside, and one step of 3 * 1/4
  // across: 10 us. Bytes: 0.075 + 0.75 + 0.075 ns.
  expectLine(get(Kind::AllReduce, Algorithm::Hierarchical), 12e-6, 0.9e-9, 1);
  // The fewest bytes: 2 * 3/4 of a quarter across, in two steps.
  expectLine(get(Kind::AllReduce, Algorithm::Hierarchical), 22e-6, 0.525e-9, 1,
             1);
  // All four ranks of a block send through their own links: a quarter each.
  CostModel railed(makeCluster(/*rails=*/0));
  expectLine(railed.getCollective(Kind::AllReduce, all, Algorithm::Ring), 84e-6,
             1.875e-9 / 4, 1);
}

TEST(CostCurveTest, NotAPowerOfTwo) {
  CostModel model(makeCluster());
  GroupShape three = getGroupShape(model.getCluster(), {3}, {true});
  // 2 ceil(log2 3) messages; 2 (2/3 + 1) of the bytes.
  expectLine(model.getCollective(Kind::AllReduce, three, Algorithm::Halving),
             4e-6, 2e-10 * (2.0 / 3 + 1), 0);
}

TEST(CostCurveTest, NobodyToTalkTo) {
  CostModel model(makeCluster());
  CostCurve cost =
      model.getCollective(Kind::AllReduce, getShape(model.getCluster(), 1));
  EXPECT_EQ(cost.at(1 << 20), 0);
  EXPECT_EQ(cost.getSaturatingBytes(), 0);
}

TEST(CostCurveTest, LibrariesAndMeasurements) {
  Cluster cluster = makeCluster();
  cluster.collectiveLaunch = 5e-6;
  cluster.algorithms = {"ring"};
  GroupShape four = getShape(cluster, 4);
  {
    CostModel model(cluster);
    CostCurve cost = model.getCollective(Kind::AllReduce, four);
    ASSERT_EQ(cost.pieces.size(), 1u);
    EXPECT_EQ(Algorithm(cost.pieces[0].algorithm), Algorithm::Ring);
    EXPECT_NEAR(cost.pieces[0].latency, 11e-6, 1e-12);
    // A library of rings still sends from one rank to another.
    EXPECT_NEAR(model.getCollective(Kind::Recv, four).at(1000), 6.1e-6, 1e-12);
  }
  cluster.measured = {{"all_reduce", 4, "mpi", 1e-3, 1e-9, ""},
                      {"all_reduce", 4, "shm", 2e-3, 2e-9, "near"},
                      {"all_reduce", 8, "", 3e-3, 3e-9, "near"}};
  auto getLatency = [&](const char *backend, int64_t ranks) {
    return CostModel(cluster, std::nullopt, backend)
        .getCollective(Kind::AllReduce, getShape(cluster, ranks))
        .pieces[0]
        .latency;
  };
  EXPECT_EQ(getLatency("", 4), 1e-3);
  EXPECT_EQ(getLatency("shm", 4), 2e-3);
  EXPECT_NEAR(getLatency("gloo", 4), 11e-6, 1e-12);
  EXPECT_NE(getLatency("", 8), 3e-3); // eight ranks use the far links
}

TEST(CostCurveTest, SaturatingBytes) {
  // 10 us + 1 ns a byte: nine tenths of the rate where the latency is a ninth
  // of the transfer, 90 us.
  CostCurve cost =
      CostCurve::getEnvelope({makeLine(Algorithm::Ring, 10e-6, 1e-9, 0)});
  EXPECT_EQ(cost.getSaturatingBytes(0.9), 90000);
  EXPECT_EQ(cost.getSaturatingBytes(0.5), 10000);
}

// The envelope is the minimum of all lines, and none of its pieces is idle.
TEST(CostCurveTest, EnvelopeIsTheMinimum) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    std::vector<CostLine> ways;
    for (size_t i = 0, n = 1 + random() % 8; i < n; ++i)
      ways.push_back(makeLine(Algorithm::Ring, 1e-6 * (random() % 6),
                              1e-9 * (random() % 6), unsigned(i)));
    CostCurve cost = CostCurve::getEnvelope(ways);
    ASSERT_FALSE(cost.pieces.empty());
    for (size_t i = 1; i < cost.pieces.size(); ++i) {
      EXPECT_LT(cost.pieces[i - 1].latency, cost.pieces[i].latency);
      EXPECT_GT(cost.pieces[i - 1].secondsPerByte,
                cost.pieces[i].secondsPerByte);
    }
    for (int64_t bytes = 0; bytes < 20000; bytes += 97) {
      double least = ways[0].at(bytes);
      for (const CostLine &way : ways)
        least = std::min(least, way.at(bytes));
      ASSERT_NEAR(cost.at(bytes), least, 1e-15) << "round " << round;
    }
    int64_t enough = cost.getSaturatingBytes(0.8);
    double rate = cost.pieces.back().secondsPerByte;
    if (rate == 0) {
      EXPECT_EQ(enough, 0);
      continue;
    }
    EXPECT_LE(cost.at(enough), enough * rate / 0.8 + 1e-12);
    if (enough > 0)
      EXPECT_GT(cost.at(enough - 1), (enough - 1) * rate / 0.8 - 1e-12);
  }
}

// No way to run a collective beats the volume that has to cross the links.
TEST(CostCurveTest, PresetsAreSane) {
  for (llvm::StringRef name : getPresetNames()) {
    CostModel model(llvm::cantFail(getPreset(name)));
    for (int64_t ranks : {2, 4, 8, 64, 1024}) {
      GroupShape shape = getShape(model.getCluster(), ranks);
      for (Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather,
                        Kind::AllToAll, Kind::Broadcast, Kind::Send, Kind::Recv,
                        Kind::Barrier, Kind::Permute, Kind::Reduce,
                        Kind::Gather, Kind::Scatter}) {
        CostCurve cost = model.getCollective(kind, shape);
        ASSERT_FALSE(cost.pieces.empty());
        EXPECT_GT(cost.at(0), 0);
        EXPECT_GE(cost.at(1 << 20), cost.at(0));
      }
    }
  }
}
