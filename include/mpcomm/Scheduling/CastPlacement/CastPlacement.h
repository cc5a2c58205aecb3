//===- CastPlacement.h - where a graph changes precision --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some ops of a graph must run in a narrow type, some in a wide one, and the
// rest in either. Where a value is made in one type and read in the other it is
// cast, once for all who read it so. This decides the type of each op so that
// the fewest bytes are cast: an exact minimum cut. The model and the proof are
// in CastPlacement.cpp and docs/Design/Precision.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H
#define MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// What an op computes in.
enum class CastClass : uint8_t {
  Narrow,  ///< the narrow type
  Wide,    ///< the wide type
  Promote, ///< either, but computes: in the narrow type only from narrow values
  Moves,   ///< either: moves elements and rounds none of its own
};

/// What narrowing a value would cost in accuracy.
enum class ValueKind : uint8_t {
  /// Has bits that the wide type alone holds: narrowed for those who ask for
  /// the narrow type, and for nobody else.
  Exact,
  /// Narrow on its own account, but no reason for others to be so: constants
  /// that the narrow type holds, the biases that are added to narrow values.
  Neutral,
  /// Comes from narrow values.
  Narrow,
};

/// A graph of values and ops. Ops are in an order in which producers come
/// before consumers.
struct CastProblem {
  struct Value {
    /// What a cast of it costs, at least 0.
    int64_t bytes = 0;
    /// The op that makes it; -1: it comes in from outside.
    int producer = -1;
    /// Of a value from outside: its kind, and its type. Of one that an op makes
    /// they follow from the op.
    ValueKind kind = ValueKind::Exact;
    bool isNarrow = false;
    /// Ops that read it, in any order, each once or more often.
    std::vector<int> consumers;
  };
  std::vector<CastClass> ops;
  std::vector<Value> values;

  /// The first thing that is wrong, or nothing: indices in range, producers
  /// before consumers, all bytes times the number of values below 2^58. Time:
  /// linear.
  std::string check() const;
};

struct CastPlan {
  /// By op: whether it runs in the narrow type.
  std::vector<bool> isNarrow;
  /// Values that are cast, and their bytes.
  int64_t casts = 0, bytes = 0;
};

/// The kinds of all values: a Narrow op makes Narrow ones, a Wide op Exact
/// ones. A Promote op makes Narrow values if one of its operands is Narrow and
/// none Exact, else Exact ones, and then runs in the wide type. One that Moves
/// makes Exact values if any operand is Exact, else Narrow if any is Narrow,
/// else Neutral ones. Time: linear.
std::vector<ValueKind> getValueKinds(const CastProblem &problem);

/// Whether `plan` obeys classes and kinds, and counts right; else what is
/// wrong. Obeys: Narrow and Wide ops as they are; Promote ones as getValueKinds
/// says; an Exact value of an op that runs narrow is read by narrow ops alone.
std::string verify(const CastProblem &problem, const CastPlan &plan);

/// The plan of the fewest bytes; of those the one of the fewest casts; of those
/// the one with the most narrow ops, which is unique. `problem` has an empty
/// check(). Time: a maximum flow on a graph that is linear in the problem.
CastPlan placeCasts(const CastProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H
