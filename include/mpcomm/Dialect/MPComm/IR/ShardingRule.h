//===- ShardingRule.h - how an op may be split over ranks -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What ShardingOpInterface returns. The rules are those of Shardy's op sharding
// rules: factors, which dimensions of operands and results share.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_IR_SHARDINGRULE_H
#define MPCOMM_DIALECT_MPCOMM_IR_SHARDINGRULE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include <optional>

namespace mpcomm {

enum class Reduction : uint32_t;

/// Dimensions that are split together. Rank r of N has the r-th of N equal
/// blocks of each of them, and all of what lacks the factor. The op, on types
/// of these sizes, then gives the r-th block of each result that has the
/// factor. A result that lacks it is the whole; with `reduction`, it becomes
/// the whole when it is reduced over the ranks.
struct ShardingFactor {
  /// In place of a dimension: the operand or result lacks the factor.
  static constexpr int64_t kNone = -1;
  /// The result differs, and is no part of the whole.
  static constexpr int64_t kLocal = -2;

  /// The ranks may be any divisor of it.
  int64_t size = 0;
  /// For each operand, and each result, its dimension.
  llvm::SmallVector<int64_t, 4> operands, results;
  std::optional<Reduction> reduction;
};

/// What an op's results are where its operands are not replicated. What it says
/// nothing of gives local values.
struct ShardingRule {
  /// A dimension is in at most one of them: a dimension that is several in the
  /// other shape of a reshape is there for the slowest.
  llvm::SmallVector<ShardingFactor, 4> factors;
  /// Sets of operands: if all of one set are partial sums of floats, or zero,
  /// and the other operands are replicated, float results are partial sums.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear;
  /// With one operand: a partial maximum or minimum gives one.
  bool isMonotone = false;

  /// The factor of a dimension; null if it has none.
  const ShardingFactor *findOfOperand(unsigned operand, int64_t dim) const;
  const ShardingFactor *findOfResult(unsigned result, int64_t dim) const;
};

/// By ShardingOpInterface; also of ops that work element by element and do not
/// implement it. Nothing where the op is not known.
std::optional<ShardingRule> getShardingRule(mlir::Operation *op);

/// Of an op whose tensors of the first result's shape are split alike; other
/// operands and results, such as scalars, are whole.
ShardingRule getElementwiseRule(mlir::Operation *op);

/// The factors of a change of shape: pairs of dimensions of the operand and
/// the result, with sizes. Blocks of one are blocks of the other.
struct ReshapeFactor {
  int64_t operand, result, size;
};
llvm::SmallVector<ReshapeFactor>
getReshapeFactors(llvm::ArrayRef<int64_t> operand,
                  llvm::ArrayRef<int64_t> result);
/// The rule of an op that changes the shape of its operand to its result's.
ShardingRule getReshapeRule(mlir::Operation *op);

/// Which dimensions of the values of a straight-line block are split together,
/// so that each op in it gives its part and nothing has to be communicated: the
/// factors of its ops, joined.
class JoinedFactors {
public:
  explicit JoinedFactors(mlir::Block &block);

  /// Joins two dimensions; to be called before the others.
  void join(mlir::Value a, int64_t dimOfA, mlir::Value b, int64_t dimOfB);
  /// Takes out what some op cannot split.
  void finish();

  /// A number for what is split with a dimension; nothing if it cannot be.
  std::optional<unsigned> find(mlir::Value value, int64_t dim) const;
  /// The dimension of `value` that is split with `factor`, or kNone.
  int64_t getDim(mlir::Value value, unsigned factor) const;

private:
  unsigned getLeader(unsigned node) const;
  void exclude(mlir::Value value);

  mlir::Block &block;
  llvm::DenseMap<mlir::Value, unsigned> firstNodes;
  mutable llvm::SmallVector<unsigned> parents; // a forest, by node
  llvm::SmallVector<bool> excluded;            // by node, for its tree
  llvm::DenseSet<unsigned> unsplittable;       // leaders
};

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_SHARDINGRULE_H
