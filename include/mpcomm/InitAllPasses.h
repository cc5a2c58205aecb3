//===- InitAllPasses.h - every pass and pipeline of mpcomm ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_INITALLPASSES_H
#define MPCOMM_INITALLPASSES_H

#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Pipelines/Pipelines.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {

/// Registers the project's passes and pipelines with MLIR's command lines.
inline void registerAllPasses() {
  registerMPCommTransformsPasses();
  registerMPCommConversionPasses();
  registerMPCommCodegenPasses();
  registerKernelLoweringPipeline();
  registerPipelines();
}

} // namespace mpcomm

#endif // MPCOMM_INITALLPASSES_H
