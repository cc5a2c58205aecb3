//===- PipelineScheduling.cpp - the choice of a pipeline schedule ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times the schedules of the literature for every candidate, then looks for
// better orders where the lower bound leaves room: lists, small moves from the
// best of all these, and the search by states.
//
//===----------------------------------------------------------------------===//

#include "PipelineSchedule/PipelineImpl.h"
#include <algorithm>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::pipeline;

/// Relative; below it seconds count as equal.
static constexpr double margin = 1e-9;

PipelineSchedule PipelineCandidate::shape(int stages) const {
  PipelineSchedule shape;
  shape.stages = stages;
  shape.microbatches = microbatches;
  shape.placement = placement;
  return shape;
}

std::string PipelineProblem::check() const {
  for (size_t i = 0; i < candidates.size(); ++i) {
    const PipelineCandidate &candidate = candidates[i];
    PipelineSchedule shape = candidate.shape(stages);
    std::string error = shape.checkShape();
    if (error.empty())
      error = candidate.costs.check(shape.virtualStages(), stages);
    if (error.empty())
      error = candidate.memory.check(shape.virtualStages(), stages);
    if (!error.empty())
      return "candidate " + std::to_string(i) + ": " + error;
  }
  return candidates.empty() ? "expected at least one candidate" : "";
}

bool PipelineTask::fits(int rank,
                        const std::vector<PipelineAction> &order) const {
  int64_t now = memory.fixedOf(rank);
  if (now > memory.limit(rank))
    return false;
  for (const PipelineAction &action : order) {
    now += memory.change(action.kind, action.stage);
    if (now > memory.limit(rank))
      return false;
  }
  return true;
}

bool PipelineTask::fits(const Orders &orders) const {
  for (int rank = 0; rank < shape.stages; ++rank)
    if (!fits(rank, orders[rank]))
      return false;
  return true;
}

Paths::Paths(const PipelineTask &task) {
  int stages = task.shape.virtualStages();
  head.assign(stages, 0);
  turn = drain = rest = head;
  for (int s = 1; s < stages; ++s)
    head[s] = head[s - 1] + task.seconds(Kind::Forward, s - 1) +
              task.transfer(s - 1, false);
  turn.back() = head.back() + task.seconds(Kind::Forward, stages - 1);
  for (int s = stages - 1; s-- > 0;)
    turn[s] = turn[s + 1] + task.seconds(Kind::InputBackward, s + 1) +
              task.transfer(s, true);
  for (int s = 0; s < stages; ++s) {
    drain[s] = task.seconds(Kind::WeightBackward, s) +
               task.costs.afterOf(task.shape.rankOf(s));
    if (s > 0)
      drain[s] =
          std::max(drain[s], task.transfer(s - 1, true) +
                                 task.seconds(Kind::InputBackward, s - 1) +
                                 drain[s - 1]);
  }
  // A micro-batch's way from here to the end and back.
  for (int s = stages; s-- > 0;)
    rest[s] =
        task.seconds(Kind::Forward, s) +
        (s + 1 < stages ? task.transfer(s, false) + rest[s + 1]
                        : task.seconds(Kind::InputBackward, s) + drain[s]);
}

double PipelineProblem::lowerBound(const PipelineCandidate &candidate) const {
  PipelineTask task(candidate.shape(stages), candidate.costs, candidate.memory);
  Paths paths(task);
  double bound = 0, m = candidate.microbatches;
  for (int rank = 0; rank < stages; ++rank) {
    double first = never, drain = never, work = 0, weights = 0, area = 0;
    for (int s : task.stagesOf[rank]) {
      double forward = m * task.seconds(Kind::Forward, s);
      double input = m * task.seconds(Kind::InputBackward, s);
      first = std::min(first, paths.head[s]);
      drain = std::min(drain, paths.drain[s]);
      work += forward + input;
      double weight = task.seconds(Kind::WeightBackward, s);
      weights += m * weight;
      area += m * (double(task.memory.activation(s)) *
                       (paths.turn[s] - paths.head[s] +
                        task.seconds(Kind::InputBackward, s)) +
                   double(task.memory.heldOf(s)) * weight);
      // A stage's F and I; its I after the way there and back; transfers.
      bound = std::max({bound, paths.head[s] + forward + input + paths.drain[s],
                        paths.turn[s] + input + paths.drain[s]});
      if (s + 1 == task.shape.virtualStages())
        continue;
      bound = std::max(
          {bound,
           paths.head[s] + task.seconds(Kind::Forward, s) +
               m * task.transfer(s, false) + paths.rest[s + 1],
           paths.turn[s + 1] + task.seconds(Kind::InputBackward, s + 1) +
               m * task.transfer(s, true) +
               task.seconds(Kind::InputBackward, s) + paths.drain[s]});
    }
    bound = std::max({bound, first + work + drain,
                      first + work + weights + task.costs.afterOf(rank)});
    // Activations times seconds: no more than there is room for.
    int64_t room = task.memory.limit(rank) - task.memory.fixedOf(rank);
    if (room > 0)
      bound = std::max(bound,
                       first + area / double(room) + task.costs.afterOf(rank));
  }
  return bound;
}

namespace {
class Chooser {
public:
  Chooser(const PipelineProblem &problem, const PipelineOptions &options)
      : problem(problem), options(options) {}
  PipelineChoice run();

private:
  struct Best {
    int candidate = -1;
    std::string name;
    Orders orders;
    double seconds = never;
    int64_t peak = 0;
  };
  PipelineTask taskOf(int candidate) const {
    const PipelineCandidate &is = problem.candidates[candidate];
    return {is.shape(problem.stages), is.costs, is.memory};
  }
  void timeLiterature(int candidate);
  void search(int candidate);
  void offer(int candidate, const std::string &name, const Orders &orders,
             double seconds);
  std::string explainFailure() const;

  const PipelineProblem &problem;
  const PipelineOptions &options;
  PipelineChoice choice;
  Best best;
  /// By candidate: its schedules of the literature that fit; its lower bound;
  /// whether the search has seen all.
  std::vector<std::vector<Found>> starts;
  std::vector<double> bounds;
  std::vector<bool> complete;
};
} // namespace

/// Takes the orders if they are better than the best so far.
void Chooser::offer(int candidate, const std::string &name,
                    const Orders &orders, double seconds) {
  PipelineSchedule schedule =
      problem.candidates[candidate].shape(problem.stages);
  schedule.ranks = orders;
  PipelineChoice::Baseline baseline = {candidate, name, seconds, {}, ""};
  baseline.peaks = schedule.peaks(problem.candidates[candidate].memory);
  baseline.error = schedule.verify(problem.candidates[candidate].memory);
  choice.baselines.push_back(baseline);
  if (!baseline.error.empty())
    return;
  int64_t peak =
      *std::max_element(baseline.peaks.begin(), baseline.peaks.end());
  bool equal = seconds <= best.seconds * (1 + margin) &&
               seconds >= best.seconds * (1 - margin);
  if (best.candidate < 0 ||
      (equal ? name != "searched" && peak < best.peak : seconds < best.seconds))
    best = {candidate, name, orders, seconds, peak};
}

void Chooser::timeLiterature(int candidate) {
  PipelineTask task = taskOf(candidate);
  const PipelineSchedule &shape = task.shape;
  Clock clock(shape, task.costs);
  for (PipelineKind kind :
       {PipelineKind::GPipe, PipelineKind::OneFOneB, PipelineKind::Interleaved,
        PipelineKind::ZBH1, PipelineKind::ZBV}) {
    PipelineScheduleOr made = makePipelineSchedule(
        kind, shape.stages, shape.microbatches, shape.placement);
    if (!made.error.empty())
      continue;
    Found found = {made.schedule.ranks, clock.run(made.schedule.ranks)};
    offer(candidate, pipelineKindName(kind), found.orders, found.seconds);
    if (task.fits(found.orders))
      insertBySeconds(starts[candidate], std::move(found));
  }
}

void Chooser::search(int candidate) {
  PipelineTask task = taskOf(candidate);
  std::vector<Found> &from = starts[candidate];
  for (Found &found : listOrders(task))
    insertBySeconds(from, std::move(found));
  if (from.empty())
    return;
  // The search is exact where it is; so it goes first, from what is known.
  Found reached = from.front();
  auto isBetter = [&](const Found &found) {
    return found.seconds < reached.seconds;
  };
  double known = std::min(best.seconds, reached.seconds);
  SearchResult result =
      searchOrders(task, known * (1 - margin), options.stepLimit);
  complete[candidate] = result.complete;
  if (result.found.seconds < never)
    from.insert(from.begin(), std::move(result.found));
  int64_t actions =
      int64_t(3) * task.shape.virtualStages() * task.shape.microbatches;
  constexpr size_t most = 4;
  from.resize(std::min(from.size(), most));
  for (Found &found : from) {
    if (!result.complete)
      improveOrders(task, found,
                    options.improveLimit / int64_t(most) / actions);
    if (isBetter(found))
      reached = found;
  }
  fuseBackwards(task, reached);
  offer(candidate, "searched", reached.orders, reached.seconds);
}

std::string Chooser::explainFailure() const {
  for (int candidate = 0; candidate < int(problem.candidates.size());
       ++candidate) {
    PipelineTask task = taskOf(candidate);
    for (int rank = 0; rank < problem.stages; ++rank) {
      int64_t bytes = task.memory.fixedOf(rank);
      for (int stage : task.stagesOf[rank])
        bytes += task.memory.activation(stage);
      if (bytes > task.memory.limit(rank))
        return "no candidate fits the memory: rank " + std::to_string(rank) +
               " needs " + std::to_string(bytes) +
               " for one micro-batch of candidate " +
               std::to_string(candidate) + ", expected at most " +
               std::to_string(task.memory.limit(rank));
    }
  }
  return "no schedule of the literature fits the memory, and none is searched";
}

PipelineChoice Chooser::run() {
  choice.error = problem.check();
  if (!choice.error.empty())
    return std::move(choice);
  int count = int(problem.candidates.size());
  starts.resize(count);
  complete.assign(count, false);
  for (int candidate = 0; candidate < count; ++candidate) {
    bounds.push_back(problem.lowerBound(problem.candidates[candidate]));
    timeLiterature(candidate);
  }
  std::vector<int> order(count);
  for (int i = 0; i < count; ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](int x, int y) {
    return std::tie(bounds[x], x) < std::tie(bounds[y], y);
  });
  auto isOpen = [&](int candidate) {
    return bounds[candidate] < best.seconds * (1 - margin);
  };
  for (int candidate : order)
    if (options.search && isOpen(candidate))
      search(candidate);
  if (best.candidate < 0) {
    choice.error = explainFailure();
    return std::move(choice);
  }
  choice.candidate = best.candidate;
  choice.name = best.name;
  choice.schedule = taskOf(best.candidate).shape;
  choice.schedule.ranks = best.orders;
  const PipelineCandidate &is = problem.candidates[best.candidate];
  choice.timing = timePipeline(choice.schedule, is.costs, is.memory);
  choice.lowerBound = never;
  choice.proven = true;
  for (int candidate = 0; candidate < count; ++candidate) {
    bool closed = complete[candidate] || !isOpen(candidate);
    choice.proven &= closed;
    choice.lowerBound =
        std::min(choice.lowerBound,
                 complete[candidate] ? best.seconds : bounds[candidate]);
  }
  choice.lowerBound = std::min(choice.lowerBound, best.seconds);
  return std::move(choice);
}

PipelineChoice mpcomm::choosePipelineSchedule(const PipelineProblem &problem,
                                              const PipelineOptions &options) {
  return Chooser(problem, options).run();
}
