//===- SimGrid.h - the same step on a network of flows ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No LLVM in here: SimGrid throws exceptions, which LLVM's build turns off.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_SIM_SIMGRID_H
#define MPCOMM_TOOLS_MPCOMM_SIM_SIMGRID_H

#include "mpcomm/Scheduling/Simulator/Simulator.h"

namespace mpcomm {

/// A fat-tree of two levels. Its leaves have `hostsPerSwitch` hosts each, and
/// one link up for `oversubscription` of them.
struct SimGridOptions {
  int64_t hosts = 1;
  int hostsPerSwitch = 32;
  int oversubscription = 1;
  /// Bytes/s of a host's port in each direction.
  double bandwidth = 0;
  /// The level of links that the fat-tree is; collectives on others take their
  /// time on no network.
  int link = 0;
  /// Rounds into which a collective is cut.
  int rounds = 16;
  /// Of each collective: whether every rank sends to another rank each round,
  /// as in direct algorithms, or always to the next one, as in a ring.
  std::vector<bool> isDirect;
};

struct SimGridResult {
  /// Empty, or why there is no result.
  std::string error;
  double seconds = 0;
  /// Of each collective on rank 0.
  std::vector<double> start, end;
};

/// Whether this build has SimGrid.
bool hasSimGrid();

/// Runs the one class of `problem` on every host, unfolded: an actor for its
/// compute stream and one for each communicator. A collective is `rounds`
/// rounds of: its share of the latency, then its share of the bytes sent to and
/// received from other hosts. Rates below 1 are not simulated. Once a process.
/// Time: a flow for each host, collective and round.
SimGridResult simulateOnSimGrid(const SimProblem &problem,
                                const SimGridOptions &options);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_SIM_SIMGRID_H
