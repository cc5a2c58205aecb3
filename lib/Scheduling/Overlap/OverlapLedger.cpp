//===- OverlapLedger.cpp - memory promised to the rest of a step ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Taking the step at position p early changes the bytes at positions before p
// that are still to come, and no others: what it makes lives there already,
// and what dies with it lives no longer than its last other death.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapLedger.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::overlap;

/// Below any sum of sizes: the mark of a position that is taken.
static constexpr int64_t gone = std::numeric_limits<int64_t>::min() / 4;

/// Whether all values together stay within the bound.
static bool isAlwaysMet(const StepGraph &graph, int64_t bound) {
  if (bound == std::numeric_limits<int64_t>::max())
    return true;
  int64_t left = bound - graph.staticBytes;
  for (const auto &value : graph.values) {
    if (value.bytes > left)
      return false;
    left -= value.bytes;
  }
  return left >= 0;
}

Ledger::Ledger(const StepGraph &graph, const std::vector<OverlapStep> &steps,
               int64_t bound)
    : graph(graph), bound(bound), live(graph.staticBytes),
      isMet(isAlwaysMet(graph, bound)),
      positions(2 * graph.problem.nodes.size(), -1) {
  for (const OverlapStep &step : steps) {
    positions[graph.numberOf(step)] = int(base.size());
    base.push_back(graph.numberOf(step));
  }
  if (isMet)
    return;
  deaths.resize(graph.values.size());
  for (size_t v = 0; v < deaths.size(); ++v) {
    for (int step : graph.values[v].deaths)
      deaths[v].push_back(positions[step]);
    std::sort(deaths[v].begin(), deaths[v].end());
  }
  while (size < int(base.size()))
    size *= 2;
  most.assign(2 * size, gone);
  added.assign(2 * size, 0);
  int64_t bytes = live;
  for (size_t p = 0; p < base.size(); ++p) {
    for (int v : graph.births[base[p]])
      bytes += graph.values[v].bytes;
    most[size + p] = bytes;
    for (int v : graph.deaths[base[p]])
      if (deaths[v].back() == int(p))
        bytes -= graph.values[v].bytes;
  }
  for (int node = size - 1; node > 0; --node)
    most[node] = std::max(most[2 * node], most[2 * node + 1]);
}

int Ledger::next() {
  while (first < base.size() && isTaken(base[first]))
    ++first;
  return first < base.size() ? base[first] : -1;
}

void Ledger::add(int begin, int end, int64_t bytes, int node, int low,
                 int high) {
  if (begin >= high || end <= low)
    return;
  if (begin <= low && high <= end) {
    most[node] += bytes;
    added[node] += bytes;
    return;
  }
  int middle = (low + high) / 2;
  add(begin, end, bytes, 2 * node, low, middle);
  add(begin, end, bytes, 2 * node + 1, middle, high);
  most[node] = std::max(most[2 * node], most[2 * node + 1]) + added[node];
}

void Ledger::add(const Change &change) {
  if (change.begin < change.end && change.bytes != 0)
    add(change.begin, change.end, change.bytes, 1, 0, size);
}

bool Ledger::take(int step) {
  int p = positions[step];
  if (isMet) {
    positions[step] = -1;
    return true;
  }
  int64_t made = 0, freed = 0;
  std::vector<Change> changes;
  for (int v : graph.births[step])
    made += graph.values[v].bytes;
  if (p != int(first) || next() != step) // else nothing to come is before p
    changes.push_back({0, p, made});
  for (int v : graph.deaths[step]) {
    // The last death still to come beside this one; nothing changes if it is
    // after this one.
    int other = -1;
    for (size_t i = deaths[v].size(); i-- > 0 && other < 0;)
      if (int q = deaths[v][i]; q != p && !isTaken(base[q]))
        other = q;
    changes.push_back({other + 1, p, -graph.values[v].bytes});
    if (other < 0)
      freed += graph.values[v].bytes;
  }
  for (const Change &change : changes)
    add(change);
  positions[step] = -1;
  Change off{p, p + 1, gone};
  add(off);
  if (live + made > bound || most[1] > bound) {
    positions[step] = p;
    off.bytes = -gone;
    add(off);
    for (Change &change : changes) {
      change.bytes = -change.bytes;
      add(change);
    }
    return false;
  }
  live += made - freed;
  for (int v : graph.deaths[step])
    while (!deaths[v].empty() && isTaken(base[deaths[v].back()]))
      deaths[v].pop_back();
  return true;
}
