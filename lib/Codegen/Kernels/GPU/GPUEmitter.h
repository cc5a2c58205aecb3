//===- GPUEmitter.h - kernels for a GPU -------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a kernel's code as functions of a gpu.module, as a GPUSchedule
// says.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTER_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTER_H

#include "Kernels/GPU/GPUSchedule.h"
#include "Kernels/Model/KernelModel.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::kernels {

/// One function of a GPU and how it is launched.
struct GPUKernel {
  mlir::gpu::GPUFuncOp function;
  int64_t threads = kWarp, blocks = 1;
  bool gridStride = false;
  int64_t scratchBytes = 0;
  /// Shared memory beside what the code declares, which a launch asks for.
  int64_t sharedBytes = 0;
  /// Where it is known, what it reads and writes; -1: as the buffers are large.
  int64_t movedBytes = -1;
};

/// Limits the registers of a kernel so that a multiprocessor has room for so
/// many of its blocks.
void setLeastBlocks(mlir::gpu::GPUFuncOp function, int64_t blocks);

/// Makes an empty kernel `name` at `b`, with a return, on buffers of `layouts`
/// and, where `scratchBytes` is not 0, scratch after them.
GPUKernel createGPUKernel(mlir::OpBuilder &b, mlir::Location loc,
                          llvm::StringRef name,
                          llvm::ArrayRef<mlir::MemRefType> layouts,
                          int64_t threads, int64_t scratchBytes);

/// What runs one after the other in place of the kernel, each on all of its
/// buffers: the kernel `name`, then where needed `name`_sums, which adds up
/// what blocks have left in scratch, and `name`_scalars, which replaces scalars
/// that the others read.
llvm::SmallVector<GPUKernel> emitGPUKernels(const KernelModel &model,
                                            const GPUSchedule &schedule,
                                            mlir::OpBuilder &b,
                                            llvm::StringRef name);

/// The same for a kernel that is a scatter: `name`, which fills the destination
/// where it has to be, and then `name`_slices. Fails, with an error, if it has
/// another form.
llvm::LogicalResult emitGPUScatter(mlir::func::FuncOp tensorForm,
                                   llvm::ArrayRef<mlir::MemRefType> layouts,
                                   llvm::ArrayRef<uint64_t> alignments,
                                   const GPULimits &limits, mlir::OpBuilder &b,
                                   llvm::StringRef name,
                                   llvm::SmallVectorImpl<GPUKernel> &kernels);

/// The kernel of a pool, or of the gradient of one, on buffers of `layouts`.
GPUKernel emitGPUPool(mprt::PoolOp op, llvm::ArrayRef<mlir::MemRefType> layouts,
                      llvm::ArrayRef<uint64_t> alignments, mlir::OpBuilder &b,
                      llvm::StringRef name);

/// The kernels of attention or its gradient, which run one after the other,
/// each on all of the op's buffers.
llvm::SmallVector<GPUKernel>
emitGPUAttention(mprt::AttentionOp op, llvm::ArrayRef<mlir::MemRefType> layouts,
                 llvm::ArrayRef<uint64_t> alignments, const GPULimits &limits,
                 mlir::OpBuilder &b, llvm::StringRef name);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTER_H
