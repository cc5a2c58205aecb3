//===- LoadMpi.cpp - finds the MPI backend --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/Mpi.h"

#include "comm/Registry.h"
#include "support/LoadBackend.h"

#include <cstdlib>
#include <cstring>

using namespace mprt;

Expected<std::unique_ptr<Transport>> mprt::joinMpi(const MpiOptions &options) {
  // MPI libraries load plugins of their own that need their symbols.
  Expected<void *> symbol =
      loadBackend({"libmprt_mpi.so", "mprt_mpi_join", /*global=*/true, "no MPI",
                   "the mpi communicator needs libmprt_mpi.so, which is built "
                   "where MPI's headers are, and MPI's libraries"});
  if (!symbol)
    return symbol.error();
  auto *join = reinterpret_cast<decltype(&mprt_mpi_join)>(*symbol);
  MpiOptions effective = options;
  if (const char *check = getenv("MPRT_CHECK"))
    effective.checkCollectives |= *check && strcmp(check, "0") != 0;
  Error error;
  Transport *transport = join(effective, error);
  if (!transport)
    return error ? error : Error(MPRT_INTERNAL, "MPI did not start");
  return std::unique_ptr<Transport>(transport);
}

static Expected<std::unique_ptr<Transport>> join(const JoinOptions &options) {
  MpiOptions mpi;
  mpi.timeoutSeconds = options.timeoutSeconds;
  mpi.giveUp = options.giveUp;
  return joinMpi(mpi);
}

namespace mprt {
extern const Backend mpiBackend;
const Backend mpiBackend = {"mpi", 0, nullptr, join, nullptr};
} // namespace mprt
