//===- AttentionCall.h - attention that is one call -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches of the kernels of an mprt.attention that the runtime gets as one
// call, mprt_attention, because a library may compute it instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_ATTENTIONCALL_H
#define MPCOMM_DIALECT_MPRT_IR_ATTENTIONCALL_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::mprt {

/// A unit, on an mprt.attention: its mask is computed from constants alone.
inline constexpr llvm::StringLiteral kFixedMaskAttr = "mprt.fixed_mask";
/// A dictionary of `kind` and `scale`, on an mprt.attention on buffers and then
/// on the first launch in its place; a unit, on the launches that belong to it.
inline constexpr llvm::StringLiteral kAttentionAttr = "mprt.attention";

struct AttentionCall {
  bool isGradient = false;
  double scale = 1;

  /// The attention that `launch` begins; nothing if it begins none.
  static std::optional<AttentionCall> of(LaunchOp launch);
  /// Marks `op`, whose launches are one call.
  static void set(AttentionOp op);

  /// How many operands there are without a mask, and the number of the mask.
  unsigned getNumOperands() const { return isGradient ? 9 : 5; }
  unsigned getMaskNumber() const { return isGradient ? 6 : 3; }
};

/// The launches that are one call with `first`, itself first; empty if it
/// begins no attention.
llvm::SmallVector<LaunchOp, 4> attentionFrom(LaunchOp first);

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_ATTENTIONCALL_H
