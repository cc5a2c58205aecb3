//===- InitAllDialects.h - every dialect that mpcomm uses -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_INITALLDIALECTS_H
#define MPCOMM_INITALLDIALECTS_H

#include "mlir/IR/DialectRegistry.h"

namespace mpcomm {

/// Adds what IR of any form is made of, and what the pipelines for CPUs need of
/// it: the project's dialects, those of MLIR that appear beside them, and the
/// external models of both. What else is registered stays. For target cuda, a
/// tool adds mlir::registerAllExtensions and
/// mlir::registerAllGPUToLLVMIRTranslations.
void registerAllDialects(mlir::DialectRegistry &registry);

} // namespace mpcomm

#endif // MPCOMM_INITALLDIALECTS_H
