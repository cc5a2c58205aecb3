//===- OverlapLister.cpp - list scheduling by priorities ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A walk through time, as if rates were full and links did not contend. At
// each point: starts, then a piece of computation; awaits only before what
// needs them (or where memory or a conflict does). What the ledger refuses is
// put off; where it refuses all, the next step of the base order is taken,
// which it never refuses.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapLister.h"
#include "Overlap/OverlapLedger.h"
#include <algorithm>
#include <set>

using namespace mpcomm;
using namespace mpcomm::overlap;

namespace {
class Lister {
public:
  Lister(const StepGraph &graph, const std::vector<OverlapStep> &base,
         int64_t bound, const Priorities &priorities);
  Listed run();

private:
  using Queue = std::set<std::pair<double, int>>; // priority or end, node

  void complete(int node);
  void completeUntil(double time);
  void release(int node, bool started);
  void emit(int step);
  void await(int node);
  bool awaitCompleted();
  bool start(int node);
  bool startReady(int candidate);
  bool compute(int node);
  bool computeReady();
  void force();
  int candidate() const;
  void stepTo(double time) { now = std::max(now, time); }

  /// Refusals that a queue is searched through at a time.
  static constexpr int maxTries = 8;

  const StepGraph &graph;
  const Priorities &priorities;
  Ledger ledger;
  Listed result;
  double now = 0;
  /// Dependencies: not yet ended; not yet run or started.
  std::vector<int> waits, missing;
  std::vector<double> ends;     // of collectives in flight
  std::vector<char> isComplete; // collectives that have ended
  std::vector<double> streamFree;
  std::vector<int> inFlight; // not awaited, by stream
  Queue computable;          // Greedy: waits = 0; Patient: missing = 0
  std::vector<Queue> startable;
  Queue flying, landed; // by end: not ended; ended and not awaited
  std::vector<int> fixedOrder;
  size_t fixedNext = 0;
};
} // namespace

Lister::Lister(const StepGraph &graph, const std::vector<OverlapStep> &base,
               int64_t bound, const Priorities &priorities)
    : graph(graph), priorities(priorities), ledger(graph, base, bound),
      waits(graph.predecessors.size()), missing(waits), ends(waits.size(), 0),
      isComplete(waits.size(), false),
      streamFree(graph.problem.streams.size(), 0),
      inFlight(streamFree.size(), 0), startable(streamFree.size()) {
  result.memoryBound.assign(waits.size(), false);
  result.steps.reserve(graph.steps);
  for (int n = 0; n < int(waits.size()); ++n) {
    waits[n] = missing[n] = int(graph.predecessors[n].size());
    if (graph.startsAfter[n] >= 0)
      ++waits[n];
    if (!graph.isCollective(n))
      fixedOrder.push_back(n);
    if (waits[n] == 0 && graph.isCollective(n))
      startable[graph.problem.nodes[n].stream].insert({priorities.start[n], n});
    else if (waits[n] == 0)
      computable.insert({priorities.compute[n], n});
  }
  std::sort(fixedOrder.begin(), fixedOrder.end(), [&](int x, int y) {
    return std::pair(priorities.compute[x], x) <
           std::pair(priorities.compute[y], y);
  });
}

/// The successors of a node that ended or (`started`) ran or was started.
void Lister::release(int node, bool started) {
  for (int next : graph.successors[node]) {
    int left = started ? --missing[next] : --waits[next];
    if (left > 0 || ledger.isTaken(beginOf(next)))
      continue;
    if (graph.isCollective(next)) {
      if (!started)
        startable[graph.problem.nodes[next].stream].insert(
            {priorities.start[next], next});
    } else if (started == (priorities.mode == Priorities::Patient)) {
      computable.insert({priorities.compute[next], next});
    }
  }
}

void Lister::complete(int node) {
  if (isComplete[node])
    return;
  isComplete[node] = true;
  flying.erase({ends[node], node});
  landed.insert({ends[node], node});
  release(node, /*started=*/false);
}

void Lister::completeUntil(double time) {
  while (!flying.empty() && flying.begin()->first <= time)
    complete(flying.begin()->second);
}

/// Books a step that the ledger has taken.
void Lister::emit(int step) {
  int node = nodeOf(step);
  result.steps.push_back(graph.stepOf(step));
  if (!graph.isCollective(node)) {
    computable.erase({priorities.compute[node], node});
    now += graph.secondsOf(node);
    release(node, /*started=*/true);
    release(node, /*started=*/false);
    return;
  }
  int stream = graph.problem.nodes[node].stream;
  if (step != beginOf(node)) {
    stepTo(ends[node]);
    complete(node);
    landed.erase({ends[node], node});
    --inFlight[stream];
    return;
  }
  startable[stream].erase({priorities.start[node], node});
  ends[node] = std::max(now, streamFree[stream]) + graph.secondsOf(node);
  streamFree[stream] = ends[node];
  flying.insert({ends[node], node});
  ++inFlight[stream];
  if (int next = graph.startsBefore[node]; next >= 0 && --waits[next] == 0)
    startable[stream].insert({priorities.start[next], next});
  release(node, /*started=*/true);
}

/// Memory never keeps an await back.
void Lister::await(int node) {
  if (ledger.isTaken(graph.endOf(node)))
    return;
  ledger.take(graph.endOf(node));
  emit(graph.endOf(node));
}

/// Awaits that cost no time but give memory back. True if there were any.
bool Lister::awaitCompleted() {
  bool any = !landed.empty();
  while (!landed.empty())
    await(landed.begin()->second);
  return any;
}

bool Lister::start(int node) {
  int stream = graph.problem.nodes[node].stream;
  // A conflict ends at once if all in flight have ended, else it can wait.
  for (int other : graph.conflicts[stream]) {
    if (inFlight[other] == 0)
      continue;
    for (auto [end, n] : flying)
      if (graph.problem.nodes[n].stream == other)
        return false;
    std::vector<int> ended;
    for (auto [end, n] : landed)
      if (graph.problem.nodes[n].stream == other)
        ended.push_back(n);
    for (int n : ended)
      await(n);
  }
  for (int before : graph.predecessors[node])
    if (graph.isCollective(before))
      await(before);
  if (!ledger.take(beginOf(node)) &&
      !(awaitCompleted() && ledger.take(beginOf(node)))) {
    result.memoryBound[node] = true;
    return false;
  }
  emit(beginOf(node));
  return true;
}

/// Starts what should start before the computation `candidate` (-1: none).
bool Lister::startReady(int candidate) {
  double horizon = now + (candidate < 0 ? 0 : graph.secondsOf(candidate));
  bool any = false;
  for (size_t s = 0; s < startable.size(); ++s) {
    int tries = 0;
    for (auto i = startable[s].begin();
         i != startable[s].end() && tries < maxTries;) {
      if (!priorities.eager && streamFree[s] > now && streamFree[s] >= horizon)
        break;
      auto [priority, node] = *i;
      if (start(node)) {
        any = true;
        i = startable[s].begin();
      } else {
        ++tries;
        i = startable[s].upper_bound({priority, node});
      }
    }
  }
  return any;
}

/// Runs a node, waiting for the collectives that it needs.
bool Lister::compute(int node) {
  for (int before : graph.predecessors[node])
    if (graph.isCollective(before))
      await(before);
  if (!ledger.take(beginOf(node)))
    return false;
  emit(beginOf(node));
  return true;
}

int Lister::candidate() const {
  if (priorities.mode != Priorities::Fixed)
    return computable.empty() ? -1 : computable.begin()->second;
  for (size_t i = fixedNext; i < fixedOrder.size(); ++i)
    if (!ledger.isTaken(beginOf(fixedOrder[i])))
      return missing[fixedOrder[i]] == 0 ? fixedOrder[i] : -1;
  return -1;
}

/// The first computation that the ledger lets through. False: it refused.
bool Lister::computeReady() {
  if (priorities.mode == Priorities::Fixed) {
    while (ledger.isTaken(beginOf(fixedOrder[fixedNext])))
      ++fixedNext;
    return compute(fixedOrder[fixedNext]);
  }
  int tries = 0;
  for (auto i = computable.begin(); i != computable.end() && tries < maxTries;
       ++tries) {
    auto [priority, node] = *i;
    if (compute(node))
      return true;
    i = computable.upper_bound({priority, node});
  }
  return false;
}

/// The next step of the base order, after awaits that it makes necessary.
void Lister::force() {
  int step = ledger.next(), node = nodeOf(step);
  if (graph.isCollective(node)) {
    if (step != beginOf(node)) {
      if (!isComplete[node])
        result.memoryBound[node] = true;
      await(node);
      return;
    }
    for (int other : graph.conflicts[graph.problem.nodes[node].stream]) {
      std::vector<int> open;
      for (const Queue *queue : {&landed, &flying})
        for (auto [end, n] : *queue)
          if (graph.problem.nodes[n].stream == other)
            open.push_back(n);
      for (int n : open)
        await(n);
    }
  }
  ledger.take(step);
  emit(step);
}

Listed Lister::run() {
  while (result.steps.size() < graph.steps) {
    completeUntil(now);
    int next = candidate();
    if (startReady(next))
      continue;
    if (next >= 0) {
      if (!computeReady() && !awaitCompleted())
        force();
      continue;
    }
    if (!flying.empty()) {
      stepTo(flying.begin()->first); // nothing to run until then
      continue;
    }
    // All that is left was put off, or is to be awaited.
    if (ledger.next() % 2 && landed.size() == graph.steps - result.steps.size())
      awaitCompleted();
    else
      force();
  }
  return std::move(result);
}

Listed overlap::list(const StepGraph &graph,
                     const std::vector<OverlapStep> &base, int64_t bound,
                     const Priorities &priorities) {
  return Lister(graph, base, bound, priorities).run();
}
