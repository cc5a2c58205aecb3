//===- PipelineSchedule.cpp - stages, channels and memory of a schedule ---===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows from a schedule without its times: where virtual stages are,
// which messages travel on which channels, and what each rank holds.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include <algorithm>
#include <cmath>

using namespace mpcomm;

PipelinePlacement mpcomm::makeLoopPlacement(int ranks, int chunks) {
  PipelinePlacement placement;
  for (int stage = 0; stage < ranks * chunks; ++stage)
    placement.push_back(stage % ranks);
  return placement;
}

PipelinePlacement mpcomm::makeVPlacement(int ranks, int chunks) {
  PipelinePlacement placement;
  for (int stage = 0; stage < ranks * chunks; ++stage)
    placement.push_back(stage / ranks % 2 ? ranks - 1 - stage % ranks
                                          : stage % ranks);
  return placement;
}

std::vector<std::vector<int>> PipelineSchedule::stagesByRank() const {
  std::vector<std::vector<int>> by(stages);
  for (int stage = 0; stage < virtualStages(); ++stage)
    by[rankOf(stage)].push_back(stage);
  return by;
}

std::vector<int> PipelineSchedule::edgeChannels() const {
  int edges = virtualStages() - 1;
  std::vector<int> channels(2 * size_t(edges), -1);
  std::vector<std::vector<bool>> taken(stages);
  // Channels below are taken.
  std::vector<size_t> free(stages, 0);
  for (int i = 0; i < 2 * edges; ++i) {
    int edge = i % edges;
    if (isLocal(edge))
      continue;
    std::vector<bool> *ends[] = {&taken[rankOf(edge)],
                                 &taken[rankOf(edge + 1)]};
    auto isTaken = [&](size_t channel) {
      return std::any_of(std::begin(ends), std::end(ends), [&](auto *end) {
        return channel < end->size() && (*end)[channel];
      });
    };
    size_t channel = std::max(free[rankOf(edge)], free[rankOf(edge + 1)]);
    while (isTaken(channel))
      ++channel;
    for (std::vector<bool> *end : ends) {
      end->resize(std::max(end->size(), channel + 1));
      (*end)[channel] = true;
      size_t &least = free[end - taken.data()];
      while (least < end->size() && (*end)[least])
        ++least;
    }
    channels[i] = int(channel);
  }
  return channels;
}

int PipelineSchedule::channels() const {
  int most = -1;
  for (int channel : edgeChannels())
    most = std::max(most, channel);
  return most + 1;
}

int PipelineSchedule::channelOf(int edge, bool backward) const {
  return edgeChannels()[backward * (virtualStages() - 1) + edge];
}

std::string PipelineSchedule::checkShape() const {
  constexpr int64_t most = int64_t(1) << 24;
  for (auto [name, value] : {std::pair<const char *, int64_t>{"ranks", stages},
                             {"stages", int64_t(placement.size())},
                             {"microbatches", microbatches}})
    if (value < 1 || value > most)
      return std::string(name) + "=" + std::to_string(value) +
             ": expected a number from 1 to " + std::to_string(most);
  // At most three actions for each; no product overflows.
  if (int64_t(placement.size()) > most / 3 / microbatches)
    return "stages=" + std::to_string(placement.size()) +
           " microbatches=" + std::to_string(microbatches) +
           ": expected at most " + std::to_string(most) + " actions";
  std::vector<bool> seen(stages);
  for (int stage = 0; stage < virtualStages(); ++stage) {
    int rank = rankOf(stage);
    if (rank < 0 || rank >= stages)
      return "stage " + std::to_string(stage) + " is placed on rank " +
             std::to_string(rank) + ", expected ranks from 0 to " +
             std::to_string(stages - 1);
    seen[rank] = true;
  }
  auto bare = std::find(seen.begin(), seen.end(), false);
  if (bare != seen.end())
    return "rank " + std::to_string(bare - seen.begin()) +
           " has no stage, expected each rank to have one";
  return "";
}

std::vector<PipelineMessage> PipelineSchedule::messages() const {
  using Kind = PipelineActionKind;
  int last = virtualStages() - 1;
  // By virtual stage and micro-batch: the positions of F, and of B or I.
  std::vector<int> forward(size_t(last + 1) * microbatches), backward = forward;
  auto at = [&](int stage, int microbatch) {
    return size_t(stage) * microbatches + microbatch;
  };
  for (int rank = 0; rank < stages; ++rank)
    for (int i = 0; i < int(ranks[rank].size()); ++i) {
      const PipelineAction &action = ranks[rank][i];
      size_t index = at(action.stage, action.microbatch);
      if (action.kind == Kind::Forward)
        forward[index] = i;
      else if (action.kind != Kind::WeightBackward)
        backward[index] = i;
    }
  std::vector<int> channels = edgeChannels();
  std::vector<PipelineMessage> made;
  for (int rank = 0; rank < stages; ++rank)
    for (int i = 0; i < int(ranks[rank].size()); ++i) {
      const PipelineAction &action = ranks[rank][i];
      int stage = action.stage;
      bool back = action.kind != Kind::Forward;
      int edge = back ? stage - 1 : stage;
      if (action.kind == Kind::WeightBackward || edge < 0 || edge == last ||
          isLocal(edge))
        continue;
      int to = back ? stage - 1 : stage + 1;
      made.push_back({edge, back, action.microbatch, rank, rankOf(to), i,
                      (back ? backward : forward)[at(to, action.microbatch)],
                      channels[size_t(back) * last + edge]});
    }
  return made;
}

int64_t PipelineMemory::change(PipelineActionKind kind, int stage) const {
  switch (kind) {
  case PipelineActionKind::Forward:
    return activation(stage);
  case PipelineActionKind::Backward:
    return -activation(stage);
  case PipelineActionKind::InputBackward:
    return heldOf(stage) - activation(stage);
  case PipelineActionKind::WeightBackward:
    return -heldOf(stage);
  }
  return 0;
}

std::vector<int64_t>
PipelineSchedule::peaks(const PipelineMemory &memory) const {
  std::vector<int64_t> peaks;
  for (int rank = 0; rank < int(ranks.size()); ++rank) {
    int64_t now = memory.fixedOf(rank), peak = now;
    for (const PipelineAction &action : ranks[rank]) {
      now += memory.change(action.kind, action.stage);
      peak = std::max(peak, now);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

template <typename T>
static std::string checkSize(const char *name, const std::vector<T> &by,
                             int count, const char *what) {
  if (by.empty() || int64_t(by.size()) == count)
    return "";
  return std::to_string(by.size()) + " " + name + ": expected " +
         std::to_string(count) + ", one for each " + what + ", or none";
}

std::string PipelineMemory::check(int virtualStages, int ranks) const {
  for (const std::string &error :
       {checkSize("activations", activations, virtualStages, "virtual stage"),
        checkSize("held", held, virtualStages, "virtual stage"),
        checkSize("fixed", fixed, ranks, "rank"),
        checkSize("limits", limits, ranks, "rank")})
    if (!error.empty())
      return error;
  // So that sums over 2^24 actions stay in range.
  constexpr int64_t most = int64_t(1) << 60;
  for (int stage = 0; stage < virtualStages; ++stage)
    if (activation(stage) < 0 || activation(stage) > most >> 24 ||
        heldOf(stage) < 0 || heldOf(stage) > activation(stage))
      return "virtual stage " + std::to_string(stage) + ": activations of " +
             std::to_string(activation(stage)) + ", of which " +
             std::to_string(heldOf(stage)) +
             " are held for W: expected 0 <= held <= activations <= " +
             std::to_string(most >> 24);
  for (int rank = 0; rank < ranks; ++rank)
    if (fixedOf(rank) < 0 || fixedOf(rank) > most || limit(rank) < 0)
      return "rank " + std::to_string(rank) +
             ": expected fixed memory and limit of 0 or more";
  return "";
}

double PipelineCosts::seconds(PipelineActionKind kind, int stage) const {
  const Stage &cost = stages[stage];
  switch (kind) {
  case PipelineActionKind::Forward:
    return cost.forward;
  case PipelineActionKind::Backward:
    return cost.input + cost.weight;
  case PipelineActionKind::InputBackward:
    return cost.input;
  case PipelineActionKind::WeightBackward:
    return cost.weight;
  }
  return 0;
}

std::string PipelineCosts::check(int virtualStages, int ranks) const {
  if (int64_t(stages.size()) != virtualStages)
    return "costs of " + std::to_string(stages.size()) +
           " virtual stages: expected " + std::to_string(virtualStages);
  for (const std::string &error :
       {checkSize("forward transfers", forwardTransfer, virtualStages - 1,
                  "edge"),
        checkSize("backward transfers", backwardTransfer, virtualStages - 1,
                  "edge"),
        checkSize("times after", after, ranks, "rank")})
    if (!error.empty())
      return error;
  auto good = [](double seconds) {
    return std::isfinite(seconds) && seconds >= 0;
  };
  auto bad = [](const char *where, int index) {
    return std::string(where) + " " + std::to_string(index) +
           ": expected finite times of 0 or more";
  };
  for (int stage = 0; stage < virtualStages; ++stage)
    if (!good(stages[stage].forward) || !good(stages[stage].input) ||
        !good(stages[stage].weight))
      return bad("virtual stage", stage);
  for (int edge = 0; edge + 1 < virtualStages; ++edge)
    if (!good(transfer(edge, false)) || !good(transfer(edge, true)))
      return bad("edge", edge);
  for (int rank = 0; rank < ranks; ++rank)
    if (!good(afterOf(rank)))
      return bad("rank", rank);
  return "";
}
