//===- ArenaPlanningReference.cpp - the best arena by trying all ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every order of placement, each buffer at the lowest offset that is free for
// it.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include <algorithm>
#include <numeric>

using namespace mpcomm;

/// The lowest multiple of the alignment at which buffer `i` overlaps none of
/// `placed` that lives with it.
static int64_t findOffset(const ArenaProblem &problem, const ArenaPlan &plan,
                          const std::vector<size_t> &placed, size_t i) {
  const ArenaProblem::Buffer &buffer = problem.buffers[i];
  int64_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t j : placed) {
      const ArenaProblem::Buffer &other = problem.buffers[j];
      int64_t end = plan.offsets[j] + other.bytes;
      if (other.begin > buffer.end || buffer.begin > other.end ||
          plan.offsets[j] >= offset + buffer.bytes || end <= offset)
        continue;
      offset =
          (end + problem.alignment - 1) / problem.alignment * problem.alignment;
      moved = true;
    }
  }
  return offset;
}

ArenaPlan mpcomm::planArenaReference(const ArenaProblem &problem) {
  std::vector<size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  ArenaPlan best;
  bool found = false;
  do {
    ArenaPlan plan;
    plan.offsets.assign(order.size(), 0);
    std::vector<size_t> placed;
    for (size_t i : order) {
      plan.offsets[i] = findOffset(problem, plan, placed, i);
      placed.push_back(i);
      int64_t end = plan.offsets[i] + problem.buffers[i].bytes;
      plan.bytes =
          std::max(plan.bytes, (end + problem.alignment - 1) /
                                   problem.alignment * problem.alignment);
    }
    if (!found || plan.bytes < best.bytes)
      best = plan;
    found = true;
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}
