//===- OpHelpers.h - helpers of runtime ops ---------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification and memory effects of ops in destination style.
//
//===----------------------------------------------------------------------===//

#ifndef MPRT_IR_OPHELPERS_H
#define MPRT_IR_OPHELPERS_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::mprt {

/// Operands are all tensors or all buffers; results mirror tensor outputs.
llvm::LogicalResult verifyDestinationStyle(mlir::Operation *op,
                                           mlir::ValueRange outputs);

/// The strides of buffers are static, and what they reach is counted in 64
/// bits.
llvm::LogicalResult verifySpans(mlir::Operation *op);

using Effects = llvm::SmallVectorImpl<
    mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>;

/// Buffers among `operands` are read, written or both; tensors have no effect.
void addEffects(mlir::MutableOperandRange operands, bool read, bool write,
                Effects &effects);

} // namespace mpcomm::mprt

#endif // MPRT_IR_OPHELPERS_H
