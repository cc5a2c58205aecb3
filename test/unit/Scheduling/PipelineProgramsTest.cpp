//===- PipelineProgramsTest.cpp - schedules as programs that cannot hang --===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sends and recvs that a schedule implies, as ranks would run them, go
// through the proof of communication, without any buffering: so the channels of
// a schedule are enough of them, and the right ones. Through the simulator,
// they take as long as the schedule with as many buffers as it asks for, no
// fewer.
//
//===----------------------------------------------------------------------===//

#include "PipelineRandom.h"
#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <map>

using namespace mpcomm;
using namespace mpcomm::test;

/// Each rank posts an action's recv before the action ahead of it, awaits it,
/// computes, and starts the send of what it made; a send is awaited before the
/// one `buffers` later on its channel starts. `byEdge`: 4 channels, by
/// direction and parity of the edge, instead of the schedule's.
static ProofProblem makePrograms(const PipelineSchedule &schedule, int buffers,
                                 bool byEdge) {
  auto channelOf = [&](const PipelineMessage &message) {
    return byEdge ? 2 * message.backward + message.edge % 2 : message.channel;
  };
  ProofProblem problem;
  problem.mesh = {{"pp", schedule.stages}};
  int channels = byEdge ? 4 : schedule.channels();
  for (int channel = 0; channel < channels; ++channel)
    problem.communicators.push_back({{0}, channel, false});
  // By rank, then position.
  using Side = std::map<int, PipelineMessage>;
  std::vector<Side> sends(schedule.stages), recvs(schedule.stages);
  for (const PipelineMessage &message : schedule.messages()) {
    sends[message.sender][message.made] = message;
    recvs[message.receiver][message.needed] = message;
  }
  for (int rank = 0; rank < schedule.stages; ++rank) {
    ProofClass made;
    made.name = std::to_string(rank);
    made.boxes = {{{rank}, {rank + 1}}};
    ProofProgram &program = made.program;
    auto start = [&](ProofKind kind, const PipelineMessage &message, int peer) {
      ProofOp op;
      op.kind = kind;
      op.communicator = channelOf(message);
      op.count = 1;
      op.type = op.wire = "f32";
      op.peer = ProofPeer::member(peer);
      op.tag = std::to_string(message.edge) + (message.backward ? "b" : "f") +
               std::to_string(message.microbatch);
      program.instructions.push_back(
          RankInstruction::start(int(program.collectives.size())));
      program.collectives.push_back(op);
      return int(program.collectives.size()) - 1;
    };
    auto await = [&](int op) {
      program.instructions.push_back(RankInstruction::await(op));
    };
    std::map<int, int> posted;              // recvs by position
    std::map<int, std::vector<int>> onward; // sends by channel
    auto post = [&](int position) {
      if (auto at = recvs[rank].find(position); at != recvs[rank].end())
        posted[position] =
            start(ProofKind::Recv, at->second, at->second.sender);
    };
    post(0);
    for (int i = 0; i < int(schedule.ranks[rank].size()); ++i) {
      post(i + 1);
      if (posted.count(i))
        await(posted[i]);
      auto at = sends[rank].find(i);
      if (at == sends[rank].end())
        continue;
      std::vector<int> &before = onward[channelOf(at->second)];
      if (int(before.size()) >= buffers)
        await(before[before.size() - buffers]);
      before.push_back(start(ProofKind::Send, at->second, at->second.receiver));
    }
    problem.classes.push_back(std::move(made));
  }
  return problem;
}

static std::string prove(const PipelineSchedule &schedule, int buffers,
                         bool byEdge = false) {
  return proveCommunication(makePrograms(schedule, buffers, byEdge))
      .violation.message.substr(0, 8);
}

/// With the buffers that it says it needs, each schedule is proved; with one
/// less, the proof finds a deadlock.
static void compare(const PipelineSchedule &schedule) {
  int buffers = schedule.messageBuffers();
  ASSERT_EQ(prove(schedule, buffers), "");
  if (buffers > 1) {
    ASSERT_EQ(prove(schedule, buffers - 1), "deadlock");
  }
}

TEST(PipelinePrograms, LiteratureCannotHang) {
  for (PipelineKind kind :
       {PipelineKind::GPipe, PipelineKind::OneFOneB, PipelineKind::Interleaved,
        PipelineKind::ZBH1, PipelineKind::ZBV}) {
    int most = 0, count = 0;
    for (int p = 1; p <= 7; ++p)
      for (int m = 1; m <= 3 * p; ++m) {
        bool two =
            kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
        SCOPED_TRACE(std::string(pipelineKindName(kind)) +
                     " p=" + std::to_string(p) + " m=" + std::to_string(m));
        PipelineSchedule schedule =
            makePipelineSchedule(kind, p, m, two ? 2 : 1).schedule;
        compare(schedule);
        if (HasFatalFailure())
          return;
        most = std::max(most, schedule.messageBuffers());
        // With Megatron's condition, and for all others.
        if (kind != PipelineKind::Interleaved || m % p == 0) {
          ASSERT_EQ(schedule.messageBuffers(), 1);
        }
        ++count;
      }
    std::printf("%s: %d schedules, at most %d buffers\n",
                pipelineKindName(kind), count, most);
  }
}

TEST(PipelinePrograms, SearchedOrdersCannotHang) {
  PipelineOptions options;
  options.stepLimit = 1 << 11;
  options.improveLimit = 1 << 14;
  int most = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem = PipelineRandom(seed).problem();
    PipelineSchedule schedule =
        choosePipelineSchedule(problem, options).schedule;
    compare(schedule);
    if (HasFatalFailure())
      return;
    most = std::max(most, schedule.messageBuffers());
  }
  std::printf("at most %d buffers\n", most);
}

/// Why channels are not by the parity of the edge: in a V a rank would send and
/// receive on one stream, and no number of buffers would help.
TEST(PipelinePrograms, ParityOfEdgesHangsInAV) {
  for (int p = 2; p <= 6; ++p) {
    PipelineSchedule schedule =
        makePipelineSchedule(PipelineKind::ZBV, p, 2 * p, 2).schedule;
    EXPECT_EQ(prove(schedule, 1), "");
    EXPECT_EQ(prove(schedule, 1, true), "deadlock");
    EXPECT_EQ(prove(schedule, 4 * p, true), "deadlock");
  }
}

/// The same programs in time; a message travels from when both its send and its
/// recv have started. Negative where they hang.
static double simulatePrograms(const PipelineSchedule &schedule,
                               const PipelineCosts &costs, int buffers) {
  SimProblem problem;
  problem.classes.resize(schedule.stages);
  std::map<std::pair<int, int>, int> communicators; // by sender and channel
  std::vector<std::map<int, PipelineMessage>> sends(schedule.stages), recvs;
  recvs = sends;
  for (const PipelineMessage &message : schedule.messages()) {
    sends[message.sender][message.made] = message;
    recvs[message.receiver][message.needed] = message;
    std::pair<int, int> key = {message.sender, message.channel};
    if (communicators.try_emplace(key, communicators.size()).second)
      problem.communicators.push_back({{message.sender, message.receiver}});
  }
  for (int rank = 0; rank < schedule.stages; ++rank) {
    SimProgram &program = problem.classes[rank];
    auto add = [&](RankInstruction::Kind kind, double seconds, int collective) {
      program.instructions.push_back({kind, seconds, collective});
    };
    auto start = [&](const PipelineMessage &message) {
      SimCollective made;
      made.communicator = communicators.at({message.sender, message.channel});
      made.transfer = costs.transfer(message.edge, message.backward);
      add(RankInstruction::Start, 0, int(program.collectives.size()));
      program.collectives.push_back(made);
      return int(program.collectives.size()) - 1;
    };
    std::map<int, int> posted;
    std::map<int, std::vector<int>> onward;
    auto post = [&](int position) {
      if (auto at = recvs[rank].find(position); at != recvs[rank].end())
        posted[position] = start(at->second);
    };
    post(0);
    for (int i = 0; i < int(schedule.ranks[rank].size()); ++i) {
      const PipelineAction &action = schedule.ranks[rank][i];
      post(i + 1);
      if (posted.count(i))
        add(RankInstruction::Await, 0, posted[i]);
      add(RankInstruction::Compute, costs.seconds(action.kind, action.stage),
          -1);
      auto at = sends[rank].find(i);
      if (at == sends[rank].end())
        continue;
      std::vector<int> &before = onward[at->second.channel];
      if (int(before.size()) >= buffers)
        add(RankInstruction::Await, 0, before[before.size() - buffers]);
      before.push_back(start(at->second));
    }
    add(RankInstruction::Compute, costs.afterOf(rank), -1);
  }
  EXPECT_EQ(problem.check(), "");
  return simulateSeconds(problem);
}

/// As fast as with a buffer for each message, and not with one less. The sums
/// are of whole numbers, and exact.
static void compareTimes(const PipelineSchedule &schedule,
                         const PipelineCosts &costs, int buffers) {
  int all = schedule.microbatches * schedule.virtualStages();
  double least = simulatePrograms(schedule, costs, all);
  ASSERT_GT(least, 0);
  ASSERT_EQ(simulatePrograms(schedule, costs, buffers), least);
  if (buffers > 1) {
    double seconds = simulatePrograms(schedule, costs, buffers - 1);
    ASSERT_TRUE(seconds < 0 || seconds > least) << seconds;
  }
}

/// Where messages take no time, the programs take what the schedule does: the
/// literature's bubble. Interleaved, in groups of more than p, needs more
/// buffers for that than not to hang.
TEST(PipelinePrograms, LiteratureIsAsFastAsItsFormula) {
  for (PipelineKind kind :
       {PipelineKind::GPipe, PipelineKind::OneFOneB, PipelineKind::Interleaved,
        PipelineKind::ZBH1, PipelineKind::ZBV}) {
    int most = 0, count = 0;
    bool two = kind == PipelineKind::Interleaved || kind == PipelineKind::ZBV;
    for (int p = 2; p <= 8; ++p)
      for (int m = p; m <= 4 * p; ++m, ++count) {
        SCOPED_TRACE(std::string(pipelineKindName(kind)) +
                     " p=" + std::to_string(p) + " m=" + std::to_string(m));
        PipelineSchedule schedule =
            makePipelineSchedule(kind, p, m, two ? 2 : 1).schedule;
        PipelineCosts costs;
        costs.stages.assign(schedule.virtualStages(), {1, 1, 1});
        int buffers = schedule.fastBuffers(costs);
        compareTimes(schedule, costs, buffers);
        if (HasFatalFailure())
          return;
        ASSERT_EQ(simulatePrograms(schedule, costs, buffers),
                  timePipeline(schedule, costs).seconds);
        most = std::max(most, buffers);
      }
    std::printf("%s: %d schedules, at most %d buffers\n",
                pipelineKindName(kind), count, most);
    EXPECT_EQ(most, kind == PipelineKind::Interleaved ? 6 : 1);
  }
}

TEST(PipelinePrograms, FastBuffersOfUnequalStages) {
  int most = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PipelineProblem problem = PipelineRandom(seed).problem();
    PipelineOptions options;
    options.stepLimit = 1 << 8;
    options.improveLimit = 1 << 12;
    PipelineSchedule schedule =
        choosePipelineSchedule(problem, options).schedule;
    const PipelineCosts &costs = problem.candidates[0].costs;
    int buffers = schedule.fastBuffers(costs);
    compareTimes(schedule, costs, buffers);
    if (HasFatalFailure())
      return;
    most = std::max(most, buffers);
  }
  std::printf("at most %d buffers\n", most);
}
