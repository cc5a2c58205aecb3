//===- CommunicationProofGrid.cpp - ranks that run the same ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An axis is cut at the edges of boxes, round the members that are sent to or
// received from, and at every coordinate if neighbours along it are; unless all
// of that axis is one slab and the neighbours go round its end, so that turning
// the axis changes nothing. Why that is enough: docs/Design/
// CommunicationProof.md, "Folding".
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>
#include <numeric>

using namespace mpcomm;
using namespace mpcomm::proof;

int64_t Grid::Axis::slabOf(int64_t coordinate) const {
  return std::upper_bound(begins.begin(), begins.end(), coordinate) -
         begins.begin() - 1;
}

std::optional<std::vector<int64_t>>
proof::memberCoordinates(const std::vector<ProofAxis> &mesh,
                         const std::vector<int> &spanned, int64_t number) {
  std::vector<int64_t> coordinates(spanned.size());
  if (number < 0)
    return std::nullopt;
  for (size_t i = spanned.size(); i-- > 0;) {
    coordinates[i] = number % mesh[spanned[i]].size;
    number /= mesh[spanned[i]].size;
  }
  if (number != 0)
    return std::nullopt;
  return coordinates;
}

void Grid::cutEverywhere(int axis) {
  if (axes[axis].size > maxCells) {
    tooFine = true;
    return;
  }
  axes[axis].begins.resize(axes[axis].size);
  std::iota(axes[axis].begins.begin(), axes[axis].begins.end(), int64_t(0));
}

void Grid::cutAtPeers(const ProofProblem &problem, bool rotations) {
  enum Neighbours { None, AllWrap, SomeEnd };
  std::vector<Neighbours> neighbours(axes.size(), None);
  for (const ProofClass &c : problem.classes)
    for (const ProofOp &op : c.program.collectives) {
      if (!isMessage(op.kind))
        continue;
      const ProofPeer &peer = op.peer;
      if (peer.kind == ProofPeer::Neighbour) {
        neighbours[peer.axis] =
            std::max(neighbours[peer.axis], peer.wraps ? AllWrap : SomeEnd);
        continue;
      }
      const std::vector<int> &spanned =
          problem.communicators[op.communicator].axes;
      auto at = memberCoordinates(problem.mesh, spanned, peer.number);
      for (size_t i = 0; at && i < spanned.size(); ++i) {
        std::vector<int64_t> &begins = axes[spanned[i]].begins;
        begins.push_back((*at)[i]);
        begins.push_back((*at)[i] + 1);
      }
    }
  for (size_t a = 0; a < axes.size(); ++a) {
    if (neighbours[a] == None)
      continue;
    std::vector<int64_t> &begins = axes[a].begins;
    bool whole = std::all_of(begins.begin(), begins.end(), [&](int64_t begin) {
      return begin == 0 || begin == axes[a].size;
    });
    if (rotations && whole && neighbours[a] == AllWrap && axes[a].size > 1)
      axes[a].rotates = true;
    else
      cutEverywhere(int(a));
  }
}

Grid::Grid(const ProofProblem &problem, Folding folding)
    : axes(problem.mesh.size()) {
  for (size_t a = 0; a < axes.size(); ++a)
    axes[a].size = problem.mesh[a].size;
  for (const ProofClass &c : problem.classes)
    for (const ProofBox &box : c.boxes)
      for (size_t a = 0; a < axes.size(); ++a) {
        axes[a].begins.push_back(box.begin[a]);
        axes[a].begins.push_back(box.end[a]);
      }
  if (folding == Nothing) {
    for (size_t a = 0; a < axes.size(); ++a)
      cutEverywhere(int(a));
  } else if (folding != BoxesOnly) {
    cutAtPeers(problem, folding == SlabsAndRotations);
  }
  for (size_t a = axes.size(); a-- > 0;) {
    std::vector<int64_t> &begins = axes[a].begins;
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    if (begins.back() == axes[a].size)
      begins.pop_back();
    axes[a].stride = numCells;
    numCells = std::min(numCells * axes[a].slabs(), maxCells + 1);
  }
  if (tooFine)
    numCells = maxCells + 1;
}

bool Grid::rotates() const {
  return std::any_of(axes.begin(), axes.end(),
                     [](const Axis &axis) { return axis.rotates; });
}

std::vector<int64_t> Grid::firstRank(int64_t cell) const {
  std::vector<int64_t> coordinates;
  for (size_t a = 0; a < axes.size(); ++a)
    coordinates.push_back(axes[a].begins[slab(cell, int(a))]);
  return coordinates;
}

void Grid::forEachCell(const ProofBox &box,
                       const std::function<void(int64_t)> &body) const {
  std::vector<int64_t> first, last, at;
  for (size_t a = 0; a < axes.size(); ++a) {
    first.push_back(axes[a].slabOf(box.begin[a]));
    last.push_back(axes[a].slabOf(box.end[a] - 1));
  }
  at = first;
  while (true) {
    int64_t cell = 0;
    for (size_t a = 0; a < axes.size(); ++a)
      cell += at[a] * axes[a].stride;
    body(cell);
    size_t a = axes.size();
    while (a > 0 && at[a - 1] == last[a - 1]) {
      at[a - 1] = first[a - 1];
      --a;
    }
    if (a == 0)
      return;
    ++at[a - 1];
  }
}

int64_t Grid::groupOf(int64_t cell, const std::vector<int> &spanned) const {
  int64_t group = cell;
  for (int axis : spanned)
    group -= slab(cell, axis) * axes[axis].stride;
  return group;
}

int64_t Grid::groupCells(const std::vector<int> &spanned) const {
  int64_t count = 1;
  for (int axis : spanned)
    count *= axes[axis].slabs();
  return count;
}

std::vector<int64_t> Grid::members(int64_t group,
                                   const std::vector<int> &spanned) const {
  std::vector<int64_t> cells{group};
  for (int axis : spanned) {
    std::vector<int64_t> grown;
    for (int64_t cell : cells)
      for (int64_t i = 0; i < axes[axis].slabs(); ++i)
        grown.push_back(cell + i * axes[axis].stride);
    cells = std::move(grown);
  }
  return cells;
}

std::optional<Grid::Peer> Grid::resolve(int64_t cell,
                                        const std::vector<int> &spanned,
                                        const ProofPeer &peer) const {
  if (peer.kind == ProofPeer::Neighbour) {
    const Axis &axis = axes[peer.axis];
    int64_t offset = peer.number % axis.size;
    if (axis.rotates) {
      if (offset == 0)
        return std::nullopt;
      return Peer{cell, offset < 0 ? offset + axis.size : offset};
    }
    int64_t here = slab(cell, peer.axis);
    int64_t there = here + (peer.wraps ? offset : peer.number);
    if (peer.wraps)
      there = (there + axis.size) % axis.size;
    if (there < 0 || there >= axis.size || there == here)
      return std::nullopt;
    return Peer{cell + (there - here) * axis.stride, 0};
  }
  // The same as memberCoordinates, by slabs.
  int64_t number = peer.number, there = groupOf(cell, spanned);
  if (number < 0)
    return std::nullopt;
  for (size_t i = spanned.size(); i-- > 0;) {
    const Axis &axis = axes[spanned[i]];
    there += axis.slabOf(number % axis.size) * axis.stride;
    number /= axis.size;
  }
  if (number != 0 || there == cell)
    return std::nullopt;
  return Peer{there, 0};
}
