//===- GradientState.h - state that communication adds ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State of a step that communication of gradients adds to it: what compression
// loses, the momentum of an outer optimizer, gradients that are pending.
// Arguments that begin as zeros, and results that take their places.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_GRADIENTSTATE_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_GRADIENTSTATE_H

#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/StringSet.h"

namespace mpcomm {

/// The parameter whose update takes `gradient`, maybe scaled, clipped, widened
/// or reshaped to the same shape before; null where there is none, or several.
/// Linear in the uses of values of that shape.
mlir::BlockArgument findParameterOf(mlir::Value gradient);

class GradientState {
public:
  /// Of a function of one block; `apply` has to be called. No checkpoint has
  /// state that `isTransient`.
  explicit GradientState(mlir::FunctionOpInterface function,
                         bool isTransient = false);

  mlir::FunctionOpInterface getFunction() const { return function; }

  /// An f32 tensor of the name of `parameter` and `suffix`. With `axes` of
  /// `mesh` ranks along them have each its own. Fails, with an error, where the
  /// name is taken.
  mlir::FailureOr<mlir::BlockArgument> add(mlir::BlockArgument parameter,
                                           llvm::StringRef suffix,
                                           llvm::ArrayRef<int64_t> shape,
                                           mlir::FlatSymbolRefAttr mesh = {},
                                           mlir::ArrayAttr axes = {});
  /// The same, of any name; a scalar with an empty `shape`.
  mlir::FailureOr<mlir::BlockArgument> add(llvm::StringRef name,
                                           llvm::ArrayRef<int64_t> shape,
                                           mlir::FlatSymbolRefAttr mesh = {},
                                           mlir::ArrayAttr axes = {});
  /// What the next step takes in place of `argument`.
  void setNext(mlir::BlockArgument argument, mlir::Value value);

  void apply() { editor.apply(); }

private:
  mlir::NamedAttrList attributesOf(mlir::StringAttr name,
                                   ShardingAttr sharding) const;

  mlir::FunctionOpInterface function;
  SignatureEditor editor;
  bool isTransient;
  llvm::StringSet<> taken;
  llvm::DenseMap<mlir::Value, std::pair<mlir::StringAttr, ShardingAttr>> added;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_GRADIENTSTATE_H
