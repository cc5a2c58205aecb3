//===- Report.h - what a compilation decided --------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_COMPILE_REPORT_H
#define MPCOMM_TOOLS_MPCOMM_COMPILE_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mpcomm {

/// Prints functions, memory, kernels and collectives of a program in the LLVM
/// dialect, as its manifest has them.
void printReport(mlir::ModuleOp module, llvm::raw_ostream &stream);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_COMPILE_REPORT_H
