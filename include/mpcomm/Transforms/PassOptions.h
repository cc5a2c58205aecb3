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

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PASSOPTIONS_H
