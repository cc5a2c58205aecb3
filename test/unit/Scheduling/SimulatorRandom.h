//===- SimulatorRandom.h - random problems, and the slow twin ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The twin knows no queue of events: at every moment it works out all rates
// anew, goes to the first end of anything, and starts over.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_SIMULATORRANDOM_H
#define MPCOMM_TEST_UNIT_SCHEDULING_SIMULATORRANDOM_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace mpcomm::test {

inline RankInstruction compute(double seconds, int64_t allocates = 0,
                               int64_t frees = 0) {
  return RankInstruction::compute(seconds, allocates, frees);
}
inline RankInstruction start(int k, int64_t allocates = 0) {
  return RankInstruction::start(k, allocates);
}
inline RankInstruction await(int k, int64_t frees = 0) {
  return RankInstruction::await(k, frees);
}

/// A problem of up to three classes, communicators and six collectives. Unless
/// `crossed`, all classes have one order of collectives, so none waits for
/// another in a cycle.
inline SimProblem randomProblem(std::mt19937 &random, bool crossed) {
  auto below = [&](int n) { return int(random() % n); };
  SimProblem problem;
  int classes = 1 + below(3), communicators = 1 + below(3);
  problem.classes.resize(classes);
  for (int l = 0; l < 2; ++l)
    problem.links.push_back({below(3) != 0});
  problem.computeRateUnderComm = below(2) ? 1 : 0.5 + 0.1 * below(5);
  problem.commRateUnderCompute = below(2) ? 1 : 0.5 + 0.1 * below(5);
  for (int m = 0; m < communicators; ++m) {
    SimCommunicator communicator;
    for (int c = 0; c < classes; ++c)
      if (below(2))
        communicator.classes.push_back(c);
    if (communicator.classes.empty())
      communicator.classes.push_back(below(classes));
    problem.communicators.push_back(communicator);
  }
  // One global order of collectives, which every member follows; `crossed`:
  // each class swaps some.
  int collectives = below(7);
  for (int k = 0; k < collectives; ++k) {
    SimCollective collective;
    collective.communicator = below(communicators);
    collective.latency = below(3);
    collective.transfer = below(8) / 2.0;
    collective.link = below(3) - 1;
    for (int c : problem.communicators[collective.communicator].classes)
      problem.classes[c].collectives.push_back(collective);
  }
  for (SimProgram &program : problem.classes) {
    int size = int(program.collectives.size());
    std::vector<int> order(size);
    for (int k = 0; k < size; ++k)
      order[k] = k;
    for (int i = 0; crossed && size > 1 && i < 3; ++i)
      std::swap(order[below(size)], order[below(size)]);
    auto work = [&] {
      for (int i = below(3); i > 0; --i)
        program.instructions.push_back(compute(below(5), below(10), below(10)));
    };
    std::vector<int> open;
    for (int k : order) {
      work();
      program.instructions.push_back(start(k, below(10)));
      open.push_back(k);
      // An await holds no start back that others need for this one: all
      // started so far precede it in the global order.
      while (!open.empty() && below(2)) {
        work();
        int i = below(int(open.size()));
        program.instructions.push_back(await(open[i], below(10)));
        open.erase(open.begin() + i);
      }
    }
    while (!open.empty() && below(8)) { // the end awaits what is left
      work();
      program.instructions.push_back(await(open.back(), below(10)));
      open.pop_back();
    }
    work();
  }
  return problem;
}

struct TwinResult {
  bool deadlock = false;
  double seconds = 0;
  std::vector<double> classSeconds;
  std::vector<std::vector<double>> start, end; // of class, of collective
};

inline TwinResult simulateTwin(const SimProblem &problem) {
  struct Match {
    std::map<int, int> members; // class to collective
    double latency = 0, transfer = 0;
    double start = -1, end = -1;
  };
  std::vector<std::vector<Match>> streams(problem.communicators.size());
  size_t classes = problem.classes.size();
  std::vector<size_t> pc(classes, 0);
  std::vector<double> left(classes, 0);
  std::vector<char> computing(classes, false);
  std::vector<std::map<int, std::pair<int, int>>> where(classes);
  std::vector<std::map<int, int>> count(classes);
  std::vector<std::vector<RankInstruction>> programs(classes);
  TwinResult result;
  result.classSeconds.assign(classes, -1);
  for (size_t c = 0; c < classes; ++c) {
    programs[c] = problem.classes[c].instructions;
    std::set<int> awaited;
    for (const RankInstruction &instruction : programs[c])
      if (instruction.kind == RankInstruction::Await)
        awaited.insert(instruction.collective);
    for (size_t k = 0; k < problem.classes[c].collectives.size(); ++k)
      if (!awaited.count(int(k)))
        programs[c].push_back(await(int(k)));
    result.start.emplace_back(problem.classes[c].collectives.size(), -1);
    result.end.emplace_back(problem.classes[c].collectives.size(), -1);
  }
  double now = 0;
  while (true) {
    // What takes no time.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t c = 0; c < classes; ++c) {
        if (computing[c])
          continue;
        if (pc[c] == programs[c].size()) {
          if (result.classSeconds[c] < 0)
            result.classSeconds[c] = now;
          continue;
        }
        const RankInstruction &instruction = programs[c][pc[c]];
        int k = instruction.collective;
        if (instruction.kind == RankInstruction::Compute) {
          computing[c] = true;
          left[c] = instruction.seconds;
        } else if (instruction.kind == RankInstruction::Start) {
          const SimCollective &made = problem.classes[c].collectives[k];
          int number = count[c][made.communicator]++;
          auto &stream = streams[made.communicator];
          if (int(stream.size()) <= number)
            stream.resize(number + 1);
          stream[number].members[int(c)] = k;
          stream[number].latency =
              std::max(stream[number].latency, made.latency);
          stream[number].transfer =
              std::max(stream[number].transfer, made.transfer);
          where[c][k] = {made.communicator, number};
          ++pc[c];
        } else {
          auto [m, number] = where[c][k];
          if (streams[m][number].end < 0)
            continue;
          ++pc[c];
        }
        changed = true;
      }
      for (size_t m = 0; m < streams.size(); ++m)
        for (size_t i = 0; i < streams[m].size(); ++i) {
          Match &match = streams[m][i];
          if (match.start < 0 &&
              match.members.size() == problem.communicators[m].classes.size() &&
              (i == 0 || streams[m][i - 1].end >= 0)) {
            match.start = now;
            changed = true;
          }
          if (match.start >= 0 && match.end < 0 && match.latency <= 1e-12 &&
              match.transfer <= 1e-12) {
            match.end = now;
            changed = true;
            for (auto [c, k] : match.members) {
              result.start[c][k] = match.start;
              result.end[c][k] = now;
            }
          }
        }
      for (size_t c = 0; c < classes; ++c)
        if (computing[c] && left[c] <= 1e-12) {
          computing[c] = false;
          ++pc[c];
          changed = true;
        }
    }
    // Rates.
    std::vector<Match *> flying;
    std::vector<char> communicates(classes, false);
    std::map<std::pair<int, int>, int> sharers;
    for (auto &stream : streams)
      for (Match &match : stream)
        if (match.start >= 0 && match.end < 0) {
          flying.push_back(&match);
          for (auto [c, k] : match.members) {
            communicates[c] = true;
            if (match.latency <= 1e-12)
              ++sharers[{c, problem.classes[c].collectives[k].link}];
          }
        }
    double step = 1e300;
    std::vector<double> rate(classes), flight;
    for (size_t c = 0; c < classes; ++c)
      if (computing[c]) {
        rate[c] = communicates[c] ? problem.computeRateUnderComm : 1;
        step = std::min(step, left[c] / rate[c]);
      }
    for (Match *match : flying) {
      double r = 1;
      bool slowed = false;
      if (match->latency <= 1e-12)
        for (auto [c, k] : match->members) {
          int link = problem.classes[c].collectives[k].link;
          if (link >= 0 && problem.links[link].contends)
            r = std::min(r, 1.0 / sharers[{c, link}]);
          slowed |= bool(computing[c]);
        }
      if (slowed)
        r *= problem.commRateUnderCompute;
      flight.push_back(r);
      step = std::min(step, match->latency > 1e-12 ? match->latency
                                                   : match->transfer / r);
    }
    if (step == 1e300)
      break;
    now += step;
    for (size_t c = 0; c < classes; ++c)
      if (computing[c])
        left[c] -= step * rate[c];
    for (size_t i = 0; i < flying.size(); ++i)
      (flying[i]->latency > 1e-12 ? flying[i]->latency : flying[i]->transfer) -=
          step * flight[i];
  }
  result.seconds = now;
  for (size_t c = 0; c < classes; ++c)
    result.deadlock |= pc[c] < programs[c].size();
  return result;
}

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_SIMULATORRANDOM_H
