//===- Fingerprints.h - what a program computes, as numbers -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fingerprint is a hash of the expression that a value is, of the arguments
// of its function. These are equal:
//   - a value and what is put together of all slices of it in order;
//   - slices of a reduction and reductions of slices; so with several tensors
//     in a row;
//   - a reduction over several axes and one after the other over each;
//   - all blocks of a value, put together in order, and the value;
//   - the sum of what mpcomm.predivide divides, and the mean;
//   - a mean or a maximum of what ranks hold alike, and the value;
//   - a value, and the same in another shape or float type, or after an await.
// What a collective is besides (channel, wire type, bucket) does not count.
// Hashes are the same in every process.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_VERIFY_FINGERPRINTS_H
#define MPCOMM_LIB_TRANSFORMS_VERIFY_FINGERPRINTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"

namespace mpcomm {

/// Knows attributes, types and private functions that it has seen. Linear in
/// the number of ops of each function.
class Fingerprints {
public:
  /// One for each result, and a last one for all messages that are sent; none
  /// for a function of several blocks. `shardings`: along all parts of the axis
  /// of the samples.
  std::optional<llvm::SmallVector<int64_t>>
  compute(mlir::FunctionOpInterface function,
          llvm::ArrayRef<const AxisShardings *> shardings);

private:
  friend class FunctionFingerprints;
  uint64_t hash(mlir::Attribute attr);
  uint64_t hash(mlir::Type type);

  llvm::DenseMap<mlir::Attribute, uint64_t> attributes;
  llvm::DenseMap<mlir::Type, uint64_t> types;
  /// Of the results of private functions.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> callees;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_VERIFY_FINGERPRINTS_H
