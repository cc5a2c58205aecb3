//===- GraphVotes.cpp - graphs that all ranks take ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/GraphVotes.h"

#include <algorithm>
#include <iterator>

using namespace mprt;

void GraphVote::setReason(const std::string &text) {
  copyText(reason, sizeof(reason), text);
}

bool mprt::votesOnGraphs(const Context::State &state) {
  return state.options.gather && state.transport && state.transport->size() > 1;
}

void mprt::settleAlone(Context::State &state) {
  if (!state.transport || state.transport->size() == 1)
    state.device->settle(state.device->unsettled());
}

/// Adds the device's votes to a vote.
static void addLibraries(GraphVote &vote, const Device &device) {
  for (const LibraryVote &library : device.unsettled())
    if (vote.numLibraries < std::size(vote.libraries))
      vote.libraries[vote.numLibraries++] = library;
}

/// Tells the device how all ranks have voted.
static void settleLibraries(Device &device, const std::vector<GraphVote> &all) {
  std::vector<LibraryVote> votes;
  for (const GraphVote &vote : all)
    votes.insert(
        votes.end(), vote.libraries,
        vote.libraries +
            std::min<uint64_t>(vote.numLibraries, std::size(vote.libraries)));
  device.settle(votes);
}

Expected<GraphVote::State> mprt::voteOnGraph(Context::State &state,
                                             const GraphVote &given,
                                             std::string &note) {
  unsigned ranks = state.transport->size(), rank = state.transport->rank();
  std::vector<GraphVote> all(ranks);
  GraphVote mine = given;
  addLibraries(mine, *state.device);
  if (Error error = state.options.gather(&mine, all.data(), sizeof(GraphVote)))
    return error.withContext(
        "the ranks have not agreed on the graph of a step: ");
  for (unsigned r = 0; r < ranks; ++r) {
    all[r].reason[sizeof(GraphVote::reason) - 1] = 0;
    if (all[r].state == GraphVote::Fails)
      return makeError(MPRT_PEER_FAILED, "rank ", r, ": ", all[r].reason);
  }
  settleLibraries(*state.device, all);
  for (unsigned r = 0; r < ranks; ++r)
    if (all[r].state == GraphVote::Refuses) {
      note = r == rank ? "" : "rank " + std::to_string(r) + ": ";
      note += all[r].reason;
      return GraphVote::Refuses;
    }
  for (unsigned r = 1; r < ranks; ++r)
    if (all[r].state != all[0].state || all[r].graph != all[0].graph ||
        all[r].call != all[0].call) {
      note = "the buffers of a step change in other ways on rank " +
             std::to_string(r) + " than on rank 0";
      return GraphVote::Refuses;
    }
  return GraphVote::State(mine.state);
}
