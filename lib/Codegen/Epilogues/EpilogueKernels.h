//===- EpilogueKernels.h - kernels that a product may do --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Knows kernels that do what a library can do with a matrix product.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_EPILOGUES_EPILOGUEKERNELS_H
#define MPCOMM_LIB_CODEGEN_EPILOGUES_EPILOGUEKERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"

namespace mpcomm {

struct EpilogueKernel {
  /// A bias gradient's kind is that of A, as no product is known yet.
  mprt::Epilogue epilogue;
  /// The argument that has the product's result, and gets that of the epilogue;
  /// of a bias gradient the matrix that is summed up.
  unsigned matrix = 0;
  /// Of gelu's gradient, which the kernel goes on with; null: it does not.
  mlir::linalg::GenericOp goesOn;
};

/// What `kernel`, which launches give `inputs` inputs, does; nothing where that
/// is no epilogue.
std::optional<EpilogueKernel> matchEpilogueKernel(mlir::func::FuncOp kernel,
                                                  unsigned inputs);

/// A kernel, and by argument the operand of a launch of the one that it was
/// made of.
struct SplitKernel {
  mlir::func::FuncOp kernel;
  llvm::SmallVector<unsigned> operands;
  unsigned inputs = 0;
};

/// Two kernels, made after `kernel`, of one that goes on with gelu's gradient:
/// that alone, and the rest, which reads it where it was written.
std::pair<SplitKernel, SplitKernel> splitGeluGrad(mlir::func::FuncOp kernel,
                                                  const EpilogueKernel &found,
                                                  unsigned inputs,
                                                  mlir::SymbolTable &symbols);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_EPILOGUES_EPILOGUEKERNELS_H
