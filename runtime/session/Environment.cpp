//===- Environment.cpp - which launcher started this process? -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slurm's step variables are used, not its job variables: the latter are also
// set in a batch script, which is no rank.
//
//===----------------------------------------------------------------------===//

#include "session/Environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

using namespace mprt;

namespace {

struct Variables {
  const char *launcher, *rank, *size, *also;
};

const Variables known[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"PMI", "PMI_RANK", "PMI_SIZE", nullptr},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
    {"torchrun", "RANK", "WORLD_SIZE", nullptr},
};

bool parse(const char *text, uint64_t &value) {
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
}

} // namespace

Expected<std::optional<LaunchedBy>> mprt::launcherFromEnvironment() {
  for (const Variables &variables : known) {
    const char *rank = std::getenv(variables.rank);
    const char *size = std::getenv(variables.size);
    if (!rank || !size || (variables.also && !std::getenv(variables.also)))
      continue;
    LaunchedBy found;
    found.launcher = variables.launcher;
    // As many as --np takes.
    if (!parse(rank, found.rank) || !parse(size, found.size) ||
        found.rank >= found.size || found.size > kMaxRanks)
      return fail("environment: ", variables.rank, "='", printable(rank),
                  "' and ", variables.size, "='", printable(size),
                  "' are no rank and number of ranks (at most ", kMaxRanks,
                  ")");
    return std::optional<LaunchedBy>(found);
  }
  // Each process would be a whole job of its own.
  const char *rank = std::getenv("RANK"), *size = std::getenv("WORLD_SIZE");
  if (!rank != !size && std::getenv("MASTER_ADDR"))
    return fail("environment: MASTER_ADDR and ", rank ? "RANK" : "WORLD_SIZE",
                " are set, ", rank ? "WORLD_SIZE" : "RANK",
                " is not; set it, or unset the others to start the ranks here");
  return std::optional<LaunchedBy>();
}

std::optional<uint64_t> mprt::localRankFromEnvironment() {
  for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           "PMI_LOCAL_RANK", "SLURM_LOCALID", "LOCAL_RANK"}) {
    const char *text = std::getenv(name);
    uint64_t value = 0;
    if (text && parse(text, value))
      return value;
  }
  return std::nullopt;
}
