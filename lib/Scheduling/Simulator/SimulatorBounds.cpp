//===- SimulatorBounds.cpp - what no placement of collectives can beat ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Communicators and ports as single machines. The proofs are in
// docs/Design/Simulation.md, "The lower bound".
//
//===----------------------------------------------------------------------===//

#include "Simulator/SimulatorImpl.h"
#include <algorithm>
#include <queue>

using namespace mpcomm;
using namespace mpcomm::simulator;

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

double mpcomm::slowedBound(double compute, const std::vector<SlowedJob> &jobs,
                           double computeRate, double commRate) {
  // Each second of overlap with a transfer saves `gain`, with latency
  // `computeRate`; what the three bounds say of that is one linear program's
  // dual at its three vertices.
  double gain = std::max(0.0, computeRate + commRate - 1);
  std::vector<OneMachineJob> plain, scaled;
  double bound = compute;
  for (const SlowedJob &job : jobs) {
    plain.push_back({job.head, job.latency + job.transfer, job.tail});
    bound +=
        (1 - computeRate) * job.latency + (1 - gain / commRate) * job.transfer;
    if (gain > 0)
      scaled.push_back(
          {job.head,
           (commRate * job.latency + job.transfer) * computeRate / gain,
           job.tail});
  }
  bound = std::max(bound, oneMachineBound(std::move(plain)));
  if (gain > 0 && gain < 1)
    bound = std::max(bound, (1 - gain / computeRate) * compute +
                                gain / computeRate *
                                    oneMachineBound(std::move(scaled)));
  return bound;
}

double simulator::boundOf(const SimProblem &problem, const Matching &matching,
                          const std::vector<Positions> &positions) {
  double bound = 0;
  for (const Positions &position : positions)
    bound = std::max(bound, position.total());

  std::vector<OneMachineJob> jobs(matching.matches.size());
  size_t links = problem.links.size(), classes = problem.classes.size();
  std::vector<std::vector<OneMachineJob>> ofPort(classes * links);
  // The same beside the computation of one class: with its own heads and tails.
  bool isSlowed =
      problem.computeRateUnderComm < 1 || problem.commRateUnderCompute < 1;
  size_t communicators = problem.communicators.size();
  std::vector<std::vector<SlowedJob>> beside(
      isSlowed ? classes * (communicators + links) : 0);
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
      double head = position.before[ready];
      double tail = position.total() - position.before[needed];
      job.head = std::max(job.head, head);
      job.tail = std::max(job.tail, tail);
      if (!isSlowed)
        continue;
      size_t first = c * (communicators + links);
      beside[first + match.communicator].push_back(
          {head, match.latency, match.transfer, tail});
      if (collective.link >= 0 && problem.links[collective.link].contends)
        beside[first + communicators + collective.link].push_back(
            {head, 0, match.transfer, tail});
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
    ofStream.reserve(queued.size());
    for (int m : queued)
      ofStream.push_back(jobs[m]);
    bound = std::max(bound, oneMachineBound(std::move(ofStream)));
  }
  for (std::vector<OneMachineJob> &port : ofPort)
    bound = std::max(bound, oneMachineBound(std::move(port)));
  for (size_t i = 0; i < beside.size(); ++i)
    bound = std::max(bound,
                     slowedBound(positions[i / (communicators + links)].total(),
                                 beside[i], problem.computeRateUnderComm,
                                 problem.commRateUnderCompute));
  return bound;
}

double mpcomm::lowerBound(const SimProblem &problem) {
  std::vector<Positions> positions(problem.classes.begin(),
                                   problem.classes.end());
  return boundOf(problem, Matching(problem), positions);
}
