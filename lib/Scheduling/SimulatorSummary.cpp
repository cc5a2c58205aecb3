//===- SimulatorSummary.cpp - what a simulated step amounts to ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Totals, memory, the reason why a collective is exposed, and lower bounds.
//
//===----------------------------------------------------------------------===//

#include "SimulatorImpl.h"
#include <algorithm>
#include <queue>

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
  case SimReason::BelowSaturatingSize:
    return "below-saturating-size";
  case SimReason::UserCap:
    return "user-cap";
  }
  return "none";
}

int64_t mpcomm::peakBytes(const SimProgram &program) {
  int64_t live = program.staticBytes, most = live;
  for (const SimInstruction &instruction : program.instructions) {
    most = std::max(most, live += instruction.allocates);
    live -= instruction.frees;
  }
  return most;
}

double mpcomm::oneMachineBound(std::vector<OneMachineJob> jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const OneMachineJob &x, const OneMachineJob &y) {
              return x.head < y.head;
            });
  // Jackson: at any time the job with the longest tail, interrupted where one
  // with a longer tail arrives.
  std::priority_queue<std::pair<double, double>> ready; // tail, seconds left
  double now = 0, bound = 0;
  size_t next = 0;
  while (next < jobs.size() || !ready.empty()) {
    if (ready.empty())
      now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next)
      ready.push({jobs[next].tail, jobs[next].seconds});
    auto [tail, left] = ready.top();
    ready.pop();
    double run = left;
    if (next < jobs.size())
      run = std::min(run, jobs[next].head - now);
    now += run;
    if (run < left)
      ready.push({tail, left - run});
    else
      bound = std::max(bound, now + tail);
  }
  return bound;
}

namespace {
/// Positions of the starts and awaits of a class, and its computation before
/// each instruction.
struct Positions {
  explicit Positions(const SimProgram &program)
      : start(program.collectives.size(), -1),
        await(program.collectives.size(), int(program.instructions.size())) {
    before.reserve(program.instructions.size() + 1);
    double sum = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const SimInstruction &instruction = program.instructions[i];
      before.push_back(sum);
      if (instruction.kind == SimInstruction::Compute)
        sum += instruction.seconds;
      else if (instruction.kind == SimInstruction::Start)
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
} // namespace

/// Shared by lowerBound and summarize.
static double boundOf(const SimProblem &problem, const Matching &matching,
                      const std::vector<Positions> &positions) {
  double bound = 0;
  for (const Positions &position : positions)
    bound = std::max(bound, position.total());

  std::vector<OneMachineJob> jobs(matching.matches.size());
  size_t links = problem.links.size();
  std::vector<std::vector<OneMachineJob>> ofPort(problem.classes.size() *
                                                 links);
  for (size_t m = 0; m < jobs.size(); ++m) {
    const Match &match = matching.matches[m];
    OneMachineJob &job = jobs[m];
    job.seconds = match.latency + match.transfer;
    for (auto [c, k] : match.members) {
      const SimCollective &collective = problem.classes[c].collectives[k];
      const Positions &position = positions[c];
      int ready = collective.producer >= 0 ? collective.producer + 1
                                           : position.start[k];
      int needed =
          collective.consumer >= 0 ? collective.consumer : position.await[k];
      job.head = std::max(job.head, position.before[ready]);
      job.tail = std::max(job.tail, position.total() - position.before[needed]);
    }
    for (auto [c, k] : match.members) {
      int link = problem.classes[c].collectives[k].link;
      if (link >= 0 && problem.links[link].contends)
        ofPort[c * links + link].push_back(
            {job.head + match.latency, match.transfer, job.tail});
    }
  }
  for (const std::vector<int> &queued : matching.ofCommunicator) {
    std::vector<OneMachineJob> ofStream;
    for (int m : queued)
      ofStream.push_back(jobs[m]);
    bound = std::max(bound, oneMachineBound(std::move(ofStream)));
  }
  for (std::vector<OneMachineJob> &port : ofPort)
    bound = std::max(bound, oneMachineBound(std::move(port)));
  return bound;
}

double mpcomm::lowerBound(const SimProblem &problem) {
  std::vector<Positions> positions(problem.classes.begin(),
                                   problem.classes.end());
  return boundOf(problem, Matching(problem), positions);
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
    if (program.instructions[i].kind == SimInstruction::Compute)
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
    for (const SimInstruction &instruction : program.instructions) {
      if (instruction.kind != SimInstruction::Start)
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
