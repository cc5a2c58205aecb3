//===- GPULowering.cpp - generated kernels of a GPU to NVVM ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline from gpu, scf, vector, memref, arith and math to NVVM and the
// LLVM dialect.
//
//===----------------------------------------------------------------------===//

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Transforms/Passes.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

using namespace mlir;

namespace mpcomm {

void addGPULoweringPipeline(OpPassManager &passes, bool hasF8) {
  OpPassManager &device = passes.nest<gpu::GPUModuleOp>();
  // Index arithmetic of the generator is full of zeros and ones.
  device.addPass(createCanonicalizerPass());
  device.addPass(createCSEPass());
  device.addPass(createLoopInvariantCodeMotionPass());
  device.addPass(
      createExpandMathPass({/*hasBFloat=*/true, /*hasExp2=*/true, hasF8}));
  device.addPass(createCSEPass());
  device.addPass(createLoopInvariantCodeMotionPass());

  device.addPass(createConvertVectorToLLVMPass());
  device.addPass(createSCFToControlFlowPass());
  // What is left of math becomes calls of libdevice's functions, most of which
  // are one instruction: mpcomm-assemble-kernels knows which.
  ConvertGpuOpsToNVVMOpsOptions options;
  // All shapes and strides are known: a buffer is its pointer.
  options.useBarePtrCallConv = true;
  device.addPass(createConvertGpuOpsToNVVMOps(options));
  // Counts of bits, which libdevice has no functions for.
  device.addPass(createConvertMathToLLVMPass());
  device.addPass(createReconcileUnrealizedCastsPass());
  device.addPass(createCanonicalizerPass());
  device.addPass(createCSEPass());
}

} // namespace mpcomm
