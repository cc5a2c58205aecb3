//===- CommunicationProof.h - no rank hangs, all data match -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proves, before any rank runs, that the communication of the programs of all
// ranks matches and terminates, or reports the ranks and ops that conflict.
// Ranks that nothing distinguishes are proved once.
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
/// one stream for each communicator. The channel distinguishes communicators
/// with the same axes.
struct ProofCommunicator {
  std::vector<int> axes;
  int channel = 0;
  /// Whether sends end without their recv, because the channel holds any number
  /// of messages. Otherwise a send ends together with its recv.
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

/// The root of a collective, the destination of a send, or the source of a
/// recv.
struct ProofPeer {
  enum Kind {
    None,
    /// Member number `number` of the group.
    Member,
    /// The rank at offset `number` along axis `axis` of the mesh, which is one
    /// of the communicator's axes. Not for roots. With `wraps` the offset is
    /// modulo the size of the axis; otherwise a rank without such a neighbour
    /// must not send to it.
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

/// A collective, send or recv of a program. Ops that meet must agree in all
/// members that their kind uses, except `location`.
struct ProofOp {
  ProofKind kind = ProofKind::Barrier;
  /// Index into the problem's communicators.
  int communicator = 0;
  /// Elements, counted as in mprt_collective.
  int64_t count = 0;
  /// Element type, and wire type.
  std::string type, wire;
  /// For all_reduce, reduce_scatter and reduce: the type of partial sums, and
  /// the reduction (sum, mean, ...).
  std::string accumulate, reduction;
  ProofPeer peer;
  /// The caller's name of the data, equal on ranks that exchange them. Without
  /// tags, two messages of equal size that are swapped on one side only are not
  /// detected.
  std::string tag;
  /// Opaque; for error messages.
  std::string location;
};

/// The communication of a program, without Computes. A Start enqueues its op on
/// the stream of its communicator and never blocks; an Await waits until its op
/// has ended. Ops that are not started are ignored.
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

  /// Empty if the problem is well formed, whatever its programs do; else what
  /// is wrong with it. Time: linear, and quadratic in the number of
  /// communicators.
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
  /// A peer that is not another rank of the group.
  InvalidPeer,
  // Of ops that meet. Both sides have the same ops in different orders:
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

/// A rank and an op of its program. Of equal ranks, the first one.
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
  /// The op at the head of its stream: the first one that has not ended.
  ProofSide head;
  /// The Await at which the rank is blocked, and its op. At the end of the
  /// program, `instruction` is the number of instructions. -1 if the position
  /// of the rank does not matter: the needed op was started, but another op is
  /// at the head of its stream.
  int instruction = -1;
  int awaited = -1;
  /// The op of the next rank of the cycle that `head` needs; not begun yet.
  ProofSide needed;
};

struct ProofViolation {
  ProofViolationKind kind = ProofViolationKind::None;
  /// One line; for a deadlock, also one line for each of its first 16 ranks. No
  /// capital, no full stop.
  std::string message;
  /// The ranks that conflict, at most two; empty for a deadlock.
  std::vector<ProofSide> sides;
  /// Each waits for the next, the last for the first.
  std::vector<ProofWait> cycle;
  /// If moving messages to another channel resolves a deadlock, which was
  /// proved: these messages, in words; else empty.
  std::string advice;
  /// For each sender and receiver, the first of these sends, and its recv.
  std::vector<ProofSide> moved;
};

struct ProofOptions {
  /// Whether equal ranks are proved together. The result does not depend on it.
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

/// Accepts if and only if, in the model, every execution terminates and all ops
/// that meet match. Time: O(n log n) for n instructions in all classes, plus
/// linear in the instructions of all cells.
ProofResult proveCommunication(const ProofProblem &problem,
                               ProofOptions options = {});

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_COMMUNICATIONPROOF_COMMUNICATIONPROOF_H
