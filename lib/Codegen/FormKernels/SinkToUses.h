//===- SinkToUses.h - sinking of ops to their uses --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_SINKTOUSES_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_SINKTOUSES_H

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir {
class Block;
class Operation;
} // namespace mlir

namespace mpcomm {

/// Moves each op of the block that `isMovable` (pure, and not the terminator)
/// before the first one that is not and needs it, or needs one that does; to
/// the end of the block where none is. Movable ops keep their order among
/// themselves, in which each is after those that it needs. Time: linear in
/// the ops and their uses.
void sinkToUses(mlir::Block &block,
                llvm::function_ref<bool(mlir::Operation *)> isMovable);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_SINKTOUSES_H
