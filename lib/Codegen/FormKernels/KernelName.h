//===- KernelName.h - what a kernel is called after ----------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELNAME_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELNAME_H

#include "mlir/IR/Operation.h"
#include <string>

namespace mpcomm {

/// The name of the op that most of the members stem from, by the origins that
/// `convert-mpcomm-to-linalg` leaves in locations; else up to two of the ops in
/// the bodies (`mulf_addf`).
std::string nameKernel(llvm::ArrayRef<mlir::Operation *> members);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_KERNELNAME_H
