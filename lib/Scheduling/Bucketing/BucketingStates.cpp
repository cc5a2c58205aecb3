//===- BucketingStates.cpp - buckets of several lines, or under a bound ---===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state says how many items of each line are done; a label of a state is a
// way to get there. What is left to do, and the limit of the next run, depend
// on the state alone; what a way has to offer is its finish, the number of its
// runs and the bytes it keeps alive from then on. A label that is no better in
// any of them than another of its state is dropped.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include <algorithm>
#include <tuple>

using namespace mpcomm;
using namespace mpcomm::bucketing;

static constexpr double never = BucketingProblem::never;
/// Labels kept at a state. With more the search is not exact any more.
static constexpr int maxLabels = 64;

namespace {

struct Label {
  double finish;
  int32_t count;  // runs so far
  int32_t parent; // a label
  int32_t next;   // of its state
  BucketRun run;  // the last
};

/// The search for one end.
class Search {
public:
  Search(const StreamProblem &stream, bool countRuns)
      : stream(stream), countRuns(countRuns),
        bounded(stream.memoryBytes != BucketingProblem::unlimited) {
    int64_t numStates = 1;
    for (const Line &line : stream.lines) {
      strides.push_back(numStates);
      numStates *= line.size() + 1;
    }
    head.resize(numStates);
  }

  /// Whether all items can be done by `end`. With countRuns, the runs are the
  /// fewest.
  bool run(double end);
  std::vector<BucketRun> trace() const;
  double finish() const { return labels[best()].finish; }

  /// What run() found besides: the least larger end with which it would have
  /// gone another way; whether it is exact; whether it gave up.
  double needed = never;
  bool exact = true;
  bool stopped = false;

private:
  int32_t best() const;
  void extend(int32_t label, int64_t state, double limit, double end,
              double work);
  void insert(int64_t state, const Label &label);
  bool dominates(const Label &x, const Label &y, double from) const;
  bool keepsBound(int32_t parent, const BucketRun &run, double finish) const;
  int64_t alive(const Label &label, double time) const;
  double openOf(const BucketRun &run) const {
    return stream.lines[run.line].open[run.from];
  }
  int64_t bytesOf(const BucketRun &run) const {
    const Line &line = stream.lines[run.line];
    return line.bytesBefore[run.to] - line.bytesBefore[run.from];
  }

  const StreamProblem &stream;
  bool countRuns, bounded;
  std::vector<int64_t> strides;
  std::vector<int32_t> head; // the first label of each state
  std::vector<int32_t> at;   // items done, by line, of the present state
  std::vector<Label> labels;
  int64_t steps = 0;
};

} // namespace

/// Bytes alive at `time` of the runs up to that of `label`.
int64_t Search::alive(const Label &label, double time) const {
  int64_t bytes = 0;
  // Finishes do not increase towards the first run.
  for (const Label *at = &label; at->count > 0 && at->finish > time;
       at = &labels[at->parent])
    if (openOf(at->run) <= time)
      bytes += bytesOf(at->run);
  return bytes;
}

/// Whether a run after those of `parent` stays within the memory bound, at its
/// opening and whenever one before it opens later.
bool Search::keepsBound(int32_t parent, const BucketRun &run,
                        double finish) const {
  double open = openOf(run);
  if (finish <= open)
    return true;
  int64_t room = stream.memoryBytes - bytesOf(run);
  if (alive(labels[parent], open) > room)
    return false;
  for (const Label *at = &labels[parent]; at->count > 0 && at->finish > open;
       at = &labels[at->parent])
    if (double other = openOf(at->run);
        other > open && other < finish && alive(labels[parent], other) > room)
      return false;
  return true;
}

/// Whether x is at least as good as y whatever follows, which opens at `from`
/// or later.
bool Search::dominates(const Label &x, const Label &y, double from) const {
  if (x.finish > y.finish || (countRuns && x.count > y.count))
    return false;
  if (!bounded)
    return true;
  // x keeps more alive only just after it has opened, or y let go of, a run.
  if (alive(x, from) > alive(y, from))
    return false;
  for (const Label *at = &x; at->count > 0 && at->finish > from;
       at = &labels[at->parent])
    if (double open = openOf(at->run);
        open > from && alive(x, open) > alive(y, open))
      return false;
  for (const Label *at = &y; at->count > 0 && at->finish > from;
       at = &labels[at->parent])
    if (alive(x, at->finish) > alive(y, at->finish))
      return false;
  return true;
}

void Search::insert(int64_t state, const Label &label) {
  double from = never; // the next opening
  if (bounded) {
    for (size_t l = 0; l < stream.lines.size(); ++l) {
      int64_t done = state / strides[l] % (stream.lines[l].size() + 1);
      if (done < stream.lines[l].size())
        from = std::min(from, stream.lines[l].open[done]);
    }
  }
  int kept = 0;
  int32_t *worst = nullptr;
  for (int32_t *link = &head[state]; *link >= 0;) {
    const Label &other = labels[*link];
    if (dominates(other, label, from))
      return;
    if (dominates(label, other, from)) {
      *link = other.next;
      continue;
    }
    if (!worst || other.finish > labels[*worst].finish)
      worst = link;
    ++kept;
    link = &labels[*link].next;
  }
  if (kept == maxLabels) {
    exact = false;
    if (labels[*worst].finish <= label.finish)
      return;
    *worst = labels[*worst].next;
  }
  labels.push_back(label);
  labels.back().next = head[state];
  head[state] = static_cast<int32_t>(labels.size() - 1);
}

void Search::extend(int32_t parent, int64_t state, double limit, double end,
                    double work) {
  for (size_t l = 0; l < stream.lines.size(); ++l) {
    const Line &line = stream.lines[l];
    BucketRun run = {static_cast<int32_t>(l), at[l], 0};
    for (int32_t to = at[l] + 1; to <= line.size(); ++to) {
      ++steps;
      run.to = to;
      int64_t bytes = line.bytesBefore[to] - line.bytesBefore[run.from];
      if (bytes > stream.capBytes && to > run.from + 1)
        break;
      double finish = std::max(labels[parent].finish, line.ready[to - 1]) +
                      line.cost->at(bytes);
      // All of these only grow with `to`.
      if (finish > limit) {
        double more = stream.endOf(finish, work);
        if (more > end)
          needed = std::min(needed, more);
        break;
      }
      if (bounded && !keepsBound(parent, run, finish))
        break;
      insert(state + (to - at[l]) * strides[l],
             {finish, labels[parent].count + 1, parent, -1, run});
    }
  }
}

bool Search::run(double end) {
  std::fill(head.begin(), head.end(), -1);
  labels.assign(1, {stream.free, 0, -1, -1, {}});
  head[0] = 0;
  needed = never;
  exact = true;
  stopped = false;
  steps = 0;
  at.assign(stream.lines.size(), 0);
  // A run leads to a state of a larger number.
  for (int64_t state = 0; state < static_cast<int64_t>(head.size()); ++state) {
    double deadline = never, work = 0;
    for (size_t l = 0; l < at.size(); ++l) {
      deadline = std::min(deadline, stream.lines[l].deadline[at[l]]);
      work += stream.lines[l].work[at[l]];
    }
    double limit = std::min(deadline, stream.latestFinish(end, work));
    if (state + 1 < static_cast<int64_t>(head.size()))
      for (int32_t label = head[state]; label >= 0; label = labels[label].next)
        extend(label, state, limit, end, work);
    if (steps > 4 * stream.stepLimit ||
        labels.size() > size_t(std::numeric_limits<int32_t>::max()) / 2) {
      stopped = true;
      return false;
    }
    for (size_t l = 0; l < at.size() && ++at[l] > stream.lines[l].size(); ++l)
      at[l] = 0;
  }
  return head.back() >= 0;
}

int32_t Search::best() const {
  auto before = [&](const Label &x, const Label &y) {
    return countRuns ? std::tie(x.count, x.finish) < std::tie(y.count, y.finish)
                     : x.finish < y.finish;
  };
  int32_t best = head.back();
  for (int32_t label = best; label >= 0; label = labels[label].next)
    if (before(labels[label], labels[best]))
      best = label;
  return best;
}

std::vector<BucketRun> Search::trace() const {
  std::vector<BucketRun> runs;
  for (int32_t at = best(); labels[at].count > 0; at = labels[at].parent)
    runs.push_back(labels[at].run);
  std::reverse(runs.begin(), runs.end());
  return runs;
}

StreamPlan bucketing::solveStates(const StreamProblem &stream) {
  StreamPlan plan;
  Search search(stream, /*countRuns=*/false);
  bool feasible = search.run(never);
  plan.exact = search.exact && !search.stopped;
  if (!feasible)
    return plan;
  plan.feasible = true;
  plan.runs = search.trace();
  plan.value = stream.value(plan.runs);
  double low = plan.exact
                   ? std::max(stream.floor, stream.endOf(search.finish(), 0))
                   : stream.floor;
  plan.bound = searchEnd(plan, low, stream.tolerance,
                         [&](double end, std::vector<BucketRun> &runs,
                             double &value, double &needed) {
                           bool found = search.run(end);
                           if (search.stopped)
                             return Attempt::GaveUp;
                           plan.exact &= search.exact;
                           needed = search.needed;
                           if (!found)
                             return Attempt::Missed;
                           runs = search.trace();
                           value = stream.value(runs);
                           return Attempt::Found;
                         });
  if (!plan.exact)
    plan.bound = stream.floor;
  return plan;
}

std::vector<BucketRun>
bucketing::fewestByStates(const StreamProblem &stream, double end,
                          const std::vector<BucketRun> &known) {
  Search search(stream, /*countRuns=*/true);
  if (!search.run(end))
    return {};
  std::vector<BucketRun> runs = search.trace();
  return runs.size() < known.size() ? runs : std::vector<BucketRun>();
}
