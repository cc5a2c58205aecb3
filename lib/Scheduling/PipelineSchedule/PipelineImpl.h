//===- PipelineImpl.h - timing and construction of pipelines ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The clock that times orders, and the parts of the search for schedules.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_PIPELINESCHEDULE_PIPELINEIMPL_H
#define MPCOMM_LIB_SCHEDULING_PIPELINESCHEDULE_PIPELINEIMPL_H

#include "mpcomm/Scheduling/PipelineSchedule/PipelineScheduling.h"

namespace mpcomm::pipeline {

using Orders = std::vector<std::vector<PipelineAction>>;
using Kind = PipelineActionKind;
constexpr double never = std::numeric_limits<double>::infinity();

/// What an action waits for on another virtual stage: nothing (stage < 0), or
/// that stage's F, or its gradient of the inputs (B or I).
struct Need {
  int stage = -1;
  bool backward = false;
};
inline Need needOf(Kind kind, int stage, int virtualStages) {
  if (kind == Kind::Forward)
    return {stage - 1, false};
  if (kind == Kind::WeightBackward || stage == virtualStages - 1)
    return {};
  return {stage + 1, true};
}

/// Times orders of one shape with the same costs, again and again.
class Clock {
public:
  Clock(const PipelineSchedule &shape, const PipelineCosts &costs);
  /// The step's seconds, or `never` if the orders cannot run. Orders hold
  /// actions of the shape only. Time: O(actions).
  double run(const Orders &ranks);

  /// Of the last run: by rank and position. Where it ended in `never`, the
  /// first `done[rank]` of a rank have run.
  std::vector<std::vector<PipelineTiming::Interval>> times;
  std::vector<int> done;

private:
  /// By virtual stage and micro-batch: when the input of F, the gradient for I
  /// and B have arrived, and when F and I or B have ended; -1: not yet.
  std::vector<double> inputs, gradients, forwards, backwards;
  /// By direction and edge: when its last message arrives.
  std::vector<double> channelFree;

  const PipelineSchedule &shape;
  const PipelineCosts &costs;
};

/// A problem's candidate as the search sees it.
struct PipelineTask {
  PipelineTask(PipelineSchedule given, const PipelineCosts &costs,
               const PipelineMemory &memory)
      : shape(std::move(given)), costs(costs), memory(memory),
        stagesOf(shape.stagesByRank()) {}

  PipelineSchedule shape;
  const PipelineCosts &costs;
  const PipelineMemory &memory;
  /// By rank, ascending.
  std::vector<std::vector<int>> stagesOf;

  double seconds(Kind kind, int stage) const {
    return costs.seconds(kind, stage);
  }
  /// Of an edge between two ranks; 0 for a local one.
  double transfer(int edge, bool backward) const {
    return shape.isLocal(edge) ? 0 : costs.transfer(edge, backward);
  }
  /// Whether `order` keeps to the memory of `rank`.
  bool fits(int rank, const std::vector<PipelineAction> &order) const;
  bool fits(const Orders &orders) const;
};

/// Least times before and after a stage's actions, transfers with them.
struct Paths {
  explicit Paths(const PipelineTask &task);
  /// By virtual stage: no F starts, and no I, before.
  std::vector<double> head, turn;
  /// By virtual stage: from the end of its last I to the end of the step at
  /// least; from the arrival of the last micro-batch's input likewise.
  std::vector<double> drain, rest;
};

/// Where actions were read: by rank and position the column, from 1. The row
/// is the rank's number from 1.
using Columns = std::vector<std::vector<int>>;
/// PipelineSchedule::verify(), whose errors name row and column where `columns`
/// are given.
std::string verify(const PipelineSchedule &schedule,
                   const PipelineMemory &memory, const Columns *columns);

/// Orders and the seconds that they take (`never`: there are none).
struct Found {
  Orders orders;
  double seconds = never;
};

/// Into a vector with the best first, after equals.
void insertBySeconds(std::vector<Found> &all, Found found);

/// Orders by lists, under many priorities, best first. There are some if one
/// micro-batch fits every rank. Time: O(actions p) for each priority.
std::vector<Found> listOrders(const PipelineTask &task);

/// Moves actions on the critical path while that makes the step shorter, until
/// none does or orders have been timed `limit` times.
void improveOrders(const PipelineTask &task, Found &found, int64_t limit);

/// Makes one B of each I with its W after it where the step gets no longer.
void fuseBackwards(const PipelineTask &task, Found &found);

/// Looks for orders below `bound` seconds, by states that dominate each other.
/// `complete`: there are none but, perhaps, those returned, and none better.
struct SearchResult {
  Found found;
  bool complete = false;
};
SearchResult searchOrders(const PipelineTask &task, double bound,
                          int64_t stepLimit);

} // namespace mpcomm::pipeline

#endif // MPCOMM_LIB_SCHEDULING_PIPELINESCHEDULE_PIPELINEIMPL_H
