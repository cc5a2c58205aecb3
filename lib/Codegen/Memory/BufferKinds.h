//===- BufferKinds.h - what buffers of a step hold --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Classifies, for reports, what the arena is filled with.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_MEMORY_BUFFERKINDS_H
#define MPCOMM_LIB_CODEGEN_MEMORY_BUFFERKINDS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

enum class BufferKind {
  /// All that is none of the others.
  Temporary,
  /// What an update reads as the gradient of a parameter, and no collective
  /// touches.
  Gradient,
  /// Made by what the loss depends on, and read by what it does not depend on.
  Activation,
  /// What collectives send and receive: buckets, in which gradients lie where
  /// they travel from, and copies made for a collective.
  Communication,
};
inline constexpr unsigned kNumBufferKinds = 4;

/// The key of a kind in `mprt.arena_bytes_by_kind`.
llvm::StringRef nameOf(BufferKind kind);

/// The kinds of the allocations of a function on buffers, of one block, as
/// bufferization leaves it: collectives have their operands where they were.
/// Of several uses of one buffer, the greatest kind counts. Kernels are looked
/// into, so that of a kernel that computes values of the forward and of the
/// backward pass each value is what it is. Time: linear in the operands of ops
/// and kernels, times the most outputs of a kernel.
llvm::DenseMap<mlir::Value, BufferKind> getBufferKinds(mlir::func::FuncOp step);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_MEMORY_BUFFERKINDS_H
