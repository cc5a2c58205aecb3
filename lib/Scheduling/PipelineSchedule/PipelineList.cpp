//===- PipelineList.cpp - pipeline schedules by priority lists ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks decide in the order of time what they do next, among what has arrived:
// gradients of inputs and forwards first, gradients of weights where a rank
// would wait. How many activations a rank holds is bounded by its memory and by
// a rule that the priorities vary.
//
// Invariant: a micro-batch that is not the oldest with forwards left on a rank
// leaves room there for the rest of the oldest. Then what the oldest of all
// needs is never taken: the older ones' backward passes need no room and give
// theirs back, so it can be done, and so on; no rank stands for ever.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::pipeline;

namespace {
/// What varies.
struct Priorities {
  /// Activations that the r-th of p ranks (by their first stages) holds at
  /// most, for each of its stages: p - r, p, 2 p - 1, or any number.
  enum { OfOneFOneB, Stages, Twice, Any } cap;
  /// When W is done: at once, where a rank would wait, or where it would wait
  /// at least as long as W takes.
  enum { AtOnce, InWaits, InLongWaits } weights;
  bool forwardFirst;
};

/// A rank's forward or backward action that it could do, from `start` on.
struct Choice {
  double start = never;
  int stage = -1;
  Kind kind = Kind::Forward;
};

class Lister {
public:
  Lister(const PipelineTask &task, Priorities priorities);
  Orders run();

private:
  bool hasRoom(int rank, int stage) const;
  Choice bestOf(int rank, Kind kind, double now) const;
  Choice decide(int rank) const;
  void perform(int rank, const Choice &choice);
  int64_t units(int stage, bool bytes) const {
    return bytes ? task.memory.activation(stage) : 1;
  }

  const PipelineTask &task;
  Priorities priorities;
  int virtualStages, m;
  /// By virtual stage: how many F, I and W are done.
  std::vector<int> forwards, backwards, weights;
  /// By rank: its place in the order of ranks' first stages.
  std::vector<int> places;
  /// By virtual stage and micro-batch: when inputs and gradients arrive.
  std::vector<double> inputs, gradients;
  std::vector<double> channelFree;
  /// By rank: free from, bytes and activations held.
  std::vector<double> free;
  std::vector<int64_t> bytes, held;
  Orders orders;
};
} // namespace

Lister::Lister(const PipelineTask &task, Priorities priorities)
    : task(task), priorities(priorities),
      virtualStages(task.shape.virtualStages()), m(task.shape.microbatches),
      forwards(virtualStages), backwards(virtualStages), weights(virtualStages),
      places(task.shape.stages, -1), inputs(size_t(virtualStages) * m, never),
      gradients(inputs), channelFree(2 * size_t(virtualStages)),
      free(task.shape.stages), held(task.shape.stages),
      orders(task.shape.stages) {
  std::fill_n(inputs.begin(), m, 0.0);
  int ranks = 0;
  for (int rank : task.shape.placement)
    if (places[rank] < 0)
      places[rank] = ranks++;
  for (int rank = 0; rank < task.shape.stages; ++rank)
    bytes.push_back(task.memory.fixedOf(rank));
}

/// Whether the next F of the stage may be held; see the invariant.
bool Lister::hasRoom(int rank, int stage) const {
  const std::vector<int> &own = task.stagesOf[rank];
  int oldest = forwards[own.back()];
  int64_t rest[2] = {0, 0}; // of the oldest, in activations and bytes
  if (forwards[stage] != oldest)
    for (int s : own)
      if (forwards[s] <= oldest)
        for (bool inBytes : {false, true})
          rest[inBytes] += units(s, inBytes);
  int p = task.shape.stages;
  int64_t cap = priorities.cap == Priorities::OfOneFOneB ? p - places[rank]
                : priorities.cap == Priorities::Stages   ? p
                                                         : 2 * p - 1;
  if (priorities.cap != Priorities::Any &&
      held[rank] + 1 + rest[0] > cap * int64_t(own.size()))
    return false;
  return bytes[rank] + units(stage, true) + rest[1] <= task.memory.limit(rank);
}

/// The one of a kind that can start first; of those at `now` or before, the
/// oldest micro-batch, on the last of the rank's stages.
Choice Lister::bestOf(int rank, Kind kind, double now) const {
  Choice best;
  int bestBatch = 0;
  const std::vector<int> &own = task.stagesOf[rank];
  for (auto at = own.rbegin(); at != own.rend(); ++at) {
    int stage = *at;
    int k = kind == Kind::Forward         ? forwards[stage]
            : kind == Kind::InputBackward ? backwards[stage]
                                          : weights[stage];
    double start = now;
    if (kind == Kind::Forward) {
      if (k == m || !hasRoom(rank, stage))
        continue;
      start = std::max(start, inputs[size_t(stage) * m + k]);
    } else if (kind == Kind::InputBackward) {
      if (k == forwards[stage])
        continue;
      if (stage < virtualStages - 1)
        start = std::max(start, gradients[size_t(stage) * m + k]);
    } else if (k == backwards[stage]) {
      continue;
    }
    if (start < best.start ||
        (start == best.start && k < bestBatch && start < never)) {
      best = {start, stage, kind};
      bestBatch = k;
    }
  }
  return best;
}

Choice Lister::decide(int rank) const {
  double now = free[rank];
  Choice forward = bestOf(rank, Kind::Forward, now);
  Choice input = bestOf(rank, Kind::InputBackward, now);
  Choice weight = bestOf(rank, Kind::WeightBackward, now);
  if (weight.stage >= 0 && priorities.weights == Priorities::AtOnce)
    return weight;
  bool takeForward = priorities.forwardFirst ? forward.start <= input.start
                                             : forward.start < input.start;
  Choice best = takeForward ? forward : input;
  if (weight.stage < 0 || best.start <= now)
    return best;
  double gap = best.start - now;
  double wanted = priorities.weights == Priorities::InLongWaits
                      ? task.seconds(Kind::WeightBackward, weight.stage)
                      : 0;
  return gap >= wanted ? weight : best;
}

void Lister::perform(int rank, const Choice &choice) {
  const PipelineSchedule &shape = task.shape;
  int stage = choice.stage;
  double end = choice.start + task.seconds(choice.kind, stage);
  free[rank] = end;
  bytes[rank] += task.memory.change(choice.kind, stage);
  auto append = [&](std::vector<int> &done) {
    orders[rank].push_back({choice.kind, done[stage]++, stage});
    return done[stage] - 1;
  };
  auto send = [&](int to, int edge, bool backward, int k) {
    double &last = channelFree[backward * size_t(virtualStages) + edge];
    if (!shape.isLocal(edge))
      end = last = std::max(end, last) + task.transfer(edge, backward);
    (backward ? gradients : inputs)[size_t(to) * m + k] = end;
  };
  switch (choice.kind) {
  case Kind::Forward: {
    ++held[rank];
    int k = append(forwards);
    if (stage + 1 < virtualStages)
      send(stage + 1, stage, false, k);
    break;
  }
  case Kind::InputBackward: {
    int k = append(backwards);
    if (stage > 0)
      send(stage - 1, stage - 1, true, k);
    break;
  }
  default:
    --held[rank];
    append(weights);
    break;
  }
}

Orders Lister::run() {
  int p = task.shape.stages;
  std::vector<Choice> next;
  for (int rank = 0; rank < p; ++rank)
    next.push_back(decide(rank));
  for (int64_t left = int64_t(3) * virtualStages * m; left > 0; --left) {
    int rank = 0;
    for (int other = 1; other < p; ++other)
      if (next[other].start < next[rank].start)
        rank = other;
    if (next[rank].stage < 0 || next[rank].start == never)
      return {};
    int stage = next[rank].stage;
    bool back = next[rank].kind != Kind::Forward;
    perform(rank, next[rank]);
    next[rank] = decide(rank);
    // Whom the message goes to.
    int to = back ? stage - 1 : stage + 1;
    if (to >= 0 && to < virtualStages && task.shape.rankOf(to) != rank)
      next[task.shape.rankOf(to)] = decide(task.shape.rankOf(to));
  }
  return orders;
}

void pipeline::insertBySeconds(std::vector<Found> &all, Found found) {
  auto at = std::upper_bound(all.begin(), all.end(), found.seconds,
                             [](double seconds, const Found &other) {
                               return seconds < other.seconds;
                             });
  all.insert(at, std::move(found));
}

std::vector<Found> pipeline::listOrders(const PipelineTask &task) {
  std::vector<Found> all;
  Clock clock(task.shape, task.costs);
  for (auto cap : {Priorities::OfOneFOneB, Priorities::Stages,
                   Priorities::Twice, Priorities::Any})
    for (auto weights :
         {Priorities::AtOnce, Priorities::InWaits, Priorities::InLongWaits})
      for (bool forwardFirst : {false, true}) {
        Found found;
        found.orders = Lister(task, {cap, weights, forwardFirst}).run();
        if (found.orders.empty() || !task.fits(found.orders))
          continue;
        found.seconds = clock.run(found.orders);
        if (found.seconds < never)
          insertBySeconds(all, std::move(found));
      }
  return all;
}
