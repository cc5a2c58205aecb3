//===- CommunicationProof.h - no rank hangs, all data match -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proves of the programs of all ranks, before any of them runs, that their
// communication matches and comes to an end, or says which ranks and ops are at
// odds. Ranks that nothing distinguishes are proved once.
//
// The model, theorem and proof: docs/Design/CommunicationProof.md
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOF_H
#define MPCOMM_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOF_H

#include "mpcomm/Scheduling/RankProgram.h"
#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// An axis of the mesh. Ranks are numbered row-major: the last axis varies
/// fastest.
struct ProofAxis {
  std::string name;
  int64_t size = 1;
};

/// The ranks that differ only in `axes` (indices into the mesh, ascending) are
/// a group, whose members are numbered row-major over those axes. Each rank has
/// one stream for each communicator. Communicators of the same axes are told
/// apart by their channel.
struct ProofCommunicator {
  std::vector<int> axes;
  int channel = 0;
  /// Sends end without their recv: the channel holds any number of messages.
  /// Where it is false, a send ends together with its recv.
  bool buffered = false;
};

enum class ProofKind {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Send,
  Recv,
  Barrier,
  Permute,
  Reduce,
  Gather,
  Scatter
};

/// "all_reduce", "send", ...
const char *toString(ProofKind kind);

/// The root of a collective that has one, the destination of a send, the source
/// of a recv.
struct ProofPeer {
  enum Kind {
    None,
    /// Member number `number` of the group.
    Member,
    /// The rank that is `number` farther along axis `axis` of the mesh, one of
    /// the communicator's. Not for roots. Round the axis' end if `wraps`;
    /// otherwise a rank that has no such neighbour must not send to it.
    Neighbour
  };
  Kind kind = None;
  int64_t number = 0;
  int axis = 0;
  bool wraps = false;

  bool operator==(const ProofPeer &) const = default;
  static ProofPeer member(int64_t number) { return {Member, number, 0, false}; }
  static ProofPeer neighbour(int axis, int64_t offset, bool wraps = false) {
    return {Neighbour, offset, axis, wraps};
  }
};

/// A collective, send or recv of a program. What is compared among those that
/// meet is, where the kind has it, all but `location`.
struct ProofOp {
  ProofKind kind = ProofKind::Barrier;
  /// Index into the problem's communicators.
  int communicator = 0;
  /// Elements, counted as in mprt_collective.
  int64_t count = 0;
  /// Element type, and the one that travels.
  std::string type, wire;
  /// Of all_reduce, reduce_scatter and reduce: the type in which partial sums
  /// are kept, and sum, mean, ...
  std::string accumulate, reduction;
  ProofPeer peer;
  /// What it carries, as the caller names it: equal where data are meant for
  /// each other. Without it, two messages of one size that change places on one
  /// side alone are not seen.
  std::string tag;
  /// Opaque; for messages.
  std::string location;
};

/// A program as far as others can tell: a Start, on the stream of its op's
/// communicator, never blocks, an Await waits until its op has ended, and there
/// are no Computes. Ops that are not started take no part.
using ProofProgram = RankProgram<ProofOp>;

/// Ranks whose coordinate on axis a is in [begin[a], end[a]).
struct ProofBox {
  std::vector<int64_t> begin, end;
};

/// The ranks of the boxes run the program.
struct ProofClass {
  std::string name;
  ProofProgram program;
  std::vector<ProofBox> boxes;
};

struct ProofProblem {
  std::vector<ProofAxis> mesh;
  std::vector<ProofCommunicator> communicators;
  /// Each rank of the mesh is in one box of one class.
  std::vector<ProofClass> classes;

  /// Empty, or what is wrong with the problem, as opposed to its programs.
  /// Time: linear, and quadratic in the number of communicators.
  std::string check() const;
};

enum class ProofViolationKind {
  None,
  /// ProofProblem::check.
  Malformed,
  // Of one program.
  AwaitBeforeStart,
  DoubleStart,
  DoubleAwait,
  /// A peer that is no other rank of the group.
  InvalidPeer,
  // Of those that meet. The ops of both sides are the same in another order:
  MismatchedOrder,
  MismatchedKind,
  MismatchedCount,
  MismatchedType,
  MismatchedWire,
  MismatchedAccumulate,
  MismatchedReduction,
  MismatchedRoot,
  MismatchedTag,
  /// A member of a group starts fewer collectives than another.
  MissingParticipant,
  SendWithoutRecv,
  RecvWithoutSend,
  // Of all programs together.
  Deadlock
};

/// "missing-participant", "deadlock", ...
const char *toString(ProofViolationKind kind);

/// A rank, and an op of its program. The first one of ranks that run the same.
struct ProofSide {
  int64_t rank = -1;
  std::vector<int64_t> coordinates;
  int classIndex = -1;
  /// Index of the op; -1: the rank has none.
  int op = -1;
  /// Index of the instruction: the op's Start, or the Await that is wrong.
  int instruction = -1;
};

/// A rank that is blocked, round the cycle of a deadlock.
struct ProofWait {
  /// The op that keeps its stream: the first on it that has not ended.
  ProofSide head;
  /// The Await at which the rank stands, and its op; `instruction` is the
  /// number of instructions at the program's end. -1 where it does not matter
  /// where the rank is: it was started, but its stream is kept.
  int instruction = -1;
  int awaited = -1;
  /// The op of the next rank of the cycle that `head` needs, not begun yet.
  ProofSide needed;
};

struct ProofViolation {
  ProofViolationKind kind = ProofViolationKind::None;
  /// One line, and for a deadlock one more for each of its first 16 ranks: no
  /// capital, no full stop.
  std::string message;
  /// The ranks at odds, at most two; empty for a deadlock.
  std::vector<ProofSide> sides;
  /// Each waits for the next, the last for the first.
  std::vector<ProofWait> cycle;
  /// Of a deadlock that messages on another channel would resolve (the proof
  /// has been done with them there): which, in words; else empty.
  std::string advice;
  /// Of each sender and receiver the first of these sends, and its recv.
  std::vector<ProofSide> moved;
};

struct ProofOptions {
  /// Whether ranks that run the same are proved together. The answer is the
  /// same.
  bool fold = true;
};

struct ProofResult {
  bool accepted() const { return violation.kind == ProofViolationKind::None; }

  ProofViolation violation;
  int64_t ranks = 0;
  /// Ranks that were distinguished.
  int64_t cells = 0;
  /// Instructions executed, one rank of each cell.
  int64_t instructions = 0;
};

/// Accepts if and only if, in the model, every execution ends and all that
/// meet match. Time: O(n log n) for n instructions over the classes, and linear
/// in the cells with their instructions.
ProofResult proveCommunication(const ProofProblem &problem,
                               ProofOptions options = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOF_H
