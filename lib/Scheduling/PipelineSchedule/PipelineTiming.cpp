//===- PipelineTiming.cpp - when a schedule's actions run -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times follow from the orders: an action starts when the one before it on its
// rank has ended and what it needs has arrived. So ranks are advanced as far as
// they go, one after the other; whose message arrives is looked at again. Each
// action runs once, and which rank comes first makes no difference.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::pipeline;

Clock::Clock(const PipelineSchedule &shape, const PipelineCosts &costs)
    : shape(shape), costs(costs) {}

double Clock::run(const Orders &ranks) {
  int virtualStages = shape.virtualStages(), m = shape.microbatches;
  size_t count = size_t(virtualStages) * m;
  for (std::vector<double> *by : {&inputs, &gradients, &forwards, &backwards})
    by->assign(count, -1);
  std::fill_n(inputs.begin(), m, 0.0);
  channelFree.assign(2 * size_t(virtualStages), 0);
  times.resize(ranks.size());
  done.assign(ranks.size(), 0);
  std::vector<int> ready;
  for (int rank = int(ranks.size()); rank-- > 0;) {
    times[rank].resize(ranks[rank].size());
    ready.push_back(rank);
  }

  // The message from `stage` on its edge, made at `end`.
  auto send = [&](int stage, int microbatch, bool backward, double end) {
    int to = backward ? stage - 1 : stage + 1;
    if (to < 0 || to == virtualStages)
      return;
    int edge = std::min(stage, to);
    if (!shape.isLocal(edge)) {
      double &free = channelFree[backward * size_t(virtualStages) + edge];
      end = free = std::max(end, free) + costs.transfer(edge, backward);
    }
    (backward ? gradients : inputs)[size_t(to) * m + microbatch] = end;
    ready.push_back(shape.rankOf(to));
  };
  auto advance = [&](int rank) {
    const std::vector<PipelineAction> &order = ranks[rank];
    int &next = done[rank];
    double free = next ? times[rank][next - 1].end : 0;
    for (; next < int(order.size()); ++next) {
      const PipelineAction &action = order[next];
      int stage = action.stage;
      size_t index = size_t(stage) * m + action.microbatch;
      bool forward = action.kind == Kind::Forward;
      double needed = forward                               ? inputs[index]
                      : action.kind == Kind::WeightBackward ? backwards[index]
                                                            : forwards[index];
      if (needed >= 0 && needOf(action.kind, stage, virtualStages).backward)
        needed = gradients[index] < 0 ? -1 : std::max(needed, gradients[index]);
      if (needed < 0)
        return;
      double start = std::max(free, needed);
      free = start + costs.seconds(action.kind, stage);
      times[rank][next] = {start, free};
      if (action.kind == Kind::WeightBackward)
        continue;
      (forward ? forwards : backwards)[index] = free;
      send(stage, action.microbatch, !forward, free);
    }
  };
  while (!ready.empty()) {
    int rank = ready.back();
    ready.pop_back();
    advance(rank);
  }

  double seconds = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (done[rank] < int(ranks[rank].size()))
      return never;
    double end = times[rank].empty() ? 0 : times[rank].back().end;
    seconds = std::max(seconds, end + costs.afterOf(int(rank)));
  }
  return seconds;
}

PipelineTiming mpcomm::timePipeline(const PipelineSchedule &schedule,
                                    const PipelineCosts &costs,
                                    const PipelineMemory &memory) {
  PipelineTiming timing;
  timing.error = schedule.verify();
  if (timing.error.empty())
    timing.error = costs.check(schedule.virtualStages(), schedule.stages);
  if (timing.error.empty())
    timing.error = memory.check(schedule.virtualStages(), schedule.stages);
  if (!timing.error.empty())
    return timing;
  Clock clock(schedule, costs);
  timing.seconds = clock.run(schedule.ranks);
  double busy = 0;
  for (int rank = 0; rank < schedule.stages; ++rank) {
    const std::vector<PipelineTiming::Interval> &times = clock.times[rank];
    timing.computeEnd = std::max(timing.computeEnd, times.back().end);
    timing.span = std::max(timing.span, times.back().end - times.front().start);
    double &sum = timing.busy.emplace_back(0);
    for (const PipelineAction &action : schedule.ranks[rank])
      sum += costs.seconds(action.kind, action.stage);
    busy += sum;
  }
  auto idleShare = [&](double seconds) {
    return seconds > 0 ? 1 - busy / (schedule.stages * seconds) : 0;
  };
  timing.bubbleShare = idleShare(timing.computeEnd);
  timing.spanBubbleShare = idleShare(timing.span);
  timing.peaks = schedule.peaks(memory);
  timing.actions = std::move(clock.times);
  return timing;
}
