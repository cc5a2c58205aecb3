//===- SimulatorMatching.cpp - which collectives meet ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The check of a problem, the matching of Starts by their number on the
// communicator, and the account of a deadlock.
//
//===----------------------------------------------------------------------===//

#include "Simulator/SimulatorImpl.h"
#include <algorithm>
#include <cmath>

using namespace mpcomm;
using namespace mpcomm::simulator;

static bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

static std::string at(size_t c, const char *what, size_t index) {
  return "class " + std::to_string(c) + ": " + what + " " +
         std::to_string(index);
}

/// Empty if the instructions of class `c` start every collective once and
/// await none before.
static std::string checkInstructions(const SimProgram &program, size_t c) {
  enum State : char { Unstarted, Started, Awaited };
  std::vector<State> states(program.collectives.size(), Unstarted);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const RankInstruction &instruction = program.instructions[i];
    if (!isTime(instruction.seconds))
      return at(c, "instruction", i) + " has no finite non-negative seconds";
    if (instruction.allocates < 0 || instruction.frees < 0)
      return at(c, "instruction", i) + " has a negative size";
    if (instruction.kind == RankInstruction::Compute)
      continue;
    int collective = instruction.collective;
    if (collective < 0 || collective >= int(states.size()))
      return at(c, "instruction", i) + " names collective " +
             std::to_string(collective) + " of " +
             std::to_string(states.size());
    bool starts = instruction.kind == RankInstruction::Start;
    if (states[collective] != (starts ? Unstarted : Started))
      return at(c, "instruction", i) + (starts ? " starts" : " awaits") +
             " collective " + std::to_string(collective) +
             (starts || states[collective] == Awaited ? " a second time"
                                                      : " before its start");
    states[collective] = starts ? Started : Awaited;
    const SimCollective &facts = program.collectives[collective];
    if (starts && facts.producer >= int(i))
      return at(c, "collective", collective) + " starts before its producer";
    if (!starts && facts.consumer >= 0 && facts.consumer < int(i))
      return at(c, "collective", collective) + " is awaited after its consumer";
  }
  for (size_t k = 0; k < states.size(); ++k)
    if (states[k] == Unstarted)
      return at(c, "collective", k) + " is never started";
  return "";
}

std::string SimProblem::check() const {
  for (double rate : {computeRateUnderComm, commRateUnderCompute})
    if (!(rate > 0 && rate <= 1))
      return "expects rates above 0 and at most 1, got " + std::to_string(rate);
  std::vector<std::vector<int>> memberships(classes.size());
  for (size_t m = 0; m < communicators.size(); ++m) {
    if (communicators[m].classes.empty())
      return "communicator " + std::to_string(m) + " has no class";
    for (int c : communicators[m].classes) {
      if (c < 0 || c >= int(classes.size()))
        return "communicator " + std::to_string(m) + " names class " +
               std::to_string(c) + " of " + std::to_string(classes.size());
      if (!memberships[c].empty() && memberships[c].back() == int(m))
        return "communicator " + std::to_string(m) + " names class " +
               std::to_string(c) + " twice";
      memberships[c].push_back(int(m));
    }
  }
  for (size_t c = 0; c < classes.size(); ++c) {
    const SimProgram &program = classes[c];
    if (program.staticBytes < 0)
      return "class " + std::to_string(c) + " has a negative size";
    if (program.multiplicity < 1)
      return "class " + std::to_string(c) + " stands for no rank";
    int size = int(program.instructions.size());
    for (size_t k = 0; k < program.collectives.size(); ++k) {
      const SimCollective &collective = program.collectives[k];
      if (!isTime(collective.latency) || !isTime(collective.transfer))
        return at(c, "collective", k) + " has no finite non-negative seconds";
      if (collective.link < -1 || collective.link >= int(links.size()))
        return at(c, "collective", k) + " names link " +
               std::to_string(collective.link) + " of " +
               std::to_string(links.size());
      if (!std::binary_search(memberships[c].begin(), memberships[c].end(),
                              collective.communicator))
        return at(c, "collective", k) + " is on communicator " +
               std::to_string(collective.communicator) +
               ", which the class is no member of";
      if (collective.producer >= size || collective.consumer >= size)
        return at(c, "collective", k) + " names an instruction of " +
               std::to_string(size);
    }
    if (std::string error = checkInstructions(program, c); !error.empty())
      return error;
  }
  return "";
}

Matching::Matching(const SimProblem &problem)
    : ofCommunicator(problem.communicators.size()),
      matchOf(problem.classes.size()), awaitedAtEnd(problem.classes.size()) {
  std::vector<int> started(problem.communicators.size(), 0), touched;
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    const SimProgram &program = problem.classes[c];
    matchOf[c].assign(program.collectives.size(), -1);
    std::vector<char> awaited(program.collectives.size(), false);
    std::vector<int> order;
    for (const RankInstruction &instruction : program.instructions) {
      if (instruction.kind == RankInstruction::Await)
        awaited[instruction.collective] = true;
      if (instruction.kind != RankInstruction::Start)
        continue;
      int k = instruction.collective;
      const SimCollective &collective = program.collectives[k];
      order.push_back(k);
      touched.push_back(collective.communicator);
      auto &queued = ofCommunicator[collective.communicator];
      int number = started[collective.communicator]++;
      if (number == int(queued.size())) {
        queued.push_back(int(matches.size()));
        matches.emplace_back().communicator = collective.communicator;
      }
      Match &match = matches[queued[number]];
      match.latency = std::max(match.latency, collective.latency);
      match.transfer = std::max(match.transfer, collective.transfer);
      match.members.push_back({int(c), k});
      matchOf[c][k] = queued[number];
    }
    for (int k : order)
      if (!awaited[k])
        awaitedAtEnd[c].push_back(k);
    for (int communicator : touched)
      started[communicator] = 0;
    touched.clear();
  }
}

std::string simulator::describeDeadlock(const SimProblem &problem,
                                        const Matching &matching,
                                        const std::vector<Waiting> &waiting,
                                        const std::vector<int> &next) {
  /// The class that keeps `c` waiting: a member that has not reached the Start
  /// of the match at which the communicator stands.
  std::vector<char> arrived(waiting.size(), false);
  auto keeperOf = [&](int c) {
    int communicator = matching.matches[waiting[c].match].communicator;
    const Match &stuck =
        matching
            .matches[matching.ofCommunicator[communicator][next[communicator]]];
    auto reached = [&](const SimMember &member) {
      const Waiting &where = waiting[member.classIndex];
      const auto &program = problem.classes[member.classIndex].instructions;
      for (int i = 0; i < std::min(where.instruction, int(program.size())); ++i)
        if (program[i].kind == RankInstruction::Start &&
            program[i].collective == member.collective)
          return true;
      return false;
    };
    for (const SimMember &member : stuck.members)
      arrived[member.classIndex] = reached(member);
    int keeper = -1;
    for (int d : problem.communicators[communicator].classes)
      if (!arrived[d] && keeper < 0)
        keeper = d;
    for (const SimMember &member : stuck.members)
      arrived[member.classIndex] = false;
    return keeper;
  };
  auto describe = [&](int c, int keeper) {
    const Waiting &where = waiting[c];
    const Match &match = matching.matches[where.match];
    const auto &collectives = matching.matchOf[c];
    auto k = std::find(collectives.begin(), collectives.end(), where.match) -
             collectives.begin();
    int size = int(problem.classes[c].instructions.size());
    return "class " + std::to_string(c) + " waits at " +
           (where.instruction < size
                ? "instruction " + std::to_string(where.instruction)
                : std::string("its end")) +
           " for collective " + std::to_string(k) + " on communicator " +
           std::to_string(match.communicator) + ", where class " +
           std::to_string(keeper) + " is missing";
  };

  int c = 0;
  while (waiting[c].match < 0)
    ++c;
  std::vector<int> path;
  std::vector<char> seen(waiting.size(), false);
  while (waiting[c].match >= 0 && !seen[c]) {
    seen[c] = true;
    path.push_back(c);
    c = keeperOf(c);
  }
  std::string text = "deadlock: ";
  auto first = path.begin();
  bool cycle = waiting[c].match >= 0;
  if (cycle)
    first = std::find(path.begin(), path.end(), c);
  for (auto i = first; i != path.end(); ++i) {
    if (i != first)
      text += "; ";
    text += describe(*i, i + 1 != path.end() ? *(i + 1) : c);
  }
  if (!cycle)
    text += "; class " + std::to_string(c) + " has ended";
  return text;
}
