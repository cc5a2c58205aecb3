//===- Specialise.h - a function for each layout of a kernel ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes that generate code for a device share: ops that run the same
// code on operands of the same layouts and alignments launch the same
// functions. How code is emitted is theirs.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SPECIALISE_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SPECIALISE_H

#include "Kernels/Model/Launches.h"

namespace mpcomm::kernels {

using Functions = llvm::SmallVector<mlir::func::FuncOp, 1>;

class Specialiser {
public:
  /// The functions, in no module yet, that are launched one after the other in
  /// place of op number `i`. Failure after an error.
  using Emit = llvm::function_ref<llvm::FailureOr<Functions>(
      size_t i, llvm::ArrayRef<mlir::MemRefType> layouts,
      llvm::ArrayRef<uint64_t> alignments)>;

  /// `alignments` is null where code does not depend on them. `setName` is told
  /// of each function when it has its name.
  Specialiser(mlir::SymbolTable &symbols, const Alignments *alignments,
              llvm::function_ref<void(mlir::func::FuncOp)> setName)
      : symbols(symbols), alignments(alignments), setName(setName) {}

  /// Launches of a kernel in tensor form, which is erased: the first function
  /// takes its name and place.
  mlir::LogicalResult replace(mlir::func::FuncOp kernel,
                              llvm::ArrayRef<mprt::LaunchOp> launches,
                              Emit emit);
  /// Ops of one name, in destination style on buffers, whose code their
  /// attributes tell.
  mlir::LogicalResult replace(llvm::ArrayRef<mlir::Operation *> ops, Emit emit);

private:
  struct Specialised {
    mlir::Operation *first; ///< that launches them
    Functions functions;
  };
  using GetLayouts =
      llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::MemRefType>>(
          mlir::Operation *)>;
  /// For each op, which of `made` it launches. Ops of one `code` may share it.
  llvm::FailureOr<llvm::SmallVector<size_t>>
  emitAll(llvm::ArrayRef<mlir::Operation *> ops,
          llvm::function_ref<const void *(mlir::Operation *)> code,
          GetLayouts getLayouts, Emit emit, std::vector<Specialised> &made);
  void insert(mlir::func::FuncOp function, mlir::Block::iterator place);

  mlir::SymbolTable &symbols;
  const Alignments *alignments;
  llvm::function_ref<void(mlir::func::FuncOp)> setName;
};

/// A function without a body, or with one to be filled, on buffers of these
/// layouts; in no module.
mlir::func::FuncOp
createKernelFunction(mlir::Location loc, llvm::StringRef name,
                     llvm::ArrayRef<mlir::MemRefType> layouts);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SPECIALISE_H
