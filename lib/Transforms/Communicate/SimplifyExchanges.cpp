//===- SimplifyExchanges.cpp - what goes out and comes back ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of collectives, and of one and an all_slice, that undo each other or
// make a cheaper one.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpcomm;

/// Whether two ops run on the same groups: the same axes, in whatever order
/// they are named.
template <typename A, typename B> static bool isSameGroup(A a, B b) {
  return a.getMeshAttr() == b.getMeshAttr() &&
         a.getAxes().size() == b.getAxes().size() &&
         llvm::all_of(a.getAxes(), [&](Attribute axis) {
           return llvm::is_contained(b.getAxes(), axis);
         });
}

static bool isScatteredOver(ReduceScatterOp scatter, AllGatherOp gather) {
  return isSameGroup(scatter, gather) && scatter.getDim() == gather.getDim();
}

bool CollectiveSimplifier::simplify(ReduceScatterOp op) {
  auto gather = op.getInput().getDefiningOp<AllGatherOp>();
  if (!gather || !isScatteredOver(op, gather))
    return false;
  Value own = reduceReplicated(op, gather.getInput());
  if (!own)
    return false;
  replace(op, own, "ScatteredGather");
  return true;
}

bool CollectiveSimplifier::simplify(AllGatherOp op) {
  auto scatter = op.getInput().getDefiningOp<ReduceScatterOp>();
  if (!scatter || scatter->getBlock() != op->getBlock() ||
      !isScatteredOver(scatter, op) || !scatter.getResult().hasOneUse())
    return false;
  lastNeeded = getReorderedClass(scatter.getReduction());
  // What all_reduce sends back is rounded to the wire type.
  if (!allows(lastNeeded) || rounds(scatter, scatter.getInput().getType()))
    return false;
  OpBuilder builder(op);
  auto reduced = AllReduceOp::create(
      builder, op.getLoc(), scatter.getInput(), op.getMeshAttr(),
      op.getAxesAttr(), scatter.getReductionAttr(), scatter.getWireAttr(),
      scatter.getAccumulateAttr());
  replace(op, reduced.getOutputs(), "GatheredScatter");
  visit(reduced);
  return true;
}

bool CollectiveSimplifier::simplify(AllToAllOp op) {
  auto inner = op.getInput().getDefiningOp<AllToAllOp>();
  if (!inner || !isSameGroup(op, inner) ||
      inner.getSplitDim() != op.getConcatDim() ||
      inner.getConcatDim() != op.getSplitDim())
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, inner.getInput(), "ExchangedBack");
  return true;
}

bool CollectiveSimplifier::simplify(CollectiveBroadcastOp op) {
  if (!isReplicated(op.getInput(), op))
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, op.getInput(), "BroadcastEqualValue");
  return true;
}

bool CollectiveSimplifier::simplify(AllSliceOp op) {
  lastNeeded = Numerics::Exact;
  if (auto gather = op.getInput().getDefiningOp<AllGatherOp>())
    if (isSameGroup(op, gather) && op.getDim() == gather.getDim()) {
      replace(op, gather.getInput(), "SlicedGather");
      return true;
    }
  auto reduced = op.getInput().getDefiningOp<AllReduceOp>();
  // An all_slice may stand where some ranks never come; a collective may not.
  if (!reduced || reduced->getBlock() != op->getBlock() ||
      !isSameGroup(op, reduced) || reduced.getInputs().size() != 1 ||
      !op.getInput().hasOneUse())
    return false;
  lastNeeded = getReorderedClass(reduced.getReduction());
  if (!allows(lastNeeded) ||
      rounds(reduced, reduced.getInputs().front().getType()))
    return false;
  OpBuilder builder(op);
  auto scatter = ReduceScatterOp::create(
      builder, reduced.getLoc(), op.getType(), reduced.getInputs().front(),
      op.getMeshAttr(), op.getAxesAttr(), reduced.getReductionAttr(),
      builder.getI64IntegerAttr(op.getDim()), reduced.getWireAttr(),
      reduced.getAccumulateAttr());
  replace(op, scatter.getResult(), "SlicedReduction");
  visit(scatter);
  return true;
}
