//===- AttentionCalls.h - attention that a library may compute --*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTIONCALLS_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTIONCALLS_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::kernels {

/// Marks those of `ops`, on buffers, whose launches are to be one call of the
/// runtime: without a mask, or with one that is the same in each step. Such a
/// mask is made of constants alone, is a constant, or is a buffer of the model
/// that no step writes, wherever functions hand it on.
void markAttentionCalls(llvm::ArrayRef<mprt::AttentionOp> ops,
                        mlir::SymbolTable &symbols);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTIONCALLS_H
