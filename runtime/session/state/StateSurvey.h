//===- StateSurvey.h - what all ranks hold, compared ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Before state is kept, and when ranks start, each rank hashes what it holds,
// and all learn of all: whether every tensor is the same on the ranks that hold
// it, and whether it is finite. All ranks come to the same findings.
//
// State of every role is replicated: the compiler proves of each result of a
// step that it does not differ along the data-parallel axis (running statistics
// are averaged), and a file has room for one value. What a rank has of its own,
// random bits, is no state (Manifest.h, isState).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_STATESURVEY_H
#define MPCOMM_RUNTIME_SESSION_STATESURVEY_H

#include "session/state/StateUnion.h"

#include <optional>

namespace mprt {

/// Whether infinity is a value like others: a buffer may start there, as a
/// running maximum does. In a parameter or what an optimizer keeps, nothing
/// good comes of it.
inline bool mayBeInfinite(Role role) { return role == Role::Buffer; }

struct StateSurvey {
  /// With the checksums of their owners.
  std::vector<SharedTensor> tensors;
  /// The first tensor that is not the same on all that hold it, and who holds
  /// what; empty where there is none.
  std::string difference;
  /// The first tensor that is not finite, on the first such rank; empty where
  /// there is none, or none was looked for.
  std::string nonFinite;
};

enum class LookFor { Differences, NonFiniteToo };

/// Looks at what `mine`, this rank's state, has of `tensors`, which are as
/// `unionOfState` lists them, or cut further. All ranks call it. Reads the
/// state once; gathers 8 bytes for each tensor and rank. What a device holds
/// must have been fetched.
Expected<StateSurvey> surveyState(std::vector<SharedTensor> tensors,
                                  const RankState &mine, Rank &rank,
                                  LookFor what);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STATESURVEY_H
