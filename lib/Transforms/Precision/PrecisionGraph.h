//===- PrecisionGraph.h - a step as a placement problem ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 tensors of a step and the ops that make and read them, with the class
// that policy gives to each, as CastPlacement solves it. A value that is stored
// in the narrow type until somebody reads it (an activation until the backward
// pass, a gradient until the update) goes through a store: an op of class
// `lower_precision` that stands for the memory and is not in the IR.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_PRECISIONGRAPH_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_PRECISIONGRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Analysis/Precision/PrecisionPolicy.h"
#include "mpcomm/Scheduling/CastPlacement/CastPlacement.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace mpcomm {

/// On an op: "lower_precision" or "fp32", whatever its class is. On a module:
/// the policy's type.
inline constexpr llvm::StringLiteral kPrecisionAttr = "mpcomm.precision";

/// Scales of 8-bit operands: from the greatest magnitudes of this step and the
/// `history` - 1 before it, for the next step, or from this step's alone.
struct Fp8Recipe {
  bool isDelayed = true;
  int64_t history = 16;
  int64_t margin = 0;
};

/// What a policy comes to for one step.
struct StepPrecision {
  PrecisionPolicy policy;
  mlir::FloatType narrow;
  /// Whether activations and gradients are stored in it.
  bool storeActivations = true, storeGradients = true;
  /// What products read goes through 8 bits.
  std::optional<Fp8Recipe> fp8;
};

class PrecisionGraph {
public:
  /// `function` has a body of one block.
  PrecisionGraph(mlir::func::FuncOp function, const StepPrecision &precision)
      : function(function), body(function.getBody().front()),
        precision(precision) {}

  /// Reads the step. An error is reported at the op that cannot do as it is
  /// told.
  mlir::LogicalResult build();

  /// Whether `value` is an f32 tensor that the pass may store in another type.
  static bool isSubject(mlir::Value value);
  /// Whether `value` is such a tensor of the step as it came in.
  bool contains(mlir::Value value) const { return numbers.contains(value); }
  /// Whether `op` is part of what computes the loss.
  bool isForward(mlir::Operation *op) const { return forward.contains(op); }
  /// The value of the forward pass that `value` repeats for the backward pass,
  /// or `value`.
  mlir::Value getOriginal(mlir::Value value) const {
    mlir::Value original = originals.lookup(value);
    return original ? original : value;
  }

  const CastProblem &getProblem() const { return problem; }
  /// The node of an op of the body.
  int getNode(mlir::Operation *op) const { return nodes.lookup(op); }
  /// The number of the value as `use` reads it: from the store where it has
  /// one and `use` comes later.
  int getValue(mlir::OpOperand &use) const;
  int getValue(mlir::Value value) const { return numbers.lookup(value); }
  /// Ops that run narrow by their own class alone.
  llvm::ArrayRef<mlir::Operation *> getProducts() const { return products; }
  /// The problem with those in f32.
  CastProblem getWideProblem() const;
  /// Has them run in f32, of a graph that is built.
  void keepProductsWide() { problem = getWideProblem(); }
  /// Number of values that are stored before they are read.
  int64_t getNumStored() const { return stores.size(); }
  /// Whether `op` is a product that reads both operands from 8 bits, which are
  /// made of a value of either type.
  bool isQuantized(mlir::Operation *op) const { return quantized.contains(op); }
  /// The tensor whose elements `value` has in another order or type, and the
  /// movements from it to `value`, the last first. Of a movement that is
  /// repeated for the backward pass, that of the forward pass.
  mlir::Value getRoot(mlir::Value value,
                      llvm::SmallVectorImpl<mlir::Operation *> &path) const;
  /// Whether an op of a function that the step calls is a product that the
  /// policy, or the op itself, has in lower precision.
  bool isNarrowProduct(mlir::Operation *op);

private:
  void findForward();
  mlir::LogicalResult findClasses();
  mlir::FailureOr<CastClass> getClass(mlir::Operation *op, bool &isOwn);
  void keepParametersWide();
  void findQuantized();
  void repeatMovements();
  bool isSaved(mlir::Value value) const;
  bool readsStore(mlir::OpOperand &use) const;
  void addValue(mlir::Value value, int producer);
  void addReads(mlir::Operation *op, int node);
  ValueKind getArgumentKind(mlir::BlockArgument argument);

  mlir::func::FuncOp function;
  mlir::Block &body;
  const StepPrecision &precision;
  llvm::DenseSet<mlir::Operation *> forward, quantized;
  llvm::SmallVector<mlir::Operation *> products;
  llvm::DenseMap<mlir::Operation *, CastClass> classes;
  llvm::DenseMap<mlir::Operation *, int> nodes;
  llvm::DenseMap<mlir::Value, int> numbers, stores;
  llvm::DenseMap<mlir::Value, mlir::Value> originals;
  CastProblem problem;
};

/// Calls `visit` with each operand of `op`, and of ops in its regions, that is
/// made outside of it.
void forEachRead(mlir::Operation *op,
                 llvm::function_ref<void(mlir::OpOperand &)> visit);

/// What `op` gives in another form without computing anything; null for an op
/// that computes.
mlir::Value getMoved(mlir::Operation *op);

/// The op of the function's body that `op` is, or is in.
mlir::Operation *getAncestorIn(mlir::Block &block, mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_PRECISIONGRAPH_H
