//===- CollectiveSimplifier.h - collectives that need not be ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rewrites of synchronous collectives, in program order: what defines an op's
// operands is in its final form when the op is reached. A rewrite erases only
// the op that it visits, visits what it makes at once, and changes users behind
// it; so ops in `known` keep their operands. Dead collectives go last.
//
// Invariant: a collective is made only in the block of one that it replaces, so
// that as many ranks come by, and as often, as before.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {

/// The walk over one function. Time: linear in its ops, operands and uses.
class CollectiveSimplifier {
public:
  CollectiveSimplifier(mlir::FunctionOpInterface function, Numerics numerics)
      : function(function), numerics(numerics) {}

  /// Returns whether anything changed.
  bool run();

private:
  void visit(mlir::Operation *op);
  bool simplify(mlir::Operation *op);
  void eraseDead();
  bool reuseEarlier(CollectiveOpInterface op);

  // SimplifyReductions.cpp
  bool simplify(AllReduceOp op);
  bool reduceEqualValues(AllReduceOp op);
  bool mergeAxes(AllReduceOp op);
  bool reduceSlices(AllReduceOp op);
  mlir::Value reduceReplicated(CollectiveOpInterface op, mlir::Value equal);

  // SimplifyExchanges.cpp
  bool simplify(ReduceScatterOp op);
  bool simplify(AllGatherOp op);
  bool simplify(AllToAllOp op);
  bool simplify(CollectiveBroadcastOp op);
  bool simplify(AllSliceOp op);

  bool allows(Numerics needed) const { return needed <= numerics; }
  void replace(mlir::Operation *op, mlir::ValueRange values,
               llvm::StringRef name);
  void passed(mlir::Operation *op, llvm::StringRef name, Numerics needed);

  mlir::FunctionOpInterface function;
  Numerics numerics;
  /// What the rewrite at hand needs.
  Numerics lastNeeded = Numerics::Exact;
  bool changed = false;
  /// Collectives of a block, by what they compute.
  struct SameOp : llvm::DenseMapInfo<mlir::Operation *> {
    static unsigned getHashValue(mlir::Operation *op);
    static bool isEqual(mlir::Operation *a, mlir::Operation *b);
  };
  llvm::DenseSet<mlir::Operation *, SameOp> known;
  llvm::SetVector<mlir::Operation *> remaining;
};

/// Whether `value` comes from a collective that makes it the same on all ranks
/// of the group of `op`.
bool isReplicated(mlir::Value value, CollectiveOpInterface op);

/// Whether the wire or the accumulation type rounds elements of `type`.
bool rounds(CollectiveOpInterface op, mlir::Type type);

/// The class of a rewrite that takes a reduction in another order.
inline Numerics getReorderedClass(Reduction reduction) {
  return reduction == Reduction::Min || reduction == Reduction::Max
             ? Numerics::Exact
             : Numerics::Reassociating;
}

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H
