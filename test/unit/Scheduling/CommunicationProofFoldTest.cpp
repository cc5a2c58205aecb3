//===- CommunicationProofFoldTest.cpp - ranks that run the same -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is folded and what is distinguished; answers are the same; and large
// meshes take what their distinct programs take.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProofMutation.h"
#include "CommunicationProofRandom.h"
#include <chrono>
#include <gtest/gtest.h>
#include <iostream>

using namespace mpcomm;
using namespace mpcomm::test;

/// One program on all ranks.
static ProofProblem oneProgram(std::vector<int64_t> sizes) {
  ProofProblem problem;
  ProofBox all;
  for (int64_t size : sizes) {
    problem.mesh.push_back(
        {"axis" + std::to_string(problem.mesh.size()), size});
    all.begin.push_back(0);
    all.end.push_back(size);
  }
  problem.classes.resize(1);
  problem.classes[0].boxes = {all};
  return problem;
}

TEST(CommunicationProofFold, OneProgramIsOneCell) {
  ProofProblem problem = oneProgram({1000, 1000});
  problem.communicators = {{{0}, 0}, {{1}, 0}, {{0, 1}, 0}};
  Writer writer(problem.classes[0].program);
  for (int k = 0; k < 3; ++k)
    writer.run(op(ProofKind::AllReduce, k, 10));
  // A root is a number that all agree on; it tells nobody apart.
  writer.run(op(ProofKind::Broadcast, 2, 10, "", ProofPeer::member(123456)));
  ProofResult result = proveCommunication(problem);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.ranks, 1000000);
  EXPECT_EQ(result.cells, 1);
}

TEST(CommunicationProofFold, PeersAreTakenApartAlongTheirAxis) {
  // Rank 3 of axis 0 sends to rank 7, in each of 50 columns.
  ProofProblem problem = oneProgram({10, 50});
  problem.communicators = {{{0}, 0}};
  problem.classes.resize(3);
  problem.classes[0].boxes = {
      {{0, 0}, {3, 50}}, {{4, 0}, {7, 50}}, {{8, 0}, {10, 50}}};
  problem.classes[1].boxes = {{{3, 0}, {4, 50}}};
  problem.classes[2].boxes = {{{7, 0}, {8, 50}}};
  Writer(problem.classes[1].program)
      .run(op(ProofKind::Send, 0, 1, "", ProofPeer::member(7)));
  Writer(problem.classes[2].program)
      .run(op(ProofKind::Recv, 0, 1, "", ProofPeer::member(3)));
  ProofResult result = proveCommunication(problem);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  // 0-2, 3, 4-6, 7, 8-9.
  EXPECT_EQ(result.cells, 5);
  // A program that is right on one rank runs on its neighbours too, before or
  // after it: these have nobody to send to, or to receive from.
  ProofProblem wide = problem;
  wide.classes[0].boxes = {{{4, 0}, {7, 50}}, {{8, 0}, {10, 50}}};
  wide.classes[1].boxes = {{{0, 0}, {4, 50}}};
  result = proveCommunication(wide);
  ASSERT_EQ(result.violation.kind, ProofViolationKind::SendWithoutRecv);
  EXPECT_EQ(result.violation.sides[0].rank, 0);
  wide = problem;
  wide.classes[0].boxes = {{{0, 0}, {3, 50}}, {{4, 0}, {7, 50}}};
  wide.classes[2].boxes = {{{7, 0}, {10, 50}}};
  result = proveCommunication(wide);
  ASSERT_EQ(result.violation.kind, ProofViolationKind::RecvWithoutSend);
  EXPECT_EQ(result.violation.sides[0].coordinates[0], 8);
}

TEST(CommunicationProofFold, NeighboursOnALineAreToldApart) {
  // Even ranks send to the next one.
  int64_t size = 100;
  ProofProblem problem = oneProgram({size, 30});
  problem.communicators = {{{0}, 0}};
  problem.classes.assign(2, {});
  for (int64_t x = 0; x < size; ++x)
    problem.classes[x % 2].boxes.push_back({{x, 0}, {x + 1, 30}});
  for (int side = 0; side < 2; ++side)
    Writer(problem.classes[side].program)
        .run(op(side ? ProofKind::Recv : ProofKind::Send, 0, 1, "",
                ProofPeer::neighbour(0, side ? -1 : 1)));
  ProofResult result = proveCommunication(problem);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.cells, size);
}

TEST(CommunicationProofFold, ARingThatNothingMarksIsOneCell) {
  ProofProblem problem = oneProgram({1000});
  problem.communicators = {{{0}, 0, true}};
  auto &program = problem.classes[0].program;
  Writer writer(program);
  writer.run(op(ProofKind::Send, 0, 1, "", ProofPeer::neighbour(0, 1, true)));
  writer.run(op(ProofKind::Recv, 0, 1, "", ProofPeer::neighbour(0, -1, true)));
  ProofResult result = proveCommunication(problem);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.cells, 1);
  // Round the ring the other way by 999 is the same.
  program.collectives[1].peer.number = 999;
  EXPECT_TRUE(proveCommunication(problem).accepted());
  program.collectives[1].peer.number = -2;
  EXPECT_EQ(proveCommunication(problem).violation.kind,
            ProofViolationKind::SendWithoutRecv);
  // Where sends end with their recvs nobody can begin, and the cycle has all
  // ranks: they are distinguished to show it.
  program.collectives[1].peer.number = -1;
  problem.communicators[0].buffered = false;
  result = proveCommunication(problem);
  ASSERT_EQ(result.violation.kind, ProofViolationKind::Deadlock);
  EXPECT_EQ(result.violation.cycle.size(), 1000u);
  EXPECT_NE(result.violation.message.find("\n  and 984 more"),
            std::string::npos);
  EXPECT_EQ(result.violation.cycle[0].needed.rank,
            result.violation.cycle[1].head.rank);
  // A peer that is named marks the ring.
  problem.communicators[0].buffered = true;
  problem.communicators.push_back({{0}, 1, true});
  problem.classes.push_back(problem.classes[0]);
  problem.classes[0].boxes = {{{0}, {999}}};
  problem.classes[1].boxes = {{{999}, {1000}}};
  EXPECT_EQ(proveCommunication(problem).cells, 1000);
}

TEST(CommunicationProofFold, TooManyRanksAreAnError) {
  ProofProblem problem = oneProgram({1 << 30});
  problem.communicators = {{{0}, 0}};
  Writer(problem.classes[0].program)
      .run(op(ProofKind::Send, 0, 1, "", ProofPeer::neighbour(0, 1)));
  ProofResult result = proveCommunication(problem);
  EXPECT_EQ(result.violation.kind, ProofViolationKind::Malformed);
  EXPECT_EQ(result.violation.message,
            "more than 67108864 ranks have to be distinguished");
}

/// Random programs on meshes stretched along axes that nothing marks.
TEST(CommunicationProofFold, AnswersAsIfUnfolded) {
  int rejected = 0, folded = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    RandomPrograms random(seed);
    ProofProblem problem = random.make(int(seed) % RandomPrograms::families);
    Mutator mutator(seed);
    if (seed % 5 == 0)
      mutator.merge(problem);
    for (uint32_t i = seed / 6 % 3; i-- > 0;)
      mutator.mutate(problem, int((seed / 18 + i) % Mutator::mutations));
    // Each rank at the end of an axis becomes several, as long as peers do not
    // go round that end.
    size_t axis = seed / 6 % problem.mesh.size();
    bool wraps = false, isPeer = false;
    for (const ProofClass &c : problem.classes)
      for (const ProofOp &o : c.program.collectives) {
        const auto &axes = problem.communicators[o.communicator].axes;
        bool spans =
            std::find(axes.begin(), axes.end(), int(axis)) != axes.end();
        wraps |= spans && o.peer.kind == ProofPeer::Neighbour;
        isPeer |= spans && o.peer.kind == ProofPeer::Member;
      }
    if (!wraps && !isPeer) {
      int64_t end = problem.mesh[axis].size;
      problem.mesh[axis].size += 5;
      for (ProofClass &c : problem.classes)
        for (ProofBox &box : c.boxes)
          if (box.end[axis] == end)
            box.end[axis] += 5;
    }
    ProofResult one = proveCommunication(problem);
    ProofResult other = proveCommunication(problem, {false});
    ASSERT_EQ(one.accepted(), other.accepted())
        << "seed " << seed << ": " << one.violation.message << "\n"
        << other.violation.message;
    EXPECT_EQ(one.violation.kind == ProofViolationKind::Deadlock,
              other.violation.kind == ProofViolationKind::Deadlock)
        << "seed " << seed;
    EXPECT_EQ(other.cells, other.ranks);
    folded += one.cells < other.cells;
    rejected += !one.accepted();
  }
  EXPECT_GT(folded, 300);
  EXPECT_GT(rejected, 150);
}

static double secondsToProve(const ProofProblem &problem, ProofOptions options,
                             ProofResult &result) {
  auto begin = std::chrono::steady_clock::now();
  result = proveCommunication(problem, options);
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  std::cout << result.ranks << " ranks, " << result.cells << " cells, "
            << result.instructions << " instructions: " << taken.count()
            << " s\n";
  return taken.count();
}

TEST(CommunicationProofFold, TenThousandRanks) {
  // 16 stages, 625 replicas, 1,000 micro-batches: 8,000 instructions and 4,000
  // messages for each rank between.
  ProofProblem problem = RandomPrograms(1).pipeline(16, 625, 1000);
  ProofResult result;
  EXPECT_LT(secondsToProve(problem, {}, result), 10);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.ranks, 10000);
  EXPECT_EQ(result.cells, 16);
  // One of them is wrong.
  ProofProblem wrong = problem;
  Mutator(5).mutate(wrong, Mutator::Drop);
  EXPECT_LT(secondsToProve(wrong, {}, result), 10);
  EXPECT_FALSE(result.accepted());
  // 10,000 distinct programs, all coordinates distinguished.
  problem = RandomPrograms(1).pipeline(10000, 1, 6);
  EXPECT_LT(secondsToProve(problem, {}, result), 10);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.cells, 10000);
}
