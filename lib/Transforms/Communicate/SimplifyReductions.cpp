//===- SimplifyReductions.cpp - all_reduce of less, or not at all ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is reduced that is equal already, reduced twice, combined after it is
// reduced, or not used.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpcomm;

bool mpcomm::rounds(CollectiveOpInterface op, Type type) {
  Type element = getElementTypeOrSelf(type);
  auto narrows = [&](Type other) {
    return other && other != element &&
           (!element.isFloat() ||
            other.getIntOrFloatBitWidth() <= element.getIntOrFloatBitWidth());
  };
  return narrows(op.getWireType()) || narrows(op.getAccumulateType());
}

/// What `op`, a reduction, makes of a value that is the same on all ranks; null
/// where the numerics allowed do not let it be computed here.
Value CollectiveSimplifier::reduceReplicated(CollectiveOpInterface op,
                                             Value equal) {
  FailureOr<int64_t> group = op.getGroupSize();
  if (failed(group) || rounds(op, equal.getType()))
    return Value();
  switch (*op.getCollectiveReduction()) {
  case Reduction::Min:
  case Reduction::Max:
    lastNeeded = Numerics::Exact;
    return equal;
  case Reduction::Mean:
    // n times the value may round, or overflow, before it is divided.
    lastNeeded = Numerics::Reassociating;
    return allows(lastNeeded) ? equal : Value();
  case Reduction::Sum: {
    // Up to four times a value is the product however it is summed: 2x is
    // exact, 3x is rounded once, and that plus x rounds to 4x.
    lastNeeded = *group <= 4 ? Numerics::Exact : getReorderedClass(op);
    if (!allows(lastNeeded))
      return Value();
    OpBuilder builder = getBuilder(op);
    auto type = cast<RankedTensorType>(equal.getType());
    Type element = type.getElementType();
    if (auto floats = dyn_cast<FloatType>(element)) {
      APFloat count(static_cast<double>(*group));
      bool losesInfo;
      count.convert(floats.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      if (losesInfo)
        return Value();
      auto splat = arith::ConstantOp::create(
          builder, op->getLoc(), DenseElementsAttr::get(type, count));
      return arith::MulFOp::create(builder, op->getLoc(), equal, splat);
    }
    auto integers = dyn_cast<IntegerType>(element);
    if (!integers || !integers.isSignless() || integers.getWidth() == 1)
      return Value(); // the sum of i1 is their disjunction
    APInt count(64, *group);
    auto splat = arith::ConstantOp::create(
        builder, op->getLoc(),
        DenseElementsAttr::get(type, count.zextOrTrunc(integers.getWidth())));
    return arith::MulIOp::create(builder, op->getLoc(), equal, splat);
  }
  case Reduction::Prod:
    return Value();
  }
  return Value();
}

/// An all_reduce like `op`, of other operands.
AllReduceOp CollectiveSimplifier::cloneWith(AllReduceOp op, ValueRange inputs,
                                            ArrayAttr axes) {
  OpBuilder builder = getBuilder(op);
  auto clone =
      AllReduceOp::create(builder, op.getLoc(), inputs, op.getMeshAttr(), axes,
                          op.getReductionAttr(), op.getWireAttr(),
                          op.getAccumulateAttr(), op.getChannelAttr());
  clone->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return clone;
}

/// Takes operands that are the same on all ranks out of the bucket.
bool CollectiveSimplifier::reduceEqualValues(AllReduceOp op) {
  SmallVector<Value> results, rest;
  Numerics needed = Numerics::Exact;
  for (Value input : op.getInputs()) {
    Value result;
    if (replicas.isReplicated(input, op))
      result = reduceReplicated(op, input);
    if (result)
      needed = std::max(needed, lastNeeded);
    else
      rest.push_back(input);
    results.push_back(result);
  }
  if (rest.size() == results.size())
    return false;
  if (!rest.empty()) {
    AllReduceOp smaller = cloneWith(op, rest, op.getAxesAttr());
    auto next = smaller.getOutputs().begin();
    for (Value &result : results)
      if (!result)
        result = *next++;
    lastNeeded = needed;
    replace(op, results, "ReducedEqualValues");
    visit(smaller);
    return true;
  }
  lastNeeded = needed;
  replace(op, results, "ReducedEqualValues");
  return true;
}

/// all_reduce over B of all_reduce over A: one over A and B.
bool CollectiveSimplifier::mergeAxes(AllReduceOp op) {
  auto inner = op.getInputs().front().getDefiningOp<AllReduceOp>();
  if (!inner || !mayChange(inner) || inner->getBlock() != op->getBlock() ||
      !llvm::equal(op.getInputs(), inner.getOutputs()) ||
      !llvm::all_of(inner.getOutputs(), [](Value v) { return v.hasOneUse(); }))
    return false;
  if (inner.getMeshAttr() != op.getMeshAttr() ||
      inner.getReduction() != op.getReduction() ||
      inner.getWireAttr() != op.getWireAttr() ||
      inner.getAccumulateAttr() != op.getAccumulateAttr() ||
      inner.getChannel() != op.getChannel() ||
      llvm::any_of(op.getAxes(), [&](Attribute axis) {
        return llvm::is_contained(inner.getAxes(), axis);
      }))
    return false;
  for (Value input : inner.getInputs())
    if (rounds(op, input.getType()))
      return false;
  lastNeeded = getReorderedClass(op);
  if (!allows(lastNeeded))
    return false;
  SmallVector<Attribute> axes(inner.getAxes().getValue());
  llvm::append_range(axes, op.getAxes());
  AllReduceOp merged =
      cloneWith(op, inner.getInputs(), ArrayAttr::get(op.getContext(), axes));
  replace(op, merged.getOutputs(), "MergedAxes"); // the inner one is dead
  visit(merged);
  return true;
}

/// A result of which only one static slice is used.
bool CollectiveSimplifier::reduceSlices(AllReduceOp op) {
  lastNeeded = getMovedClass(op);
  if (!allows(lastNeeded))
    return false;
  SmallVector<SliceOp> slices;
  for (Value result : op.getOutputs()) {
    auto slice = result.hasOneUse() ? dyn_cast<SliceOp>(*result.user_begin())
                                    : SliceOp();
    bool smaller = slice && mpcomm::detail::countElements(slice.getType()) <
                                mpcomm::detail::countElements(result.getType());
    slices.push_back(smaller ? slice : SliceOp());
  }
  if (llvm::none_of(slices, [](SliceOp slice) { return bool(slice); }))
    return false;
  OpBuilder builder = getBuilder(op);
  SmallVector<Value> inputs;
  for (auto [input, slice] : llvm::zip_equal(op.getInputs(), slices)) {
    if (!slice) {
      inputs.push_back(input);
      continue;
    }
    inputs.push_back(SliceOp::create(builder, slice.getLoc(), slice.getType(),
                                     input, slice.getStarts(),
                                     slice.getLimits(), slice.getStrides()));
  }
  AllReduceOp smaller = cloneWith(op, inputs, op.getAxesAttr());
  passed(op, "ReducedSlice", lastNeeded);
  for (auto [before, after, slice] :
       llvm::zip_equal(op.getOutputs(), smaller.getOutputs(), slices)) {
    Value old = slice ? Value(slice.getResult()) : Value(before);
    old.replaceAllUsesWith(after);
    if (slice)
      erase(slice);
  }
  erase(op);
  visit(smaller);
  return true;
}

/// Whether `op` combines elements as `reduction` does, or takes a difference
/// where that is linear.
static bool combines(Operation *op, Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Mean:
    return isa<arith::AddFOp, arith::SubFOp, arith::AddIOp, arith::SubIOp>(op);
  case Reduction::Prod:
    return isa<arith::MulFOp, arith::MulIOp>(op);
  case Reduction::Min:
    return isa<arith::MinimumFOp, arith::MinSIOp>(op);
  case Reduction::Max:
    return isa<arith::MaximumFOp, arith::MaxSIOp>(op);
  }
  return false;
}

/// What `op` promises of its operands held for sums over ranks, and need not
/// for what each rank adds to them.
static void dropPromises(Operation *op) {
  MLIRContext *context = op->getContext();
  if (auto integers = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op))
    op->setAttr(integers.getIntegerOverflowAttrName(),
                arith::IntegerOverflowFlagsAttr::get(
                    context, arith::IntegerOverflowFlags::none));
  if (auto floats = dyn_cast<arith::ArithFastMathInterface>(op)) {
    auto promises = arith::FastMathFlags::nnan | arith::FastMathFlags::ninf;
    op->setAttr(
        floats.getFastMathAttrName(),
        arith::FastMathFlagsAttr::get(
            context, floats.getFastMathFlagsAttr().getValue() & ~promises));
  }
}

/// Two reductions whose results are combined as they reduce, and not used
/// otherwise: one of the combined operands. `op` is the later of the two.
bool CollectiveSimplifier::joinCombined(CollectiveOpInterface op) {
  if (op->getNumOperands() != 1 || !op->getResult(0).hasOneUse())
    return false;
  OpOperand &use = *op->getResult(0).use_begin();
  Operation *user = use.getOwner();
  if (user->getBlock() != op->getBlock() ||
      !combines(user, *op.getCollectiveReduction()) ||
      // What is added to i1 is not their disjunction.
      getElementTypeOrSelf(user->getResult(0)).isInteger(1))
    return false;
  Value result = user->getOperand(1 - use.getOperandNumber());
  Operation *other = result.getDefiningOp();
  if (!other || !mayChange(other) || !result.hasOneUse() ||
      other->getNumOperands() != 1 || other->getBlock() != op->getBlock() ||
      !other->isBeforeInBlock(op) ||
      // Equal ones are one collective already.
      other->getOperand(0) == op->getOperand(0) ||
      !OperationEquivalence::isEquivalentTo(
          op.getOperation(), other,
          OperationEquivalence::ignoreValueEquivalence,
          /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations))
    return false;
  lastNeeded = getReorderedClass(op);
  // One rounding to the wire type instead of two.
  if (rounds(op, op->getOperand(0).getType()))
    lastNeeded = Numerics::Lossy;
  if (!allows(lastNeeded))
    return false;
  OpBuilder builder = getBuilder(op);
  IRMapping operands;
  operands.map(op->getResult(0), op->getOperand(0));
  operands.map(result, other->getOperand(0));
  Operation *combined = builder.clone(*user, operands);
  dropPromises(combined);
  combined->getResult(0).setType(op->getOperand(0).getType());
  operands.map(op->getOperand(0), combined->getResult(0));
  Operation *joined = builder.clone(*op, operands);
  joined->setLoc(builder.getFusedLoc({other->getLoc(), op->getLoc()}));
  passed(op, "JoinedReductions", lastNeeded);
  user->replaceAllUsesWith(joined->getResults());
  erase(user);
  erase(op); // the other one is dead
  visit(joined);
  return true;
}

bool CollectiveSimplifier::simplify(AllReduceOp op) {
  return reduceEqualValues(op) || mergeAxes(op) || reduceSlices(op) ||
         joinCombined(op);
}
