//===- Kernels.h - code for kernels -----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions of the lowering of kernels, from linalg ops to the LLVM dialect,
// that other passes and pipelines use.
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
/// vectors) become arithmetic, with `hasExp2` on NVIDIA's ex2.approx.
void populateMathExpansionPatterns(mlir::RewritePatternSet &patterns,
                                   bool hasExp2 = false);

/// More of them: casts between f8E4M3FN or f8E5M2 and wider floats become
/// arithmetic on their bits, exact and rounding to nearest even. With `hasF8`
/// f32 that have been clamped are rounded by NVIDIA's cvt of two f32 (sm_90):
/// the same numbers, NaN without its sign.
void populateNarrowFloatPatterns(mlir::RewritePatternSet &patterns,
                                 bool hasF8 = false);

/// Roundings to bf16, to nearest even, become arithmetic on the bits, for
/// processors without an instruction for it.
void populateBFloatPatterns(mlir::RewritePatternSet &patterns);

/// Whether `mpcomm-generate-kernels` and `mpcomm-generate-gpu-kernels` can
/// generate code for a kernel in tensor form on row-major buffers. The kernel
/// need not be in a module. Time: linear in its ops.
bool canGenerateKernel(mlir::func::FuncOp kernel);
/// The same for the buffers of a launch.
bool canGenerateKernel(mlir::func::FuncOp kernel, mprt::LaunchOp launch);

/// What a processor has instructions for.
struct KernelTarget {
  bool roundsToBFloat = false;
  bool fusesMultiplyAdd = false;

  /// Of the features of an x86 processor as LLVM has them, "+avx2,+fma".
  static KernelTarget ofFeatures(llvm::StringRef features);
};

/// Lowers the output of `mpcomm-generate-kernels` to the LLVM dialect.
/// Functions take one bare pointer per buffer. `passes` runs on the module, in
/// which functions that are not kernels must not contain tensors.
void addKernelLoweringPipeline(mlir::OpPassManager &passes,
                               const KernelTarget &target);

/// Lowers the output of `mpcomm-generate-gpu-kernels` to the NVVM and LLVM
/// dialects, in the gpu.module with the kernels. `passes` runs on the module.
/// `hasF8`: all chips convert to 8-bit floats (sm_90).
void addGPULoweringPipeline(mlir::OpPassManager &passes, bool hasF8 = false);

/// Registers these pipelines as `mpcomm-kernels-to-llvm` and
/// `mpcomm-gpu-kernels-to-nvvm`.
void registerKernelLoweringPipeline();

} // namespace mpcomm

#endif // MPCOMM_CODEGEN_KERNELS_H
