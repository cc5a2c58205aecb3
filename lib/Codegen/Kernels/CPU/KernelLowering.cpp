//===- KernelLowering.cpp - generated kernels to LLVM ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline from scf, vector, memref, arith and math to the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

using namespace mlir;

namespace mpcomm {

KernelTarget KernelTarget::ofFeatures(StringRef features) {
  KernelTarget target;
  for (StringRef feature : llvm::split(features, ',')) {
    auto set = [&](bool &has, StringRef name) {
      if (feature.drop_front(feature.empty() ? 0 : 1) == name)
        has = feature.starts_with("+");
    };
    set(target.roundsToBFloat, "avx512bf16");
    set(target.fusesMultiplyAdd, "fma");
  }
  return target;
}

void addKernelLoweringPipeline(OpPassManager &passes,
                               const KernelTarget &target) {
  OpPassManager &functions = passes.nest<func::FuncOp>();
  // Index arithmetic of the generator is full of zeros and ones.
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  // Broadcasts and arithmetic on row scalars out of the loops over columns.
  functions.addPass(createLoopInvariantCodeMotionPass());
  functions.addPass(createExpandMathPass({target.roundsToBFloat}));
  if (target.fusesMultiplyAdd)
    functions.addPass(createFuseMultiplyAddsPass());
  // Expansions repeat constants; row scalars' expansions move out of loops.
  functions.addPass(createCSEPass());
  functions.addPass(createLoopInvariantCodeMotionPass());

  passes.addPass(createConvertMathToLLVMPass());
  // What is left of math has no instruction: f64. Vectors are taken apart.
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertIndexToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functionOptions;
  // All shapes and strides are known: a buffer is its pointer.
  functionOptions.useBarePtrCallConv = true;
  passes.addPass(createConvertFuncToLLVMPass(functionOptions));
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void registerKernelLoweringPipeline() {
  PassPipelineRegistration<>(
      "mpcomm-kernels-to-llvm", "Lowers generated kernels to the LLVM dialect",
      [](OpPassManager &passes) { addKernelLoweringPipeline(passes, {}); });
  PassPipelineRegistration<>(
      "mpcomm-gpu-kernels-to-nvvm", "Lowers generated kernels of a GPU to NVVM",
      [](OpPassManager &passes) { addGPULoweringPipeline(passes); });
}

} // namespace mpcomm
