//===- ArenaPlanning.h - offsets for buffers with lifetimes -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dynamic storage allocation: buffers of known size and lifetime get offsets
// into one arena so that no two that live at the same time overlap, in an
// arena as small as possible. Deciding the smallest is NP-complete (Garey and
// Johnson, "Computers and Intractability", 1979, problem SR2).
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
  /// Every offset is a multiple of it; a power of two.
  int64_t alignment = 64;

  /// Empty if the problem is well formed, else what is wrong with it.
  std::string check() const;
  /// The most bytes (each buffer rounded up to the alignment) that live at one
  /// time: no plan needs less. Time: O(n log n).
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

/// Places the buffers, the largest first, each at the lowest gap that holds it
/// among those placed before that live with it; repeats that with the longest
/// lived first and with the largest area (bytes times life) first, and returns
/// the smallest arena of the three. Time: O(n^2) at worst.
ArenaPlan planArena(const ArenaProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_ARENA_ARENAPLANNING_H
