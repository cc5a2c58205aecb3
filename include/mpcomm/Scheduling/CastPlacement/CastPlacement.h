//===- CastPlacement.h - where a graph changes precision --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some ops of a graph must run in a narrow type, some in a wide type, and the
// rest may run in either. A value that is produced in one type and read in the
// other is cast, once for all such readers. placeCasts chooses the type of each
// op such that the fewest bytes are cast, by an exact minimum cut. The model
// and the proof are in CastPlacement.cpp and docs/Design/Precision.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H
#define MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// The type that an op may run in.
enum class CastClass : uint8_t {
  Narrow,  ///< the narrow type
  Wide,    ///< the wide type
  Promote, ///< either; the narrow type only if the inputs are narrow values
  Moves,   ///< either, since the op moves elements without rounding
};

/// The effect of narrowing a value on accuracy.
enum class ValueKind : uint8_t {
  /// Has bits that only the wide type holds. It is narrowed only for readers
  /// that must run in the narrow type.
  Exact,
  /// May be narrow, but does not make its readers narrow: constants that the
  /// narrow type represents exactly, and biases that are added to narrow
  /// values.
  Neutral,
  /// Computed from narrow values.
  Narrow,
};

/// A graph of values and ops. Ops are in an order in which producers come
/// before consumers.
struct CastProblem {
  struct Value {
    /// The cost of a cast, at least 0.
    int64_t bytes = 0;
    /// The op that produces it; -1: it is an input.
    int producer = -1;
    /// Kind and type of an input. For other values they follow from the op.
    ValueKind kind = ValueKind::Exact;
    bool isNarrow = false;
    /// Ops that read it, in any order, each once or more often.
    std::vector<int> consumers;
  };
  std::vector<CastClass> ops;
  std::vector<Value> values;

  /// Empty if indices are in range, producers precede consumers, and the sum of
  /// bytes times the number of values is below 2^58; else the first violation.
  /// Time: linear.
  std::string check() const;
};

struct CastPlan {
  /// By op: whether it runs in the narrow type.
  std::vector<bool> isNarrow;
  /// Values that are cast, and their bytes.
  int64_t casts = 0, bytes = 0;
};

/// The kinds of all values. The results of a Narrow op are Narrow, those of a
/// Wide op Exact. The results of a Promote op are Narrow if one of its operands
/// is Narrow and none is Exact; else they are Exact and the op runs in the wide
/// type. The results of a Moves op are Exact if any operand is Exact, else
/// Narrow if any is Narrow, else Neutral. Time: linear.
std::vector<ValueKind> getValueKinds(const CastProblem &problem);

/// Empty if `plan` respects classes and kinds and its counts are correct; else
/// what is wrong. Narrow and Wide ops have their type, Promote ops that of
/// getValueKinds, and an Exact value of an op that runs narrow is read only by
/// narrow ops.
std::string verify(const CastProblem &problem, const CastPlan &plan);

/// The plan with the fewest bytes; among these the one with the fewest casts;
/// among these the one with the most narrow ops, which is unique. `problem`
/// must have an empty check(). Time: a maximum flow on a graph that is linear
/// in the problem.
CastPlan placeCasts(const CastProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_CASTPLACEMENT_CASTPLACEMENT_H
