//===- CommunicationProofCheck.cpp - a problem that can be proved ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a caller has to get right before anything is proved: numbers in range,
// and one program on each rank.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>
#include <cstdlib>

using namespace mpcomm;
using namespace mpcomm::proof;

static std::string quote(const std::string &name) { return "'" + name + "'"; }

static std::string checkCommunicators(const ProofProblem &problem) {
  for (size_t i = 0; i < problem.communicators.size(); ++i) {
    const ProofCommunicator &c = problem.communicators[i];
    std::string name = "communicator " + std::to_string(i);
    if (c.axes.empty())
      return name + " spans no axis";
    for (size_t a = 0; a < c.axes.size(); ++a)
      if (c.axes[a] < 0 || c.axes[a] >= int(problem.mesh.size()) ||
          (a > 0 && c.axes[a] <= c.axes[a - 1]))
        return name + " spans axis " + std::to_string(c.axes[a]) +
               ", expected axes of the mesh, ascending";
    for (size_t k = 0; k < i; ++k)
      if (problem.communicators[k].axes == c.axes &&
          problem.communicators[k].channel == c.channel)
        return name + " has the axes and the channel of communicator " +
               std::to_string(k);
  }
  return "";
}

static std::string checkPeer(const ProofProblem &problem, const ProofOp &op) {
  const ProofPeer &peer = op.peer;
  std::string expected;
  if (isMessage(op.kind)) {
    if (peer.kind == ProofPeer::None)
      expected = "a peer";
  } else if (hasRoot(op.kind)) {
    if (peer.kind != ProofPeer::Member)
      expected = "a member as root";
    else if (!memberCoordinates(problem.mesh,
                                problem.communicators[op.communicator].axes,
                                peer.number))
      expected =
          "a member of the group as root, found " + std::to_string(peer.number);
  } else if (peer.kind != ProofPeer::None) {
    expected = "no peer";
  }
  if (peer.kind == ProofPeer::Neighbour && expected.empty()) {
    const auto &axes = problem.communicators[op.communicator].axes;
    if (std::find(axes.begin(), axes.end(), peer.axis) == axes.end())
      expected = "a neighbour along an axis of its communicator";
    else if (std::abs(peer.number) > INT32_MAX)
      expected = "an offset of 32 bits";
  }
  return expected;
}

static std::string checkClass(const ProofProblem &problem,
                              const ProofClass &c) {
  const ProofProgram &program = c.program;
  for (size_t k = 0; k < program.collectives.size(); ++k) {
    const ProofOp &op = program.collectives[k];
    std::string name = "op " + std::to_string(k);
    if (op.communicator < 0 ||
        op.communicator >= int(problem.communicators.size()))
      return name + " names communicator " + std::to_string(op.communicator) +
             " of " + std::to_string(problem.communicators.size());
    if (op.count < 0)
      return name + " has a negative count";
    if (std::string expected = checkPeer(problem, op); !expected.empty())
      return name + ": " + toString(op.kind) + " expects " + expected;
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    int k = program.instructions[i].collective;
    if (program.instructions[i].kind == RankInstruction::Compute)
      return "instruction " + std::to_string(i) +
             " computes, expected a start or an await";
    if (k < 0 || k >= int(program.collectives.size()))
      return "instruction " + std::to_string(i) + " names op " +
             std::to_string(k) + " of " +
             std::to_string(program.collectives.size());
  }
  if (c.boxes.empty())
    return "no rank runs it";
  for (const ProofBox &box : c.boxes) {
    bool fits = box.begin.size() == problem.mesh.size() &&
                box.end.size() == problem.mesh.size();
    for (size_t a = 0; fits && a < problem.mesh.size(); ++a)
      fits = box.begin[a] >= 0 && box.begin[a] < box.end[a] &&
             box.end[a] <= problem.mesh[a].size;
    if (!fits)
      return "a box is empty or not within the mesh";
  }
  return "";
}

/// Each rank is in one box.
static std::string checkBoxes(const ProofProblem &problem) {
  Grid grid(problem, Grid::BoxesOnly);
  if (grid.cells() > Grid::maxCells)
    return describeTooManyCells();
  std::vector<int> classOf(grid.cells(), -1);
  int64_t twice = -1;
  int first = -1, second = -1;
  for (size_t c = 0; c < problem.classes.size(); ++c)
    for (const ProofBox &box : problem.classes[c].boxes)
      grid.forEachCell(box, [&](int64_t cell) {
        if (classOf[cell] >= 0 && twice < 0) {
          twice = cell;
          first = classOf[cell];
          second = int(c);
        }
        classOf[cell] = int(c);
      });
  auto name = [&](int64_t cell) {
    ProofSide side;
    side.coordinates = grid.firstRank(cell);
    side.rank = 0;
    for (size_t a = 0; a < problem.mesh.size(); ++a)
      side.rank = side.rank * problem.mesh[a].size + side.coordinates[a];
    return describeRank(problem, side);
  };
  if (twice >= 0)
    return name(twice) + " runs both " + quote(problem.classes[first].name) +
           " and " + quote(problem.classes[second].name);
  auto hole = std::find(classOf.begin(), classOf.end(), -1);
  if (hole != classOf.end())
    return name(hole - classOf.begin()) + " runs no program";
  return "";
}

std::string ProofProblem::check() const {
  if (mesh.empty())
    return "the mesh has no axis";
  int64_t ranks = 1;
  for (const ProofAxis &axis : mesh) {
    if (axis.size < 1)
      return "mesh axis " + quote(axis.name) + " has size " +
             std::to_string(axis.size);
    if (axis.size > INT32_MAX / ranks)
      return "the mesh has more than " + std::to_string(INT32_MAX) + " ranks";
    ranks *= axis.size;
  }
  if (std::string error = checkCommunicators(*this); !error.empty())
    return error;
  for (const ProofClass &c : classes)
    if (std::string error = checkClass(*this, c); !error.empty())
      return "program " + quote(c.name) + ": " + error;
  return checkBoxes(*this);
}
