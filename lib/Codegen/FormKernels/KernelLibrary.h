//===- KernelLibrary.h - kernels of a module, each once ------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELLIBRARY_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELLIBRARY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace mpcomm {

/// Keeps one function of each structure: same arguments, ops, attributes and
/// maps, whatever the locations and the name. A kernel costs time linear in its
/// own size.
class KernelLibrary {
public:
  explicit KernelLibrary(mlir::ModuleOp module)
      : module(module), symbols(module) {}

  /// The kernel equal to `kernel`, a detached function, which is either taken
  /// in as kernel_<label>_<n> or erased.
  mlir::func::FuncOp add(mlir::func::FuncOp kernel, llvm::StringRef label);

  unsigned size() const { return numKernels; }

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::DenseMap<size_t, llvm::SmallVector<mlir::func::FuncOp, 1>> byHash;
  llvm::StringMap<unsigned> numOfLabel;
  unsigned numKernels = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELLIBRARY_H
