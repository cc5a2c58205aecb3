//===- LoopCasts.h - 16 bits in the bodies of loops -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_PRECISION_LOOPCASTS_H
#define MPCOMM_LIB_TRANSFORMS_PRECISION_LOOPCASTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mpcomm {

/// Of each loop of `step`: casts from and to `narrow` around it move into its
/// body, where kernels do them, and products of the body that are
/// `isNarrowProduct` take and give `narrow`. What such a product alone reads of
/// the captured tensors is cast before the loop. Carries keep their types.
/// Returns the number of loops that changed.
int64_t
moveCastsIntoLoops(mlir::func::FuncOp step, mlir::FloatType narrow,
                   llvm::function_ref<bool(mlir::Operation *)> isNarrowProduct);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_PRECISION_LOOPCASTS_H
