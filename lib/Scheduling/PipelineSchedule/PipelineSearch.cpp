//===- PipelineSearch.cpp - pipeline schedules by states ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Actions of all ranks are appended in the order of their starts, one a layer.
// What may follow depends on how many F, I and W of each virtual stage are done
// alone (micro-batches keep their order; see docs/Design/PipelineSchedules.md),
// and when on the times at which ranks are free and messages arrive. So of two
// states with the same counts, one whose times are nowhere later dominates.
// Without a limit on states that is exact; with one, those with the least bound
// are kept.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>
#include <tuple>
#include <unordered_map>

using namespace mpcomm;
using namespace mpcomm::pipeline;

namespace {
struct SearchState {
  /// F, I and W done, by virtual stage.
  std::vector<int> done;
  /// By rank free from; by edge and direction its channel's last arrival; by
  /// stage the arrivals of inputs, then of gradients, not yet used. No earlier
  /// than `now` and than they can matter.
  std::vector<double> times;
  double now = 0;
  double bound = 0;
  /// Smaller is better among equal bounds: idle time so far.
  double idle = 0;
  int node = -1;
};

/// The last action of a state.
struct SearchNode {
  int parent;
  int stage;
  Kind kind;
};

class Search {
public:
  Search(const PipelineTask &task, double bound, int64_t stepLimit);
  SearchResult run();

private:
  int &count(SearchState &state, Kind kind, int stage) const {
    return state.done[3 * stage + lane(kind)];
  }
  int count(const SearchState &state, Kind kind, int stage) const {
    return state.done[3 * stage + lane(kind)];
  }
  static int lane(Kind kind) {
    return kind == Kind::Forward ? 0 : kind == Kind::InputBackward ? 1 : 2;
  }
  /// Messages to a stage that wait: inputs, or gradients.
  int waiting(const SearchState &state, int stage, bool backward) const {
    if (backward)
      return stage + 1 < stages ? count(state, Kind::InputBackward, stage + 1) -
                                      count(state, Kind::InputBackward, stage)
                                : 0;
    return stage > 0 ? count(state, Kind::Forward, stage - 1) -
                           count(state, Kind::Forward, stage)
                     : 0;
  }
  double &freeOf(SearchState &state, int rank) const {
    return state.times[rank];
  }
  double &channelOf(SearchState &state, int edge, bool backward) const {
    return state.times[p + 2 * edge + backward];
  }
  /// Where a stage's waiting messages begin in `times`, by 2 * stage +
  /// backward.
  void locate(const SearchState &state);
  double startOf(const SearchState &state, int stage, Kind kind) const;
  bool isDone(const SearchState &state, int rank) const;
  SearchState after(const SearchState &state, int stage, Kind kind,
                    double start);
  double boundOf(const SearchState &state);
  void expand(const SearchState &state);
  void keep(SearchState state);
  void cut(int64_t layersLeft);

  const PipelineTask &task;
  Paths paths;
  int p, stages, m;
  double best;
  int64_t stepLimit, steps = 0, layers;
  bool complete = true;
  /// Whether a rank's memory can ever bind where it has several stages.
  bool forwardsMayBlock = false;
  std::vector<int> queues;
  std::vector<double> soonest; // scratch of boundOf
  std::vector<SearchNode> nodes;
  std::vector<SearchState> next;
  std::unordered_map<std::string, std::vector<int>> byCounts;
};
} // namespace

Search::Search(const PipelineTask &task, double bound, int64_t stepLimit)
    : task(task), paths(task), p(task.shape.stages),
      stages(task.shape.virtualStages()), m(task.shape.microbatches),
      best(bound), stepLimit(stepLimit), layers(int64_t(3) * stages * m) {
  for (int rank = 0; rank < p; ++rank) {
    int64_t all = task.memory.fixedOf(rank);
    for (int s : task.stagesOf[rank])
      all += m * task.memory.activation(s);
    forwardsMayBlock |=
        task.stagesOf[rank].size() > 1 && all > task.memory.limit(rank);
  }
}

void Search::locate(const SearchState &state) {
  queues.resize(2 * stages + 1);
  int at = p + 2 * stages;
  for (int queue = 0; queue < 2 * stages; ++queue) {
    queues[queue] = at;
    at += waiting(state, queue / 2, queue % 2);
  }
  queues[2 * stages] = at;
}

/// When the next action of a kind on a stage can start; `never` if what it
/// needs is not there. After locate().
double Search::startOf(const SearchState &state, int stage, Kind kind) const {
  int rank = task.shape.rankOf(stage), k = count(state, kind, stage);
  double start = state.times[rank];
  if (kind == Kind::Forward) {
    if (k == m || (stage > 0 && !waiting(state, stage, false)))
      return never;
    int64_t bytes = task.memory.fixedOf(rank) + task.memory.activation(stage);
    for (int s : task.stagesOf[rank]) {
      int inputs = count(state, Kind::InputBackward, s);
      bytes += (count(state, Kind::Forward, s) - inputs) *
                   task.memory.activation(s) +
               (inputs - count(state, Kind::WeightBackward, s)) *
                   task.memory.heldOf(s);
    }
    if (bytes > task.memory.limit(rank))
      return never;
    return stage > 0 ? std::max(start, state.times[queues[2 * stage]]) : start;
  }
  if (kind == Kind::WeightBackward)
    return k < count(state, Kind::InputBackward, stage) ? start : never;
  if (k == count(state, Kind::Forward, stage))
    return never;
  if (stage == stages - 1)
    return start;
  return waiting(state, stage, true)
             ? std::max(start, state.times[queues[2 * stage + 1]])
             : never;
}

bool Search::isDone(const SearchState &state, int rank) const {
  for (int s : task.stagesOf[rank])
    if (count(state, Kind::WeightBackward, s) < m)
      return false;
  return true;
}

/// The state after an action. After locate(state).
SearchState Search::after(const SearchState &state, int stage, Kind kind,
                          double start) {
  SearchState made = state;
  int rank = task.shape.rankOf(stage);
  double end = start + task.seconds(kind, stage);
  made.now = start;
  made.idle += start - freeOf(made, rank);
  freeOf(made, rank) = end;
  ++count(made, kind, stage);
  bool backward = kind == Kind::InputBackward;
  int to = backward ? stage - 1 : stage + 1;
  bool sends = kind != Kind::WeightBackward && to >= 0 && to < stages;
  bool receives =
      kind == Kind::Forward ? stage > 0 : backward && stage + 1 < stages;
  // Of the two queues the later one first, so that positions hold.
  auto send = [&] {
    int edge = std::min(stage, to);
    double arrival = end;
    if (!task.shape.isLocal(edge)) {
      double &last = channelOf(made, edge, backward);
      arrival = last = std::max(end, last) + task.transfer(edge, backward);
    }
    made.times.insert(made.times.begin() + queues[2 * to + backward + 1],
                      arrival);
  };
  int used = 2 * stage + backward;
  if (sends && 2 * to + backward > used)
    send();
  if (receives)
    made.times.erase(made.times.begin() + queues[used]);
  if (sends && 2 * to + backward < used)
    send();
  // Times that can make no difference any more. The end of a rank that has done
  // all counts as it is.
  locate(made);
  for (int i = 0; i < int(made.times.size()); ++i)
    if (i >= p || !isDone(made, i))
      made.times[i] = std::max(made.times[i], start);
  for (int queue = 0; queue < 2 * stages; ++queue)
    for (int i = queues[queue]; i < queues[queue + 1]; ++i)
      made.times[i] =
          std::max(made.times[i], freeOf(made, task.shape.rankOf(queue / 2)));
  for (int edge = 0; edge + 1 < stages; ++edge)
    for (bool back : {false, true}) {
      double &last = channelOf(made, edge, back);
      last = task.transfer(edge, back) > 0
                 ? std::max(last, freeOf(made, task.shape.rankOf(edge + back)))
                 : start;
    }
  made.bound = boundOf(made);
  nodes.push_back({state.node, stage, kind});
  made.node = int(nodes.size()) - 1;
  return made;
}

/// No completion ends before. For each rank: nothing of it starts before what
/// it waits for can have come; then come all its actions, or all its F and I,
/// after the last of which other ranks follow. After locate(state).
double Search::boundOf(const SearchState &state) {
  soonest.assign(2 * size_t(stages), never);
  auto freeOf = [&](int stage) {
    return state.times[task.shape.rankOf(stage)];
  };
  for (int s = 0; s < stages; ++s) {
    if (count(state, Kind::Forward, s) == m)
      continue;
    double from = s == 0 ? 0
                  : waiting(state, s, false)
                      ? state.times[queues[2 * s]]
                      : soonest[2 * (s - 1)] +
                            task.seconds(Kind::Forward, s - 1) +
                            task.transfer(s - 1, false);
    soonest[2 * s] = std::max(from, freeOf(s));
  }
  for (int s = stages; s-- > 0;) {
    int done = count(state, Kind::InputBackward, s);
    if (done == m)
      continue;
    double from = 0;
    if (done == count(state, Kind::Forward, s))
      from = soonest[2 * s] + task.seconds(Kind::Forward, s);
    if (s + 1 < stages)
      from = std::max(from, waiting(state, s, true)
                                ? state.times[queues[2 * s + 1]]
                                : soonest[2 * (s + 1) + 1] +
                                      task.seconds(Kind::InputBackward, s + 1) +
                                      task.transfer(s, true));
    soonest[2 * s + 1] = std::max(from, freeOf(s));
  }
  double bound = 0;
  for (int rank = 0; rank < p; ++rank) {
    // Of all actions, and of F and I alone: no start before.
    double first = never, firstOfBoth = never;
    double both = 0, weights = 0, drain = never;
    for (int s : task.stagesOf[rank]) {
      int f = count(state, Kind::Forward, s);
      int i = count(state, Kind::InputBackward, s);
      int w = count(state, Kind::WeightBackward, s);
      double forward = (m - f) * task.seconds(Kind::Forward, s);
      double input = (m - i) * task.seconds(Kind::InputBackward, s);
      double soon = std::min(soonest[2 * s], soonest[2 * s + 1]);
      firstOfBoth = std::min(firstOfBoth, soon);
      first = std::min(first, w < i ? freeOf(s) : soon);
      both += forward + input;
      weights += (m - w) * task.seconds(Kind::WeightBackward, s);
      if (i == m)
        continue;
      drain = std::min(drain, paths.drain[s]);
      bound = std::max({bound, soon + forward + input + paths.drain[s],
                        soonest[2 * s + 1] + input + paths.drain[s]});
    }
    double after = task.costs.afterOf(rank);
    if (first == never)
      first = state.times[rank]; // all done
    bound = std::max(bound, first + both + weights + after);
    if (drain < never)
      bound = std::max(bound, firstOfBoth + both + drain);
  }
  return bound;
}

void Search::expand(const SearchState &state) {
  constexpr Kind kinds[] = {Kind::Forward, Kind::InputBackward,
                            Kind::WeightBackward};
  // An action that could end before another starts may as well come first: it
  // is in nobody's way (an F in that of a later F, where memory binds).
  locate(state);
  double earliestEnd = never;
  std::vector<std::tuple<double, int, Kind>> choices;
  for (int stage = 0; stage < stages; ++stage)
    for (Kind kind : kinds) {
      double start = startOf(state, stage, kind);
      if (start == never)
        continue;
      choices.push_back({start, stage, kind});
      if (kind != Kind::Forward || !forwardsMayBlock)
        earliestEnd = std::min(earliestEnd, start + task.seconds(kind, stage));
    }
  for (auto [start, stage, kind] : choices) {
    if (start >= earliestEnd && start + task.seconds(kind, stage) > earliestEnd)
      continue;
    ++steps;
    locate(state);
    SearchState made = after(state, stage, kind, start);
    if (made.bound < best)
      keep(std::move(made));
    else
      nodes.pop_back();
  }
}

void Search::keep(SearchState state) {
  std::string key(reinterpret_cast<const char *>(state.done.data()),
                  state.done.size() * sizeof(int));
  std::vector<int> &same = byCounts[key];
  auto dominates = [](const SearchState &x, const SearchState &y) {
    if (x.now > y.now)
      return false;
    for (size_t i = 0; i < x.times.size(); ++i)
      if (x.times[i] > y.times[i])
        return false;
    return true;
  };
  for (int index : same)
    if (dominates(next[index], state))
      return;
  std::erase_if(same, [&](int index) {
    if (!dominates(state, next[index]))
      return false;
    next[index].node = -1; // dropped
    return true;
  });
  same.push_back(int(next.size()));
  next.push_back(std::move(state));
}

/// Leaves three times the states that the steps left would pay for if all
/// layers to come had as many: the middle ones have most.
void Search::cut(int64_t layersLeft) {
  std::erase_if(next, [](const SearchState &state) { return state.node < 0; });
  int64_t left = std::max<int64_t>(stepLimit - steps, 0);
  size_t width = std::max<int64_t>(3 * left / (layersLeft * p), 1);
  if (next.size() <= width)
    return;
  complete = false;
  std::nth_element(next.begin(), next.begin() + width, next.end(),
                   [](const SearchState &x, const SearchState &y) {
                     return std::tie(x.bound, x.idle, x.node) <
                            std::tie(y.bound, y.idle, y.node);
                   });
  next.resize(width);
}

SearchResult Search::run() {
  SearchResult result;
  if (best <= 0 || stepLimit < layers * p)
    return result;
  SearchState start;
  start.done.assign(3 * stages, 0);
  start.times.assign(p + 2 * stages, 0);
  std::vector<SearchState> layer = {start};
  for (int64_t depth = 0; depth < layers; ++depth) {
    next.clear();
    byCounts.clear();
    for (const SearchState &state : layer)
      expand(state);
    cut(layers - depth);
    std::swap(layer, next);
  }
  result.complete = complete;
  if (layer.empty())
    return result;
  const SearchState &end =
      *std::min_element(layer.begin(), layer.end(),
                        [](const SearchState &x, const SearchState &y) {
                          return x.bound < y.bound;
                        });
  result.found.orders.resize(p);
  std::vector<SearchNode> path;
  for (int node = end.node; node >= 0; node = nodes[node].parent)
    path.push_back(nodes[node]);
  std::vector<int> done(3 * stages);
  for (size_t i = path.size(); i-- > 0;) {
    auto [parent, stage, kind] = path[i];
    result.found.orders[task.shape.rankOf(stage)].push_back(
        {kind, done[3 * stage + lane(kind)]++, stage});
  }
  Clock clock(task.shape, task.costs);
  result.found.seconds = clock.run(result.found.orders);
  return result;
}

SearchResult pipeline::searchOrders(const PipelineTask &task, double bound,
                                    int64_t stepLimit) {
  return Search(task, bound, stepLimit).run();
}
