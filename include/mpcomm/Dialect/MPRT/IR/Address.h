//===- Address.h - where a planned buffer is --------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every buffer of a planned function is an argument, a global or the arena,
// plus a constant offset.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_ADDRESS_H
#define MPCOMM_DIALECT_MPRT_IR_ADDRESS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace mpcomm {

/// A base (argument or memref.global) and an offset.
struct Address {
  mlir::Value base;
  int64_t bytes = 0;  // of the aligned pointer from the base
  int64_t offset = 0; // of the buffer's type, in elements
};

/// Bytes that the runtime gives to an element of `type`, or of its elements.
int64_t elementBytes(mlir::Type type);

/// The address of `buffer`. Failure, with an error at `user`, if it is not
/// known.
llvm::FailureOr<Address> resolveAddress(mlir::Value buffer,
                                        mlir::Operation *user);

/// Bytes of a base that an operation uses.
struct Access {
  mlir::Value base;
  int64_t begin = 0, end = 0;
  bool writes = false;

  /// Whether the order of two operations matters.
  bool touches(const Access &other) const {
    return base == other.base && begin < other.end && other.begin < end &&
           (writes || other.writes);
  }
};

/// The bytes that `op`, an op on buffers, accesses, operand by operand.
/// Failure, with an error, if offsets or strides are not static.
llvm::FailureOr<llvm::SmallVector<Access, 4>> accessesOf(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPRT_IR_ADDRESS_H
