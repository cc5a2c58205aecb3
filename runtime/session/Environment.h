//===- Environment.h - which launcher started this process? ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mpirun, srun and torchrun tell each process its rank through environment
// variables. Where none of them is set, this process is to start the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ENVIRONMENT_H
#define MPCOMM_RUNTIME_SESSION_ENVIRONMENT_H

#include "support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mprt {

/// The most ranks that a run has.
constexpr uint64_t kMaxRanks = 4096;

struct LaunchedBy {
  /// `mpirun`, `PMI`, `srun` or `torchrun`, for messages.
  const char *launcher = "";
  uint64_t rank = 0, size = 1;
};

/// The first launcher whose variables are set; nothing where there is none.
/// Fails where they make no sense.
Expected<std::optional<LaunchedBy>> launcherFromEnvironment();

/// Which of the ranks of its machine this is, where a launcher has said so;
/// else nothing.
std::optional<uint64_t> localRankFromEnvironment();

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ENVIRONMENT_H
