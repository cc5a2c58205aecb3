//===- OverlapBounds.cpp - what no order can beat -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every resource is one machine: the compute stream, each stream, each link
// that contends. A node's head is the longest path to it, its tail the longest
// path from it; for collectives also all computation before and after it,
// since that has one stream to run on.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::overlap;

HeadsAndTails::HeadsAndTails(const StepGraph &graph)
    : head(graph.predecessors.size(), 0), tail(head) {
  int size = int(head.size());
  for (int n = 0; n < size; ++n)
    for (int before : graph.predecessors[n])
      head[n] = std::max(head[n], head[before] + graph.secondsOf(before));
  for (int n = size - 1; n >= 0; --n)
    for (int after : graph.successors[n])
      tail[n] = std::max(tail[n], tail[after] + graph.secondsOf(after));
}

double overlap::computeAround(const StepGraph &graph, int node, bool before) {
  const auto &edges = before ? graph.predecessors : graph.successors;
  std::vector<char> seen(edges.size(), false);
  std::vector<int> open = {node};
  double sum = 0;
  while (!open.empty()) {
    int n = open.back();
    open.pop_back();
    for (int next : edges[n]) {
      if (seen[next])
        continue;
      seen[next] = true;
      open.push_back(next);
      if (!graph.isCollective(next))
        sum += graph.secondsOf(next);
    }
  }
  return sum;
}

double OverlapProblem::lowerBound() const {
  StepGraph graph(*this);
  HeadsAndTails path(graph);
  std::vector<OneMachineJob> computation;
  std::vector<std::vector<OneMachineJob>> ofStream(streams.size()),
      ofLink(links.size());
  bool isSlowed = computeRateUnderComm < 1 || commRateUnderCompute < 1;
  std::vector<std::vector<SlowedJob>> slowed(streams.size() + links.size());
  double bound = 0, compute = 0;
  double collectives = double(graph.steps - nodes.size());
  bool walks = collectives * double(nodes.size()) <= 1e8; // about a second
  for (int n = 0; n < int(nodes.size()); ++n) {
    const Node &node = nodes[n];
    double head = path.head[n], tail = path.tail[n];
    if (node.stream < 0) {
      compute += node.seconds;
      computation.push_back({head, node.seconds, tail});
      continue;
    }
    double before = 0, after = 0; // of computation alone
    if (walks) {
      before = computeAround(graph, n, /*before=*/true);
      after = computeAround(graph, n, /*before=*/false);
      head = std::max(head, before);
      tail = std::max(tail, after);
    }
    ofStream[node.stream].push_back({head, node.latency + node.transfer, tail});
    slowed[node.stream].push_back({before, node.latency, node.transfer, after});
    if (node.link < 0 || !links[node.link].contends)
      continue;
    ofLink[node.link].push_back({head + node.latency, node.transfer, tail});
    slowed[streams.size() + node.link].push_back(
        {before, 0, node.transfer, after});
  }
  bound = std::max(bound, oneMachineBound(std::move(computation)));
  for (auto &jobs : ofStream)
    bound = std::max(bound, oneMachineBound(std::move(jobs)));
  for (auto &jobs : ofLink)
    bound = std::max(bound, oneMachineBound(std::move(jobs)));
  if (isSlowed)
    for (auto &jobs : slowed)
      bound = std::max(bound, slowedBound(compute, jobs, computeRateUnderComm,
                                          commRateUnderCompute));
  return bound;
}
