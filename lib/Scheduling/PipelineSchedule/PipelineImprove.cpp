//===- PipelineImprove.cpp - better pipeline schedules by small moves -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The critical path runs from the end of the step back: from an action to the
// one before it on its rank, or to the one whose message it waited for. As long
// as that path stands, the step is no shorter; so only its actions are moved.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::pipeline;

namespace {
class Improver {
public:
  Improver(const PipelineTask &task, Found &found, int64_t limit)
      : task(task), found(found), left(limit), clock(task.shape, task.costs) {}
  void run();

private:
  struct Place {
    int rank, position;
  };
  std::vector<Place> criticalPath();
  bool tryMove(Place from, int to);
  double sumOfEnds() const;

  const PipelineTask &task;
  Found &found;
  int64_t left;
  Clock clock;
  double ends = 0; // of `found`
};
} // namespace

double Improver::sumOfEnds() const {
  double sum = 0;
  for (size_t rank = 0; rank < clock.times.size(); ++rank)
    sum += clock.times[rank].back().end + task.costs.afterOf(int(rank));
  return sum;
}

/// Of `found`, whose times the clock has.
std::vector<Improver::Place> Improver::criticalPath() {
  const PipelineSchedule &shape = task.shape;
  Place place = {0, 0};
  double latest = -1;
  for (int rank = 0; rank < shape.stages; ++rank) {
    double end = clock.times[rank].back().end + task.costs.afterOf(rank);
    if (end > latest)
      latest = end, place = {rank, int(clock.times[rank].size()) - 1};
  }
  std::vector<Place> path;
  while (true) {
    path.push_back(place);
    double start = clock.times[place.rank][place.position].start;
    if (place.position > 0 &&
        clock.times[place.rank][place.position - 1].end >= start) {
      --place.position;
      continue;
    }
    const PipelineAction &action = found.orders[place.rank][place.position];
    Need need = needOf(action.kind, action.stage, shape.virtualStages());
    if (need.stage < 0)
      return path;
    // The sender's action; of several in the channel, the last.
    int rank = shape.rankOf(need.stage);
    const std::vector<PipelineAction> &order = found.orders[rank];
    int position = 0;
    while (order[position].microbatch != action.microbatch ||
           order[position].stage != need.stage ||
           order[position].kind == Kind::WeightBackward ||
           (order[position].kind != Kind::Forward) != need.backward)
      ++position;
    place = {rank, position};
  }
}

/// Whether `second`, directly after `first` on a rank, may go before it:
/// micro-batches keep their order on a stage, and needs come first.
static bool mayPass(const PipelineAction &first, const PipelineAction &second) {
  auto group = [](Kind kind) {
    return kind == Kind::Backward ? Kind::InputBackward : kind;
  };
  Kind one = group(first.kind), two = group(second.kind);
  if (first.stage == second.stage && one == two)
    return false;
  if (first.microbatch != second.microbatch)
    return true;
  int a = first.stage, b = second.stage;
  if (a == b)
    return false; // F, I, W of one micro-batch
  return !(one == Kind::Forward && two == Kind::Forward && b == a + 1) &&
         !(one == Kind::InputBackward && two == Kind::InputBackward &&
           a == b + 1);
}

/// Moves an action to another position of its rank, and keeps that if the step
/// gets shorter, or no longer and the ranks' ends earlier in sum.
bool Improver::tryMove(Place from, int to) {
  std::vector<PipelineAction> &order = found.orders[from.rank];
  if (to < 0 || to >= int(order.size()) || left <= 0)
    return false;
  int step = to < from.position ? -1 : 1;
  for (int i = from.position; i != to; i += step) {
    const PipelineAction &other = order[i + step],
                         &moved = order[from.position];
    if (step < 0 ? !mayPass(other, moved) : !mayPass(moved, other))
      return false;
  }
  std::vector<PipelineAction> before = order;
  auto at = order.begin();
  if (step < 0)
    std::rotate(at + to, at + from.position, at + from.position + 1);
  else
    std::rotate(at + from.position, at + from.position + 1, at + to + 1);
  if (task.fits(from.rank, order)) {
    --left;
    double seconds = clock.run(found.orders);
    double margin = 1e-12 * found.seconds;
    if (seconds < found.seconds - margin ||
        (seconds <= found.seconds && sumOfEnds() < ends - margin)) {
      found.seconds = seconds;
      ends = sumOfEnds();
      return true;
    }
  }
  order = std::move(before);
  return false;
}

void Improver::run() {
  found.seconds = clock.run(found.orders);
  ends = sumOfEnds();
  auto improveOnce = [&] {
    clock.run(found.orders);
    for (Place place : criticalPath())
      for (int distance : {1, 2, 3, 5, 8}) {
        Kind kind = found.orders[place.rank][place.position].kind;
        // What others wait for goes forward, weight gradients back; of what is
        // adjacent either may.
        if ((kind != Kind::WeightBackward || distance == 1) &&
            tryMove(place, place.position - distance))
          return true;
        if ((kind == Kind::WeightBackward || distance == 1) &&
            tryMove(place, place.position + distance))
          return true;
      }
    return false;
  };
  while (left > 0 && improveOnce()) {
  }
}

void pipeline::improveOrders(const PipelineTask &task, Found &found,
                             int64_t limit) {
  Improver(task, found, limit).run();
}

/// Fuses from the last pair of a rank on: there delays reach least. All at
/// once if that is possible, else one by one, 256 tries in all.
void pipeline::fuseBackwards(const PipelineTask &task, Found &found) {
  Clock clock(task.shape, task.costs);
  int tries = 256;
  auto isPair = [](const PipelineAction &first, const PipelineAction &second) {
    return first.kind == Kind::InputBackward &&
           second.kind == Kind::WeightBackward &&
           first.microbatch == second.microbatch && first.stage == second.stage;
  };
  for (std::vector<PipelineAction> &order : found.orders) {
    std::vector<PipelineAction> split = order;
    auto fuse = [&](size_t i) {
      order[i].kind = Kind::Backward;
      order.erase(order.begin() + i + 1);
    };
    for (size_t i = order.size(); i-- > 1;)
      if (i < order.size() && isPair(order[i - 1], order[i]))
        fuse(i - 1);
    if (order.size() == split.size() ||
        (tries-- > 0 && clock.run(found.orders) <= found.seconds))
      continue;
    order = split;
    for (size_t i = order.size(); i-- > 1 && tries > 0;) {
      if (i >= order.size() || !isPair(order[i - 1], order[i]))
        continue;
      std::vector<PipelineAction> before = order;
      fuse(i - 1);
      --tries;
      if (clock.run(found.orders) > found.seconds)
        order = std::move(before);
    }
  }
}
