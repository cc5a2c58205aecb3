//===- Mpi.h - ranks started by an MPI launcher ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The MPI backend is a shared object of its own, libmprt_mpi.so, that is loaded
// when it is asked for: a build of the runtime runs on machines without MPI and
// says what is missing.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_MPI_MPI_H
#define MPCOMM_RUNTIME_COMM_MPI_MPI_H

#include "comm/Transport.h"

#include <functional>
#include <memory>

namespace mprt {

struct MpiOptions {
  /// Compare what the ranks call before each collective. Costs one small
  /// all-gather for each; MPRT_CHECK=1 in the environment turns it on too.
  bool checkCollectives = false;
  /// Ranks that do not come to MPI_Init, or to the making of a communicator,
  /// are waited for so long; 0: for ever.
  double timeoutSeconds = 0;
  /// What is called then, on a thread of its own, for MPI has no way back: it
  /// says what went wrong and ends the process.
  std::function<void(const Error &)> giveUp;
};

/// Initializes MPI and becomes the rank that it says. MPRT_UNSUPPORTED where
/// libmprt_mpi.so or MPI cannot be loaded, with the reason. The transport
/// finalizes MPI when it goes, unless a rank failed.
Expected<std::unique_ptr<Transport>> joinMpi(const MpiOptions &options);

} // namespace mprt

/// What libmprt_mpi.so exports; `error` receives the failure where null comes
/// back.
extern "C" mprt::Transport *mprt_mpi_join(const mprt::MpiOptions &options,
                                          mprt::Error &error);

#endif // MPCOMM_RUNTIME_COMM_MPI_MPI_H
