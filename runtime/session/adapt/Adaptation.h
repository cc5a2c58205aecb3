//===- Adaptation.h - a job that adjusts its plan ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a session that was told to adapt keeps from one review to the next.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ADAPT_ADAPTATION_H
#define MPCOMM_RUNTIME_SESSION_ADAPT_ADAPTATION_H

#include "session/adapt/Monitor.h"
#include "session/adapt/Policy.h"

namespace mprt {

struct AdaptOptions {
  /// Steps between reviews.
  uint64_t every = 10;
  /// The fewest bits that a gradient may have on the wire; 64: as many as in
  /// the plan that was in use.
  unsigned leastBits = 64;
  /// Look, and never switch.
  bool onlyWatches = false;
  PolicyOptions policy;
};

struct Adaptation {
  AdaptOptions options;
  StepTimes times;
  /// Among the programs of the session, those that may be chosen; without a
  /// forecast of the current one there is no choice.
  std::optional<Policy> policy;
  std::vector<size_t> programs;
  /// Those of the plan that was in use.
  ManifestGraph numerics;

  // Of the last review.
  uint64_t reviewedAt = 0;
  const ManifestFunction *reviewed = nullptr;
  std::vector<RankTimes> ranks;
  NetworkView view;
  /// What the others were waiting for, as was said.
  std::optional<unsigned> saidStraggler;
  /// What the links were measured to take, and with which transfers of which
  /// program.
  std::vector<LinkTime> links;
  double probedAt = 0;
  size_t probedProgram = 0;
  std::string decision;
  uint64_t switches = 0;
  /// As JSON.
  std::string text;
};

/// Bytes of a message by which links are compared.
inline constexpr uint64_t probeBytes = 256 << 10;

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ADAPT_ADAPTATION_H
