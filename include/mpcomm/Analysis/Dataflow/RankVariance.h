//===- RankVariance.h - which values differ between ranks -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward dataflow analysis over the two-point lattice "replicated along a
// mesh axis" < "may differ". The result is conservative: "may differ" if in
// doubt.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_DATAFLOW_RANKVARIANCE_H
#define MPCOMM_ANALYSIS_DATAFLOW_RANKVARIANCE_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <string>

namespace mpcomm {

/// The values that may differ along `axis` in a function that all ranks run:
/// - arguments of role `batch` and `rng`, and futures from outside;
/// - results of recv and of collectives over the axis, except all_reduce,
///   all_gather and broadcast, whose results are replicated on the group;
/// - results of ops that depend on the rank's coordinate on the axis;
/// - results of any other op with unknown effects, or with an operand, or a
///   value used in one of its regions, that may differ.
///
/// Calls of functions of one block are followed; the results hold for all calls
/// of a function together. An op with regions is iterated to a fixed point.
/// Linear in the number of ops for straight-line code; each level of loops may
/// double the time.
class RankVariance {
public:
  /// The assumption about the gradients of optimizer ops, and about the
  /// magnitude of mpcomm.update_fp8_scale.
  enum class Gradients {
    AsTheyAre,
    Reduced, ///< replicated, whatever varies() returns
  };

  /// `function` may be a declaration.
  RankVariance(mlir::FunctionOpInterface function, llvm::StringRef axis,
               Gradients gradients = Gradients::AsTheyAre);

  /// Whether the value may differ between ranks.
  bool varies(mlir::Value value) const { return varying.contains(value); }

  /// Marks `value`, and everything that depends on it, as varying. Linear in
  /// the number of ops.
  void vary(mlir::Value value);

  /// Adds a new `op`. It must not make a replicated value vary.
  void add(mlir::Operation *op) { visit(op); }

  /// Must be called before `op`, which has no regions, is erased.
  void forget(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      varying.erase(result);
  }

  /// The optimizer ops of the function, in program order.
  llvm::ArrayRef<OptimizerOpInterface> getOptimizers() const {
    return optimizers.getArrayRef();
  }

  /// The innermost op with regions, or branch, because of which only some ranks
  /// may execute `op`; null if all ranks execute it.
  mlir::Operation *getDivergence(mlir::Operation *op) const;

  /// A value that varies by itself, such as a batch argument, on which `value`
  /// depends. `value` must vary.
  mlir::Value getOrigin(mlir::Value value) const;

  /// A description of getOrigin(), for a note.
  std::string describeOrigin(mlir::Value value) const;

private:
  bool mark(mlir::Value value) { return varying.insert(value).second; }
  bool markResults(mlir::Operation *op);
  bool visit(mlir::Operation *op);
  bool visitCollective(CollectiveOpInterface op);
  bool visitOptimizer(OptimizerOpInterface op);
  bool visitCall(mlir::Operation *call, mlir::FunctionOpInterface callee);
  bool visitRegion(mlir::Region &region);
  bool anyVaries(mlir::ValueRange values) const;
  bool dependsOnVaryingScalar(mlir::Operation *op) const;

  mlir::FunctionOpInterface function;
  mlir::StringAttr axis;
  Gradients gradients;
  llvm::DenseSet<mlir::Value> varying;
  llvm::SetVector<OptimizerOpInterface> optimizers;
  llvm::DenseSet<mlir::Operation *> followed; // functions that are called
};

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_DATAFLOW_RANKVARIANCE_H
