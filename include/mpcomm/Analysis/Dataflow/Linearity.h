//===- Linearity.h - what a factor does to an op ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients are linear in the gradient of the loss. This says through which
// operands of an op, so that a pass that multiplies one value knows which
// others it multiplies with it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
#define MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace mpcomm {

/// How the results of an op depend on a positive factor of its operands. In
/// operands that are not listed, nothing is known.
struct Linearity {
  enum Kind {
    Unknown,
    /// Multiplying all listed operands multiplies the results: sums, choices,
    /// maxima, and all that only moves elements.
    Joint,
    /// Multiplying any one of the listed operands does: products, and gradients
    /// in the gradient that they are given.
    Each
  };
  Kind kind = Unknown;
  llvm::SmallVector<mlir::OpOperand *, 2> operands;
  /// The operand that is the gradient of the op's result, of an op that is the
  /// gradient of another (`*_grad`: the first one), or null.
  mlir::OpOperand *gradient = nullptr;
};

Linearity getLinearity(mlir::Operation *op);

/// The power of a factor that values carry, as far as it is known.
class Degrees {
public:
  /// Every power at once: the value is zero.
  static constexpr int kAny = -1;
  static constexpr int kUnknown = -2;

  /// Values that carry nothing that was set carry the power 0.
  int get(mlir::Value value) const;
  void set(mlir::Value value, int degree) { known[value] = degree; }
  /// Sets the results of an op without regions from its operands.
  void propagate(mlir::Operation *op);

private:
  llvm::DenseMap<mlir::Value, int> known;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
