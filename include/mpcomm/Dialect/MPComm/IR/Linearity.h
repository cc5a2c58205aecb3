//===- Linearity.h - operands in which an op is linear ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients are linear in the gradient of the loss. Linearity gives the
// operands in which an op is linear, so that a pass that multiplies one value
// by a factor can determine which other values it multiplies.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_IR_LINEARITY_H
#define MPCOMM_DIALECT_MPCOMM_IR_LINEARITY_H

#include "mlir/IR/OpDefinition.h"

namespace mpcomm {

/// The effect of a positive factor on operands on the results of an op. Nothing
/// is known about operands that are not listed.
struct Linearity {
  enum Kind {
    Unknown,
    /// Multiplying all listed operands multiplies the float results, and leaves
    /// others as they are: sums, selections, maxima, ops that only move
    /// elements, and loops of these.
    Joint,
    /// Multiplying any one of the listed operands multiplies the results:
    /// products, and gradient ops with respect to their incoming gradient.
    Each
  };
  Kind kind = Unknown;
  llvm::SmallVector<mlir::OpOperand *, 2> operands;
  /// The operand that is the gradient of the result of an op whose gradient
  /// this op computes, or null.
  mlir::OpOperand *gradient = nullptr;

  /// In all float operands of `op` together.
  static Linearity jointly(mlir::Operation *op);
  /// In each of the first `count` operands of `op`.
  static Linearity inEach(mlir::Operation *op, unsigned count);
  /// In each of the first `count` operands, of which the first is the gradient.
  static Linearity inGradient(mlir::Operation *op, unsigned count);
};

// Traits of ops that implement LinearOpInterface in one of these ways.
namespace linear {

template <typename ConcreteType>
struct LinearJointly : mlir::OpTrait::TraitBase<ConcreteType, LinearJointly> {
  Linearity getLinearity() { return Linearity::jointly(this->getOperation()); }
};

template <typename ConcreteType>
struct LinearInEach : mlir::OpTrait::TraitBase<ConcreteType, LinearInEach> {
  Linearity getLinearity() {
    mlir::Operation *op = this->getOperation();
    return Linearity::inEach(op, op->getNumOperands());
  }
};

template <typename ConcreteType>
struct LinearInGradient
    : mlir::OpTrait::TraitBase<ConcreteType, LinearInGradient> {
  Linearity getLinearity() {
    return Linearity::inGradient(this->getOperation(), 1);
  }
};

template <typename ConcreteType>
struct GradientProduct
    : mlir::OpTrait::TraitBase<ConcreteType, GradientProduct> {
  Linearity getLinearity() {
    mlir::Operation *op = this->getOperation();
    return Linearity::inGradient(op, op->getNumOperands());
  }
};

} // namespace linear
} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_LINEARITY_H
