//===- PackOperands.h - operands that may not be views ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_MEMORY_PACKOPERANDS_H
#define MPCOMM_LIB_CODEGEN_MEMORY_PACKOPERANDS_H

#include "mlir/IR/PatternMatch.h"

namespace mpcomm {

/// Copies operands that are views to contiguous buffers first, and computes
/// results that are views in such buffers, which are copied then. Of a
/// contraction, those views with which it takes the fewest matrix products, and
/// the fewest bytes of them: a product steps through neighbouring elements, and
/// several that add up in 16 bits would round in between. Of a kernel, all,
/// where its code cannot be generated for the views. `block` is bufferized; ops
/// in regions in it stay as they are. Time: linear.
void packOperands(mlir::Block &block, mlir::RewriterBase &rewriter);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_MEMORY_PACKOPERANDS_H
