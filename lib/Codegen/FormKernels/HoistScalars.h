//===- HoistScalars.h - reciprocals of a step's scalars ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_HOISTSCALARS_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_HOISTSCALARS_H

namespace mlir {
class Block;
} // namespace mlir

namespace mpcomm {

/// Moves quotients of scalars that are arguments of the block or constants to
/// its begin, if there are several: the reciprocals of all scales of a step are
/// then beside each other, and one launch computes them. Time: linear in the
/// ops.
void hoistScalars(mlir::Block &block);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_HOISTSCALARS_H
