//===- OverlapExact.cpp - optimal orders of small problems ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Branch and bound over the prefixes of orders, with the times of the relaxed
// machine: full rates, no contention. They are never above the simulated ones
// (the relaxed machine is a longest path, and what is left out only slows), so
// they bound. Where nothing slows, relaxed and simulated times are the same,
// and of two prefixes with the same steps one whose times are nowhere later
// dominates: what is live, and what may follow, depend on the set alone.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapImpl.h"
#include <algorithm>
#include <unordered_map>

using namespace mpcomm;
using namespace mpcomm::overlap;

namespace {
struct SearchState {
  uint64_t set = 0;
  double now = 0;
  /// Of streams: free from; of collectives in flight: ended at (else 0). None
  /// earlier than `now`, since that makes no difference.
  std::vector<double> streamFree, ends;
  int parent = -1, step = -1;
};

class Exact {
public:
  explicit Exact(const StepGraph &graph);
  OverlapSchedule run(OverlapSchedule incumbent);

private:
  bool mayFollow(const SearchState &state, int i) const;
  int64_t liveAfter(uint64_t set) const;
  SearchState after(const SearchState &state, int i) const;
  double bound(const SearchState &state) const;
  void visitLayers();
  void visitDeep(const SearchState &state, std::vector<OverlapStep> &prefix);
  void accept(const std::vector<OverlapStep> &steps);

  const StepGraph &graph;
  HeadsAndTails path;
  std::vector<int> steps;       // numbers of the steps
  std::vector<uint64_t> before; // steps that precede each
  std::vector<int> indexOf;     // by number
  struct Life {
    int64_t bytes;
    uint64_t birth, deaths;
  };
  std::vector<Life> lives;
  OverlapSchedule best;
  bool found = false;
};
} // namespace

Exact::Exact(const StepGraph &graph)
    : graph(graph), path(graph), indexOf(2 * graph.predecessors.size(), -1) {
  for (const OverlapStep &step : graph.input) {
    indexOf[graph.numberOf(step)] = int(steps.size());
    steps.push_back(graph.numberOf(step));
  }
  auto bit = [&](int number) { return uint64_t(1) << indexOf[number]; };
  for (int step : steps) {
    int node = nodeOf(step);
    uint64_t &mask = before.emplace_back(0);
    if (step != beginOf(node)) {
      mask = bit(beginOf(node));
      continue;
    }
    for (int p : graph.predecessors[node])
      mask |= bit(graph.endOf(p));
    if (graph.startsAfter[node] >= 0)
      mask |= bit(beginOf(graph.startsAfter[node]));
  }
  for (const StepGraph::Life &value : graph.values) {
    Life life{value.bytes, value.birth < 0 ? 0 : bit(value.birth), 0};
    for (int step : value.deaths)
      life.deaths |= bit(step);
    lives.push_back(life);
  }
}

int64_t Exact::liveAfter(uint64_t set) const {
  int64_t live = graph.problem.staticBytes;
  for (const OverlapProblem::Value &value : graph.problem.values)
    if (value.producer < 0)
      live += value.bytes;
  for (const Life &life : lives) {
    bool isBorn = (set & life.birth) == life.birth;
    bool isDead = life.deaths && (set & life.deaths) == life.deaths;
    if (life.birth == 0)
      live -= isDead ? life.bytes : 0; // counted above
    else if (isBorn && !isDead)
      live += life.bytes;
  }
  return live;
}

/// Dependencies, conflicts and memory.
bool Exact::mayFollow(const SearchState &state, int i) const {
  uint64_t bit = uint64_t(1) << i;
  if ((state.set & bit) || (state.set & before[i]) != before[i])
    return false;
  int node = nodeOf(steps[i]);
  bool isStart = graph.isCollective(node) && steps[i] == beginOf(node);
  if (isStart)
    for (int other : graph.conflicts[graph.problem.nodes[node].stream])
      for (size_t n = 0; n < graph.predecessors.size(); ++n)
        if (graph.problem.nodes[n].stream == other &&
            (state.set >> indexOf[beginOf(int(n))] & 1) &&
            !(state.set >> indexOf[graph.endOf(int(n))] & 1))
          return false;
  int64_t live = liveAfter(state.set);
  for (const Life &life : lives)
    if (life.birth == bit)
      live += life.bytes;
  return live <= graph.problem.memoryBound;
}

SearchState Exact::after(const SearchState &state, int i) const {
  SearchState next = state;
  next.set |= uint64_t(1) << i;
  int node = nodeOf(steps[i]);
  if (!graph.isCollective(node)) {
    next.now += graph.secondsOf(node);
  } else if (steps[i] == beginOf(node)) {
    double &free = next.streamFree[graph.problem.nodes[node].stream];
    free = std::max(free, next.now) + graph.secondsOf(node);
    next.ends[node] = free;
  } else {
    next.now = std::max(next.now, next.ends[node]);
    next.ends[node] = 0;
  }
  for (double &free : next.streamFree)
    free = std::max(free, next.now);
  for (double &end : next.ends)
    if (end > 0)
      end = std::max(end, next.now);
  return next;
}

double Exact::bound(const SearchState &state) const {
  double computation = state.now, bound = 0;
  struct Rest {
    double sum = 0, tail = std::numeric_limits<double>::infinity();
  };
  std::vector<Rest> rest(state.streamFree.size());
  for (size_t n = 0; n < graph.predecessors.size(); ++n) {
    if (state.ends[n] > 0)
      bound = std::max(bound, state.ends[n] + path.tail[n]);
    if (state.set >> indexOf[beginOf(int(n))] & 1)
      continue;
    double seconds = graph.secondsOf(int(n));
    bound = std::max(bound, state.now + seconds + path.tail[n]);
    if (!graph.isCollective(int(n))) {
      computation += seconds;
      continue;
    }
    Rest &ofStream = rest[graph.problem.nodes[n].stream];
    ofStream.sum += seconds;
    ofStream.tail = std::min(ofStream.tail, path.tail[n]);
  }
  for (size_t s = 0; s < rest.size(); ++s)
    if (rest[s].sum > 0)
      bound = std::max(bound, state.streamFree[s] + rest[s].sum + rest[s].tail);
  return std::max(bound, computation);
}

void Exact::accept(const std::vector<OverlapStep> &order) {
  double seconds = simulateSteps(graph, order);
  if (found && seconds >= best.seconds * (1 - 1e-12))
    return;
  found = true;
  best.seconds = seconds;
  best.steps = order;
}

/// Sets of steps by their size; of each, the states that none dominates.
void Exact::visitLayers() {
  std::vector<SearchState> all(1);
  all[0].streamFree.assign(graph.problem.streams.size(), 0);
  all[0].ends.assign(graph.predecessors.size(), 0);
  std::vector<int> layer = {0};
  for (size_t depth = 0; depth < steps.size(); ++depth) {
    std::unordered_map<uint64_t, std::vector<int>> next;
    for (int s : layer) {
      for (int i = 0; i < int(steps.size()); ++i) {
        if (!mayFollow(all[s], i))
          continue;
        SearchState state = after(all[s], i);
        state.parent = s;
        state.step = i;
        if (found && bound(state) >= best.seconds * (1 - 1e-12))
          continue;
        auto dominates = [](const SearchState &x, const SearchState &y) {
          if (x.now > y.now)
            return false;
          for (size_t i = 0; i < x.streamFree.size(); ++i)
            if (x.streamFree[i] > y.streamFree[i])
              return false;
          for (size_t i = 0; i < x.ends.size(); ++i)
            if (x.ends[i] > y.ends[i])
              return false;
          return true;
        };
        std::vector<int> &peers = next[state.set];
        if (std::any_of(peers.begin(), peers.end(),
                        [&](int p) { return dominates(all[p], state); }))
          continue;
        std::erase_if(peers, [&](int p) { return dominates(state, all[p]); });
        peers.push_back(int(all.size()));
        all.push_back(std::move(state));
      }
    }
    layer.clear();
    for (const auto &[set, peers] : next)
      layer.insert(layer.end(), peers.begin(), peers.end());
    std::sort(layer.begin(), layer.end()); // no order of a hash table
  }
  for (int s : layer) {
    std::vector<OverlapStep> order;
    for (int i = s; all[i].parent >= 0; i = all[i].parent)
      order.push_back(graph.stepOf(steps[all[i].step]));
    std::reverse(order.begin(), order.end());
    accept(order);
  }
}

void Exact::visitDeep(const SearchState &state,
                      std::vector<OverlapStep> &prefix) {
  if (prefix.size() == steps.size())
    return accept(prefix);
  for (int i = 0; i < int(steps.size()); ++i) {
    if (!mayFollow(state, i))
      continue;
    SearchState next = after(state, i);
    if (found && bound(next) >= best.seconds * (1 - 1e-12))
      continue;
    prefix.push_back(graph.stepOf(steps[i]));
    visitDeep(next, prefix);
    prefix.pop_back();
  }
}

OverlapSchedule Exact::run(OverlapSchedule incumbent) {
  const OverlapProblem &problem = graph.problem;
  best = std::move(incumbent);
  found = best.error.empty();
  // Does anything slow what is in flight?
  bool slows =
      problem.computeRateUnderComm < 1 || problem.commRateUnderCompute < 1;
  std::vector<int> streamOf(problem.links.size(), -1);
  for (const OverlapProblem::Node &node : problem.nodes)
    if (node.stream >= 0 && node.link >= 0 &&
        problem.links[node.link].contends) {
      slows |= streamOf[node.link] >= 0 && streamOf[node.link] != node.stream;
      streamOf[node.link] = node.stream;
    }
  if (!slows) {
    visitLayers();
  } else {
    SearchState first;
    first.streamFree.assign(problem.streams.size(), 0);
    first.ends.assign(problem.nodes.size(), 0);
    std::vector<OverlapStep> prefix;
    visitDeep(first, prefix);
  }
  if (found) {
    best.error = "";
    best.peakBytes = peakBytes(graph, best.steps);
  } else {
    best.error = "no order keeps the bound of " +
                 std::to_string(problem.memoryBound) + " bytes";
  }
  return std::move(best);
}

OverlapSchedule mpcomm::scheduleExact(const OverlapProblem &problem) {
  StepGraph graph(problem);
  OverlapSchedule incumbent = scheduleList(problem);
  if (graph.steps > 62) {
    incumbent.error =
        "expects at most 62 steps, got " + std::to_string(graph.steps);
    return incumbent;
  }
  OverlapSchedule best = Exact(graph).run(incumbent);
  best.unboundedSeconds = best.seconds;
  best.unboundedPeakBytes = best.peakBytes;
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  if (best.error.empty() && problem.memoryBound < none) {
    OverlapProblem unbounded = problem;
    unbounded.memoryBound = none;
    OverlapSchedule free = scheduleExact(unbounded);
    best.unboundedSeconds = free.seconds;
    best.unboundedPeakBytes = free.peakBytes;
  }
  return best;
}
