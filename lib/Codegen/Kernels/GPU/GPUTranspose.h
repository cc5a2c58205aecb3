//===- GPUTranspose.h - copies in another order of dimensions ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy whose operand is contiguous along one dimension and whose result is
// along another goes through tiles in shared memory: both are accessed 16 bytes
// at a time where sizes and addresses allow, and a warp's accesses are beside
// each other.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTRANSPOSE_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTRANSPOSE_H

#include "Kernels/GPU/GPUEmitter.h"

namespace mpcomm::kernels {

/// A copy of elements of 1, 2 or 4 bytes.
struct TransposePlan {
  /// A dimension, and its strides in elements.
  struct Dim {
    int64_t size = 1, from = 0, to = 0;
  };

  unsigned source = 0, target = 0; ///< arguments
  int64_t from = 0, to = 0; ///< of the first element in each, in elements
  int64_t bytes = 1;        ///< of an element
  Dim column;               ///< along which the operand is contiguous
  Dim row;                  ///< along which the result is
  llvm::SmallVector<Dim> batch;
  int64_t loads = 1, stores = 1; ///< elements of an access

  int64_t countTiles() const;
};

/// The plan of a kernel that does nothing but copy, with another innermost
/// dimension; nothing of another kernel.
std::optional<TransposePlan> matchTranspose(const KernelModel &model);

/// The kernel `name` of a plan, on buffers of the model's layouts.
GPUKernel emitGPUTranspose(const KernelModel &model, const TransposePlan &plan,
                           mlir::OpBuilder &b, llvm::StringRef name);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTRANSPOSE_H
