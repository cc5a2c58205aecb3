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
/// allows. Ordered: each class allows all that those before it allow.
enum class Numerics {
  /// Every value that the program gives stays the same, bit for bit.
  Exact,
  /// Sums may be taken in another order: values change by rounding of the
  /// accumulation type.
  Reassociating,
  /// Values may also lose bits, as by a narrower type on the wire.
  Lossy,
};

/// Who decides which reductions share a bucket.
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
  /// After the sum, in the type in which sums are taken.
  After,
  /// Each rank's part before it is sent: the sum of 16-bit floats that a
  /// network
  /// takes itself cannot overflow then, but small gradients lose bits.
  Before
};

/// What a stage's backward pass recomputes of its forward pass.
enum class Recomputation {
  None,
  /// All but products, which cost most for what they keep.
  Selective,
  /// All: only what the stage receives is kept.
  Stage
};

/// Which attention that is written out becomes one op.
enum class AttentionShapes {
  /// What kernels of GPUs take.
  Kernels,
  All
};

/// How the gradient of the loss is scaled.
enum class LossScaling {
  /// Dynamic where the precision is f16, else none.
  Auto,
  None,
  /// By a constant, unchecked.
  Static,
  /// By state of the step, which backs off and grows.
  Dynamic
};

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PASSOPTIONS_H
