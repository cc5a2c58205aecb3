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

#include "mpcomm/Runtime/Session.h"
#include "session/adapt/Agent.h"
#include "session/adapt/Monitor.h"
#include "session/adapt/Policy.h"

namespace mprt {

struct AdaptOptions {
  /// Checks what a caller has set; 0 and null are defaults.
  static Expected<AdaptOptions> from(const mpcomm_adapt_options &given);

  /// Steps between reviews.
  uint64_t every = 10;
  /// The fewest bits that a gradient may have on the wire; 64: as many as in
  /// the plan that was in use.
  unsigned leastBits = 64;
  /// Look, and never switch.
  bool onlyWatches = false;
  PolicyOptions policy;
  /// As of Agent; "": no plans are made. Counts on rank 0.
  std::string planCommand;
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

  /// On rank 0, while plans are made; and the one that is there.
  std::unique_ptr<Agent> agent;
  std::string plan;
  /// For which bandwidths plans were asked for, and how many came.
  std::vector<double> askedFor;
  unsigned plansMade = 0;
  /// Where the files of those were opened.
  std::unique_ptr<WorkFolder> folder;

  // Of the last review.
  uint64_t reviewedAt = 0;
  double reviewSeconds = 0;
  const ManifestFunction *reviewed = nullptr;
  std::vector<RankTimes> ranks;
  NetworkView view;
  /// Whom the others were waiting for at the last look, and as was said: what
  /// is seen once may be noise.
  std::optional<unsigned> lastStraggler, saidStraggler;
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

/// The bandwidth that a plan was made for is near enough within this factor.
inline constexpr double planFactor = 1.5;
/// Plans are made for so many bandwidths at most: each takes memory, and
/// communicators.
inline constexpr size_t mostPlans = 6;
/// Bytes of a message by which links are compared.
inline constexpr uint64_t probeBytes = 256 << 10;

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ADAPT_ADAPTATION_H
