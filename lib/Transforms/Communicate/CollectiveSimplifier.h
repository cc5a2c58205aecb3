//===- CollectiveSimplifier.h - collectives that need not be ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rewrites of synchronous collectives, in program order: what defines an op's
// operands is in its final form when the op is reached. Of collectives, a
// rewrite erases only the one that it visits, visits what it makes at once, and
// changes users after it; so ops in `known` keep their operands. Dead
// collectives go last.
//
// Invariant: a collective is made only in the block of one that it replaces, so
// that as many ranks come by, and as often, as before. Collectives between
// ranks that run different functions stay: what one of them leaves out the
// others would wait for.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H

#include "Communicate/Communicator.h"
#include "Communicate/Replicas.h"
#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {

/// The walk over one function. Time: linear in its ops, operands and uses; for
/// each mesh axis along which a value is asked about, what AxisShardings takes.
class CollectiveSimplifier {
public:
  CollectiveSimplifier(mlir::FunctionOpInterface function,
                       const RankFunctions &ranks, const CostModel &model,
                       Numerics numerics)
      : function(function), ranks(ranks), model(model), numerics(numerics),
        replicas(function, ranks) {}

  /// Returns whether anything changed.
  bool run();

private:
  bool mayChange(mlir::Operation *op) const;
  void visit(mlir::Operation *op);
  bool simplify(mlir::Operation *op);
  void eraseDead();
  bool reuseEarlier(CollectiveOpInterface op);
  bool dropAxesOfOne(mlir::Operation *op);

  // SimplifyReductions.cpp
  bool simplify(AllReduceOp op);
  bool reduceEqualValues(AllReduceOp op);
  bool mergeAxes(AllReduceOp op);
  bool reduceSlices(AllReduceOp op);
  bool joinCombined(CollectiveOpInterface op);
  mlir::Value reduceReplicated(CollectiveOpInterface op, mlir::Value equal);
  AllReduceOp cloneWith(AllReduceOp op, mlir::ValueRange inputs,
                        mlir::ArrayAttr axes);

  // SimplifyExchanges.cpp
  bool simplify(ReduceScatterOp op);
  bool simplify(AllGatherOp op);
  bool simplify(AllToAllOp op);
  bool simplify(CollectiveBroadcastOp op);
  bool simplify(CollectivePermuteOp op);

  // SimplifySlices.cpp
  bool simplify(AllSliceOp op);
  mlir::Value scatter(AllSliceOp op, AllReduceOp reduced);
  bool isScatterFaster(AllSliceOp op, AllReduceOp reduced,
                       mlir::ArrayAttr others);

  bool allows(Numerics needed) const { return needed <= numerics; }
  mlir::OpBuilder getBuilder(mlir::Operation *before) {
    return mlir::OpBuilder(before, &replicas);
  }
  void erase(mlir::Operation *op);
  void replace(mlir::Operation *op, mlir::ValueRange values,
               llvm::StringRef name);
  void passed(mlir::Operation *op, llvm::StringRef name, Numerics needed);

  mlir::FunctionOpInterface function;
  const RankFunctions &ranks;
  const CostModel &model;
  Numerics numerics;
  Replicas replicas;
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

/// Whether two ops run on the same groups: the same axes, in whatever order
/// they are named.
template <typename A, typename B> bool isSameGroup(A a, B b) {
  return a.getMeshAttr() == b.getMeshAttr() &&
         a.getAxes().size() == b.getAxes().size() &&
         coversAxes(a.getAxesAttr(), b.getAxesAttr());
}

/// The one operand of `op`; null for a bucket of several.
inline mlir::Value getOnlyOperand(mlir::Operation *op) {
  return op->getNumOperands() == 1 ? op->getOperand(0) : mlir::Value();
}

/// What each rank of the group of `op` has gathered along `dim` to make
/// `value`, or null.
template <typename Op>
mlir::Value getGatheredBlock(mlir::Value value, Op op, int64_t dim) {
  auto gather = value.getDefiningOp<AllGatherOp>();
  if (!gather || !isSameGroup(op, gather))
    return mlir::Value();
  unsigned i = llvm::cast<mlir::OpResult>(value).getResultNumber();
  return gather.getDims()[i] == dim ? gather.getInputs()[i] : mlir::Value();
}

/// Whether the wire or the accumulation type rounds elements of `type`.
bool rounds(CollectiveOpInterface op, mlir::Type type);

/// The class of a rewrite that takes the reduction `op` in another order.
inline Numerics getReorderedClass(CollectiveOpInterface op) {
  return dependsOnOrder(op) ? Numerics::Reassociating : Numerics::Exact;
}

/// The class of one that moves elements within what `op` reduces.
inline Numerics getMovedClass(CollectiveOpInterface op) {
  return dependsOnPlace(op) ? Numerics::Reassociating : Numerics::Exact;
}

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_COLLECTIVESIMPLIFIER_H
