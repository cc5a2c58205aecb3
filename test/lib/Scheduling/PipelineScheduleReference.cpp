//===- PipelineScheduleReference.cpp - the best pipeline schedule by trying all
//===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The twin of choosePipelineSchedule(). It shares the clock with it, and
// nothing else: every order of every rank is put together with every order of
// the others.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include "References.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::pipeline;

/// Appends all ways to go on with a rank's order in which each stage's F, I and
/// W come in the order of micro-batches, F before I before W, and memory is
/// kept. `done`: by stage and kind.
static void enumerate(const PipelineTask &task, int rank, int64_t bytes,
                      std::vector<int> &done,
                      std::vector<PipelineAction> &order, Orders &all) {
  constexpr Kind kinds[] = {Kind::Forward, Kind::InputBackward,
                            Kind::WeightBackward};
  int m = task.shape.microbatches;
  if (order.size() == 3 * m * task.stagesOf[rank].size())
    all.push_back(order);
  for (int stage : task.stagesOf[rank])
    for (int kind = 0; kind < 3; ++kind) {
      int &count = done[3 * stage + kind];
      if (count == m || (kind > 0 && count == done[3 * stage + kind - 1]))
        continue;
      int64_t then = bytes + task.memory.change(kinds[kind], stage);
      if (then > task.memory.limit(rank))
        continue;
      order.push_back({kinds[kind], count++, stage});
      enumerate(task, rank, then, done, order, all);
      --count;
      order.pop_back();
    }
}

PipelineChoice
mpcomm::choosePipelineScheduleReference(const PipelineProblem &problem) {
  PipelineChoice choice;
  choice.error = problem.check();
  if (!choice.error.empty())
    return choice;
  double best = never;
  for (size_t c = 0; c < problem.candidates.size(); ++c) {
    const PipelineCandidate &is = problem.candidates[c];
    PipelineTask task(is.shape(problem.stages), is.costs, is.memory);
    std::vector<Orders> of(problem.stages);
    bool any = true;
    for (int rank = 0; rank < problem.stages; ++rank) {
      std::vector<int> done(3 * is.placement.size());
      std::vector<PipelineAction> order;
      int64_t fixed = is.memory.fixedOf(rank);
      if (fixed <= is.memory.limit(rank))
        enumerate(task, rank, fixed, done, order, of[rank]);
      any &= !of[rank].empty();
    }
    Clock clock(task.shape, is.costs);
    Orders orders(problem.stages);
    std::vector<size_t> index(problem.stages, 0);
    while (any) {
      for (int rank = 0; rank < problem.stages; ++rank)
        orders[rank] = of[rank][index[rank]];
      double seconds = clock.run(orders);
      if (seconds < best) {
        best = seconds;
        choice.candidate = int(c);
        choice.schedule = task.shape;
        choice.schedule.ranks = orders;
      }
      int rank = 0;
      while (rank < problem.stages && ++index[rank] == of[rank].size())
        index[rank++] = 0;
      any = rank < problem.stages;
    }
  }
  if (choice.candidate < 0) {
    choice.error = "no order of any candidate fits the memory";
    return choice;
  }
  const PipelineCandidate &is = problem.candidates[choice.candidate];
  choice.name = "searched";
  choice.timing = timePipeline(choice.schedule, is.costs, is.memory);
  choice.lowerBound = best;
  choice.proven = true;
  return choice;
}
