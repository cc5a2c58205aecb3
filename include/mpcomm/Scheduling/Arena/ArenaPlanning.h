//===- ArenaPlanning.h - offsets for buffers with lifetimes -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dynamic storage allocation: assigns to buffers of known size and lifetime
// offsets in one arena, such that no two buffers that live at the same time
// overlap and the arena is small. Finding the smallest arena is NP-hard (Garey
// and Johnson, "Computers and Intractability", 1979, problem SR2).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_ARENA_ARENAPLANNING_H
#define MPCOMM_SCHEDULING_ARENA_ARENAPLANNING_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// Buffers to place. Times are positions in a program; a buffer lives from
/// `begin` to `end`, both included.
struct ArenaProblem {
  struct Buffer {
    int64_t bytes = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::vector<Buffer> buffers;
  /// Offsets are multiples of this power of two.
  int64_t alignment = 64;

  /// Empty if the problem is well formed, else what is wrong with it.
  std::string check() const;
  /// The largest number of live bytes, with each buffer rounded up to the
  /// alignment. No arena is smaller. Time: O(n log n).
  int64_t lowerBound() const;
};

/// Offsets, in the order of the problem's buffers.
struct ArenaPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;

  /// Empty if this is a plan for `problem`, else what is wrong with it.
  /// Time: O(n log n + k) for k pairs of buffers that live together.
  std::string verify(const ArenaProblem &problem) const;
};

/// Places the buffers one by one, each in the lowest sufficient gap between
/// already placed buffers that live at the same time. Tries three orders
/// (largest first, longest lifetime first, largest product of bytes and
/// lifetime first) and returns the smallest arena. A lifetime counts the times
/// at which buffers begin or end, so the plan depends on the order of these
/// times alone. Time: O(n^2) at worst.
ArenaPlan planArena(const ArenaProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_ARENA_ARENAPLANNING_H
