//===- GraphVotes.h - graphs that all ranks take --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to session/. Whether a collective of NCCL is part of a graph, and of
// which one, has to be the same on all of its ranks. So the ranks vote: before
// a step is captured, since NCCL may want all ranks in a capture; after the
// capture, before any of them replays it; and, in the first calls that could be
// replays, on which graph it is. Each rank sees all votes and comes to the same
// end. With them go the ranks' votes on libraries in place of kernels, which
// have other bits: they too are to be the same on all ranks, and a graph keeps
// them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_GRAPHVOTES_H
#define MPCOMM_RUNTIME_SESSION_GRAPHVOTES_H

#include "session/ContextState.h"

namespace mprt {

struct GraphVote {
  enum State : uint32_t {
    Refuses, ///< for `reason`
    Has,     ///< a graph for this call
    Takes,   ///< one, or has just taken it
    Fails    ///< for `reason`
  };
  uint32_t state = Refuses;
  uint32_t graph = 0; ///< its number
  uint64_t call = 0;  ///< of the entry point
  char reason[112] = {};
  /// What the device has to choose, as much as there is room for: the rest goes
  /// with a later vote.
  LibraryVote libraries[64] = {};
  uint64_t numLibraries = 0;

  void setReason(const std::string &text);
};

/// Whether the ranks of the context vote.
bool votesOnGraphs(const Context::State &state);

/// Lets the device of a rank that is alone take what it wants.
void settleAlone(Context::State &state);

/// What all ranks vote, with the same graph; Refuses, with the reason in
/// `note`, where they differ. All ranks call it, and wait for one another; it
/// fails where one does not come, and where one fails.
Expected<GraphVote::State>
voteOnGraph(Context::State &state, const GraphVote &mine, std::string &note);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_GRAPHVOTES_H
