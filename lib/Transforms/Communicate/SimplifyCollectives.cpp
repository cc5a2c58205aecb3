//===- SimplifyCollectives.cpp - collectives that need not be -------------===//
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
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mpcomm {
#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-simplify-collectives"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// What is asked of collectives
//===----------------------------------------------------------------------===//

/// Whether all axes of `inner` are among those of `outer`, on one mesh.
static bool coversAxes(FlatSymbolRefAttr outerMesh, ArrayAttr outer,
                       FlatSymbolRefAttr innerMesh, ArrayAttr inner) {
  return outerMesh == innerMesh && llvm::all_of(inner, [&](Attribute axis) {
           return llvm::is_contained(outer, axis);
         });
}

/// Whether two ops run on the same ranks in the same order.
template <typename A, typename B> static bool isSameGroup(A a, B b) {
  return a.getMeshAttr() == b.getMeshAttr() &&
         a.getAxesAttr() == b.getAxesAttr();
}

/// The collective that makes `value` the same on all ranks of the group of
/// `op`, or null.
static Operation *getReplication(Value value, CollectiveOpInterface op) {
  auto def = value.getDefiningOp<CollectiveOpInterface>();
  if (!def)
    return nullptr;
  switch (def.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::AllGather:
  case CollectiveKind::Broadcast:
    return coversAxes(def.getMeshAttr(), def.getAxesAttr(), op.getMeshAttr(),
                      op.getAxesAttr())
               ? def.getOperation()
               : nullptr;
  default:
    return nullptr;
  }
}

/// Whether the wire or the accumulation type rounds elements of `type`.
static bool rounds(CollectiveOpInterface op, Type type) {
  Type element = getElementTypeOrSelf(type);
  auto narrows = [&](Type other) {
    return other && other != element &&
           (!element.isFloat() ||
            other.getIntOrFloatBitWidth() <= element.getIntOrFloatBitWidth());
  };
  return narrows(op.getWireType()) || narrows(op.getAccumulateType());
}

static bool isScatteredOver(ReduceScatterOp scatter, AllGatherOp gather) {
  return isSameGroup(scatter, gather) && scatter.getDim() == gather.getDim();
}

namespace {

//===----------------------------------------------------------------------===//
// The walk over one function
//===----------------------------------------------------------------------===//

class Simplifier {
public:
  Simplifier(FunctionOpInterface function, Numerics numerics)
      : function(function), numerics(numerics) {}

  /// Returns whether anything changed.
  bool run();

private:
  void visit(Operation *op);
  bool simplify(Operation *op);
  void eraseDead();
  bool reuseEarlier(CollectiveOpInterface op);
  bool reduceEqualValues(AllReduceOp op);
  bool mergeAxes(AllReduceOp op);
  bool reduceSlices(AllReduceOp op);
  bool simplify(AllReduceOp op);
  bool simplify(ReduceScatterOp op);
  bool simplify(AllGatherOp op);
  bool simplify(AllToAllOp op);
  bool simplify(CollectiveBroadcastOp op);
  bool simplify(AllSliceOp op);

  Value reduceReplicated(CollectiveOpInterface op, Value equal);
  bool allows(Numerics needed) const { return needed <= numerics; }
  void replace(Operation *op, ValueRange values, StringRef name);
  void passed(Operation *op, StringRef name, Numerics needed);
  FunctionOpInterface function;
  Numerics numerics;
  Numerics lastNeeded = Numerics::Exact;
  bool changed = false;
  /// Collectives of a block, by what they compute.
  struct SameOp : llvm::DenseMapInfo<Operation *> {
    static unsigned getHashValue(Operation *op);
    static bool isEqual(Operation *a, Operation *b);
  };
  llvm::DenseSet<Operation *, SameOp> known;
  llvm::SetVector<Operation *> remaining;
};

} // namespace

unsigned Simplifier::SameOp::getHashValue(Operation *op) {
  return OperationEquivalence::computeHash(
      op, OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
}

bool Simplifier::SameOp::isEqual(Operation *a, Operation *b) {
  if (a == b)
    return true;
  if (a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
      b == getTombstoneKey())
    return false;
  return a->getBlock() == b->getBlock() &&
         OperationEquivalence::isEquivalentTo(
             a, b, OperationEquivalence::exactValueMatch,
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

void Simplifier::passed(Operation *op, StringRef name, Numerics needed) {
  changed = true;
  remark::passed(op->getLoc(), remark::RemarkOpts::name(name)
                                   .category(DEBUG_TYPE)
                                   .function(function.getName()))
      << remark::reason("{0}",
                        needed == Numerics::Exact ? "exact" : "reassociating");
}

void Simplifier::replace(Operation *op, ValueRange values, StringRef name) {
  passed(op, name, lastNeeded);
  op->replaceAllUsesWith(values);
  op->erase();
}

bool Simplifier::reuseEarlier(CollectiveOpInterface op) {
  auto [it, inserted] = known.insert(op);
  if (inserted)
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, (*it)->getResults(), "Duplicate");
  return true;
}

/// What `op`, a reduction, makes of a value that is the same on all ranks; null
/// where the numerics allowed do not let it be computed here.
Value Simplifier::reduceReplicated(CollectiveOpInterface op, Value equal) {
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
    lastNeeded = Numerics::Reassociating;
    if (!allows(lastNeeded))
      return Value();
    OpBuilder builder(op);
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
    if (!integers || !integers.isSignless())
      return Value();
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

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

/// An all_reduce like `op`, of other operands.
static AllReduceOp cloneWith(AllReduceOp op, ValueRange inputs,
                             ArrayAttr axes) {
  OpBuilder builder(op);
  auto clone = AllReduceOp::create(
      builder, op.getLoc(), inputs, op.getMeshAttr(), axes,
      op.getReductionAttr(), op.getWireAttr(), op.getAccumulateAttr());
  clone->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return clone;
}

/// Takes operands that are the same on all ranks out of the bucket.
bool Simplifier::reduceEqualValues(AllReduceOp op) {
  SmallVector<Value> results, rest;
  Numerics needed = Numerics::Exact;
  for (Value input : op.getInputs()) {
    Value result;
    if (getReplication(input, op))
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
bool Simplifier::mergeAxes(AllReduceOp op) {
  auto inner = op.getInputs().front().getDefiningOp<AllReduceOp>();
  if (!inner || inner->getBlock() != op->getBlock() ||
      !llvm::equal(op.getInputs(), inner.getOutputs()) ||
      !llvm::all_of(inner.getOutputs(), [](Value v) { return v.hasOneUse(); }))
    return false;
  if (inner.getMeshAttr() != op.getMeshAttr() ||
      inner.getReduction() != op.getReduction() ||
      inner.getWireAttr() != op.getWireAttr() ||
      inner.getAccumulateAttr() != op.getAccumulateAttr() ||
      llvm::any_of(op.getAxes(), [&](Attribute axis) {
        return llvm::is_contained(inner.getAxes(), axis);
      }))
    return false;
  for (Value input : inner.getInputs())
    if (rounds(op, input.getType()))
      return false;
  Reduction reduction = op.getReduction();
  lastNeeded = reduction == Reduction::Min || reduction == Reduction::Max
                   ? Numerics::Exact
                   : Numerics::Reassociating;
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
bool Simplifier::reduceSlices(AllReduceOp op) {
  lastNeeded = Numerics::Reassociating; // an element moves within the bucket
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
  OpBuilder builder(op);
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
      slice.erase();
  }
  op.erase();
  visit(smaller);
  return true;
}

bool Simplifier::simplify(AllReduceOp op) {
  return reduceEqualValues(op) || mergeAxes(op) || reduceSlices(op);
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

bool Simplifier::simplify(ReduceScatterOp op) {
  auto gather = op.getInput().getDefiningOp<AllGatherOp>();
  if (!gather || !isScatteredOver(op, gather))
    return false;
  Value own = reduceReplicated(op, gather.getInput());
  if (!own)
    return false;
  replace(op, own, "ScatteredGather");
  return true;
}

bool Simplifier::simplify(AllGatherOp op) {
  auto scatter = op.getInput().getDefiningOp<ReduceScatterOp>();
  if (!scatter || !isScatteredOver(scatter, op) ||
      !scatter.getResult().hasOneUse())
    return false;
  Reduction reduction = scatter.getReduction();
  lastNeeded = reduction == Reduction::Min || reduction == Reduction::Max
                   ? Numerics::Exact
                   : Numerics::Reassociating;
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

bool Simplifier::simplify(AllToAllOp op) {
  auto inner = op.getInput().getDefiningOp<AllToAllOp>();
  if (!inner || !isSameGroup(op, inner) ||
      inner.getSplitDim() != op.getConcatDim() ||
      inner.getConcatDim() != op.getSplitDim())
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, inner.getInput(), "ExchangedBack");
  return true;
}

bool Simplifier::simplify(CollectiveBroadcastOp op) {
  if (!getReplication(op.getInput(), op))
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, op.getInput(), "BroadcastEqualValue");
  return true;
}

bool Simplifier::simplify(AllSliceOp op) {
  lastNeeded = Numerics::Exact;
  if (auto gather = op.getInput().getDefiningOp<AllGatherOp>())
    if (isSameGroup(op, gather) && op.getDim() == gather.getDim()) {
      replace(op, gather.getInput(), "SlicedGather");
      return true;
    }
  auto reduced = op.getInput().getDefiningOp<AllReduceOp>();
  if (!reduced || !isSameGroup(op, reduced) ||
      reduced.getInputs().size() != 1 || !op.getInput().hasOneUse())
    return false;
  Reduction reduction = reduced.getReduction();
  lastNeeded = reduction == Reduction::Min || reduction == Reduction::Max
                   ? Numerics::Exact
                   : Numerics::Reassociating;
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

bool Simplifier::simplify(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp,
            CollectiveBroadcastOp, AllSliceOp>(
          [&](auto concrete) { return simplify(concrete); })
      .Default([](Operation *) { return false; });
}

void Simplifier::visit(Operation *op) {
  if (simplify(op))
    return;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || !reuseEarlier(collective))
    remaining.insert(op);
}

/// Erases collectives without uses, and those that only they used.
void Simplifier::eraseDead() {
  while (!remaining.empty()) {
    Operation *op = remaining.pop_back_val();
    if (!op->use_empty())
      continue;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (isMovableCollective(def) || isa<AllSliceOp>(def))
          remaining.insert(def);
    passed(op, "Dead", Numerics::Exact);
    op->erase();
  }
}

bool Simplifier::run() {
  SmallVector<Operation *> collectives;
  int64_t before = 0;
  function->walk([&](Operation *op) {
    before += isa<CollectiveOpInterface>(op);
    if (isMovableCollective(op) || isa<AllSliceOp>(op))
      collectives.push_back(op);
  });
  for (Operation *op : collectives)
    visit(op);
  known.clear();
  eraseDead();
  if (!before || !function->getContext()->getRemarkEngine())
    return changed;
  int64_t after = 0;
  function->walk([&](CollectiveOpInterface) { ++after; });
  remark::analysis(function.getLoc(),
                   remark::RemarkOpts::name("SimplifyCollectives")
                       .category(DEBUG_TYPE)
                       .function(function.getName()))
      << remark::metric("before", before) << remark::metric("after", after);
  return changed;
}

namespace {
struct SimplifyCollectives
    : mpcomm::impl::SimplifyCollectivesPassBase<SimplifyCollectives> {
  using SimplifyCollectivesPassBase::SimplifyCollectivesPassBase;

  void runOnOperation() override {
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      if (!function.isExternal())
        changed |= Simplifier(function, numerics).run();
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
