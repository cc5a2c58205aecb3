//===- CommunicationProofImpl.h - parts of the proof ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the files of the proof share: the mesh folded to cells, programs as
// numbers, flows of messages, and words.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOFIMPL_H
#define MPCOMM_LIB_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOFIMPL_H

#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

namespace mpcomm::proof {

inline bool isMessage(ProofKind kind) {
  return kind == ProofKind::Send || kind == ProofKind::Recv;
}
inline bool reduces(ProofKind kind) {
  return kind == ProofKind::AllReduce || kind == ProofKind::ReduceScatter ||
         kind == ProofKind::Reduce;
}
inline bool hasRoot(ProofKind kind) {
  return kind == ProofKind::Broadcast || kind == ProofKind::Reduce ||
         kind == ProofKind::Gather || kind == ProofKind::Scatter;
}

//===----------------------------------------------------------------------===//
// The folded mesh
//===----------------------------------------------------------------------===//

/// Each axis is cut into slabs. The ranks with coordinates in the same slabs
/// are a cell: nothing that the proof looks at tells them apart.
class Grid {
public:
  struct Axis {
    /// The first coordinate of each slab, ascending, from 0.
    std::vector<int64_t> begins{0};
    int64_t size = 1;
    /// Cells from one slab to the next.
    int64_t stride = 1;
    /// One slab, though its ranks send to their neighbours: any of them can be
    /// turned into any other.
    bool rotates = false;

    int64_t slabs() const { return int64_t(begins.size()); }
    int64_t slabOf(int64_t coordinate) const;
  };

  /// How much is folded.
  enum Folding { Nothing, Slabs, SlabsAndRotations, BoxesOnly };
  Grid(const ProofProblem &problem, Folding folding);

  /// If there are more, cells() says so, and the grid is not to be used.
  static constexpr int64_t maxCells = int64_t(1) << 26;
  int64_t cells() const { return numCells; }
  bool rotates() const;

  int64_t slab(int64_t cell, int axis) const {
    return cell / axes[axis].stride % axes[axis].slabs();
  }
  /// The coordinates of the first rank of a cell.
  std::vector<int64_t> firstRank(int64_t cell) const;
  /// The cells of a box whose edges were cut, first to last by axis.
  void forEachCell(const ProofBox &box,
                   const std::function<void(int64_t)> &body) const;

  /// The least cell of the cell's group, which stands for the group, and how
  /// many cells it has.
  int64_t groupOf(int64_t cell, const std::vector<int> &spanned) const;
  int64_t groupCells(const std::vector<int> &spanned) const;
  /// Its cells, given the group, ascending.
  std::vector<int64_t> members(int64_t group,
                               const std::vector<int> &spanned) const;

  /// A peer: its cell and, on an axis that rotates, how much farther it is.
  struct Peer {
    int64_t cell;
    int64_t offset;
  };
  /// Nothing if it is no other rank of the group.
  std::optional<Peer> resolve(int64_t cell, const std::vector<int> &spanned,
                              const ProofPeer &peer) const;

private:
  void cutAtPeers(const ProofProblem &problem, bool rotations);
  void cutEverywhere(int axis);
  std::vector<Axis> axes;
  int64_t numCells = 1;
  bool tooFine = false;
};

/// The coordinates of member `number` on the axes `spanned`, or nothing.
std::optional<std::vector<int64_t>>
memberCoordinates(const std::vector<ProofAxis> &mesh,
                  const std::vector<int> &spanned, int64_t number);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Equal numbers for equal keys.
template <typename Key, typename Map = std::map<Key, int>> class Numbering {
public:
  int of(const Key &key) {
    return numbers.try_emplace(key, int(numbers.size())).first->second;
  }

private:
  Map numbers;
};

/// Numbers for what is compared of an op, and for sequences of them.
struct Signatures {
  int of(const ProofOp &op);
  Numbering<std::string, std::unordered_map<std::string, int>> ops;
  Numbering<std::vector<int>> sequences;
};

/// A program as numbers. Streams are the communicators it uses; positions on a
/// stream count its Starts from 0.
struct Compiled {
  struct Stream {
    int communicator;
    /// In the order of their Starts.
    std::vector<int> ops;
    /// Those that are collectives, and the number of their sequence.
    std::vector<int> collectives;
    int sequence;
  };
  struct Step {
    bool awaits;
    int stream;
    int position;
  };
  /// The sends to, or the recvs from, a peer.
  struct Use {
    int stream;
    bool sends;
    ProofPeer peer;
    std::vector<int> ops;
    int sequence;
  };

  std::vector<Step> steps;
  std::vector<Stream> streams;
  std::vector<Use> uses;
  /// By communicator: the stream, or -1.
  std::vector<int> streamOf;
  /// By op: its use or -1; the number of its signature; its Start or -1.
  std::vector<int> useOf, signatureOf, startOf;
};

/// Fills `compiled`; or says which instruction is wrong.
struct ProgramError {
  ProofViolationKind kind = ProofViolationKind::None;
  int instruction = -1;
};
ProgramError compile(const ProofProgram &program, size_t communicators,
                     Signatures &signatures, Compiled &compiled);

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// The messages from the ranks of a cell to those of another, or of the same,
/// at one offset.
struct Flow {
  int64_t from = -1, to = -1;
  int communicator = -1;
  /// Of the sender's and the receiver's class, ascending.
  std::vector<int> sends, recvs;
};

struct ProofModel {
  ProofModel(const ProofProblem &problem, Grid::Folding folding)
      : problem(problem), grid(problem, folding) {}

  const Compiled &programOf(int64_t cell) const {
    return compiled[classOf[cell]];
  }
  const std::vector<int> &axesOf(int communicator) const {
    return problem.communicators[communicator].axes;
  }
  int64_t flow(int64_t cell, int use) const {
    return flowOf[firstUse[cell] + use];
  }

  const ProofProblem &problem;
  Grid grid;
  Signatures signatures;
  std::vector<Compiled> compiled;
  /// By cell.
  std::vector<int> classOf;
  std::vector<int64_t> firstStream, firstUse;
  /// By cell and use.
  std::vector<int64_t> flowOf;
  std::vector<Flow> flows;
};

/// The proof, part by part; each says what is wrong, or nothing.
/// Compiles the programs and lays them on the cells.
ProofViolation layPrograms(ProofModel &model);
/// Resolves the peers and makes flows of them.
ProofViolation resolvePeers(ProofModel &model);
ProofViolation matchCollectives(ProofModel &model);
ProofViolation matchMessages(ProofModel &model);
/// Runs what matches; counts the instructions run.
ProofViolation execute(const ProofModel &model, int64_t &instructions);

/// The state of an execution.
struct Standstill {
  const ProofModel &model;
  /// By cell: the next instruction.
  std::vector<int> next;
  /// By cell and stream: how many ops were started, and have ended.
  std::vector<int> started, ended;
};
/// The account of a cycle in it; requires that an op has not ended.
ProofViolation describeDeadlock(const Standstill &state);

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

ProofSide sideOf(const ProofModel &model, int64_t cell, int op);
/// `rank 5 (pp 1, dp 1)`.
std::string describeRank(const ProofProblem &problem, const ProofSide &side);
/// `all_reduce(mean, 100 x f32) at step.mlir:3`.
std::string describeOp(const ProofProblem &problem, const ProofSide &side);
/// `communicator pp, dp`, and the channel if it is not 0.
std::string describeCommunicator(const ProofProblem &problem, int index);
std::string describeTooManyCells();

} // namespace mpcomm::proof

#endif // MPCOMM_LIB_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOFIMPL_H
