//===- Run.h - the two ways to run a program ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks started by this process, over shared memory or TCP, or one rank among
// those that another launcher has started. Both print their errors and return
// the exit status.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_RUN_H
#define MPCOMM_RUN_LAUNCH_RUN_H

#include "launch/Fault.h"
#include "launch/RunOptions.h"

#include "mpcomm/Runtime/Session.h"

#include <optional>

namespace mpcomm::run {

/// Whether this process starts the ranks, or is one of them.
bool startsRanks(const RunOptions &options,
                 const std::optional<mpcomm_launcher> &launched);

/// Starts all ranks here and waits for them.
int runHere(const RunOptions &options, const Fault &fault);

/// Runs as one rank over MPI or TCP.
int runDistributed(const RunOptions &options,
                   const std::optional<mpcomm_launcher> &launched,
                   const Fault &fault);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_RUN_H
