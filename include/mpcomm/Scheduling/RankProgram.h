//===- RankProgram.h - programs of ranks ------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program of a rank, shared by the step model, the overlap scheduler, the
// simulator and the proof: computation, and starts and awaits of collectives,
// in the order of the compute stream. Each of them has its own description of a
// collective.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_RANKPROGRAM_H
#define MPCOMM_SCHEDULING_RANKPROGRAM_H

#include <cstdint>
#include <vector>

namespace mpcomm {

/// An instruction of a compute stream. `allocates` takes effect at the
/// beginning of the instruction, `frees` at its end (for an Await: when the
/// wait is over). So the memory of a rank depends on the order of its
/// instructions alone, not on times.
struct RankInstruction {
  enum Kind { Compute, Start, Await };
  Kind kind = Compute;
  /// For a Compute, its seconds while the rank does not communicate.
  double seconds = 0;
  /// For a Start or an Await, the index into the program's collectives.
  int collective = -1;
  /// Bytes.
  int64_t allocates = 0;
  int64_t frees = 0;

  static RankInstruction compute(double seconds, int64_t allocates = 0,
                                 int64_t frees = 0) {
    return {Compute, seconds, -1, allocates, frees};
  }
  static RankInstruction start(int collective, int64_t allocates = 0) {
    return {Start, 0, collective, allocates, 0};
  }
  static RankInstruction await(int collective, int64_t frees = 0) {
    return {Await, 0, collective, 0, frees};
  }
};

/// A collective is started once and awaited at most once, after its start. The
/// end of the program awaits all others.
template <typename Collective> struct RankProgram {
  std::vector<RankInstruction> instructions;
  std::vector<Collective> collectives;
};

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_RANKPROGRAM_H
