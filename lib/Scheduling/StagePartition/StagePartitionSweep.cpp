//===- StagePartitionSweep.cpp - partitions within bounds -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cost_b[j], the least cost of boundaries 1..b with the b-th at cut j, is
//
//   w[j] + min over i < j of cost_{b-1}[i] where stage [i, j) is in bounds.
//
// j goes up; a stack holds the cuts i that no later one beats for all j to
// come. Invariant: for each j the least cost of a cut that is in bounds is that
// of one on the stack, the newest first among equals. Proofs:
// docs/Design/StagePartition.md
//
//===----------------------------------------------------------------------===//

#include "StagePartition/StagePartitionSweep.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::stages;

bool CutWindows::empty() const {
  for (size_t b = 0; b < low.size(); ++b)
    if (low[b] > high[b])
      return true;
  return false;
}

Sweep::Sweep(const Line &line, std::vector<int64_t> inFlight, CutWindows given)
    : line(line), inFlight(std::move(inFlight)), given(std::move(given)) {}

/// The last x in [begin, end] with `holds`, which holds at `begin` and, where
/// it does not, nowhere after.
template <typename Predicate>
static int findLast(int begin, int end, Predicate holds) {
  while (begin < end) {
    int middle = end - (end - begin) / 2;
    if (holds(middle))
      begin = middle;
    else
      end = middle - 1;
  }
  return begin;
}

CutWindows Sweep::narrow(const Bounds &bounds, Ticks *nextTime) const {
  int n = line.n, p = numStages();
  // Stage s from cut i or before to cut j or after takes no less.
  auto getLeastTime = [&](int s, int i, int j) {
    Ticks before = s == 0 ? -line.compute[i] : line.leastBefore[i];
    return before + (s + 1 == p ? line.compute[j] : line.leastAfter[j]);
  };
  // Whether stage s could be so long; the less, the longer it is.
  auto fits = [&](int s, int i, int j) {
    if (getLeastTime(s, i, j) > bounds.time)
      return false;
    int inner = (s > 0) + (s + 1 < p);
    int64_t bytes = bounds.bytes[s] - inner * line.leastBuffer;
    Sum most = line.all[j] - line.all[i];
    if (most.parameter + inFlight[s] * most.activation <= bytes)
      return true;
    Sum least = line.first[j] - line.first[i];
    if (least.parameter + inFlight[s] * least.activation > bytes)
      return false;
    Sum exact = line.sum(i, j);
    return exact.parameter + inFlight[s] * exact.activation <= bytes;
  };
  // A longer time would let it reach further.
  auto note = [&](int s, int i, int j) {
    if (nextTime && i >= given.low[s] && j <= given.high[s + 1] &&
        getLeastTime(s, i, j) > bounds.time)
      *nextTime = std::min(*nextTime, getLeastTime(s, i, j));
  };
  CutWindows result = given;
  for (int s = 0, cut = 0; s < p; ++s) {
    int begin = cut;
    cut = findLast(begin, given.high[s + 1],
                   [&](int j) { return fits(s, begin, j); });
    note(s, begin, cut + 1);
    result.high[s + 1] = std::min(result.high[s + 1], cut);
    cut = result.high[s + 1];
  }
  for (int s = p - 1, cut = n; s >= 0; --s) {
    int end = cut;
    cut =
        -findLast(-end, -given.low[s], [&](int i) { return fits(s, -i, end); });
    note(s, cut - 1, end);
    result.low[s] = std::max(result.low[s], cut);
    cut = result.low[s];
  }
  return result;
}

/// A cut where the stage may begin.
struct Sweep::Candidate {
  int cut = 0;
  int64_t cost = 0;
  /// Whether a stage from here may need more bytes than there are.
  bool mayLackBytes = false;
  /// Of [cut, knownTo), if that is not -1.
  Sum known = {};
  int knownTo = -1;
};

/// The beginnings of one stage that may be wanted, oldest first.
class Sweep::Stack {
public:
  Stack(const Sweep &sweep, const Bounds &bounds, const CutWindows &windows,
        int stage, int64_t leastCost)
      : line(sweep.line), inFlight(sweep.inFlight[stage]), time(bounds.time),
        bytes(bounds.bytes[stage]), leastCost(leastCost),
        isLast(stage + 1 == sweep.numStages()), end(windows.high[stage + 1]),
        reach(windows.low[stage]) {
    mayLackBytes = needsMore(windows.low[stage], end);
  }

  /// A cut after all before it.
  void push(int cut, int64_t cost) {
    Candidate candidate = {cut, cost};
    if (mayLackBytes) {
      reach = std::max(reach, cut);
      while (reach < end && line.compute[reach + 1] - line.compute[cut] <= time)
        ++reach;
      candidate.mayLackBytes = needsMore(cut, reach);
    }
    // Drops what it beats, as far as it does not meet too many others.
    size_t k = candidates.size(), others = k;
    for (int count = 0; k > 0 && count < maxOthers; --k)
      if (!beats(candidate, candidates[k - 1])) {
        std::swap(candidates[k - 1], candidates[--others]);
        ++count;
      }
    // Now [k, others) are beaten, and the others follow in their order.
    candidates.erase(candidates.begin() + k, candidates.begin() + others);
    candidates.push_back(candidate);
  }

  /// The cheapest beginning of a stage that ends at `end`: its cut and cost,
  /// or -1. Forgets those that no later end suits.
  std::pair<int, int64_t> find(int end) {
    std::pair<int, int64_t> best = {-1, never};
    bool anyDead = false;
    for (size_t k = candidates.size(); k-- > 0;) {
      Candidate &candidate = candidates[k];
      if (candidate.cost >= best.second)
        continue;
      Fit fit = std::min(fitTime(candidate, end), fitBytes(candidate, end));
      if (fit == Fit::Now)
        best = {candidate.cut, candidate.cost};
      if (fit == Fit::Never) {
        candidate.cut = -1;
        anyDead = true;
      }
      if (best.second == leastCost)
        break;
    }
    if (anyDead)
      std::erase_if(candidates, [](const Candidate &c) { return c.cut < 0; });
    return best;
  }

private:
  enum class Fit { Never, Later, Now };
  static constexpr int maxOthers = 8;

  /// Whether a stage from `begin` to `last` may need more than `bytes`.
  bool needsMore(int begin, int last) const {
    int64_t most = bytes - 2 * line.mostBuffer;
    return weigh(line.all[last] - line.all[begin]) > most &&
           weigh(line.sum(begin, last)) > most;
  }

  /// Whether a stage from the candidate is, for all ends to come, no slower, no
  /// larger and no dearer than one from `old`, which lies before.
  bool beats(const Candidate &candidate, const Candidate &old) const {
    int cut = candidate.cut;
    if (candidate.cost > old.cost ||
        (candidate.mayLackBytes &&
         line.cuts[cut].buffer > line.cuts[old.cut].buffer))
      return false;
    Ticks saved = line.compute[cut] - line.compute[old.cut] +
                  line.cuts[old.cut].exposed - line.cuts[cut].exposed;
    if (saved < 0)
      return false;
    // Parameters that the longer stage could hold alone, and this one not.
    Ticks most = std::min((line.first[cut] - line.first[old.cut]).reduction,
                          line.tied[cut]);
    return most <= saved || line.leaving(old.cut, cut) <= saved;
  }

  Fit fitTime(Candidate &candidate, int end) {
    int begin = candidate.cut;
    Ticks ticks = line.cuts[begin].exposed - line.compute[begin];
    Ticks least = ticks + (isLast ? line.compute[end] : line.leastAfter[end]);
    if (least > time)
      return tooSlow(least, Fit::Never);
    ticks += line.compute[end] + line.cuts[end].exposed;
    if (ticks > time)
      return tooSlow(ticks, Fit::Later);
    if (!line.hasReductions() ||
        ticks + line.tied[begin] + line.tied[end] <= time)
      return Fit::Now;
    learn(candidate, end);
    ticks += line.reduction(begin, end, candidate.known.reduction);
    return ticks <= time ? Fit::Now : tooSlow(ticks, Fit::Later);
  }

  Fit tooSlow(Ticks ticks, Fit fit) {
    nextTime = std::min(nextTime, ticks);
    return fit;
  }

  Fit fitBytes(Candidate &candidate, int end) const {
    if (!candidate.mayLackBytes)
      return Fit::Now;
    int begin = candidate.cut;
    int64_t budget = bytes - line.cuts[begin].buffer - line.cuts[end].buffer;
    // All of a later end, at the cheapest cut.
    int64_t latest =
        bytes - line.cuts[begin].buffer - (isLast ? 0 : line.leastBuffer);
    bool isKnown = candidate.knownTo >= 0;
    Sum most = line.all[end] - line.all[isKnown ? candidate.knownTo : begin];
    if (weigh(most + candidate.known) <= budget)
      return Fit::Now;
    if (weigh(line.first[end] - line.first[begin]) > latest)
      return Fit::Never;
    learn(candidate, end);
    int64_t exact = weigh(candidate.known);
    return exact <= budget  ? Fit::Now
           : exact > latest ? Fit::Never
                            : Fit::Later;
  }

  int64_t weigh(const Sum &sum) const {
    return sum.parameter + inFlight * sum.activation;
  }

  void learn(Candidate &candidate, int end) const {
    if (candidate.knownTo == end)
      return;
    candidate.known = line.sum(candidate.cut, end);
    candidate.knownTo = end;
  }

  const Line &line;
  int64_t inFlight;
  Ticks time;
  int64_t bytes;
  /// No candidate costs less.
  int64_t leastCost;
  bool isLast;
  /// The last end of the stage; how far its newest beginning reaches in time.
  int end, reach;
  /// Whether any candidate may need more than `bytes`.
  bool mayLackBytes = false;
  std::vector<Candidate> candidates;

public:
  /// The least time of those that were too slow.
  Ticks nextTime = never;
};

Cuts Sweep::run(const Bounds &bounds, Ticks &nextTime) const {
  nextTime = never;
  return run(bounds, /*countBytes=*/false, nullptr, nullptr, never, &nextTime);
}

Cuts Sweep::runForBytes(const Bounds &bounds, Costs *costs, const Costs *rest,
                        int64_t most) const {
  return run(bounds, /*countBytes=*/true, costs, rest, most, nullptr);
}

Cuts Sweep::run(const Bounds &bounds, bool countBytes, Costs *costs,
                const Costs *rest, int64_t most, Ticks *nextTime) const {
  int n = line.n, p = numStages();
  CutWindows windows = narrow(bounds, nextTime);
  if (windows.empty())
    return {};
  std::vector<std::vector<int>> before(p + 1);
  Costs reached{windows.low, std::vector<std::vector<int64_t>>(p + 1)};
  reached.at[0] = {0};
  for (int s = 0; s < p; ++s) {
    std::vector<int64_t> &from = reached.at[s], &to = reached.at[s + 1];
    int low = windows.low[s + 1], high = windows.high[s + 1];
    to.assign(high - low + 1, never);
    before[s + 1].assign(high - low + 1, -1);
    int64_t leastCost = *std::min_element(from.begin(), from.end());
    if (leastCost == never)
      return {};
    Stack stack(*this, bounds, windows, s, leastCost);
    int begin = windows.low[s];
    for (int end = low; end <= high; ++end) {
      for (; begin < end && begin <= windows.high[s]; ++begin)
        if (from[begin - windows.low[s]] < never)
          stack.push(begin, from[begin - windows.low[s]]);
      if (line.cuts[end].link > bounds.time) {
        stack.nextTime = std::min(stack.nextTime, line.cuts[end].link);
        continue;
      }
      auto [best, cost] = stack.find(end);
      int64_t weight = countBytes ? line.cuts[end].bytes : 0;
      if (best < 0)
        continue;
      // `rest` counts the cut's own bytes too.
      if (rest && cost + rest->get(p - s - 1, n - end) > most)
        continue;
      to[end - low] = cost + weight;
      before[s + 1][end - low] = best;
    }
    if (nextTime)
      *nextTime = std::min(*nextTime, stack.nextTime);
    if (!costs && s > 0)
      from = {};
  }
  if (reached.get(p, n) == never)
    return {};
  Cuts cuts(p + 1, n);
  for (int b = p; b > 0; --b)
    cuts[b - 1] = before[b][cuts[b] - windows.low[b]];
  if (costs)
    *costs = std::move(reached);
  return cuts;
}
