//===- CloneWidenings.h - casts to f32 where they are read ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_CLONEWIDENINGS_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_CLONEWIDENINGS_H

namespace mlir {
class Block;
} // namespace mlir

namespace mpcomm {

/// Gives each op that a kernel can hold its own copy of an op that widens one
/// of its operands. Products and others share the original, but that products
/// far from each other have their own of 8 bits. Reshapes of what was widened
/// become widenings of what was reshaped. Each widening then stands, with the
/// views around it, where it is first needed. Time: linear in the ops and their
/// uses.
void cloneWidenings(mlir::Block &block);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_CLONEWIDENINGS_H
