//===- Fp8State.h - what a step keeps of 8-bit tensors ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Delayed scaling: for each tensor the greatest magnitudes of the last steps,
// and the scale of the next one, as state of role `loss_scale`, which runs and
// checkpoints keep as they keep that of loss scaling.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_FP8STATE_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_FP8STATE_H

#include "Precision/PrecisionGraph.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "llvm/ADT/StringMap.h"

namespace mpcomm {

class Fp8State {
public:
  Fp8State(mlir::func::FuncOp function, const Fp8Recipe &recipe);

  /// A name for the state of `root`, as the step came in: that of the argument,
  /// or a number among the tensors of its pass.
  std::string nameOf(mlir::Value root, bool isGradient);

  /// The scale of this step, an argument of the function. Fails, with an error
  /// at the function, where one of the names is taken.
  mlir::FailureOr<mlir::Value> addScale(llvm::StringRef name);

  /// At the end of the step: the history and the scale for the next one, of the
  /// tensor whose scale was added last.
  void update(mlir::Value amax, mlir::FloatType format);

  /// After all tensors: gives the function its new signature.
  void finish() { editor.apply(); }

private:
  mlir::FailureOr<mlir::Value> addArgument(const llvm::Twine &name,
                                           llvm::ArrayRef<int64_t> shape,
                                           float initial);
  void addResult(mlir::Value argument, mlir::Value value);

  mlir::func::FuncOp function;
  const Fp8Recipe &recipe;
  SignatureEditor editor;
  /// By name: of arguments that came in and of those that were added.
  llvm::StringMap<unsigned> numbers;
  llvm::DenseMap<mlir::Value, mlir::StringAttr> names; // of those added
  mlir::Value history, scale;                          // of the tensor at hand
  int64_t activations = 0, gradients = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_FP8STATE_H
