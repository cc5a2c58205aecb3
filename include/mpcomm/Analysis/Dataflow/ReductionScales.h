//===- ReductionScales.h - what reductions have made of values --*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Beside what ranks hold (AxisShardings), by what factor a value is greater
// than the mean over the ranks that it should be, or which other reduction it
// is. The lattice:
//
//                     mixed
//       /         |           \      \      (of two that differ: mixed)
//  own, q    mean, q ...      max    min ...
//       \         |           /      /
//                      any
//
// q is a fraction: an all_reduce sum multiplies it by the ranks of its group,
// and mpcomm.predivide divides. Other factors are the model's and do not count.
// "any" is what fits all: zeros, and messages, whose sender is checked.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_REDUCTIONSCALES_H
#define MPCOMM_ANALYSIS_DATAFLOW_REDUCTIONSCALES_H

#include "mpcomm/Analysis/Dataflow/AxisShardings.h"

namespace mpcomm {

/// What reductions over data ranks have made of a value.
class ReductionScale {
public:
  enum Kind : uint8_t {
    Any,   ///< fits everything
    Own,   ///< none, times a factor
    Mean,  ///< the mean, times a factor
    Other, ///< another reduction: the greatest, the least or the product
    Mixed  ///< not known
  };

  ReductionScale() = default;
  static ReductionScale any() { return {Any, 1, 1}; }
  static ReductionScale mixed() { return {Mixed, 1, 1}; }

  Kind getKind() const { return kind; }
  bool isOne() const { return numerator == denominator; }
  bool isReducedBy(Reduction reduction) const {
    return kind == Other && numerator == static_cast<int64_t>(reduction);
  }
  /// Whether it is as good as a value that all ranks have computed, or a mean.
  bool isMean() const {
    return kind == Any || ((kind == Own || kind == Mean) && isOne());
  }
  /// Whether it is as good as a value that all ranks have computed, or the
  /// greatest.
  bool isGreatest() const {
    return kind == Any || (kind == Own && isOne()) ||
           isReducedBy(Reduction::Max);
  }
  bool operator==(const ReductionScale &other) const = default;

  /// The least that is above both.
  ReductionScale join(ReductionScale other) const;
  /// Of the product of two values.
  ReductionScale times(ReductionScale other) const;
  /// `factor` times as much, or a `factor`th.
  ReductionScale multiplied(int64_t factor) const;
  ReductionScale divided(int64_t factor) const;
  /// Of the reciprocal.
  ReductionScale inverse() const {
    bool isFraction = kind == Own || kind == Mean;
    return isFraction ? ReductionScale(kind, denominator, numerator) : *this;
  }
  /// After a reduction over ranks that hold different values.
  ReductionScale reduced(Reduction reduction) const;
  /// For people: `the mean`, `4 times the mean`, `1/2 times a rank's own`.
  std::string describe() const;

private:
  ReductionScale(Kind kind, int64_t numerator, int64_t denominator)
      : kind(kind), numerator(numerator), denominator(denominator) {}
  Kind kind = Own;
  int64_t numerator = 1, denominator = 1; // in lowest terms; or the reduction
};

/// The scales of the values of a function, of reductions over the axes of
/// `shardings`: parts of one axis along which the ranks have different samples.
/// Follows calls as AxisShardings does. An op that is not linear in a value of
/// another scale than 1 gives, of one that ranks hold alike, a mixed scale; of
/// the rank's own, it starts anew. Linear in the number of ops.
class ReductionScales {
public:
  ReductionScales(mlir::FunctionOpInterface function,
                  llvm::ArrayRef<const AxisShardings *> shardings);

  ReductionScale get(mlir::Value value) const { return states.lookup(value); }

private:
  bool set(mlir::Value value, ReductionScale scale);
  ReductionScale getOperand(mlir::Value value) const;
  bool visit(mlir::Operation *op);
  bool visitCollective(CollectiveOpInterface op);
  bool visitCall(mlir::Operation *call, mlir::FunctionOpInterface callee);
  bool visitRegions(mlir::Operation *op);
  bool visitBlocks(mlir::Region &region);
  ReductionScale getReduced(CollectiveOpInterface op,
                            mlir::Value operand) const;
  ReductionScale getComputed(mlir::Operation *op) const;
  bool varies(mlir::Value value) const;

  mlir::FunctionOpInterface function;
  llvm::SmallVector<const AxisShardings *> shardings;
  /// Those that are not 1.
  llvm::DenseMap<mlir::Value, ReductionScale> states;
  llvm::DenseSet<mlir::Operation *> followed;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_REDUCTIONSCALES_H
