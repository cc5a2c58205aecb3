//===- StagePartitionLine.cpp - figures of ranges of ops ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An item (a kept value, a parameter) counts once in a range that has any of
// its ops. Give its weight to each of its ops, labelled with the op before:
// the range [i, j) has the item if and only if it has exactly one of its ops
// whose label is less than i. So its sum is one of points in a rectangle. Those
// without a label, the first ops, are prefix sums.
//
//===----------------------------------------------------------------------===//

#include "StagePartition/StagePartitionDetail.h"
#include <algorithm>
#include <bit>

using namespace mpcomm;
using namespace mpcomm::stages;

CutFigures stages::getCutFigures(const StagePartitionProblem &problem,
                                 int64_t forwardBytes, int64_t gradientBytes) {
  auto seconds = [&](int64_t bytes) {
    return bytes ? problem.linkLatency +
                       problem.linkSecondsPerByte * double(bytes)
                 : 0;
  };
  double there = seconds(forwardBytes), back = seconds(gradientBytes);
  CutFigures cut;
  cut.exposed = toTicks(problem.exposedShare * (there + back));
  cut.link = toTicks(problem.linkDuplex ? std::max(there, back) : there + back);
  cut.bytes = forwardBytes + gradientBytes;
  cut.buffer = problem.boundaryBuffers * cut.bytes;
  return cut;
}

Ticks stages::getTicks(const StagePartitionProblem::Op &op) {
  return toTicks(op.forward) + toTicks(op.backwardInput) +
         toTicks(op.backwardWeight);
}

int stages::getLastReader(const StagePartitionProblem::Value &value) {
  int last = value.producer;
  for (const std::vector<int> *readers : {&value.consumers, &value.keepers})
    for (int op : *readers)
      last = std::max(last, op);
  return last;
}

Figures::Figures(const StagePartitionProblem &problem) {
  int n = int(problem.ops.size());
  for (const StagePartitionProblem::Op &op : problem.ops)
    ops.push_back(getTicks(op));
  // A value crosses the cuts after its producer up to its last reader.
  std::vector<int64_t> there(n + 1), back(n + 1);
  for (const StagePartitionProblem::Value &value : problem.values) {
    int last = getLastReader(value);
    if (value.producer < 0 || last == value.producer)
      continue;
    there[value.producer + 1] += value.bytes;
    there[last + 1] -= value.bytes;
    back[value.producer + 1] += value.gradientBytes;
    back[last + 1] -= value.gradientBytes;
  }
  int64_t thereNow = 0, backNow = 0;
  for (int c = 0; c <= n; ++c) {
    thereNow += there[c];
    backNow += back[c];
    cuts.push_back(getCutFigures(problem, thereNow, backNow));
  }
  auto add = [&](Sum sum, const std::vector<int> &places) {
    int begin = int(positions.size());
    positions.insert(positions.end(), places.begin(), places.end());
    std::sort(positions.begin() + begin, positions.end());
    positions.erase(std::unique(positions.begin() + begin, positions.end()),
                    positions.end());
    int end = int(positions.size());
    if (end - begin < 2)
      sum.reduction = 0;
    if (end > begin && !(sum == Sum()))
      items.push_back({sum, begin, end});
    else
      positions.resize(begin);
  };
  for (const StagePartitionProblem::Value &value : problem.values)
    add({value.bytes, 0, 0}, value.keepers);
  for (const StagePartitionProblem::Parameter &parameter : problem.parameters)
    add({0, parameter.bytes, toTicks(parameter.reductionSeconds)},
        parameter.users);
}

Figures Figures::mirrored() const {
  Figures result = *this;
  std::reverse(result.ops.begin(), result.ops.end());
  std::reverse(result.cuts.begin(), result.cuts.end());
  for (const Item &item : items)
    for (int k = item.begin; k < item.end; ++k)
      result.positions[item.begin + item.end - 1 - k] =
          int(ops.size()) - 1 - positions[k];
  return result;
}

Figures Figures::withoutTransfers() const {
  Figures result = *this;
  for (CutFigures &cut : result.cuts)
    cut.exposed = cut.link = 0;
  for (Item &item : result.items)
    item.sum.reduction = 0;
  return result;
}

void RectangleSum::build(std::vector<Point> points, int n) {
  levels.clear();
  start.clear();
  if (points.empty())
    return;
  std::stable_sort(points.begin(), points.end(),
                   [](const Point &a, const Point &b) { return a.x < b.x; });
  for (int c = 0, k = 0; c <= n; ++c) {
    while (k < int(points.size()) && points[k].x < c)
      ++k;
    start.push_back(k);
  }
  // So many that n itself, an y1, fits too.
  int bits = std::bit_width(unsigned(n));
  for (int bit = bits - 1; bit >= 0; --bit) {
    Level level;
    level.zeros = {0};
    for (const Point &point : points)
      level.zeros.push_back(level.zeros.back() + !(point.y >> bit & 1));
    std::stable_partition(points.begin(), points.end(),
                          [&](const Point &p) { return !(p.y >> bit & 1); });
    level.sums = {Sum()};
    for (const Point &point : points)
      level.sums.push_back(level.sums.back() + point.sum);
    levels.push_back(std::move(level));
  }
}

Sum RectangleSum::query(int x0, int x1, int y1) const {
  Sum result;
  if (start.empty())
    return result;
  int begin = start[x0], end = start[x1];
  int bit = int(levels.size());
  for (const Level &level : levels) {
    if (begin == end)
      break;
    int zeroBegin = level.zeros[begin], zeroEnd = level.zeros[end];
    if (y1 >> --bit & 1) {
      result += level.sums[zeroEnd] - level.sums[zeroBegin];
      int zeros = level.zeros.back();
      begin = zeros + begin - zeroBegin;
      end = zeros + end - zeroEnd;
    } else {
      begin = zeroBegin;
      end = zeroEnd;
    }
  }
  return result;
}

Line::Line(const Figures &figures)
    : n(int(figures.ops.size())), cuts(figures.cuts) {
  compute = {0};
  for (Ticks ticks : figures.ops)
    compute.push_back(compute.back() + ticks);
  all.resize(n + 1);
  first.resize(n + 1);
  tied.resize(n + 1);
  std::vector<RectangleSum::Point> repeated, enclosed;
  for (const Figures::Item &item : figures.items) {
    int begin = figures.positions[item.begin];
    int end = figures.positions[item.end - 1];
    first[begin + 1] += item.sum;
    all[begin + 1] += item.sum;
    for (int k = item.begin + 1; k < item.end; ++k) {
      all[figures.positions[k] + 1] += item.sum;
      repeated.push_back(
          {figures.positions[k], figures.positions[k - 1], item.sum});
    }
    if (item.sum.reduction == 0)
      continue;
    enclosed.push_back({begin, end, item.sum});
    tied[begin + 1] += item.sum.reduction;
    tied[end + 1] -= item.sum.reduction;
  }
  for (int c = 0; c < n; ++c) {
    all[c + 1] += all[c];
    first[c + 1] += first[c];
    tied[c + 1] += tied[c];
  }
  repeats.build(std::move(repeated), n);
  inside.build(std::move(enclosed), n);
  constexpr Ticks none = std::numeric_limits<Ticks>::max() / 2;
  leastBefore.assign(n + 1, none);
  leastAfter.assign(n + 1, none);
  for (int c = 1; c < n; ++c)
    leastBefore[c] = std::min(leastBefore[c - 1], cuts[c].exposed - compute[c]);
  for (int c = n - 1; c > 0; --c) {
    leastAfter[c] = std::min(leastAfter[c + 1], cuts[c].exposed + compute[c]);
    leastBuffer =
        c == n - 1 ? cuts[c].buffer : std::min(leastBuffer, cuts[c].buffer);
    mostBuffer = std::max(mostBuffer, cuts[c].buffer);
  }
}

Ticks Line::time(int i, int j) const {
  Ticks ticks = compute[j] - compute[i] + cuts[i].exposed + cuts[j].exposed;
  if (hasReductions())
    ticks += reduction(i, j, sum(i, j).reduction);
  return std::max({ticks, cuts[i].link, cuts[j].link});
}

int64_t Line::bytes(int i, int j, int64_t inFlight) const {
  Sum within = sum(i, j);
  return within.parameter + inFlight * within.activation + cuts[i].buffer +
         cuts[j].buffer;
}
