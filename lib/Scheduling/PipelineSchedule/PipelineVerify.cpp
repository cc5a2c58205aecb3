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

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::pipeline;

namespace {
class Verifier {
public:
  Verifier(const PipelineSchedule &schedule, const Columns *columns)
      : schedule(schedule), columns(columns),
        last(schedule.virtualStages() - 1) {}
  std::string run(const PipelineMemory &memory);

private:
  std::string checkActions();
  std::string checkComplete();
  std::string checkOrders();
  std::string checkChannels();
  std::string checkCycles();
  std::string checkMemory(const PipelineMemory &memory);

  static std::string name(Kind kind, int stage, int microbatch) {
    return PipelineAction{kind, microbatch, stage}.str();
  }
  /// Position -1: the whole rank.
  std::string where(int rank, int position = -1) const {
    if (!columns)
      return "rank " + std::to_string(rank) + ": ";
    return "row " + std::to_string(rank + 1) +
           (position < 0 ? "" : ", " + at(rank, position)) + ": ";
  }
  std::string at(int rank, int position) const {
    return columns ? "column " + std::to_string((*columns)[rank][position])
                   : "action " + std::to_string(position);
  }
  std::vector<int> &positions(Kind kind) { return position[size_t(kind)]; }
  size_t index(int stage, int microbatch) const {
    return size_t(stage) * schedule.microbatches + microbatch;
  }
  /// The position of B or I, and which of the two it is.
  std::pair<int, Kind> backwardOf(int stage, int microbatch) {
    int whole = positions(Kind::Backward)[index(stage, microbatch)];
    if (whole >= 0)
      return {whole, Kind::Backward};
    return {positions(Kind::InputBackward)[index(stage, microbatch)],
            Kind::InputBackward};
  }

  const PipelineSchedule &schedule;
  const Columns *columns;
  int last;
  /// By kind, then virtual stage and micro-batch; -1: not there.
  std::vector<int> position[4];
};
} // namespace

std::string Verifier::checkActions() {
  for (std::vector<int> &by : position)
    by.assign(index(last + 1, 0), -1);
  for (int rank = 0; rank < schedule.stages; ++rank)
    for (int i = 0; i < int(schedule.ranks[rank].size()); ++i) {
      const PipelineAction &action = schedule.ranks[rank][i];
      auto fail = [&](const std::string &what) {
        return where(rank, i) + what;
      };
      auto below = [](int most) {
        return ", expected one from 0 to " + std::to_string(most - 1);
      };
      if (size_t(action.kind) > 3)
        return fail("expected an action of kind F, B, I or W");
      if (action.microbatch < 0 || action.microbatch >= schedule.microbatches)
        return fail(action.str() + " is of micro-batch " +
                    std::to_string(action.microbatch) +
                    below(schedule.microbatches));
      if (action.stage < 0 || action.stage > last)
        return fail(action.str() + " is of stage " +
                    std::to_string(action.stage) + below(last + 1));
      if (schedule.rankOf(action.stage) != rank)
        return fail(action.str() + " is of stage " +
                    std::to_string(action.stage) + ", expected it on rank " +
                    std::to_string(schedule.rankOf(action.stage)));
      int &known =
          positions(action.kind)[index(action.stage, action.microbatch)];
      if (known >= 0)
        return fail(action.str() + " is also at " + at(rank, known) +
                    ", expected it once");
      known = i;
    }
  return "";
}

std::string Verifier::checkComplete() {
  for (int stage = 0; stage <= last; ++stage)
    for (int k = 0; k < schedule.microbatches; ++k) {
      int rank = schedule.rankOf(stage);
      auto there = [&](Kind kind) {
        return positions(kind)[index(stage, k)] >= 0;
      };
      auto whereIs = [&](Kind kind) {
        return where(rank, positions(kind)[index(stage, k)]);
      };
      std::string whole = name(Kind::Backward, stage, k);
      if (!there(Kind::Forward))
        return where(rank) + "expected " + name(Kind::Forward, stage, k) +
               ", which is missing";
      for (auto [kind, other] :
           {std::pair{Kind::InputBackward, Kind::WeightBackward},
            {Kind::WeightBackward, Kind::InputBackward}}) {
        if (there(kind) && there(Kind::Backward))
          return whereIs(kind) + name(kind, stage, k) + " beside " + whole +
                 ", expected one of the two";
        if (there(kind) && !there(other))
          return whereIs(kind) + name(kind, stage, k) + " without " +
                 name(other, stage, k) + ", expected both, or " + whole;
      }
      if (!there(Kind::InputBackward) && !there(Kind::Backward))
        return where(rank) + "expected " + whole + " (or " +
               name(Kind::InputBackward, stage, k) + " and " +
               name(Kind::WeightBackward, stage, k) + "), which is missing";
    }
  return "";
}

std::string Verifier::checkOrders() {
  for (int stage = 0; stage <= last; ++stage)
    for (int k = 0; k < schedule.microbatches; ++k) {
      int rank = schedule.rankOf(stage);
      int forward = positions(Kind::Forward)[index(stage, k)];
      auto [backward, kind] = backwardOf(stage, k);
      int weights = positions(Kind::WeightBackward)[index(stage, k)];
      auto early = [&](Kind kind, int stage, Kind first, int firstStage) {
        return where(rank, positions(kind)[index(stage, k)]) +
               name(kind, stage, k) + " is before " +
               name(first, firstStage, k) + " at " +
               at(rank, positions(first)[index(firstStage, k)]) +
               ", expected it after that";
      };
      if (backward < forward)
        return early(kind, stage, Kind::Forward, stage);
      if (weights >= 0 && weights < backward)
        return early(Kind::WeightBackward, stage, kind, stage);
      if (stage == last || !schedule.isLocal(stage))
        continue;
      if (positions(Kind::Forward)[index(stage + 1, k)] < forward)
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
    return where(needed.receiver, needed.needed) +
           schedule.ranks[needed.receiver][needed.needed].str() +
           " receives on channel " + std::to_string(needed.channel) +
           " from rank " + std::to_string(needed.sender) +
           ", which there sends first for " +
           schedule.ranks[made.receiver][made.needed].str() +
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
    Need need = needOf(action.kind, action.stage, last + 1);
    rank = schedule.rankOf(need.stage);
  }
  std::string text;
  for (size_t i = seen[rank]; i < path.size(); ++i) {
    const PipelineAction &action = schedule.ranks[path[i]][clock.done[path[i]]];
    Need need = needOf(action.kind, action.stage, last + 1);
    Kind kind = need.backward ? backwardOf(need.stage, action.microbatch).second
                              : Kind::Forward;
    int other = schedule.rankOf(need.stage);
    text += (text.empty() ? "" : "; ") + where(path[i], clock.done[path[i]]) +
            action.str() + " waits for " +
            name(kind, need.stage, action.microbatch) + " of rank " +
            std::to_string(other) + ", which comes after " +
            schedule.ranks[other][clock.done[other]].str() + " there";
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
    for (int i = 0; i < int(schedule.ranks[rank].size()); ++i) {
      const PipelineAction &action = schedule.ranks[rank][i];
      now += memory.change(action.kind, action.stage);
      if (now > memory.limit(rank))
        return where(rank, i) + "at " + action.str() + " it holds " +
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

std::string pipeline::verify(const PipelineSchedule &schedule,
                             const PipelineMemory &memory,
                             const Columns *columns) {
  std::string error = schedule.checkShape();
  if (error.empty())
    error = memory.check(schedule.virtualStages(), schedule.stages);
  return error.empty() ? Verifier(schedule, columns).run(memory) : error;
}

std::string PipelineSchedule::verify(const PipelineMemory &memory) const {
  return pipeline::verify(*this, memory, nullptr);
}
