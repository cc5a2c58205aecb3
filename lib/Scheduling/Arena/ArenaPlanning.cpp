//===- ArenaPlanning.cpp - offsets for buffers with lifetimes -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Greedy placement in a fixed order. For any order, each buffer takes the
// lowest gap; some order gives an optimal plan (place an optimal plan's
// buffers by increasing offset: none lands higher than there), which is what
// the reference searches.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Arena/ArenaPlanning.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace mpcomm;

using Buffer = ArenaProblem::Buffer;

static int64_t alignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

static bool liveTogether(const Buffer &x, const Buffer &y) {
  return x.begin <= y.end && y.begin <= x.end;
}

std::string ArenaProblem::check() const {
  if (alignment < 1 || (alignment & (alignment - 1)))
    return "expects an alignment that is a power of two, got " +
           std::to_string(alignment);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes < 0)
      return "buffer " + std::to_string(i) + " has a negative size";
    if (buffers[i].begin > buffers[i].end)
      return "buffer " + std::to_string(i) + " ends before it begins";
  }
  return "";
}

int64_t ArenaProblem::lowerBound() const {
  std::map<int64_t, int64_t> change; // bytes that come and go, by time
  for (const Buffer &buffer : buffers) {
    int64_t bytes = alignUp(buffer.bytes, alignment);
    change[buffer.begin] += bytes;
    change[buffer.end + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [time, bytes] : change)
    most = std::max(most, live += bytes);
  return most;
}

std::string ArenaPlan::verify(const ArenaProblem &problem) const {
  const std::vector<Buffer> &buffers = problem.buffers;
  if (offsets.size() != buffers.size())
    return "expects an offset for each buffer";
  std::vector<size_t> byBegin(buffers.size());
  std::iota(byBegin.begin(), byBegin.end(), 0);
  std::sort(byBegin.begin(), byBegin.end(), [&](size_t x, size_t y) {
    return buffers[x].begin < buffers[y].begin;
  });
  std::vector<size_t> live;
  for (size_t i : byBegin) {
    if (offsets[i] < 0 || offsets[i] % problem.alignment ||
        offsets[i] + buffers[i].bytes > bytes)
      return "buffer " + std::to_string(i) + " is misplaced";
    std::erase_if(live,
                  [&](size_t j) { return buffers[j].end < buffers[i].begin; });
    for (size_t j : live)
      if (offsets[i] < offsets[j] + buffers[j].bytes &&
          offsets[j] < offsets[i] + buffers[i].bytes)
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) +
               " overlap";
    live.push_back(i);
  }
  return "";
}

/// Places buffers in `order`, each at the lowest gap.
static ArenaPlan placeInOrder(const ArenaProblem &problem,
                              const std::vector<size_t> &order) {
  ArenaPlan plan;
  plan.offsets.assign(problem.buffers.size(), 0);
  std::vector<size_t> placed; // by increasing offset
  for (size_t i : order) {
    const Buffer &buffer = problem.buffers[i];
    int64_t size = alignUp(buffer.bytes, problem.alignment);
    if (size == 0)
      continue;
    int64_t offset = 0;
    for (size_t j : placed) {
      const Buffer &other = problem.buffers[j];
      if (!liveTogether(buffer, other))
        continue;
      if (plan.offsets[j] >= offset + size)
        break; // the gap before j holds it, and all others lie higher
      offset = std::max(offset, plan.offsets[j] +
                                    alignUp(other.bytes, problem.alignment));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t x, size_t y) {
                                     return plan.offsets[x] < plan.offsets[y];
                                   }),
                  i);
  }
  return plan;
}

ArenaPlan mpcomm::planArena(const ArenaProblem &problem) {
  const std::vector<Buffer> &buffers = problem.buffers;
  // In times at which a buffer begins or ends: what else happens between does
  // not change the plan.
  std::vector<int64_t> times;
  for (const Buffer &buffer : buffers) {
    times.push_back(buffer.begin);
    times.push_back(buffer.end);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
  };
  std::vector<double> lives;
  for (const Buffer &buffer : buffers)
    lives.push_back(
        static_cast<double>(rank(buffer.end) - rank(buffer.begin) + 1));
  auto life = [&](size_t i) { return lives[i]; };
  auto size = [&](size_t i) { return static_cast<double>(buffers[i].bytes); };
  ArenaPlan best;
  bool first = true;
  for (int rule = 0; rule < 3; ++rule) {
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    auto key = [&](size_t i) {
      return rule == 0 ? size(i) : rule == 1 ? life(i) : life(i) * size(i);
    };
    std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
      return key(x) != key(y) ? key(x) > key(y) : x < y;
    });
    ArenaPlan plan = placeInOrder(problem, order);
    if (first || plan.bytes < best.bytes)
      best = plan;
    first = false;
  }
  return best;
}
