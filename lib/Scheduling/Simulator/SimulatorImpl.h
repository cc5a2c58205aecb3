//===- SimulatorImpl.h - parts of the simulator -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which collectives meet, and what is derived when the event queue is empty.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_SIMULATOR_SIMULATORIMPL_H
#define MPCOMM_LIB_SCHEDULING_SIMULATOR_SIMULATORIMPL_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"

namespace mpcomm::simulator {

struct SimMember {
  int classIndex, collective;
};

/// The collectives that the k-th Starts on a communicator bring together.
/// Fewer members than the communicator has classes: it never begins.
struct Match {
  int communicator = 0;
  double latency = 0, transfer = 0;
  std::vector<SimMember> members;
};

struct Matching {
  explicit Matching(const SimProblem &problem);
  std::vector<Match> matches;
  std::vector<std::vector<int>> ofCommunicator; // in the order of Starts
  std::vector<std::vector<int>> matchOf;        // of class, of collective
  std::vector<std::vector<int>> awaitedAtEnd;   // collectives without an Await
};

/// Where a class is: the match it waits for (-1: it ended), and its
/// instruction.
struct Waiting {
  int match = -1, instruction = 0;
};

/// The cycle of classes that wait for each other, or the chain that ends at a
/// class which ended. `next`: the match at which each communicator stands.
std::string describeDeadlock(const SimProblem &problem,
                             const Matching &matching,
                             const std::vector<Waiting> &waiting,
                             const std::vector<int> &next);

/// Positions of the starts and awaits of a class, and its computation before
/// each instruction.
struct Positions {
  explicit Positions(const SimProgram &program)
      : start(program.collectives.size(), -1),
        await(program.collectives.size(), int(program.instructions.size())) {
    before.reserve(program.instructions.size() + 1);
    double sum = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const RankInstruction &instruction = program.instructions[i];
      before.push_back(sum);
      if (instruction.kind == RankInstruction::Compute)
        sum += instruction.seconds;
      else if (instruction.kind == RankInstruction::Start)
        start[instruction.collective] = int(i);
      else
        await[instruction.collective] = int(i);
    }
    before.push_back(sum);
  }
  double total() const { return before.back(); }
  std::vector<int> start, await;
  std::vector<double> before;
};

/// lowerBound of a problem whose matches and positions (by class) are known.
double boundOf(const SimProblem &problem, const Matching &matching,
               const std::vector<Positions> &positions);

/// Fills in the totals, the memory, the reasons and the lower bound.
/// `arrivals`: when the last member reached the Start of each match; in
/// `slowdown` stands the time for which the class computed.
void summarize(const SimProblem &problem, const Matching &matching,
               const std::vector<double> &arrivals, SimResult &result);

} // namespace mpcomm::simulator

#endif // MPCOMM_LIB_SCHEDULING_SIMULATOR_SIMULATORIMPL_H
