//===- SimplifyExchanges.cpp - what goes out and comes back ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pairs of collectives, and of one and an all_slice, that undo each other or
// make a cheaper one; exchanges of what all ranks have.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"

using namespace mlir;
using namespace mpcomm;

/// reduce_scatter of what is the same on all ranks: the rank's block of it.
bool CollectiveSimplifier::simplify(ReduceScatterOp op) {
  Value input = getOnlyOperand(op);
  if (!input)
    return false;
  int64_t dim = op.getDims().front();
  if (Value block = getGatheredBlock(input, op, dim))
    if (Value own = reduceReplicated(op, block)) {
      replace(op, own, "ScatteredGather");
      return true;
    }
  if (!replicas.isReplicated(input, op))
    return joinCombined(op);
  OpBuilder builder = getBuilder(op);
  auto own = AllSliceOp::create(
      builder, op.getLoc(), op->getResult(0).getType(), input, op.getMeshAttr(),
      op.getAxesAttr(), builder.getI64IntegerAttr(dim));
  if (Value reduced = reduceReplicated(op, own)) {
    replace(op, reduced, "ReducedEqualValues");
    visit(own);
    return true;
  }
  erase(own);
  return joinCombined(op);
}

bool CollectiveSimplifier::simplify(AllGatherOp op) {
  Value input = getOnlyOperand(op);
  if (!input)
    return false;
  int64_t dim = op.getDims().front();
  if (auto slice = input.getDefiningOp<AllSliceOp>();
      slice && isSameGroup(slice, op) &&
      static_cast<int64_t>(slice.getDim()) == dim &&
      replicas.isReplicated(slice.getInput(), op)) {
    lastNeeded = Numerics::Exact;
    replace(op, slice.getInput(), "GatheredSlice");
    return true;
  }
  auto scatter = input.getDefiningOp<ReduceScatterOp>();
  Value whole = scatter ? getOnlyOperand(scatter) : Value();
  if (!whole || scatter->getBlock() != op->getBlock() ||
      !isSameGroup(scatter, op) || scatter.getDims().front() != dim ||
      !input.hasOneUse())
    return false;
  lastNeeded = getMovedClass(scatter);
  // What all_reduce sends back is rounded to the wire type.
  if (!allows(lastNeeded) || rounds(scatter, whole.getType()))
    return false;
  OpBuilder builder = getBuilder(op);
  auto reduced = AllReduceOp::create(
      builder, op.getLoc(), whole, op.getMeshAttr(), op.getAxesAttr(),
      scatter.getReductionAttr(), scatter.getWireAttr(),
      scatter.getAccumulateAttr(), scatter.getChannelAttr());
  replace(op, reduced.getOutputs(), "GatheredScatter");
  visit(reduced);
  return true;
}

bool CollectiveSimplifier::simplify(AllToAllOp op) {
  Value input = getOnlyOperand(op);
  auto inner = input ? input.getDefiningOp<AllToAllOp>() : AllToAllOp();
  if (!inner || !isSameGroup(op, inner))
    return false;
  unsigned i = cast<OpResult>(input).getResultNumber();
  if (inner.getSplitDims()[i] != op.getConcatDims().front() ||
      inner.getConcatDims()[i] != op.getSplitDims().front())
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, inner.getInputs()[i], "ExchangedBack");
  return true;
}

bool CollectiveSimplifier::simplify(CollectiveBroadcastOp op) {
  if (!replicas.isReplicated(op.getInput(), op))
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, op.getInput(), "BroadcastEqualValue");
  return true;
}

bool CollectiveSimplifier::simplify(CollectivePermuteOp op) {
  FailureOr<int64_t> group = op.getGroupSize();
  if (failed(group))
    return false;
  lastNeeded = Numerics::Exact;
  SmallVector<int64_t> targets = op.getTargets(*group);
  // What all have, all get.
  bool isEqual = replicas.isReplicated(op.getInput(), op);
  bool isSame = llvm::all_of(llvm::enumerate(targets), [&](auto entry) {
    return isEqual ? entry.value() >= 0
                   : entry.value() == static_cast<int64_t>(entry.index());
  });
  if (isSame) {
    replace(op, op.getInput(), "PermutedToSelf");
    return true;
  }
  auto inner = op.getInput().getDefiningOp<CollectivePermuteOp>();
  // Ranks are numbered by the mesh, in whatever order the axes are named.
  if (!inner || !isSameGroup(op, inner))
    return false;
  SmallVector<int64_t> pairs;
  for (auto [source, middle] : llvm::enumerate(inner.getTargets(*group)))
    if (middle >= 0 && targets[middle] >= 0)
      pairs.append({static_cast<int64_t>(source), targets[middle]});
  OpBuilder builder = getBuilder(op);
  auto composed = CollectivePermuteOp::create(
      builder, op.getLoc(), op.getType(), inner.getInput(), op.getMeshAttr(),
      op.getAxesAttr(), builder.getDenseI64ArrayAttr(pairs));
  composed->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  replace(op, composed.getResult(), "PermutedTwice");
  visit(composed);
  return true;
}
