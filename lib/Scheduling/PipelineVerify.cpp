//===- PipelineVerify.cpp - whether a schedule can run --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From what one rank's order says to what all say together: each action once;
// what an action needs of its rank before it; messages in one order on both
// sides; no cycle; memory. A schedule is a set of total orders with
// dependences between them, so it can run if and only if the union has no
// cycle: ranks are advanced until all have ended or all stand, and where they
// stand each waits for the next.
//
//===----------------------------------------------------------------------===//

#include "PipelineImpl.h"
#include <algorithm>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::pipeline;

namespace {
class Verifier {
public:
  explicit Verifier(const PipelineSchedule &schedule)
      : schedule(schedule), last(schedule.virtualStages() - 1) {}
  std::string run(const PipelineMemory &memory);

private:
  std::string checkActions();
  std::string checkComplete();
  std::string checkOrders();
  std::string checkChannels();
  std::string checkCycles();
  std::string checkMemory(const PipelineMemory &memory);

  std::string name(Kind kind, int stage, int microbatch) const {
    PipelineAction action = {kind, microbatch, schedule.chunkOf(stage)};
    return action.str(schedule.chunks);
  }
  std::string name(const PipelineAction &action) const {
    return action.str(schedule.chunks);
  }
  static std::string where(int rank) {
    return "rank " + std::to_string(rank) + ": ";
  }
  std::vector<int> &positions(Kind kind) { return position[size_t(kind)]; }
  size_t at(int stage, int microbatch) const {
    return size_t(stage) * schedule.microbatches + microbatch;
  }
  /// The position of B or I, and which of the two it is.
  std::pair<int, Kind> backwardOf(int stage, int microbatch) {
    int whole = positions(Kind::Backward)[at(stage, microbatch)];
    if (whole >= 0)
      return {whole, Kind::Backward};
    return {positions(Kind::InputBackward)[at(stage, microbatch)],
            Kind::InputBackward};
  }

  const PipelineSchedule &schedule;
  int last;
  /// By kind, then virtual stage and micro-batch; -1: not there.
  std::vector<int> position[4];
};
} // namespace

std::string Verifier::checkActions() {
  for (std::vector<int> &by : position)
    by.assign(at(last + 1, 0), -1);
  for (int rank = 0; rank < schedule.stages; ++rank)
    for (int i = 0; i < int(schedule.ranks[rank].size()); ++i) {
      const PipelineAction &action = schedule.ranks[rank][i];
      if (action.chunk < 0 || action.chunk >= schedule.chunks ||
          action.microbatch < 0 || action.microbatch >= schedule.microbatches ||
          size_t(action.kind) > 3)
        return where(rank) + "action " + std::to_string(i) +
               " is of micro-batch " + std::to_string(action.microbatch) +
               " and chunk " + std::to_string(action.chunk) +
               ", expected micro-batches below " +
               std::to_string(schedule.microbatches) + " and chunks below " +
               std::to_string(schedule.chunks);
      int stage = schedule.stageOf(rank, action.chunk);
      int &known = positions(action.kind)[at(stage, action.microbatch)];
      if (known >= 0)
        return where(rank) + name(action) + " is action " +
               std::to_string(known) + " and " + std::to_string(i) +
               ", expected it once";
      known = i;
    }
  return "";
}

std::string Verifier::checkComplete() {
  for (int stage = 0; stage <= last; ++stage)
    for (int k = 0; k < schedule.microbatches; ++k) {
      auto there = [&](Kind kind) {
        return positions(kind)[at(stage, k)] >= 0;
      };
      std::string rank = where(schedule.rankOf(stage));
      std::string whole = name(Kind::Backward, stage, k);
      if (!there(Kind::Forward))
        return rank + "expected " + name(Kind::Forward, stage, k) +
               ", which is missing";
      for (auto [kind, other] :
           {std::pair{Kind::InputBackward, Kind::WeightBackward},
            {Kind::WeightBackward, Kind::InputBackward}}) {
        if (there(kind) && there(Kind::Backward))
          return rank + name(kind, stage, k) + " beside " + whole +
                 ", expected one of the two";
        if (there(kind) && !there(other))
          return rank + name(kind, stage, k) + " without " +
                 name(other, stage, k) + ", expected both, or " + whole;
      }
      if (!there(Kind::InputBackward) && !there(Kind::Backward))
        return rank + "expected " + whole + " (or I and W of it), which is " +
               "missing";
    }
  return "";
}

std::string Verifier::checkOrders() {
  for (int stage = 0; stage <= last; ++stage)
    for (int k = 0; k < schedule.microbatches; ++k) {
      int rank = schedule.rankOf(stage);
      int forward = positions(Kind::Forward)[at(stage, k)];
      auto [backward, kind] = backwardOf(stage, k);
      int weights = positions(Kind::WeightBackward)[at(stage, k)];
      auto early = [&](Kind kind, int stage, Kind first, int firstStage) {
        return where(rank) + name(kind, stage, k) + " stands before " +
               name(first, firstStage, k) + ", expected it after that";
      };
      if (backward < forward)
        return early(kind, stage, Kind::Forward, stage);
      if (weights >= 0 && weights < backward)
        return early(Kind::WeightBackward, stage, kind, stage);
      if (stage == last || !schedule.isLocal(stage))
        continue;
      if (positions(Kind::Forward)[at(stage + 1, k)] < forward)
        return early(Kind::Forward, stage + 1, Kind::Forward, stage);
      auto [before, beforeKind] = backwardOf(stage + 1, k);
      if (backward < before)
        return early(kind, stage, beforeKind, stage + 1);
    }
  return "";
}

std::string Verifier::checkChannels() {
  std::vector<PipelineMessage> sent = schedule.messages();
  auto pairOf = [](const PipelineMessage &m) {
    return std::tuple(m.channel, m.sender, m.receiver);
  };
  std::sort(sent.begin(), sent.end(),
            [&](const PipelineMessage &x, const PipelineMessage &y) {
              return std::tuple(pairOf(x), x.made) <
                     std::tuple(pairOf(y), y.made);
            });
  std::vector<PipelineMessage> received = sent;
  std::sort(received.begin(), received.end(),
            [&](const PipelineMessage &x, const PipelineMessage &y) {
              return std::tuple(pairOf(x), x.needed) <
                     std::tuple(pairOf(y), y.needed);
            });
  for (size_t i = 0; i < sent.size(); ++i) {
    const PipelineMessage &made = sent[i], &needed = received[i];
    if (made.needed == needed.needed)
      continue;
    return where(needed.receiver) +
           name(schedule.ranks[needed.receiver][needed.needed]) +
           " receives on channel " + std::to_string(needed.channel) +
           " from rank " + std::to_string(needed.sender) +
           ", which there sends first for " +
           name(schedule.ranks[made.receiver][made.needed]) +
           ": expected that before it";
  }
  return "";
}

std::string Verifier::checkCycles() {
  PipelineCosts none;
  none.stages.resize(last + 1);
  Clock clock(schedule, none);
  if (clock.run(schedule.ranks) < never)
    return "";
  // Every rank that stands waits for one that stands: a cycle is reached.
  std::vector<int> seen(schedule.stages, -1), path;
  int rank = 0;
  while (clock.done[rank] == int(schedule.ranks[rank].size()))
    ++rank;
  while (seen[rank] < 0) {
    seen[rank] = int(path.size());
    path.push_back(rank);
    const PipelineAction &action = schedule.ranks[rank][clock.done[rank]];
    Need need =
        needOf(action.kind, schedule.stageOf(rank, action.chunk), last + 1);
    rank = schedule.rankOf(need.stage);
  }
  std::string text;
  for (size_t i = seen[rank]; i < path.size(); ++i) {
    const PipelineAction &action = schedule.ranks[path[i]][clock.done[path[i]]];
    Need need =
        needOf(action.kind, schedule.stageOf(path[i], action.chunk), last + 1);
    Kind kind = need.backward ? backwardOf(need.stage, action.microbatch).second
                              : Kind::Forward;
    int other = schedule.rankOf(need.stage);
    text += (text.empty() ? "" : "; ") + where(path[i]) + name(action) +
            " waits for " + name(kind, need.stage, action.microbatch) +
            " of rank " + std::to_string(other) + ", behind " +
            name(schedule.ranks[other][clock.done[other]]) + " there";
  }
  return text + ": expected orders without such a cycle";
}

std::string Verifier::checkMemory(const PipelineMemory &memory) {
  std::vector<int64_t> peaks = schedule.peaks(memory);
  for (int rank = 0; rank < schedule.stages; ++rank) {
    if (peaks[rank] <= memory.limit(rank))
      continue;
    int64_t now = memory.fixedOf(rank);
    if (now > memory.limit(rank))
      return where(rank) + "holds " + std::to_string(now) +
             " without activations, expected at most " +
             std::to_string(memory.limit(rank));
    for (const PipelineAction &action : schedule.ranks[rank]) {
      now += memory.change(action.kind, schedule.stageOf(rank, action.chunk));
      if (now > memory.limit(rank))
        return where(rank) + "at " + name(action) + " it holds " +
               std::to_string(now) + ", expected at most " +
               std::to_string(memory.limit(rank));
    }
  }
  return "";
}

std::string Verifier::run(const PipelineMemory &memory) {
  if (int(schedule.ranks.size()) != schedule.stages)
    return "orders of " + std::to_string(schedule.ranks.size()) +
           " ranks, expected " + std::to_string(schedule.stages);
  for (auto check : {&Verifier::checkActions, &Verifier::checkComplete,
                     &Verifier::checkOrders, &Verifier::checkChannels,
                     &Verifier::checkCycles}) {
    std::string error = (this->*check)();
    if (!error.empty())
      return error;
  }
  return checkMemory(memory);
}

std::string PipelineSchedule::verify(const PipelineMemory &memory) const {
  std::string error = checkShape();
  if (error.empty())
    error = memory.check(virtualStages(), stages);
  return error.empty() ? Verifier(*this).run(memory) : error;
}
