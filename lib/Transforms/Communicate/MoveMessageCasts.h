//===- MoveMessageCasts.h - casts across send and receive -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MOVEMESSAGECASTS_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MOVEMESSAGECASTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mpcomm {

/// Lets messages travel in the narrower type that all of their kind come from,
/// or all go into. A kind is what may meet: sends and receives of one
/// communicator, channel, number of elements and element type, in whatever
/// function. Calls `passed` with each op that is changed, and the bytes by
/// which its payload is smaller. Time: linear in ops and uses.
void moveMessageCasts(
    mlir::ModuleOp module,
    llvm::function_ref<void(mlir::Operation *op, int64_t bytes)> passed);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_MOVEMESSAGECASTS_H
