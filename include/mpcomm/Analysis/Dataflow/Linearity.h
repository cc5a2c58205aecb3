//===- Linearity.h - the powers of a factor that values carry ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which power of a factor each value of a step carries, by LinearOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
#define MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H

#include "mpcomm/Dialect/MPComm/IR/Linearity.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// That of an op that says nothing of it is unknown.
Linearity getLinearity(mlir::Operation *op);

/// The power of a factor that values carry, as far as it is known.
class Degrees {
public:
  /// Every power at once: the value is zero.
  static constexpr int kAny = -1;
  static constexpr int kUnknown = -2;

  /// Values that carry nothing that was set carry the power 0.
  int get(mlir::Value value) const;
  void set(mlir::Value value, int degree) { known[value] = degree; }
  /// Sets the results of an op without regions from its operands.
  void propagate(mlir::Operation *op);

private:
  llvm::DenseMap<mlir::Value, int> known;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
