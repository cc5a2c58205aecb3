//===- OverlapList.cpp - rules of priority, and a search over them --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rule is a choice of priorities for the list scheduler; the simulator
// says which was best. The search then changes the priorities of the best, one
// move at a time, and keeps what is no worse. Its random numbers have a fixed
// seed: the order is a function of the problem alone.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapLister.h"
#include <algorithm>
#include <numeric>
#include <random>

using namespace mpcomm;
using namespace mpcomm::overlap;

namespace {
/// What one run of the algorithm knows.
class Scheduler {
public:
  Scheduler(const StepGraph &graph, const OverlapSchedule &input,
            const OverlapOptions &options, int64_t bound);
  /// The best order found; the input's if none is better.
  OverlapSchedule run(double lowerBound);

private:
  void consider(const Priorities &priorities);
  void tryRules();
  void search();
  bool move(Priorities &priorities);
  bool shift(std::vector<OverlapStep> &steps);
  std::vector<double> feeding(std::vector<int> collectives) const;
  void sort(std::vector<int> &nodes, const std::vector<double> &key,
            bool falling = false) const;
  std::vector<double> ranks(const std::vector<double> &key) const;
  bool isDone() const { return best.seconds <= lowerBound * (1 + 1e-12); }

  const StepGraph &graph;
  const OverlapOptions &options;
  int64_t bound;
  std::vector<OverlapStep> base;
  HeadsAndTails path;
  std::vector<double> position; // in the base order
  std::vector<int> computation, collectives;
  double lowerBound = 0;
  OverlapSchedule best;
  Priorities bestPriorities;
  double bestListed = std::numeric_limits<double>::infinity();
  std::mt19937 random{20011};
};
} // namespace

Scheduler::Scheduler(const StepGraph &graph, const OverlapSchedule &input,
                     const OverlapOptions &options, int64_t bound)
    : graph(graph), options(options), bound(bound), base(input.steps),
      path(graph), position(graph.predecessors.size()), best(input) {
  for (size_t i = 0; i < base.size(); ++i) {
    if (base[i].kind == RankInstruction::Await)
      continue;
    position[base[i].node] = double(i);
    (base[i].kind == RankInstruction::Start ? collectives : computation)
        .push_back(base[i].node);
  }
}

/// Lists and simulates, and keeps what is best.
void Scheduler::consider(const Priorities &priorities) {
  Listed listed = list(graph, base, bound, priorities);
  double reached = simulateSteps(graph, listed.steps);
  if (reached < bestListed) {
    bestListed = reached;
    bestPriorities = priorities;
  }
  if (reached >= best.seconds * (1 - 1e-12))
    return;
  best.steps = std::move(listed.steps);
  best.memoryBound = std::move(listed.memoryBound);
  best.seconds = reached;
}

/// By the key, in the base order where keys are equal.
void Scheduler::sort(std::vector<int> &nodes, const std::vector<double> &key,
                     bool falling) const {
  std::sort(nodes.begin(), nodes.end(), [&](int x, int y) {
    return key[x] != key[y] ? (key[x] < key[y]) != falling
                            : position[x] < position[y];
  });
}

/// Numbers 0, 1, … by increasing key.
std::vector<double> Scheduler::ranks(const std::vector<double> &key) const {
  std::vector<int> order(key.size());
  std::iota(order.begin(), order.end(), 0);
  sort(order, key);
  std::vector<double> rank(key.size());
  for (size_t i = 0; i < order.size(); ++i)
    rank[order[i]] = double(i);
  return rank;
}

/// What the collectives depend on, collective by collective; then the rest,
/// the longest tail first: it fills waits.
std::vector<double> Scheduler::feeding(std::vector<int> order) const {
  std::vector<double> rank(position.size(), -1);
  double next = 0;
  std::vector<std::pair<int, size_t>> open;
  for (int collective : order) {
    open.push_back({collective, 0});
    while (!open.empty()) {
      auto &[node, edge] = open.back();
      const std::vector<int> &before = graph.predecessors[node];
      if (rank[node] >= 0 || edge == before.size()) {
        if (rank[node] < 0)
          rank[node] = next++;
        open.pop_back();
        continue;
      }
      int p = before[edge++];
      if (rank[p] < 0)
        open.push_back({p, 0});
    }
  }
  std::vector<int> rest;
  for (int n : computation)
    if (rank[n] < 0)
      rest.push_back(n);
  sort(rest, path.tail, /*falling=*/true);
  for (int n : rest)
    rank[n] = next++;
  return rank;
}

void Scheduler::tryRules() {
  std::vector<double> urgent(position.size()); // by the longest path from it
  for (size_t n = 0; n < urgent.size(); ++n)
    urgent[n] = -path.tail[n] - graph.secondsOf(int(n));
  urgent = ranks(urgent);

  std::vector<std::vector<double>> rules = {position};
  if (options.reorderCompute && !collectives.empty()) {
    std::vector<int> order = collectives;
    rules.push_back(feeding(order));
    sort(order, urgent);
    rules.push_back(feeding(order));
    sort(order, path.head);
    rules.push_back(feeding(order));
    rules.push_back(urgent);
  }
  std::vector<Priorities::Mode> modes = {Priorities::Fixed};
  if (options.reorderCompute)
    modes = {Priorities::Greedy, Priorities::Patient};
  for (const std::vector<double> &rule : rules)
    for (Priorities::Mode mode : modes)
      for (bool eager : {true, false}) {
        consider({rule, eager ? position : urgent, mode, eager});
        if (isDone())
          return;
      }
}

/// A random change. False: there was nothing to change.
bool Scheduler::move(Priorities &priorities) {
  auto pick = [&](const std::vector<int> &nodes) {
    return nodes[random() % nodes.size()];
  };
  int one = 0;
  switch (random() % 8) {
  case 0:
    if (!options.reorderCompute)
      return false;
    priorities.mode = priorities.mode == Priorities::Greedy
                          ? Priorities::Patient
                          : Priorities::Greedy;
    return true;
  case 1:
    priorities.eager = !priorities.eager;
    return true;
  case 2:
  case 3: // a collective among those started before or after it
    if (collectives.size() < 2)
      return false;
    one = pick(collectives);
    std::swap(priorities.start[one], priorities.start[pick(collectives)]);
    return true;
  case 4:
  case 5: { // all that a collective needs, earlier
    if (!options.reorderCompute || collectives.empty())
      return false;
    double shift = 0.5 + double(random() % position.size());
    std::vector<int> open = {pick(collectives)};
    std::vector<char> seen(position.size(), false);
    while (!open.empty()) {
      int n = open.back();
      open.pop_back();
      if (seen[n])
        continue;
      seen[n] = true;
      priorities.compute[n] -= shift;
      open.insert(open.end(), graph.predecessors[n].begin(),
                  graph.predecessors[n].end());
    }
    return true;
  }
  default: // one piece of computation, elsewhere
    if (!options.reorderCompute || computation.size() < 2)
      return false;
    one = pick(computation);
    priorities.compute[one] = priorities.compute[pick(computation)] - 0.5;
    if (random() % 2)
      priorities.compute[one] += 1;
    return true;
  }
}

/// Moves one step anywhere between those that it depends on and those that
/// depend on it. False: there is no other place, or none within the bound.
bool Scheduler::shift(std::vector<OverlapStep> &steps) {
  std::vector<int> at(2 * position.size(), -1);
  for (size_t i = 0; i < steps.size(); ++i)
    at[graph.numberOf(steps[i])] = int(i);
  int from = int(random() % steps.size());
  auto [kind, node] = steps[from];
  if (kind == RankInstruction::Compute && !options.reorderCompute)
    return false;
  int low = 0, high = int(steps.size()) - 1;
  auto after = [&](int step) { low = std::max(low, at[step] + 1); };
  auto notAfter = [&](int step) { high = std::min(high, at[step] - 1); };
  if (kind == RankInstruction::Await) {
    after(beginOf(node));
  } else {
    for (int p : graph.predecessors[node])
      after(graph.endOf(p));
    if (graph.startsAfter[node] >= 0)
      after(beginOf(graph.startsAfter[node]));
  }
  if (kind == RankInstruction::Start) {
    notAfter(graph.endOf(node));
    if (graph.startsBefore[node] >= 0)
      notAfter(beginOf(graph.startsBefore[node]));
  } else {
    for (int next : graph.successors[node])
      notAfter(beginOf(next));
  }
  if (low >= high)
    return false;
  int to = low + int(random() % (high - low + 1));
  if (to == from)
    return false;
  auto begin = steps.begin();
  if (to < from)
    std::rotate(begin + to, begin + from, begin + from + 1);
  else
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  return peakBytes(graph, steps) <= bound &&
         checkConflicts(graph, steps).empty();
}

void Scheduler::search() {
  // A step costs about what a simulation costs: some seconds in all at most.
  int64_t steps = std::min<int64_t>(options.searchSteps,
                                    10'000'000 / int64_t(graph.steps + 1));
  Priorities current = bestPriorities;
  std::vector<OverlapStep> order = best.steps;
  std::vector<bool> memoryBound = best.memoryBound;
  double seconds = best.seconds;
  for (int64_t i = 0; i < steps && !isDone(); ++i) {
    if (i % 2) { // a step, past all rules
      std::vector<OverlapStep> candidate = order;
      if (!shift(candidate))
        continue;
      double reached = simulateSteps(graph, candidate);
      if (reached > seconds)
        continue;
      seconds = reached;
      order = std::move(candidate);
    } else { // priorities, in the base order or in the order reached
      Priorities candidate = current;
      if (!move(candidate))
        continue;
      Listed listed =
          list(graph, random() % 2 ? base : order, bound, candidate);
      double reached = simulateSteps(graph, listed.steps);
      if (reached > seconds)
        continue;
      seconds = reached;
      order = std::move(listed.steps);
      memoryBound = std::move(listed.memoryBound);
      current.mode = candidate.mode;
      current.eager = candidate.eager;
    }
    // Priorities become the order that came of them.
    for (size_t k = 0; k < order.size(); ++k) {
      if (order[k].kind == RankInstruction::Await)
        continue;
      int node = order[k].node;
      if (order[k].kind == RankInstruction::Start)
        current.start[node] = double(k);
      if (options.reorderCompute)
        current.compute[node] = double(k);
    }
    if (seconds < best.seconds * (1 - 1e-12)) {
      best.seconds = seconds;
      best.steps = order;
      best.memoryBound = memoryBound;
    }
  }
}

OverlapSchedule Scheduler::run(double lowerBound) {
  this->lowerBound = lowerBound;
  if (!isDone())
    tryRules();
  if (!isDone())
    search();
  best.peakBytes = peakBytes(graph, best.steps);
  return std::move(best);
}

OverlapSchedule mpcomm::scheduleList(const OverlapProblem &problem,
                                     const OverlapOptions &options) {
  StepGraph graph(problem);
  OverlapSchedule input = scheduleInput(graph);
  input.unboundedSeconds = input.seconds;
  input.unboundedPeakBytes = input.peakBytes;
  if (!input.error.empty())
    return input;
  double lowerBound = problem.lowerBound();
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  OverlapSchedule free = Scheduler(graph, input, options, none).run(lowerBound);
  free.unboundedSeconds = free.seconds;
  free.unboundedPeakBytes = free.peakBytes;
  if (free.peakBytes <= problem.memoryBound)
    return free;
  OverlapSchedule bounded =
      Scheduler(graph, input, options, problem.memoryBound).run(lowerBound);
  bool isFaster = bounded.seconds < free.seconds; // by chance: heuristics
  bounded.unboundedSeconds = isFaster ? bounded.seconds : free.seconds;
  bounded.unboundedPeakBytes = isFaster ? bounded.peakBytes : free.peakBytes;
  return bounded;
}
