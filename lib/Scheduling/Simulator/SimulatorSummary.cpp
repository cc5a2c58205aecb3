//===- SimulatorSummary.cpp - what a simulated step amounts to ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Totals, memory, and the reason why a collective is exposed.
//
//===----------------------------------------------------------------------===//

#include "Simulator/SimulatorImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::simulator;

const char *mpcomm::toString(SimReason reason) {
  switch (reason) {
  case SimReason::None:
    return "none";
  case SimReason::Dependency:
    return "dependency";
  case SimReason::NothingToHideUnder:
    return "nothing-to-hide-under";
  case SimReason::MemoryBound:
    return "memory-bound";
  case SimReason::StreamOrder:
    return "stream-order";
  case SimReason::LatePeer:
    return "late-peer";
  case SimReason::BelowSaturatingSize:
    return "below-saturating-size";
  case SimReason::UserCap:
    return "user-cap";
  }
  return "none";
}

int64_t mpcomm::peakBytes(const SimProgram &program) {
  int64_t live = program.staticBytes, most = live;
  for (const RankInstruction &instruction : program.instructions) {
    most = std::max(most, live += instruction.allocates);
    live -= instruction.frees;
  }
  return most;
}

/// Why `seen`, collective `k` of the program, is exposed. `arrival`: when the
/// last member reached the Start; `before`: the one before it on the stream.
static void explain(const SimProgram &program, const Positions &position, int k,
                    double arrival, int before, double step,
                    SimCollectiveResult &seen) {
  const SimCollective &collective = program.collectives[k];
  if (seen.exposed <= 1e-9 * step)
    return; // rounding
  if (collective.memoryBound) {
    seen.reason = SimReason::MemoryBound;
    return;
  }
  // Had all members been there when this one began to wait, half of it would
  // be gone.
  if (arrival - seen.awaited >= seen.exposed / 2) {
    seen.reason = SimReason::LatePeer;
    return;
  }
  // Had it begun when it was ready, half of what is exposed would be gone.
  if (before >= 0 && seen.start - arrival >= seen.exposed / 2) {
    seen.reason = SimReason::StreamOrder;
    seen.reasonIndex = before;
    return;
  }
  if (collective.userCap || collective.belowSaturatingSize) {
    seen.reason = collective.userCap ? SimReason::UserCap
                                     : SimReason::BelowSaturatingSize;
    return;
  }
  int consumer = collective.consumer;
  for (int i = position.await[k];
       consumer < 0 && i < int(program.instructions.size()); ++i)
    if (program.instructions[i].kind == RankInstruction::Compute)
      consumer = i;
  double available =
      collective.independentSeconds >= 0
          ? collective.independentSeconds
          : position.total() - position.before[position.start[k]];
  if (consumer < 0 || available < seen.end - seen.start) {
    seen.reason = SimReason::NothingToHideUnder;
    return;
  }
  seen.reason = SimReason::Dependency;
  seen.reasonIndex = consumer;
}

static std::vector<std::pair<double, int64_t>>
memoryOf(const SimProgram &program, const SimClassResult &seen) {
  std::vector<std::pair<double, int64_t>> memory = {{0, program.staticBytes}};
  auto change = [&](double time, int64_t bytes) {
    if (bytes == 0)
      return;
    if (memory.back().first == time && memory.size() > 1 &&
        (bytes > 0) ==
            (memory.back().second > memory[memory.size() - 2].second)) {
      memory.back().second += bytes; // one step up, or one down, a time
      return;
    }
    memory.push_back({time, memory.back().second + bytes});
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (seen.end[i] < 0)
      break; // deadlock
    change(seen.begin[i], program.instructions[i].allocates);
    change(seen.end[i], -program.instructions[i].frees);
  }
  return memory;
}

void simulator::summarize(const SimProblem &problem, const Matching &matching,
                          const std::vector<double> &arrivals,
                          SimResult &result) {
  std::vector<Positions> positions(problem.classes.begin(),
                                   problem.classes.end());
  result.lowerBound = boundOf(problem, matching, positions);
  std::vector<int> before(problem.communicators.size(), -1);
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    const SimProgram &program = problem.classes[c];
    SimClassResult &seen = result.classes[c];
    seen.compute = positions[c].total();
    seen.peakBytes = peakBytes(program);
    seen.memory = memoryOf(program, seen);
    if (!result.error.empty()) {
      seen.slowdown = 0;
      continue;
    }
    seen.slowdown = std::max(0.0, seen.slowdown - seen.compute);
    std::fill(before.begin(), before.end(), -1);
    for (const RankInstruction &instruction : program.instructions) {
      if (instruction.kind != RankInstruction::Start)
        continue;
      int k = instruction.collective;
      int communicator = program.collectives[k].communicator;
      explain(program, positions[c], k, arrivals[matching.matchOf[c][k]],
              before[communicator], result.seconds, seen.collectives[k]);
      before[communicator] = k;
      seen.exposed += seen.collectives[k].exposed;
    }
  }
}
