//===- CommunicationProof.cpp - the proof, and its words -----------------===//
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

#include "CommunicationProofImpl.h"
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

ProofSide proof::sideOf(const Model &model, int64_t cell, int op) {
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
  const ProofOp &op = problem.classes[side.classIndex].program.ops[side.op];
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
         " ranks have to be told apart";
}

/// Of a problem that checks.
static ProofResult prove(const ProofProblem &problem, Grid::Folding folding) {
  ProofResult result;
  Model model(problem, folding);
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

ProofResult mpcomm::proveCommunication(const ProofProblem &problem,
                                       ProofOptions options) {
  if (std::string error = problem.check(); !error.empty()) {
    ProofResult result;
    result.violation.kind = ProofViolationKind::Malformed;
    result.violation.message = error;
    return result;
  }
  return prove(problem, options.fold ? Grid::SlabsAndRotations : Grid::Nothing);
}
