//===- CastRewriter.h - types and casts of a planned step -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Carries out a plan: gives ops their types, in program order, and casts each
// value once for all who read it in the other type. A value is narrowed where
// it is made, so that its maker's kernel does it; it is widened before its
// first reader, once for the forward pass and once for what comes after, so
// that the wide form does not live from one to the other.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_CASTREWRITER_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_CASTREWRITER_H

#include "Precision/PrecisionGraph.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "llvm/ADT/StringMap.h"

namespace mpcomm {

class CastRewriter {
public:
  CastRewriter(mlir::func::FuncOp function, const StepPrecision &precision,
               const PrecisionGraph &graph, const CastPlan &plan);

  /// Fails, with an error at the function, where a copy of a parameter would
  /// have a name that is taken.
  mlir::LogicalResult run();

  /// Casts of tensors that are in the function now, and bytes of their wide
  /// sides; of these those that neither their maker's kernel nor a reader's
  /// can hold; parameters with a narrow copy.
  int64_t casts = 0, bytes = 0, alone = 0, aloneBytes = 0, copies = 0;

private:
  mlir::Value getNarrow(mlir::Value value);
  mlir::Value getWide(mlir::OpOperand &use, mlir::Operation *at);
  mlir::Value getNarrowConstant(mlir::Value constant);
  mlir::FailureOr<mlir::Value> getNarrowParameter(mlir::BlockArgument argument);
  mlir::Value cast(mlir::OpBuilder &builder, mlir::Value value,
                   mlir::Type element);
  bool isMadeNarrow(mlir::Value value) const;
  void rewrite(mlir::Operation *op);

  mlir::func::FuncOp function;
  const StepPrecision &precision;
  const PrecisionGraph &graph;
  const CastPlan &plan;
  SignatureEditor editor;
  unsigned numArguments;                // that came in
  llvm::StringMap<unsigned> names;      // of them, by name
  llvm::StringMap<unsigned> parameters; // results of that role, by name
  bool failed = false;
  llvm::SmallVector<mlir::Operation *> made; // casts
  llvm::DenseMap<mlir::Value, mlir::Value> narrows;
  /// Of narrow values; [1] for readers in the forward pass.
  llvm::DenseMap<mlir::Value, mlir::Value> wides[2];
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_CASTREWRITER_H
