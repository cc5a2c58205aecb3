//===- BucketingLine.cpp - the exact buckets of one line ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The recurrence of Bucketing.h with a limit for each boundary: a run from
// boundary j must finish by limit[j]. f is nondecreasing, so boundaries split
// into those with f[j] < ready_i ("idle": the stream waits for item i, and the
// last of them is best) and those with f[j] >= ready_i ("busy": the least
// f[j] - secondsPerByte S_j is best, the front of a monotone queue for each
// cost piece). Limits are nondecreasing too, and what has missed one misses it
// for every later i. Proofs: docs/Design/Bucketing.md.
//
//===----------------------------------------------------------------------===//

#include "Bucketing/BucketingDetail.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::bucketing;

static constexpr double never = BucketingProblem::never;

namespace {

/// Boundaries j in increasing order, with increasing f[j] - secondsPerByte S_j.
struct MonotoneQueue {
  explicit MonotoneQueue(const CostLine &piece) : piece(piece) {}
  CostLine piece;
  std::vector<int32_t> boundary;
  std::vector<double> key;
  size_t head = 0;

  void clear() {
    boundary.clear();
    key.clear();
    head = 0;
  }
  bool empty() const { return head == boundary.size(); }
  void push(int32_t j, double f, int64_t bytesBefore) {
    double value = f - piece.secondsPerByte * static_cast<double>(bytesBefore);
    while (!empty() && key.back() >= value) {
      key.pop_back();
      boundary.pop_back();
    }
    key.push_back(value);
    boundary.push_back(j);
  }
};

/// The recurrence, kept to be run with one limit after the other.
class Recurrence {
public:
  Recurrence(const Line &line, int64_t capBytes)
      : line(line), capBytes(capBytes), from(line.size() + 1, 0) {
    for (const CostLine &piece : line.cost->pieces)
      queues.emplace_back(piece);
  }

  /// Computes the least finish[i], i > 0, from the least times start[j] at
  /// which the stream is free after j items: where the two are one array, for
  /// any number of runs; else for one run more than `start` has. Returns the
  /// number of items that can be done in time. `missed(j, finish)` is told of
  /// runs from boundary j that did not make limit(j).
  template <typename LimitFn, typename MissedFn>
  int32_t run(const std::vector<double> &start, std::vector<double> &finish,
              LimitFn limit, MissedFn missed);

  /// The runs of the last run() with start == finish.
  std::vector<BucketRun> trace() const {
    std::vector<BucketRun> runs;
    for (int32_t to = line.size(); to > 0; to = from[to])
      runs.push_back({0, from[to], to});
    std::reverse(runs.begin(), runs.end());
    return runs;
  }

  std::vector<int32_t> &previous() { return from; }

private:
  bool fits(int32_t j, int32_t i) const {
    return line.bytesBefore[i] - line.bytesBefore[j] <= capBytes || j == i - 1;
  }

  const Line &line;
  int64_t capBytes;
  std::vector<int32_t> from;
  std::vector<MonotoneQueue> queues;
};

} // namespace

template <typename LimitFn, typename MissedFn>
int32_t Recurrence::run(const std::vector<double> &start,
                        std::vector<double> &finish, LimitFn limit,
                        MissedFn missed) {
  for (MonotoneQueue &queue : queues)
    queue.clear();
  const std::vector<int64_t> &S = line.bytesBefore;
  int32_t idle = -1; // the last boundary with start[j] < ready of item i
  for (int32_t i = 1; i <= line.size(); ++i) {
    double ready = line.ready[i - 1];
    while (idle + 1 < i && start[idle + 1] < ready)
      ++idle;
    double best = never;
    int32_t bestFrom = -1;
    auto consider = [&](int32_t j, double value) {
      if (value > limit(j)) {
        missed(j, value);
        return false;
      }
      if (value < best) {
        best = value;
        bestFrom = j;
      }
      return true;
    };
    for (MonotoneQueue &queue : queues) {
      if (start[i - 1] < never)
        queue.push(i - 1, start[i - 1], S[i - 1]);
      while (!queue.empty()) {
        int32_t j = queue.boundary[queue.head];
        if (j > idle && fits(j, i) &&
            consider(j, start[j] + queue.piece.at(S[i] - S[j])))
          break;
        ++queue.head;
      }
      if (idle >= 0 && fits(idle, i))
        consider(idle, ready + queue.piece.at(S[i] - S[idle]));
    }
    finish[i] = best;
    from[i] = bestFrom;
    // What cannot be done in time with i items cannot with more.
    if (best == never && &start == &finish)
      return i - 1;
  }
  return line.size();
}

std::vector<double> bucketing::earliestFinishes(const Line &line, double free,
                                                int64_t capBytes) {
  std::vector<double> f(line.size() + 1, free);
  Recurrence(line, capBytes)
      .run(f, f, [](int32_t) { return never; }, [](int32_t, double) {});
  return f;
}

StreamPlan bucketing::solveLine(const StreamProblem &stream) {
  const Line &line = stream.lines.front();
  auto work = [&](int32_t j) { return stream.stepEnd ? line.work[j] : 0.0; };
  std::vector<double> f(line.size() + 1, stream.free), limit(line.size() + 1);
  Recurrence recurrence(line, stream.capBytes);
  StreamPlan plan;
  int32_t done = recurrence.run(
      f, f, [&](int32_t j) { return line.deadline[j]; },
      [](int32_t, double) {});
  if (done < line.size())
    return plan;
  plan.feasible = true;
  plan.runs = recurrence.trace();
  plan.value = stream.value(plan.runs);

  // The run with item j finishes at f[j + 1] or later, and the work from item j
  // on comes after it.
  double low = stream.floor;
  for (int32_t j = 0; j < line.size(); ++j)
    low = std::max(low, stream.endOf(f[j + 1], work(j)));

  plan.bound = searchEnd(
      plan, low, stream.tolerance,
      [&](double end, std::vector<BucketRun> &runs, double &value,
          double &needed) {
        for (int32_t j = 0; j < line.size(); ++j)
          limit[j] =
              std::min(line.deadline[j], stream.latestFinish(end, work(j)));
        done = recurrence.run(
            f, f, [&](int32_t j) { return limit[j]; },
            [&](int32_t j, double finish) {
              if (finish <= line.deadline[j])
                needed = std::min(needed, stream.endOf(finish, work(j)));
            });
        if (done < line.size())
          return Attempt::Missed;
        runs = recurrence.trace();
        value = stream.value(runs);
        return Attempt::Found;
      });
  return plan;
}

std::vector<BucketRun>
bucketing::fewestOnLine(const StreamProblem &stream, double end,
                        const std::vector<BucketRun> &known) {
  const Line &line = stream.lines.front();
  int64_t steps = int64_t(line.size()) * int64_t(line.cost->pieces.size());
  if (known.empty() || steps > stream.stepLimit / int64_t(known.size()))
    return {};
  std::vector<double> limit(line.deadline);
  for (int32_t j = 0; j < line.size(); ++j)
    limit[j] = std::min(
        limit[j], stream.latestFinish(end, stream.stepEnd ? line.work[j] : 0));
  Recurrence recurrence(line, stream.capBytes);
  // Least finishes with at most one run, two runs, … until all items are done
  // in time.
  std::vector<double> start(line.size() + 1, never), finish(start);
  start[0] = finish[0] = stream.free;
  std::vector<std::vector<int32_t>> previous;
  for (size_t count = 1; count < known.size(); ++count) {
    recurrence.run(
        start, finish, [&](int32_t j) { return limit[j]; },
        [](int32_t, double) {});
    previous.push_back(recurrence.previous());
    if (finish.back() < never) {
      std::vector<BucketRun> runs;
      for (int32_t to = line.size(); to > 0; to = runs.back().from)
        runs.push_back({0, previous[--count][to], to});
      std::reverse(runs.begin(), runs.end());
      return runs;
    }
    std::swap(start, finish);
  }
  return {};
}
