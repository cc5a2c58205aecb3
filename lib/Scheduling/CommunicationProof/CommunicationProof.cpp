//===- CommunicationProof.cpp - the proof, and its words ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order in which things are proved, and how ranks and ops are named.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>
#include <cstdlib>

using namespace mpcomm;
using namespace mpcomm::proof;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

const char *mpcomm::toString(ProofKind kind) {
  switch (kind) {
  case ProofKind::AllReduce:
    return "all_reduce";
  case ProofKind::ReduceScatter:
    return "reduce_scatter";
  case ProofKind::AllGather:
    return "all_gather";
  case ProofKind::AllToAll:
    return "all_to_all";
  case ProofKind::Broadcast:
    return "broadcast";
  case ProofKind::Send:
    return "send";
  case ProofKind::Recv:
    return "recv";
  case ProofKind::Barrier:
    return "barrier";
  case ProofKind::Permute:
    return "permute";
  case ProofKind::Reduce:
    return "reduce";
  case ProofKind::Gather:
    return "gather";
  case ProofKind::Scatter:
    return "scatter";
  }
  return "";
}

const char *mpcomm::toString(ProofViolationKind kind) {
  switch (kind) {
  case ProofViolationKind::None:
    return "none";
  case ProofViolationKind::Malformed:
    return "malformed";
  case ProofViolationKind::AwaitBeforeStart:
    return "await-before-start";
  case ProofViolationKind::DoubleStart:
    return "double-start";
  case ProofViolationKind::DoubleAwait:
    return "double-await";
  case ProofViolationKind::InvalidPeer:
    return "invalid-peer";
  case ProofViolationKind::MismatchedOrder:
    return "mismatched-order";
  case ProofViolationKind::MismatchedKind:
    return "mismatched-kind";
  case ProofViolationKind::MismatchedCount:
    return "mismatched-count";
  case ProofViolationKind::MismatchedType:
    return "mismatched-type";
  case ProofViolationKind::MismatchedWire:
    return "mismatched-wire";
  case ProofViolationKind::MismatchedAccumulate:
    return "mismatched-accumulate";
  case ProofViolationKind::MismatchedReduction:
    return "mismatched-reduction";
  case ProofViolationKind::MismatchedRoot:
    return "mismatched-root";
  case ProofViolationKind::MismatchedTag:
    return "mismatched-tag";
  case ProofViolationKind::MissingParticipant:
    return "missing-participant";
  case ProofViolationKind::SendWithoutRecv:
    return "send-without-recv";
  case ProofViolationKind::RecvWithoutSend:
    return "recv-without-send";
  case ProofViolationKind::Deadlock:
    return "deadlock";
  }
  return "";
}

ProofSide proof::sideOf(const ProofModel &model, int64_t cell, int op) {
  ProofSide side;
  side.coordinates = model.grid.firstRank(cell);
  side.rank = 0;
  for (size_t a = 0; a < side.coordinates.size(); ++a)
    side.rank = side.rank * model.problem.mesh[a].size + side.coordinates[a];
  side.classIndex = model.classOf[cell];
  side.op = op;
  const Compiled &program = model.compiled[side.classIndex];
  if (op >= 0 && op < int(program.startOf.size()))
    side.instruction = program.startOf[op];
  return side;
}

std::string proof::describeRank(const ProofProblem &problem,
                                const ProofSide &side) {
  std::string text = "rank " + std::to_string(side.rank);
  for (size_t a = 0; a < side.coordinates.size(); ++a)
    text += (a ? ", " : " (") + problem.mesh[a].name + " " +
            std::to_string(side.coordinates[a]);
  return text + ")";
}

static std::string describePeer(const ProofProblem &problem,
                                const ProofOp &op) {
  const char *way = op.kind == ProofKind::Send   ? "to "
                    : op.kind == ProofKind::Recv ? "from "
                                                 : "root ";
  if (op.peer.kind == ProofPeer::Member)
    return way + std::to_string(op.peer.number);
  return way + problem.mesh[op.peer.axis].name +
         (op.peer.number < 0 ? " - " : " + ") +
         std::to_string(std::abs(op.peer.number));
}

std::string proof::describeOp(const ProofProblem &problem,
                              const ProofSide &side) {
  const ProofOp &op =
      problem.classes[side.classIndex].program.collectives[side.op];
  std::vector<std::string> parts;
  if (reduces(op.kind))
    parts.push_back(op.reduction);
  if (op.kind != ProofKind::Barrier)
    parts.push_back(std::to_string(op.count) + " x " + op.type);
  if (op.wire != op.type && op.kind != ProofKind::Barrier)
    parts.push_back("wire " + op.wire);
  if (reduces(op.kind))
    parts.push_back("accumulate " + op.accumulate);
  if (op.peer.kind != ProofPeer::None)
    parts.push_back(describePeer(problem, op));
  if (!op.tag.empty())
    parts.push_back(op.tag);
  std::string text = toString(op.kind);
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i ? ", " : "(") + parts[i];
  if (!parts.empty())
    text += ")";
  if (!op.location.empty())
    text += " at " + op.location;
  return text;
}

std::string proof::describeCommunicator(const ProofProblem &problem,
                                        int index) {
  const ProofCommunicator &communicator = problem.communicators[index];
  std::string text = "communicator ";
  for (size_t i = 0; i < communicator.axes.size(); ++i)
    text += (i ? " x " : "") + problem.mesh[communicator.axes[i]].name;
  if (communicator.channel != 0)
    text += " channel " + std::to_string(communicator.channel);
  return text;
}

//===----------------------------------------------------------------------===//
// The proof
//===----------------------------------------------------------------------===//

std::string proof::describeTooManyCells() {
  return "more than " + std::to_string(Grid::maxCells) +
         " ranks have to be distinguished";
}

/// Of a problem that checks.
static ProofResult prove(const ProofProblem &problem, Grid::Folding folding) {
  ProofResult result;
  ProofModel model(problem, folding);
  result.ranks = 1;
  for (const ProofAxis &axis : problem.mesh)
    result.ranks *= axis.size;
  result.cells = model.grid.cells();
  auto accepts = [&](ProofViolation violation) {
    result.violation = std::move(violation);
    return result.accepted();
  };
  if (result.cells > Grid::maxCells) {
    result.violation.kind = ProofViolationKind::Malformed;
    result.violation.message = describeTooManyCells();
    return result;
  }
  if (accepts(layPrograms(model)) && accepts(resolvePeers(model)) &&
      accepts(matchCollectives(model)) && accepts(matchMessages(model)))
    accepts(execute(model, result.instructions));
  // A cycle of ranks may be longer than that of the cells they are folded to.
  if (!result.accepted() && model.grid.rotates())
    if (ProofResult apart = prove(problem, Grid::Slabs); !apart.accepted())
      return apart;
  return result;
}

//===----------------------------------------------------------------------===//
// What would resolve a deadlock
//===----------------------------------------------------------------------===//

namespace {
/// Moves messages to a channel of their own until no rank waits for ever.
class Adviser {
public:
  Adviser(const ProofProblem &problem, Grid::Folding folding)
      : problem(problem), folding(folding) {}
  void run(ProofResult &result);

private:
  const ProofOp &opOf(const ProofSide &side) const {
    return problem.classes[side.classIndex].program.collectives[side.op];
  }
  void addChannel(const ProofWait &wait);
  static int move(ProofProblem &changed, const ProofSide &side);

  ProofProblem problem;
  Grid::Folding folding;
};
} // namespace

/// A further one of the communicator that a rank waits on.
void Adviser::addChannel(const ProofWait &wait) {
  ProofCommunicator fresh = problem.communicators[opOf(wait.head).communicator];
  for (const ProofCommunicator &other : problem.communicators)
    if (other.axes == fresh.axes && other.channel >= fresh.channel)
      fresh.channel = other.channel + 1;
  problem.communicators.push_back(fresh);
}

/// Puts the sends to, or the recvs from, the peer of an op on the last
/// communicator, in the program of its class; returns how many they are.
int Adviser::move(ProofProblem &changed, const ProofSide &side) {
  std::vector<ProofOp> &ops =
      changed.classes[side.classIndex].program.collectives;
  ProofOp like = ops[side.op];
  int moved = 0;
  for (ProofOp &op : ops)
    if (op.kind == like.kind && op.communicator == like.communicator &&
        op.peer == like.peer) {
      op.communicator = int(changed.communicators.size()) - 1;
      ++moved;
    }
  return moved;
}

void Adviser::run(ProofResult &result) {
  // About as many proofs as read this number of instructions.
  int64_t left = int64_t(1) << 18, each = result.cells + (1 << 12);
  for (const ProofClass &c : problem.classes)
    each += int64_t(c.program.instructions.size());
  std::vector<ProofWait> cycle = result.violation.cycle;
  // From one channel alone: messages of two would take each other's place.
  int from = opOf(cycle.front().head).communicator;
  addChannel(cycle.front());
  std::vector<ProofSide> moved;
  std::string text;
  while (true) {
    // The first move, if none is enough: what it leaves is looked at again.
    ProofProblem next;
    std::vector<ProofWait> nextCycle;
    std::vector<ProofSide> nextMoved;
    std::string nextText;
    for (const ProofWait &wait : cycle) {
      ProofSide send = wait.head, recv = wait.needed;
      if (recv.op < 0 || opOf(send).communicator != from)
        continue;
      if (opOf(send).kind == ProofKind::Recv)
        std::swap(send, recv);
      if (opOf(send).kind != ProofKind::Send)
        continue;
      if ((left -= each) < 0)
        return;
      ProofProblem changed = problem;
      int count = move(changed, send);
      move(changed, recv);
      ProofResult then = prove(changed, folding);
      std::string words =
          text + (text.empty() ? "" : "; ") + describeOp(problem, send) +
          " of " + describeRank(problem, send) + " and " +
          describeOp(problem, recv) + " of " + describeRank(problem, recv);
      if (count > 1)
        words += ", and the " + std::to_string(count - 1) +
                 " others between them in this direction";
      std::vector<ProofSide> sides = moved;
      sides.insert(sides.end(), {send, recv});
      if (then.accepted()) {
        result.violation.moved = std::move(sides);
        result.violation.advice =
            "another channel resolves this: move to channel " +
            std::to_string(problem.communicators.back().channel) + " " + words;
        return;
      }
      if (!nextMoved.empty() ||
          then.violation.kind != ProofViolationKind::Deadlock)
        continue;
      next = std::move(changed);
      nextCycle = std::move(then.violation.cycle);
      nextMoved = std::move(sides);
      nextText = std::move(words);
    }
    if (nextMoved.empty())
      return;
    problem = std::move(next);
    cycle = std::move(nextCycle);
    moved = std::move(nextMoved);
    text = std::move(nextText);
  }
}

ProofResult mpcomm::proveCommunication(const ProofProblem &problem,
                                       ProofOptions options) {
  if (std::string error = problem.check(); !error.empty()) {
    ProofResult result;
    result.violation.kind = ProofViolationKind::Malformed;
    result.violation.message = error;
    return result;
  }
  Grid::Folding folding =
      options.fold ? Grid::SlabsAndRotations : Grid::Nothing;
  ProofResult result = prove(problem, folding);
  if (result.violation.kind == ProofViolationKind::Deadlock)
    Adviser(problem, folding).run(result);
  return result;
}
