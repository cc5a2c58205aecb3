//===- ErrorFeedback.h - what compression loses of gradients ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State for what a compressor loses of gradients, which it adds to those of the
// next step. Where gradients meet multiplied by a loss scale, which differs
// from step to step, what is kept is not multiplied, and a step that is not
// taken, because a gradient has overflowed, leaves it as it is.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_ERRORFEEDBACK_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_ERRORFEEDBACK_H

#include "Communicate/GradientState.h"
#include "llvm/ADT/MapVector.h"
#include <memory>

namespace mpcomm {

class ErrorFeedback {
public:
  /// State is named by its parameter and `suffix`; remarks are those of `pass`.
  ErrorFeedback(std::string suffix, llvm::StringRef pass)
      : suffix(std::move(suffix)), pass(pass) {}

  /// State for what is lost of each operand of `op` that is a gradient, of the
  /// shape of the whole parameter; null of others, and none at all outside a
  /// function. Fails, with an error, where a name is taken, or the loss scale
  /// of the function is computed or not one. The first call for a function is
  /// linear in its ops.
  mlir::FailureOr<llvm::SmallVector<mlir::BlockArgument>>
  add(CollectiveOpInterface op);
  /// More state beside `residual`, of which each rank along the axes of `op`
  /// has its own. Fails, with an error, where the name is taken.
  mlir::FailureOr<mlir::BlockArgument> addBeside(mlir::BlockArgument residual,
                                                 CollectiveOpInterface op,
                                                 llvm::StringRef name,
                                                 llvm::ArrayRef<int64_t> shape);
  /// What was lost, in units of the gradients as they meet.
  mlir::Value getKept(mlir::OpBuilder &builder,
                      mlir::BlockArgument residual) const;
  /// The next step gets `lost`, in those units.
  void setLost(mlir::OpBuilder &builder, mlir::BlockArgument residual,
               mlir::Value lost);
  /// The next step gets `value`, or after a step that is not taken what this
  /// one got.
  void setNext(mlir::BlockArgument state, mlir::Value value);
  /// Has to be called at the end.
  void apply();

private:
  struct OfFunction {
    std::shared_ptr<GradientState> state;
    /// What gradients are multiplied by while they meet; null: nothing.
    mlir::Value scale;
    /// Whether the step is not taken; null: it always is.
    mlir::Value isSkipped;
  };
  const OfFunction &get(mlir::BlockArgument state) const;

  std::string suffix;
  llvm::StringRef pass;
  llvm::MapVector<mlir::Operation *, OfFunction> functions;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_ERRORFEEDBACK_H
