//===- PassOptions.h - enumerations of pass options -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Types of the options of passes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PASSOPTIONS_H
#define MPCOMM_TRANSFORMS_PASSOPTIONS_H

namespace mpcomm {

/// The class of numerics that a pass declares, and that its option `numerics`
/// allows. Each class includes the previous ones.
enum class Numerics {
  /// Results are unchanged, bit for bit.
  Exact,
  /// Sums may be computed in another order, so results may change by roundings
  /// of the accumulation type.
  Reassociating,
  /// Values may also be rounded to fewer bits, such as a narrower wire type.
  Lossy,
};

/// The rule that assigns reductions to buckets.
enum class BucketPolicy {
  Solved,
  DDP,
  XLA,
  Horovod,
  Megatron,
  MGWFBP,
  One,
  None
};

/// When the sum of gradients over ranks is divided by their number.
enum class Averaging {
  /// After the sum, in the accumulation type.
  After,
  /// On each rank, before the gradients are sent. A sum of 16-bit floats in the
  /// network then cannot overflow, but small gradients lose bits.
  Before
};

/// The values of the forward pass that the backward pass of a stage recomputes.
enum class Recomputation {
  None,
  /// All except the results of products and convolutions, whose recomputation
  /// is the most expensive for the memory it saves.
  Selective,
  /// All values that the stage does not receive.
  Stage
};

/// The shapes of attention that become one op.
enum class AttentionShapes {
  /// Shapes that GPU kernels support.
  Kernels,
  All
};

/// How the gradient of the loss is scaled.
enum class LossScaling {
  /// Dynamic if the precision is f16, else none.
  Auto,
  None,
  /// By a constant, unchecked.
  Static,
  /// By state of the step, which backs off and grows.
  Dynamic
};

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PASSOPTIONS_H
