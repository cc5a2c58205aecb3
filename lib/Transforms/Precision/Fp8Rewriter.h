//===- Fp8Rewriter.h - products that read 8 bits ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After the casts of a step: each tensor that a product of PrecisionGraph's
// `isQuantized` reads is scaled, clamped and rounded to 8 bits once, where it
// is made, E4M3 in the forward pass and E5M2 for what the backward pass makes;
// products read it widened, and what they give is divided by both scales.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_FP8REWRITER_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_FP8REWRITER_H

#include "Precision/Fp8State.h"
#include "Precision/PrecisionGraph.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {

class Fp8Rewriter {
public:
  /// `graph` has read the function, and CastRewriter has changed it.
  Fp8Rewriter(mlir::func::FuncOp function, const Fp8Recipe &recipe,
              const PrecisionGraph &graph)
      : function(function), recipe(recipe), graph(graph),
        state(function, recipe) {}

  /// Fails, with an error at the function, where state would have a name that
  /// is taken.
  mlir::LogicalResult run();

  /// Products that read 8 bits, tensors that they read, and their bytes.
  int64_t products = 0, tensors = 0, bytes = 0;

private:
  /// A tensor in 8 bits.
  struct Stored {
    mlir::Value value;
    mlir::Value inverse; // 0-d f32: 1 / scale
    /// Widened for readers of the backward pass [0], of the forward pass [1].
    llvm::SmallDenseMap<mlir::Type, mlir::Value> wide[2];
  };

  bool isGradient(mlir::Value root) const;
  mlir::FailureOr<Stored *> getStored(mlir::Value root, mlir::Operation *first);
  mlir::Value chooseScale(mlir::ImplicitLocOpBuilder &builder, mlir::Value amax,
                          mlir::FloatType format) const;
  mlir::FailureOr<mlir::Value> read(mlir::OpOperand &use, mlir::Type element);
  mlir::LogicalResult rewrite(mlir::Operation *product);
  void eraseUnused();

  mlir::func::FuncOp function;
  const Fp8Recipe &recipe;
  const PrecisionGraph &graph;
  Fp8State state;
  /// What products of the forward pass give, times the factors.
  llvm::DenseSet<mlir::Value> activations;
  llvm::MapVector<mlir::Value, std::unique_ptr<Stored>> stored;
};

/// Fails, with an error at the op, where a product reads 8 bits to which the
/// step as it came in has given no scale.
mlir::LogicalResult verifyScaled(mlir::func::FuncOp step);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_FP8REWRITER_H
