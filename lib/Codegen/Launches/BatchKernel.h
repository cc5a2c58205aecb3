//===- BatchKernel.h - several kernels as one -------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the kernel that does what a list of launches does, each in blocks of
// its own. A block finds its body by a binary search over the bodies' first
// blocks; launches of one body have equally many blocks, so that its number
// there says which launch it is of, and a second search takes that launch's
// pointers. Bodies are there once, however many launches have them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHKERNEL_H
#define MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHKERNEL_H

#include "Launches/BatchPlan.h"

namespace mpcomm::batches {

/// A batch in terms of what its kernel is made of: batches with equal ones have
/// the same kernel.
struct Signature {
  struct Body {
    const BatchMember *member;
    /// Of each launch, the numbers of its pointers, then where its scratch is.
    llvm::SmallVector<llvm::SmallVector<int64_t>> launches;
  };
  llvm::SmallVector<Body> bodies;
  int64_t pointers = 0;
  int64_t scratchBytes = 0;

  /// Pointers that are only read come first. `inputs`: how many these are.
  static Signature of(llvm::ArrayRef<Launch> run, const Batch &batch,
                      llvm::SmallVectorImpl<Pointers::Key> &pointers,
                      size_t &inputs);
  /// For a map.
  std::vector<int64_t> key() const;
};

/// The kernel, at the end of `device`, and how it is launched.
struct BatchKernel {
  mlir::gpu::GPUFuncOp code;
  mprt::GridAttr grid;
};
BatchKernel emitBatchKernel(mlir::gpu::GPUModuleOp device, llvm::StringRef name,
                            mlir::Location loc, const Signature &signature,
                            llvm::ArrayRef<Pointers::Key> pointers,
                            const BatchLimits &limits);

} // namespace mpcomm::batches

#endif // MPCOMM_LIB_CODEGEN_LAUNCHES_BATCHKERNEL_H
