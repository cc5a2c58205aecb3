//===- Launches.h - launches of a module's kernels --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes that generate code for kernels ask of launches: which there
// are, and how their operands lie in memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LAUNCHES_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm::kernels {

using LaunchesByKernel =
    llvm::MapVector<mlir::Operation *, llvm::SmallVector<mprt::LaunchOp>>;

/// The kernels of `module` that have a tensor form, with their launches. They
/// are to be erased: an error where anything but launches names one.
llvm::FailureOr<LaunchesByKernel>
collectLaunches(mlir::ModuleOp module, const mlir::SymbolTable &symbols);

/// The buffers of a launch as `kernel` sees them: offset 0, same strides, bytes
/// for i1. An error where they are no buffers, or of other types than the
/// kernel's.
llvm::FailureOr<llvm::SmallVector<mlir::MemRefType>>
layoutsOf(mlir::Operation *launch, mlir::func::FuncOp kernel);

/// The buffers of any op on buffers, likewise.
llvm::FailureOr<llvm::SmallVector<mlir::MemRefType>>
layoutsOf(mlir::Operation *op);

/// What addresses of buffers are multiples of.
class Alignments {
public:
  /// Reads the calls of the module's parts, whose arguments are the callers'.
  explicit Alignments(mlir::ModuleOp module);

  /// Bytes: a power of two, at most 16. Buffers that the runtime gives, and
  /// constants, are aligned to 64.
  uint64_t of(mlir::Value buffer) const;

private:
  llvm::DenseMap<mlir::Value, uint64_t> arguments; ///< of parts
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LAUNCHES_H
