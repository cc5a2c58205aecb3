//===- CommunicationProofTest.cpp - what is accepted, what is not, and why ===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kind of violation by hand, with the ranks, ops and words that are
// reported.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProofRandom.h"
#include <gtest/gtest.h>

using namespace mpcomm;
using namespace mpcomm::test;
using Kind = ProofViolationKind;

/// `left` runs on rank 0 of axis pp and `right` on rank 1, on each of two
/// replicas. Communicators: 0 and 1 are pp, in two channels; 2 is dp; 3 both.
struct TwoStages {
  ProofProblem problem;
  Writer left, right;

  TwoStages()
      : problem(make()), left(problem.classes[0].program, "left"),
        right(problem.classes[1].program, "right") {}

  static ProofProblem make() {
    ProofProblem problem;
    problem.mesh = {{"pp", 2}, {"dp", 2}};
    problem.communicators = {{{0}, 0}, {{0}, 1}, {{1}, 0}, {{0, 1}, 0}};
    problem.classes.resize(2);
    problem.classes[0].name = "left";
    problem.classes[0].boxes = {{{0, 0}, {1, 2}}};
    problem.classes[1].name = "right";
    problem.classes[1].boxes = {{{1, 0}, {2, 2}}};
    return problem;
  }
  ProofViolation prove() const { return proveCommunication(problem).violation; }
};

static ProofOp allReduce(int communicator, int64_t count) {
  return op(ProofKind::AllReduce, communicator, count);
}
static ProofOp send(int channel, int64_t count, int64_t to,
                    std::string tag = "") {
  return op(ProofKind::Send, channel, count, tag, ProofPeer::member(to));
}
static ProofOp recv(int channel, int64_t count, int64_t from,
                    std::string tag = "") {
  return op(ProofKind::Recv, channel, count, tag, ProofPeer::member(from));
}

TEST(CommunicationProof, AcceptsWhatMatches) {
  TwoStages t;
  t.left.run(send(0, 8, 1));
  t.right.run(recv(0, 8, 0));
  // Stages reduce gradients of different sizes, each among its replicas.
  t.left.start(allReduce(2, 100));
  t.right.start(allReduce(2, 50));
  t.left.run(allReduce(3, 1));
  t.right.run(allReduce(3, 1));
  ProofResult result = proveCommunication(t.problem);
  EXPECT_TRUE(result.accepted()) << result.violation.message;
  EXPECT_EQ(result.ranks, 4);
  EXPECT_EQ(result.cells, 2);
  // Start and Await of two each, and a Start; on two cells.
  EXPECT_EQ(result.instructions, 2 * 5);
}

TEST(CommunicationProof, NamesWhatDiffers) {
  auto differ = [](auto change) {
    TwoStages t;
    ProofOp made = allReduce(3, 10);
    t.left.run(made);
    change(made);
    t.right.run(made);
    return t.prove();
  };
  EXPECT_EQ(differ([](ProofOp &) {}).kind, Kind::None);
  ProofViolation count = differ([](ProofOp &made) { made.count = 11; });
  EXPECT_EQ(count.kind, Kind::MismatchedCount);
  EXPECT_EQ(
      count.message,
      "mismatched count: collective 1 on communicator pp x dp: rank 0 (pp "
      "0, dp 0) calls all_reduce(mean, 10 x f32, accumulate f32) at "
      "left:1, rank 2 (pp 1, dp 0) calls all_reduce(mean, 11 x f32, "
      "accumulate f32) at right:1");
  ASSERT_EQ(count.sides.size(), 2u);
  EXPECT_EQ(count.sides[0].rank, 0);
  EXPECT_EQ(count.sides[0].classIndex, 0);
  EXPECT_EQ(count.sides[1].rank, 2);
  EXPECT_EQ(count.sides[1].coordinates, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(count.sides[1].op, 0);
  EXPECT_EQ(count.sides[1].instruction, 0);
  auto kind = [&](auto change) { return differ(change).kind; };
  EXPECT_EQ(kind([](ProofOp &made) { made.kind = ProofKind::ReduceScatter; }),
            Kind::MismatchedKind);
  EXPECT_EQ(kind([](ProofOp &made) { made.type = "bf16"; }),
            Kind::MismatchedType);
  EXPECT_EQ(kind([](ProofOp &made) { made.wire = "bf16"; }),
            Kind::MismatchedWire);
  EXPECT_EQ(kind([](ProofOp &made) { made.accumulate = "f64"; }),
            Kind::MismatchedAccumulate);
  EXPECT_EQ(kind([](ProofOp &made) { made.reduction = "sum"; }),
            Kind::MismatchedReduction);
  EXPECT_EQ(kind([](ProofOp &made) { made.tag = "bias"; }),
            Kind::MismatchedTag);
  // What a kind has not is not compared: a barrier has no count.
  TwoStages t;
  t.left.run(op(ProofKind::Barrier, 3, 0));
  t.right.run(op(ProofKind::Barrier, 3, 1));
  EXPECT_EQ(t.prove().kind, Kind::None);
}

TEST(CommunicationProof, ComparesRoots) {
  TwoStages t;
  t.left.run(op(ProofKind::Broadcast, 3, 10, "", ProofPeer::member(0)));
  t.right.run(op(ProofKind::Broadcast, 3, 10, "", ProofPeer::member(3)));
  EXPECT_EQ(t.prove().kind, Kind::MismatchedRoot);
}

TEST(CommunicationProof, SeesAnotherOrder) {
  TwoStages t;
  t.left.start(allReduce(3, 10));
  t.left.start(allReduce(3, 20));
  t.right.start(allReduce(3, 20));
  t.right.start(allReduce(3, 10));
  ProofViolation violation = t.prove();
  ASSERT_EQ(violation.kind, Kind::MismatchedOrder);
  EXPECT_EQ(violation.sides[0].op, 0);
  EXPECT_EQ(violation.sides[1].op, 0);
}

TEST(CommunicationProof, SeesWhoIsMissing) {
  TwoStages t;
  t.left.start(allReduce(3, 10));
  t.left.start(allReduce(3, 20));
  t.left.start(allReduce(3, 30));
  t.right.start(allReduce(3, 10));
  t.right.start(allReduce(3, 30));
  ProofViolation violation = t.prove();
  ASSERT_EQ(violation.kind, Kind::MissingParticipant);
  // The second of the left has no counterpart; the right goes on to the third.
  EXPECT_EQ(violation.message,
            "rank 0 (pp 0, dp 0) calls all_reduce(mean, 20 x f32, accumulate "
            "f32) at left:2 on communicator pp x dp, rank 2 (pp 1, dp 0) does "
            "not take part, its next is all_reduce(mean, 30 x f32, accumulate "
            "f32) at right:2");
  EXPECT_EQ(violation.sides[0].op, 1);
  EXPECT_EQ(violation.sides[1].op, 1);

  TwoStages none;
  none.right.start(allReduce(3, 10));
  violation = none.prove();
  ASSERT_EQ(violation.kind, Kind::MissingParticipant);
  EXPECT_EQ(violation.sides[0].rank, 2);
  EXPECT_EQ(violation.sides[1].rank, 0);
  EXPECT_EQ(violation.sides[1].op, -1);
}

TEST(CommunicationProof, BlamesTheOneThatDiffers) {
  // 9 ranks; rank 4 reduces another size.
  ProofProblem problem;
  problem.mesh = {{"dp", 9}};
  problem.communicators = {{{0}, 0}};
  problem.classes.resize(2);
  problem.classes[0].boxes = {{{0}, {4}}, {{5}, {9}}};
  problem.classes[1].boxes = {{{4}, {5}}};
  Writer(problem.classes[0].program).run(allReduce(0, 10));
  Writer(problem.classes[1].program).run(allReduce(0, 11));
  ProofResult result = proveCommunication(problem);
  ASSERT_EQ(result.violation.kind, Kind::MismatchedCount);
  EXPECT_EQ(result.cells, 3);
  EXPECT_EQ(result.violation.sides[0].rank, 0);
  EXPECT_EQ(result.violation.sides[1].rank, 4);
}

TEST(CommunicationProof, PairsSendsWithRecvs) {
  TwoStages lost;
  lost.left.run(send(0, 8, 1));
  ProofViolation violation = lost.prove();
  ASSERT_EQ(violation.kind, Kind::SendWithoutRecv);
  EXPECT_EQ(violation.sides[0].rank, 0);
  EXPECT_EQ(violation.sides[1].rank, 2);

  TwoStages waits;
  waits.right.run(recv(0, 8, 0));
  EXPECT_EQ(waits.prove().kind, Kind::RecvWithoutSend);

  // Another channel is another edge.
  TwoStages channels;
  channels.left.run(send(0, 8, 1));
  channels.right.run(recv(1, 8, 0));
  EXPECT_EQ(channels.prove().kind, Kind::SendWithoutRecv);

  TwoStages sizes;
  sizes.left.run(send(0, 8, 1));
  sizes.right.run(recv(0, 9, 0));
  EXPECT_EQ(sizes.prove().kind, Kind::MismatchedCount);

  // The second activation is taken for the first: only tags tell.
  for (bool tagged : {false, true}) {
    TwoStages t;
    t.left.start(send(0, 8, 1, tagged ? "F0" : ""));
    t.left.start(send(0, 8, 1, tagged ? "F1" : ""));
    t.right.start(recv(0, 8, 0, tagged ? "F1" : ""));
    t.right.start(recv(0, 8, 0, tagged ? "F0" : ""));
    EXPECT_EQ(t.prove().kind, tagged ? Kind::MismatchedOrder : Kind::None);
  }

  // One peer by two names, in turns; the other side has one name for it.
  TwoStages names;
  names.left.start(send(0, 8, 1));
  names.left.start(op(ProofKind::Send, 0, 9, "", ProofPeer::neighbour(0, 1)));
  names.left.start(send(0, 10, 1));
  for (int64_t count : {8, 9, 10})
    names.right.start(recv(0, count, 0));
  EXPECT_EQ(names.prove().kind, Kind::None);
}

TEST(CommunicationProof, RefusesPeersThatAreNone) {
  for (int64_t to : {0, 2, -1}) {
    TwoStages t;
    t.left.run(send(0, 8, to));
    EXPECT_EQ(t.prove().kind, Kind::InvalidPeer) << to;
  }
  // The right stage is the last.
  TwoStages t;
  t.right.run(op(ProofKind::Send, 0, 8, "", ProofPeer::neighbour(0, 1)));
  ProofViolation violation = t.prove();
  EXPECT_EQ(violation.kind, Kind::InvalidPeer);
  EXPECT_EQ(violation.message,
            "rank 2 (pp 1, dp 0) calls send(8 x f32, to pp + 1) at right:1 on "
            "communicator pp, expected another rank of its group as peer");
  // All round the ring is oneself.
  TwoStages wraps;
  wraps.left.run(
      op(ProofKind::Send, 0, 8, "", ProofPeer::neighbour(0, 2, true)));
  EXPECT_EQ(wraps.prove().kind, Kind::InvalidPeer);
}

TEST(CommunicationProof, ChecksProgramsAlone) {
  auto refused = [](std::vector<RankInstruction> instructions) {
    TwoStages t;
    t.problem.classes[0].program.collectives = {allReduce(2, 1)};
    t.problem.classes[0].program.instructions = std::move(instructions);
    return t.prove();
  };
  const RankInstruction start = RankInstruction::start(0);
  const RankInstruction await = RankInstruction::await(0);
  EXPECT_EQ(refused({start, await}).kind, Kind::None);
  EXPECT_EQ(refused({RankInstruction::compute(1)}).kind, Kind::Malformed);
  // An op that is not started takes no part.
  EXPECT_EQ(refused({}).kind, Kind::None);
  ProofViolation early = refused({await, start});
  EXPECT_EQ(early.kind, Kind::AwaitBeforeStart);
  EXPECT_EQ(early.message, "rank 0 (pp 0, dp 0) awaits all_reduce(mean, 1 x "
                           "f32, accumulate f32) before its start");
  EXPECT_EQ(early.sides[0].instruction, 0);
  EXPECT_EQ(refused({await}).kind, Kind::AwaitBeforeStart);
  EXPECT_EQ(refused({start, start}).kind, Kind::DoubleStart);
  EXPECT_EQ(refused({start, await, await}).kind, Kind::DoubleAwait);
}

TEST(CommunicationProof, ShowsTheCycle) {
  // Each stage sends before it receives.
  TwoStages t;
  t.left.run(send(0, 8, 1));
  t.left.run(recv(1, 8, 1));
  t.right.run(send(1, 8, 0));
  t.right.run(recv(0, 8, 0));
  ProofViolation violation = t.prove();
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  EXPECT_EQ(
      violation.message,
      "deadlock: each of these waits for the next, and the last for the first\n"
      "  rank 0 (pp 0, dp 0) waits for send(8 x f32, to 1) at left:1 "
      "on communicator pp, which needs rank 2 (pp 1, dp 0) to come to recv(8 x "
      "f32, from 0) at right:3\n"
      "  rank 2 (pp 1, dp 0) waits for send(8 x f32, to 0) at "
      "right:1 on communicator pp channel 1, which needs rank 0 (pp 0, dp 0) "
      "to "
      "come to recv(8 x f32, from 1) at left:3");
  ASSERT_EQ(violation.cycle.size(), 2u);
  EXPECT_EQ(violation.cycle[0].head.rank, 0);
  EXPECT_EQ(violation.cycle[0].head.op, 0);
  EXPECT_EQ(violation.cycle[0].instruction, 1);
  EXPECT_EQ(violation.cycle[0].awaited, 0);
  EXPECT_EQ(violation.cycle[0].needed.rank, 2);
  EXPECT_EQ(violation.cycle[0].needed.op, 1);
  EXPECT_EQ(violation.cycle[0].needed.instruction, 2);

  // A channel that holds messages is enough, and so are recvs started first.
  t.problem.communicators[0].buffered = true;
  EXPECT_EQ(t.prove().kind, Kind::None);
  TwoStages posted;
  int left = posted.left.start(recv(1, 8, 1));
  int right = posted.right.start(recv(0, 8, 0));
  posted.left.run(send(0, 8, 1));
  posted.right.run(send(1, 8, 0));
  posted.left.await(left);
  posted.right.await(right);
  EXPECT_EQ(posted.prove().kind, Kind::None);
}

/// The send is started, the recv awaited: on one stream it is queued after the
/// send, on two it is not. A send that is awaited first waits on any stream.
TEST(CommunicationProof, SaysWhetherAnotherChannelHelps) {
  auto exchange = [](TwoStages &t, int times) {
    for (int i = 0; i < times; ++i) {
      int left = t.left.start(send(0, 8, 1));
      t.left.run(recv(0, 8, 1));
      t.left.await(left);
      int right = t.right.start(send(0, 8, 0));
      t.right.run(recv(0, 8, 0));
      t.right.await(right);
    }
  };
  TwoStages once;
  exchange(once, 1);
  ProofViolation violation = once.prove();
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  EXPECT_EQ(violation.advice,
            "another channel resolves this: move to channel 2 send(8 x f32, to "
            "1) at left:1 of rank 0 (pp 0, dp 0) and recv(8 x f32, from 0) at "
            "right:2 of rank 2 (pp 1, dp 0)");
  ASSERT_EQ(violation.moved.size(), 2u);
  EXPECT_EQ(violation.moved[0].rank, 0);
  EXPECT_EQ(violation.moved[1].rank, 2);
  for (const ProofSide &side : violation.moved)
    once.problem.classes[side.classIndex]
        .program.collectives[side.op]
        .communicator = 1;
  EXPECT_EQ(once.prove().kind, Kind::None);

  TwoStages thrice;
  exchange(thrice, 3);
  violation = thrice.prove();
  EXPECT_TRUE(violation.advice.ends_with(
      "(pp 1, dp 0), and the 2 others between them in this direction"))
      << violation.advice;

  TwoStages blocking;
  blocking.left.run(send(0, 8, 1));
  blocking.left.run(recv(0, 8, 1));
  blocking.right.run(send(0, 8, 0));
  blocking.right.run(recv(0, 8, 0));
  violation = blocking.prove();
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  EXPECT_EQ(violation.advice, "");
  EXPECT_TRUE(violation.moved.empty());

  // One channel helps the exchange, but not the blocking sends after it.
  TwoStages both;
  exchange(both, 1);
  both.left.run(send(1, 8, 1));
  both.left.run(recv(1, 8, 1));
  both.right.run(send(1, 8, 0));
  both.right.run(recv(1, 8, 0));
  violation = both.prove();
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  EXPECT_EQ(violation.advice, "");
}

/// Neighbours of a line of four ranks exchange on one channel: what goes one
/// way has to move between each two.
TEST(CommunicationProof, MovesOneDirectionOfALine) {
  ProofProblem problem;
  problem.mesh = {{"pp", 4}};
  problem.communicators = {{{0}, 0, false}};
  problem.classes.resize(4);
  for (int rank = 0; rank < 4; ++rank) {
    ProofClass &one = problem.classes[rank];
    one.name = std::to_string(rank);
    one.boxes = {{{rank}, {rank + 1}}};
    Writer program(one.program, one.name);
    for (int other : {rank - 1, rank + 1}) {
      if (other < 0 || other > 3)
        continue;
      int sent = program.start(send(0, 8, other));
      program.run(recv(0, 8, other));
      program.await(sent);
    }
  }
  ProofViolation violation = proveCommunication(problem).violation;
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  ASSERT_EQ(violation.moved.size(), 6u) << violation.advice;
  problem.communicators.push_back({{0}, 1, false});
  for (const ProofSide &side : violation.moved)
    problem.classes[side.classIndex].program.collectives[side.op].communicator =
        1;
  EXPECT_TRUE(proveCommunication(problem).accepted());
}

TEST(CommunicationProof, ShowsQueuesAndEnds) {
  // Nobody awaits; what crosses are the orders of two streams, both ways: left
  // has the recv after its send on one stream.
  TwoStages t;
  t.left.start(send(0, 8, 1, "a"));
  t.left.start(recv(0, 8, 1, "b"));
  t.right.start(send(0, 8, 0, "b"));
  t.right.start(recv(0, 8, 0, "a"));
  ProofViolation violation = t.prove();
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  ASSERT_EQ(violation.cycle.size(), 2u);
  EXPECT_EQ(violation.cycle[0].instruction, 2);
  EXPECT_EQ(violation.cycle[0].awaited, -1);
  EXPECT_NE(violation.message.find("rank 0 (pp 0, dp 0) waits at its end for "
                                   "send(8 x f32, to 1, a) at left:1"),
            std::string::npos)
      << violation.message;

  // The awaited recv is queued behind a reduction that the other has not begun.
  TwoStages queued;
  queued.left.start(allReduce(0, 5));
  queued.left.run(recv(0, 8, 1));
  queued.right.run(send(0, 8, 0));
  queued.right.start(allReduce(0, 5));
  violation = queued.prove();
  EXPECT_EQ(violation.kind, Kind::Deadlock);
  EXPECT_NE(
      violation.message.find("waits for recv(8 x f32, from 1) "
                             "at left:2, which is queued behind all_reduce"),
      std::string::npos)
      << violation.message;
}

TEST(CommunicationProof, ShowsTheShortestCycle) {
  // Four stages in a row wait for one another; between the last two there is a
  // cycle of two.
  ProofProblem problem;
  problem.mesh = {{"pp", 4}};
  for (int channel = 0; channel < 8; ++channel)
    problem.communicators.push_back({{0}, channel});
  problem.classes.resize(4);
  for (int s = 0; s < 4; ++s)
    problem.classes[s].boxes = {{{s}, {s + 1}}};
  auto writer = [&](int s) { return Writer(problem.classes[s].program); };
  for (int s = 0; s < 3; ++s) {
    writer(s).run(recv(s, 1, s + 1));
    if (s > 0)
      writer(s).run(send(s - 1, 1, s - 1));
  }
  writer(3).run(recv(4, 1, 2));
  writer(3).run(send(2, 1, 2));
  writer(2).run(send(4, 1, 3));
  ProofViolation violation = proveCommunication(problem).violation;
  ASSERT_EQ(violation.kind, Kind::Deadlock);
  ASSERT_EQ(violation.cycle.size(), 2u) << violation.message;
  EXPECT_EQ(violation.cycle[0].head.rank + violation.cycle[1].head.rank, 5);
}

TEST(CommunicationProof, ChecksProblems) {
  auto refused = [](auto change) {
    TwoStages t;
    t.left.run(send(0, 8, 1));
    t.right.run(recv(0, 8, 0));
    change(t.problem);
    EXPECT_EQ(t.prove().kind, Kind::Malformed);
    return t.problem.check();
  };
  using Problem = ProofProblem &;
  EXPECT_EQ(refused([](Problem p) { p.mesh = {}; }), "the mesh has no axis");
  EXPECT_EQ(refused([](Problem p) { p.mesh[1].size = 0; }),
            "mesh axis 'dp' has size 0");
  EXPECT_EQ(refused([](Problem p) {
              p.mesh[1].size = 1 << 30;
              p.mesh[0].size = 2;
            }),
            "the mesh has more than 2147483647 ranks");
  EXPECT_EQ(refused([](Problem p) { p.communicators[1].channel = 0; }),
            "communicator 1 has the axes and the channel of communicator 0");
  EXPECT_EQ(
      refused([](Problem p) { p.communicators[3].axes = {1, 0}; }),
      "communicator 3 spans axis 0, expected axes of the mesh, ascending");
  EXPECT_EQ(refused([](Problem p) { p.communicators[0].axes.clear(); }),
            "communicator 0 spans no axis");
  EXPECT_EQ(
      refused([](Problem p) { p.classes[0].program.collectives[0].peer = {}; }),
      "program 'left': op 0: send expects a peer");
  EXPECT_EQ(
      refused([](Problem p) {
        p.classes[0].program.collectives[0].peer = ProofPeer::neighbour(1, 1);
      }),
      "program 'left': op 0: send expects a neighbour along an axis of its "
      "communicator");
  EXPECT_EQ(refused([](Problem p) {
              p.classes[0].program.collectives[0].kind = ProofKind::Barrier;
            }),
            "program 'left': op 0: barrier expects no peer");
  EXPECT_EQ(refused([](Problem p) {
              p.classes[0].program.collectives[0].kind = ProofKind::Broadcast;
              p.classes[0].program.collectives[0].peer = ProofPeer::member(2);
            }),
            "program 'left': op 0: broadcast expects a member of the group as "
            "root, found 2");
  EXPECT_EQ(refused([](Problem p) {
              p.classes[0].program.collectives[0].communicator = 4;
            }),
            "program 'left': op 0 names communicator 4 of 4");
  EXPECT_EQ(refused([](Problem p) {
              p.classes[1].program.collectives[0].count = -1;
            }),
            "program 'right': op 0 has a negative count");
  EXPECT_EQ(refused([](Problem p) {
              p.classes[1].program.instructions[0].collective = 1;
            }),
            "program 'right': instruction 0 names op 1 of 1");
  EXPECT_EQ(refused([](Problem p) { p.classes[1].boxes.clear(); }),
            "program 'right': no rank runs it");
  EXPECT_EQ(refused([](Problem p) { p.classes[1].boxes[0].end[1] = 3; }),
            "program 'right': a box is empty or not within the mesh");
  EXPECT_EQ(refused([](Problem p) { p.classes[1].boxes[0].end[1] = 1; }),
            "rank 3 (pp 1, dp 1) runs no program");
  EXPECT_EQ(refused([](Problem p) { p.classes[1].boxes[0].begin[0] = 0; }),
            "rank 0 (pp 0, dp 0) runs both 'left' and 'right'");
}
