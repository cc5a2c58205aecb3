//===- RankVariance.h - which values differ between ranks --------*- C++
//-*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward dataflow analysis over the two-point lattice "the same on all ranks
// that differ only along one mesh axis" < "may differ". It errs towards "may
// differ".
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

/// What may differ along `axis` in a function that all ranks run:
/// - arguments of role `batch` and `rng`, and futures from outside;
/// - what recv and collectives over the axis give, but for all_reduce,
///   all_gather and broadcast, which give one value to all of the group;
/// - results of ops that depend on the rank's coordinate on the axis;
/// - results of any other op with an operand, or a value used in one of its
///   regions, that may differ, or with effects that are not known.
///
/// A function of one block that is called is followed, for all of its calls
/// together. An op with regions is iterated to a fixed point. Linear in the
/// number of ops for straight-line code; each level of loops may double it.
class RankVariance {
public:
  /// What optimizer ops are taken to get, and mpcomm.update_fp8_scale for its
  /// greatest magnitude.
  enum class Gradients {
    AsTheyAre,
    Reduced, ///< one value for all ranks, whatever varies() says about it
  };

  /// `function` may be a declaration.
  RankVariance(mlir::FunctionOpInterface function, llvm::StringRef axis,
               Gradients gradients = Gradients::AsTheyAre);

  /// Whether the value may differ between ranks.
  bool varies(mlir::Value value) const { return varying.contains(value); }

  /// Has `value` vary, and what depends on it. Linear in the number of ops.
  void vary(mlir::Value value);

  /// Takes in `op`, which was made since and replaces what is replicated only
  /// by what is.
  void add(mlir::Operation *op) { visit(op); }

  /// To be called before `op`, which has no regions, is erased.
  void forget(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      varying.erase(result);
  }

  /// The optimizer ops of the function, in program order.
  llvm::ArrayRef<OptimizerOpInterface> getOptimizers() const {
    return optimizers.getArrayRef();
  }

  /// Whether ranks may disagree on executing `op`, which is in the function:
  /// the innermost reason (an op with regions, or a branch), or null.
  mlir::Operation *getDivergence(mlir::Operation *op) const;

  /// A value that varies by itself, such as a batch argument, and from which
  /// `value` gets it. `value` must vary.
  mlir::Value getOrigin(mlir::Value value) const;

  /// For a note: where `value` gets it from.
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
