//===- PipelineFixed.cpp - the schedules of the literature ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GPipe, 1F1B, interleaved 1F1B, ZB-H1 and ZB-V for any number of micro-
// batches. Each rank's order is written down by itself; that they fit together
// is what verify() shows. Papers: PipelineSchedule.h. Names as there: p ranks,
// m micro-batches, v chunks.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include <algorithm>

using namespace mpcomm;
using Kind = PipelineActionKind;
/// Until a rank's order is placed, the stage of an action is its chunk: the
/// rank's stages are numbered from 0.
using Order = std::vector<PipelineAction>;

static constexpr std::pair<PipelineKind, const char *> kindNames[] = {
    {PipelineKind::GPipe, "gpipe"},
    {PipelineKind::OneFOneB, "1f1b"},
    {PipelineKind::Interleaved, "interleaved"},
    {PipelineKind::ZBH1, "zb-h1"},
    {PipelineKind::ZBV, "zb-v"},
};

const char *mpcomm::pipelineKindName(PipelineKind kind) {
  return kindNames[size_t(kind)].second;
}

std::optional<PipelineKind> mpcomm::parsePipelineKind(std::string_view name) {
  for (auto [kind, known] : kindNames)
    if (name == known)
      return kind;
  return std::nullopt;
}

static Order makeGPipe(int m) {
  Order order;
  for (Kind kind : {Kind::Forward, Kind::Backward})
    for (int k = 0; k < m; ++k)
      order.push_back({kind, k});
  return order;
}

/// `warmup` forwards, then one forward and one backward in turn, then the
/// backwards that are left; both in the given orders.
static Order alternate(const Order &forwards, const Order &backwards,
                       int warmup) {
  int count = int(forwards.size());
  Order order(forwards.begin(), forwards.begin() + std::min(warmup, count));
  for (int k = 0; k < count; ++k) {
    if (k + warmup < count)
      order.push_back(forwards[k + warmup]);
    order.push_back(backwards[k]);
  }
  return order;
}

static Order makeOneFOneB(int p, int m, int rank) {
  Order all = makeGPipe(m);
  return alternate({all.begin(), all.begin() + m}, {all.begin() + m, all.end()},
                   p - 1 - rank);
}

/// Megatron's order: micro-batches in groups, each through all of a rank's
/// chunks before the next, with warmup as its get_pp_rank_microbatches. Its
/// groups are of p. Where m is no multiple, groups are of one more, the larger
/// ones first: with groups of p or more and never a larger one later, ranks do
/// not wait for each other's next chunk. Below p one group is all there is.
static Order makeInterleaved(int p, int m, int v, int rank) {
  int groups = std::max(m / p, 1);
  Order forwards, backwards;
  for (int group = 0, from = 0; group < groups; ++group) {
    int to = from + m / groups + (group < m % groups);
    for (int chunk = 0; chunk < v; ++chunk)
      for (int k = from; k < to; ++k) {
        forwards.push_back({Kind::Forward, k, chunk});
        backwards.push_back({Kind::Backward, k, v - 1 - chunk});
      }
    from = to;
  }
  int largest = (m + groups - 1) / groups;
  return alternate(forwards, backwards, 2 * (p - 1 - rank) + (v - 1) * largest);
}

/// 1F1B whose rank r is r weight gradients late: as many as the backwards
/// that rank 0 receives after rank r has made them, so that rank r has work
/// until rank 0 ends. It holds p - r forwards and r weight gradients.
static Order makeZBH1(int p, int m, int rank) {
  Order order;
  for (const PipelineAction &action : makeOneFOneB(p, m, rank)) {
    if (action.kind == Kind::Forward) {
      order.push_back(action);
      continue;
    }
    order.push_back({Kind::InputBackward, action.microbatch});
    if (action.microbatch >= rank)
      order.push_back({Kind::WeightBackward, action.microbatch - rank});
  }
  for (int k = std::max(m - rank, 0); k < m; ++k)
    order.push_back({Kind::WeightBackward, k});
  return order;
}

namespace {
/// Appends actions, counting micro-batches by kind and chunk.
struct Appender {
  Order order;
  int counts[4][2] = {};
  int count(Kind kind, int chunk) const { return counts[size_t(kind)][chunk]; }
  void add(Kind kind, int chunk) {
    order.push_back({kind, counts[size_t(kind)][chunk]++, chunk});
  }
};
} // namespace

/// The order of V-ZB for 2 p - 1 micro-batches or more. With fewer, the order
/// of 2 p - 1 without those that are not there.
static Order makeZBV(int p, int m, int rank) {
  constexpr Kind F = Kind::Forward, I = Kind::InputBackward,
                 W = Kind::WeightBackward;
  int all = std::max(m, 2 * p - 1);
  Appender to;
  // Forwards on the way there, then also those that come back.
  for (int i = 0; i < 2 * (p - rank) - 1; ++i)
    to.add(F, 0);
  for (int i = 0; i < rank; ++i) {
    to.add(F, 1);
    to.add(F, 0);
  }
  // The second chunk's backwards begin, with p - rank forwards in flight.
  for (int i = 0; i < p - rank; ++i)
    for (Kind kind : {F, I, W})
      to.add(kind, 1);
  // Steady: all of one micro-batch on each chunk.
  while (to.count(F, 1) < to.count(F, 0) || to.count(F, 0) < all) {
    if (to.count(F, 0) < all)
      to.add(F, 0);
    to.add(I, 0);
    to.add(W, 0);
    for (Kind kind : {F, I, W})
      to.add(kind, 1);
  }
  // Gradients of inputs first, for others wait for them.
  for (int i = 0; i < rank; ++i) {
    to.add(I, 0);
    to.add(I, 1);
  }
  for (int i = 0; i < p - rank; ++i) {
    to.add(I, 0);
    to.add(W, 0);
  }
  for (int chunk : {1, 0})
    while (to.count(W, chunk) < to.count(I, chunk))
      to.add(W, chunk);
  std::erase_if(to.order, [m](const PipelineAction &action) {
    return action.microbatch >= m;
  });
  return to.order;
}

PipelineScheduleOr mpcomm::makePipelineSchedule(PipelineKind kind, int stages,
                                                int microbatches, int chunks) {
  PipelineScheduleOr made;
  PipelineSchedule &schedule = made.schedule;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  std::string name = pipelineKindName(kind);
  std::string found = ", found " + std::to_string(chunks);
  bool inRange = stages > 0 && chunks > 0 && chunks <= (1 << 24) / stages;
  if (inRange)
    schedule.placement = kind == PipelineKind::ZBV
                             ? makeVPlacement(stages, chunks)
                             : makeLoopPlacement(stages, chunks);
  if (std::string error = schedule.checkShape(); !error.empty())
    made.error = name + ": " + error;
  else if (!inRange)
    made.error = name + ": expected chunks from 1 to " +
                 std::to_string((1 << 24) / stages) + found;
  else if (kind == PipelineKind::Interleaved && chunks < 2)
    made.error = name + ": expected 2 chunks a rank or more" + found;
  else if (kind == PipelineKind::ZBV && chunks != 2)
    made.error = name + ": expected 2 chunks a rank" + found;
  else if (kind != PipelineKind::Interleaved && kind != PipelineKind::ZBV &&
           chunks != 1)
    made.error = name + ": expected 1 chunk a rank" + found;
  if (!made.error.empty())
    return made;
  auto orderOf = [&](int rank) {
    switch (kind) {
    case PipelineKind::GPipe:
      return makeGPipe(microbatches);
    case PipelineKind::OneFOneB:
      return makeOneFOneB(stages, microbatches, rank);
    case PipelineKind::Interleaved:
      return makeInterleaved(stages, microbatches, chunks, rank);
    case PipelineKind::ZBH1:
      return makeZBH1(stages, microbatches, rank);
    case PipelineKind::ZBV:
      return makeZBV(stages, microbatches, rank);
    }
    return Order();
  };
  std::vector<std::vector<int>> stagesOf = schedule.stagesByRank();
  for (int rank = 0; rank < stages; ++rank) {
    schedule.ranks.push_back(orderOf(rank));
    for (PipelineAction &action : schedule.ranks.back())
      action.stage = stagesOf[rank][action.stage];
  }
  return made;
}

PipelineScheduleOr
mpcomm::makePipelineSchedule(PipelineKind kind, int stages, int microbatches,
                             const PipelinePlacement &placement) {
  PipelineScheduleOr made = makePipelineSchedule(
      kind, stages, microbatches, int(placement.size()) / std::max(stages, 1));
  if (!made.error.empty())
    return made;
  // By rank of the kind's own placement, the rank that takes its place.
  std::vector<int> rankFor(stages, -1);
  PipelineSchedule &schedule = made.schedule;
  bool fits = schedule.placement.size() == placement.size();
  for (size_t stage = 0; fits && stage < placement.size(); ++stage) {
    int &rank = rankFor[schedule.placement[stage]];
    rank = rank < 0 ? placement[stage] : rank;
    fits = rank == placement[stage];
  }
  std::string own;
  for (int rank : schedule.placement)
    own += (own.empty() ? "" : ",") + std::to_string(rank);
  schedule.placement = placement;
  if (!fits || !schedule.checkShape().empty()) {
    made.error = std::string(pipelineKindName(kind)) +
                 ": expected stages on ranks " + own +
                 ", or on the same in other numbers";
    return made;
  }
  std::vector<Order> orders(stages);
  for (int rank = 0; rank < stages; ++rank)
    orders[rankFor[rank]] = std::move(schedule.ranks[rank]);
  schedule.ranks = std::move(orders);
  return made;
}

double mpcomm::idleFormula(PipelineKind kind, int stages, int microbatches,
                           int chunks, double forward, double input,
                           double weight) {
  double p = stages, m = microbatches, all = forward + input + weight;
  double missing = std::max(p - m, 0.0);
  switch (kind) {
  case PipelineKind::GPipe:
  case PipelineKind::OneFOneB:
    return (p - 1) * all;
  case PipelineKind::Interleaved:
    return (p - 1 + (chunks - 1) * missing) * all;
  case PipelineKind::ZBH1:
    return (p - 1) * (forward + input - weight) + missing * weight;
  case PipelineKind::ZBV:
    return std::max(p - 1, 2 * (2 * p - 1 - m)) * all / 3;
  }
  return 0;
}
