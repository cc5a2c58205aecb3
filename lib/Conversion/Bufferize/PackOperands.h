//===- PackOperands.h - operands that may not be views ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_BUFFERIZE_PACKOPERANDS_H
#define MPCOMM_LIB_CONVERSION_BUFFERIZE_PACKOPERANDS_H

#include "mlir/IR/PatternMatch.h"

namespace mpcomm {

/// Operands that are views are copied to contiguous buffers first, and results
/// that are views computed in such buffers and copied, where a view has a step
/// between the elements of its rows and belongs to a contraction, which walks
/// rows of neighbouring elements, or belongs to a kernel whose code cannot be
/// generated for these views. `block` is bufferized; ops in regions in it stay as
/// they are. Time: linear.
void packOperands(mlir::Block &block, mlir::RewriterBase &rewriter);

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_BUFFERIZE_PACKOPERANDS_H
