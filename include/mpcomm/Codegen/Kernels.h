//===- Kernels.h - code for kernels -----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From kernels of linalg ops to the LLVM dialect: what other passes and
// pipelines use of it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_CODEGEN_KERNELS_H
#define MPCOMM_CODEGEN_KERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/PassManager.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm {

/// Patterns of `mpcomm-expand-math`: math functions of f32 (scalars and
/// vectors) become arithmetic.
void populateMathExpansionPatterns(mlir::RewritePatternSet &patterns);

/// More of them: casts between f8E4M3FN or f8E5M2 and wider floats become
/// arithmetic on their bits, exact and rounding to nearest even.
void populateNarrowFloatPatterns(mlir::RewritePatternSet &patterns);

/// Roundings to bf16 become arithmetic on the bits, to nearest even: for
/// processors that have no instruction for it.
void populateBFloatPatterns(mlir::RewritePatternSet &patterns);

/// Whether `mpcomm-generate-kernels` and its twin for GPUs can generate code
/// for a kernel in tensor form, which need not be in a module, on row-major
/// buffers. Time: linear in its ops.
bool canGenerateKernel(mlir::func::FuncOp kernel);
/// The same for the buffers of a launch.
bool canGenerateKernel(mlir::func::FuncOp kernel, mprt::LaunchOp launch);

/// From what `mpcomm-generate-kernels` makes to the LLVM dialect. Functions
/// take bare pointers, one a buffer. `passes` runs on the module; functions
/// that are not kernels must be free of tensors by then. `hasBFloat`: the
/// processor rounds to bf16.
void addKernelLoweringPipeline(mlir::OpPassManager &passes, bool hasBFloat);

/// From what `mpcomm-generate-gpu-kernels` makes to the NVVM and LLVM dialects,
/// in the gpu.module that has the kernels. `passes` runs on the module.
void addGPULoweringPipeline(mlir::OpPassManager &passes);

/// Registers these pipelines as `mpcomm-kernels-to-llvm` and
/// `mpcomm-gpu-kernels-to-nvvm`.
void registerKernelLoweringPipeline();

} // namespace mpcomm

#endif // MPCOMM_CODEGEN_KERNELS_H
