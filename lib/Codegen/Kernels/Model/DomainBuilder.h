//===- DomainBuilder.h - one iteration space for a kernel -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the domain of a kernel in two steps. First each loop of each op is
// placed on a dimension: results take the dimensions that their readers read
// them at, and what that leaves open is placed in order. Then, with all
// accesses known, the column is chosen and neighbours are merged.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_DOMAINBUILDER_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_DOMAINBUILDER_H

#include "Kernels/Model/KernelModel.h"

namespace mpcomm::kernels {

class DomainBuilder {
public:
  using EmitError =
      llvm::function_ref<mlir::InFlightDiagnostic(mlir::Operation *)>;

  explicit DomainBuilder(KernelModel &model) : model(model) {}

  /// Places the loops of all ops, which are in order of definition.
  llvm::LogicalResult place(llvm::ArrayRef<mlir::linalg::LinalgOp> ops,
                            EmitError emitError);

  /// `map` of `op` in dimensions of the domain.
  llvm::SmallVector<MapEntry> entries(mlir::linalg::LinalgOp op,
                                      mlir::AffineMap map) const;

  /// Notes that `op` reads (or accumulates into) an argument.
  void addAccess(mlir::linalg::LinalgOp op, mlir::OpOperand &operand);
  /// Notes that `value` goes to argument `destination`.
  void addStore(mlir::Value value, unsigned destination);
  /// Sets the dimensions of a result of `result.op` written by `map`.
  void setDims(KernelResult &result, mlir::AffineMap map) const;
  /// Asks for the column to be these dimensions.
  void mustBeColumn(const llvm::SmallBitVector &dims);

  /// Chooses the column, merges dimensions, and rewrites all that the model
  /// says of dimensions.
  llvm::LogicalResult finish(EmitError emitError);

private:
  llvm::LogicalResult placeOp(mlir::linalg::LinalgOp op, EmitError emitError);
  KernelAccess accessOf(unsigned argument,
                        llvm::ArrayRef<MapEntry> entries) const;
  unsigned bestColumn() const;
  /// The dimension besides the column along which an operand is contiguous
  /// that is not so along the column; -1: none.
  int transposedDim(unsigned column) const;
  /// The dimensions in their new order, without those of length 1 that need
  /// no loop.
  llvm::SmallVector<unsigned> chooseOrder() const;
  bool canMerge(unsigned outer, unsigned inner) const;

  KernelModel &model;
  llvm::SmallVector<mlir::linalg::LinalgOp> ops;
  llvm::SmallBitVector column;  ///< must be the column
  llvm::SmallBitVector indexed; ///< a body asks for its coordinate
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_DOMAINBUILDER_H
