//===- ForwardCopies.h - results where they are copied to -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_MEMORY_FORWARDCOPIES_H
#define MPCOMM_LIB_CODEGEN_MEMORY_FORWARDCOPIES_H

#include "mlir/IR/PatternMatch.h"

namespace mpcomm {

/// Whether two buffers are the same view of the same buffer.
bool isSameView(mlir::Value a, mlir::Value b);

/// Removes copies of a part of a buffer onto itself and of what nothing has
/// written, and has attention write its results where they are copied to, if
/// they are read by that copy alone.
/// (An op's first result goes there as a tensor already; of several, the later
/// ones go into what the first was put into, which is made after the op.)
/// `block` is bufferized.
void forwardCopies(mlir::Block &block, mlir::RewriterBase &rewriter);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_MEMORY_FORWARDCOPIES_H
