//===- Linearity.h - the powers of a factor that values carry ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the power of a factor that each value of a step carries, by
// LinearOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
#define MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H

#include "mpcomm/Dialect/MPComm/IR/Linearity.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// The linearity of an op; unknown if it does not implement LinearOpInterface.
Linearity getLinearity(mlir::Operation *op);

/// The known powers of a factor that values carry.
class Degrees {
public:
  /// The value is zero, so it carries every power.
  static constexpr int kAny = -1;
  static constexpr int kUnknown = -2;

  /// The power of a value; 0 if none was set.
  int get(mlir::Value value) const;
  void set(mlir::Value value, int degree) { known[value] = degree; }
  /// Sets the results of an op without regions from its operands.
  void propagate(mlir::Operation *op);

private:
  llvm::DenseMap<mlir::Value, int> known;
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_LINEARITY_H
