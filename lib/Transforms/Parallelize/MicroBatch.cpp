//===- MicroBatch.cpp - what a step does with a part of its batch ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/MicroBatch.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// What is added up
//===----------------------------------------------------------------------===//

/// Of reshards, and of what is computed of their results element by element.
ShardingAttr MicroBatchSum::getSharding() const {
  Operation *def = value.getDefiningOp();
  while (def && def->getNumOperands() > 0 &&
         OpTrait::hasElementwiseMappableTraits(def))
    def = def->getOperand(0).getDefiningOp();
  ShardingAttr target = getReshardTarget(def);
  return target && target.isSharded() ? target : ShardingAttr();
}

RankedTensorType MicroBatchSum::getTotalType() const {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementTypeBitWidth() >= 32)
    return type;
  return type.clone(Float32Type::get(type.getContext()));
}

Value MicroBatchSum::makeStart(OpBuilder &builder, Location loc) const {
  RankedTensorType type = getTotalType();
  auto element = cast<FloatType>(type.getElementType());
  const llvm::fltSemantics &format = element.getFloatSemantics();
  Attribute start = builder.getFloatAttr(
      element, isMaximum ? APFloat::getInf(format, /*Negative=*/true)
                         : APFloat::getZero(format));
  auto scalar = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(type.clone(ArrayRef<int64_t>()), start));
  return BroadcastInDimOp::create(builder, loc, type, scalar,
                                  ArrayRef<int64_t>());
}

Value MicroBatchSum::combine(OpBuilder &builder, Value total,
                             Value more) const {
  if (isMaximum)
    return arith::MaximumFOp::create(builder, more.getLoc(), total, more);
  return arith::AddFOp::create(builder, more.getLoc(), total, more);
}

//===----------------------------------------------------------------------===//
// What a micro-batch is
//===----------------------------------------------------------------------===//

/// Whether `value`, maybe narrowed, is a sum of several.
static bool isAddedUp(Value value) {
  Operation *def = value.getDefiningOp();
  while (def && def->getNumOperands() == 1 &&
         OpTrait::hasElementwiseMappableTraits(def))
    def = def->getOperand(0).getDefiningOp();
  return isa_and_present<arith::AddFOp>(def);
}

/// Whether all that `op` makes is of the micro-batch: gathers of what its ops
/// read, and reductions to parts, of which there are sums.
static bool isInMicroBatch(CollectiveOpInterface op, bool hasStages) {
  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return true;
  case CollectiveKind::AllReduce:
    if (hasStages && llvm::any_of(op->getOperands(), isAddedUp))
      return false;
    return !op->use_empty() &&
           llvm::all_of(op->getUsers(), [](Operation *user) {
             ShardingAttr target = getReshardTarget(user);
             return target && target.isSharded();
           });
  default:
    return false;
  }
}

/// The terminator counts as an op of the update phase: what it returns leaves
/// the micro-batch. Scales of 8-bit operands are those of a step, whatever it
/// is cut into: they are updated once.
void MicroBatch::findUpdatePhase(bool hasStages) {
  for (Operation &op : *body) {
    bool ends = op.hasTrait<OpTrait::IsTerminator>();
    op.walk([&](Operation *nested) {
      auto collective = dyn_cast<CollectiveOpInterface>(nested);
      ends |= isGradientUpdate(nested) || getAsync(nested) ||
              (collective && !isInMicroBatch(collective, hasStages));
      for (Value operand : nested->getOperands())
        if (Operation *def = operand.getDefiningOp())
          ends |= updatePhase.contains(def);
    });
    if (ends)
      updatePhase.insert(&op);
  }
}

/// Whether `use` only makes the value a state of the next micro-batch or, with
/// `orGradient`, a gradient, perhaps by reductions.
bool MicroBatch::leaves(OpOperand &use, bool orGradient) {
  Operation *user = use.getOwner();
  if (user->getBlock() != body)
    return false;
  if (auto reduce = dyn_cast<AllReduceOp>(user)) {
    Value reduced = reduce->getResult(use.getOperandNumber());
    return reduce.getReduction() != Reduction::Max && !reduced.use_empty() &&
           llvm::all_of(reduced.getUses(), [&](OpOperand &next) {
             return leaves(next, orGradient);
           });
  }
  if (auto update = dyn_cast<OptimizerOpInterface>(user))
    return orGradient && llvm::is_contained(update.getGradientOperands(), &use);
  if (user != body->getTerminator())
    return false;
  std::optional<Role> role = getResultRole(step, use.getOperandNumber());
  return role && isStateRole(*role);
}

/// A batch that is used after the first collective, and not as a gradient or
/// state, belongs to a forward or backward pass that communicates, which a
/// micro-batch cannot.
LogicalResult MicroBatch::checkBatch() {
  for (BlockArgument argument : body->getArguments()) {
    std::optional<Role> role = getArgumentRole(step, argument.getArgNumber());
    if (role != Role::Batch && role != Role::Rng)
      continue;
    std::string what = describeArgument(step, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (role == Role::Rng) {
      if (!type || !type.hasStaticShape() ||
          !isa<IntegerType>(type.getElementType()))
        return step.emitOpError()
               << "has " << what << " of type " << argument.getType()
               << ", expected a ranked tensor of integers of static shape, to "
                  "make a seed of each micro-batch";
      seeds.push_back(argument);
      continue;
    }
    batches.push_back(argument);
    if (!type || !type.hasStaticShape() || type.getRank() == 0)
      return step.emitOpError()
             << "has " << what << " of type " << argument.getType()
             << ", expected a ranked tensor of static shape with samples along "
                "its first dimension";
    if (type.getDimSize(0) > INT64_MAX / count)
      return step.emitOpError() << "has " << what << " of "
                                << type.getDimSize(0) << " samples, too many "
                                << "for " << count << " micro-batches";
    for (OpOperand &use : argument.getUses()) {
      Operation *user = use.getOwner();
      if (isInUpdatePhase(body->findAncestorOpInBlock(*user)) &&
          !leaves(use, /*orGradient=*/true)) {
        InFlightDiagnostic diag = step.emitOpError()
                                  << "needs " << what
                                  << " after a collective or an update, "
                                     "expected all of the forward and backward "
                                     "pass before them";
        diag.attachNote(user->getLoc()) << "it is used here";
        return diag;
      }
    }
  }
  if (batches.empty())
    return step.emitOpError("has no argument of role batch to cut into "
                            "micro-batches");
  return success();
}

void MicroBatch::findVarying() {
  varying.clear();
  varying.insert(batches.begin(), batches.end());
  varying.insert(seeds.begin(), seeds.end());
  for (const MicroBatchState &state : states)
    varying.insert(state.before);
  for (Operation &op : *body) {
    bool varies = false;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        varies |= varying.contains(operand);
    });
    if (varies)
      varying.insert(op.getResults().begin(), op.getResults().end());
  }
}

/// The reduction that `use` takes its value from, null for none. Maxima are
/// those of a step.
static AllReduceOp getReduction(const OpOperand &use) {
  auto reduce = use.get().getDefiningOp<AllReduceOp>();
  return reduce && reduce.getReduction() != Reduction::Max ? reduce
                                                           : AllReduceOp();
}

/// The operand of the reduction that `use` takes the result of.
static OpOperand &getReduced(AllReduceOp reduce, const OpOperand &use) {
  return reduce->getOpOperand(cast<OpResult>(use.get()).getResultNumber());
}

/// The operand that takes a result out of the micro-batch: of the terminator,
/// or of the first of the reductions that it goes through.
static OpOperand &getExit(OpOperand &returned) {
  OpOperand *use = &returned;
  while (AllReduceOp reduce = getReduction(*use))
    use = &getReduced(reduce, *use);
  return *use;
}

/// Gives a state reductions of its own, from the first on whose result a loss
/// or an update takes as well: of those it is the mean. Returns the state's
/// exit.
OpOperand &MicroBatch::separateReductions(OpOperand &use) {
  AllReduceOp reduce = getReduction(use);
  if (!reduce)
    return use;
  OpOperand &reduced = getReduced(reduce, use);
  if (leaves(reduced, /*orGradient=*/false))
    return separateReductions(reduced);
  OpBuilder builder(reduce);
  auto own = AllReduceOp::create(
      builder, reduce.getLoc(), reduced.get(), reduce.getMeshAttr(),
      reduce.getAxesAttr(), reduce.getReductionAttr(), reduce.getWireAttr(),
      reduce.getAccumulateAttr(), reduce.getChannelAttr());
  own->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
  updatePhase.insert(own);
  use.set(own.getResult(0));
  return separateReductions(own->getOpOperand(0));
}

/// State that a micro-batch computes without an update: running statistics, or
/// buffers that take the values of others. It may be reduced after the
/// micro-batch.
LogicalResult MicroBatch::addState(OpOperand &returned, Role role) {
  OpOperand &exit = getExit(returned);
  Value value = exit.get();
  Operation *def = value.getDefiningOp();
  // What counts steps, not batches, an update of it does once.
  if ((def && isInUpdatePhase(def)) ||
      (role != Role::Buffer && !varying.contains(value)))
    return success();
  unsigned index = returned.getOperandNumber();
  BlockArgument argument = getDonor(step, index);
  if (!argument)
    return step.emitOpError()
           << "computes " << describeResult(step, index)
           << " in the micro-batch, expected an argument that donates its "
              "buffer to it, to hand it to the next";
  bool isKnown = llvm::any_of(states, [&](const MicroBatchState &state) {
    return state.before == argument;
  });
  if (value == argument || isKnown)
    return success();
  if (argument.getType() != value.getType())
    return step.emitOpError()
           << "computes " << describeResult(step, index) << " of type "
           << value.getType() << " in the micro-batch, expected that of "
           << describeArgument(step, argument.getArgNumber())
           << ", which it takes the place of";
  states.push_back({argument, value, &separateReductions(returned)});
  return success();
}

/// State varies from one micro-batch to the next, and what is computed of it.
LogicalResult MicroBatch::findState() {
  for (size_t known = ~size_t(0); known != states.size();) {
    known = states.size();
    findVarying();
    for (OpOperand &use : body->getTerminator()->getOpOperands()) {
      std::optional<Role> role = getResultRole(step, use.getOperandNumber());
      if (role && isStateRole(*role) && failed(addState(use, *role)))
        return failure();
    }
  }
  return success();
}

/// Gives a state a value of its own where it is an argument, or a value with
/// other uses after the micro-batch: those take its mean, or that of the step.
/// What the update phase takes of a state as it came, or of samples, is such a
/// value, too.
void MicroBatch::isolateArguments() {
  llvm::DenseSet<OpOperand *> exits;
  for (const MicroBatchState &state : states)
    exits.insert(state.exit);
  SmallVector<BlockArgument> given(batches);
  for (const MicroBatchState &state : states)
    given.push_back(state.before);
  for (BlockArgument argument : given) {
    auto isMean = [&](OpOperand &use) {
      return isInUpdatePhase(body->findAncestorOpInBlock(*use.getOwner())) &&
             use.getOwner()->getBlock() == body && !exits.contains(&use);
    };
    if (llvm::none_of(argument.getUses(), isMean))
      continue;
    OpBuilder builder = OpBuilder::atBlockBegin(body);
    Value came = ReshapeOp::create(builder, argument.getLoc(),
                                   argument.getType(), argument);
    argument.replaceUsesWithIf(came, isMean);
    varying.insert(came);
  }
  for (MicroBatchState &state : states) {
    state.after = state.exit->get();
    Operation *def = state.after.getDefiningOp();
    auto readsInUpdatePhase = [&](Operation *user) {
      return isInUpdatePhase(body->findAncestorOpInBlock(*user));
    };
    if (def && llvm::count_if(state.after.getUsers(), readsInUpdatePhase) == 1)
      continue;
    OpBuilder builder(step.getContext());
    if (def)
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPointToStart(body);
    state.after = ReshapeOp::create(builder, state.after.getLoc(),
                                    state.after.getType(), state.after);
    state.exit->set(state.after);
  }
}

/// Whether `use` takes the maximum of the micro-batches, not their mean.
static bool takesMaximum(OpOperand &use) {
  if (auto reduce = dyn_cast<AllReduceOp>(use.getOwner()))
    return reduce.getReduction() == Reduction::Max;
  return isa<UpdateFp8ScaleOp>(use.getOwner());
}

/// The mean over the micro-batches, or the maximum, takes the place of `use`. A
/// value of which the update phase takes both is copied: each sum has a value
/// of its own.
LogicalResult MicroBatch::addSum(OpOperand &use) {
  auto reduce = dyn_cast<AllReduceOp>(use.getOwner());
  if (reduce && reduce.getReduction() != Reduction::Sum &&
      reduce.getReduction() != Reduction::Mean &&
      reduce.getReduction() != Reduction::Max)
    return reduce.emitOpError("reduces a value of the micro-batch, expected a "
                              "sum, a mean or a maximum");
  bool isMaximum = takesMaximum(use);
  if ((isMaximum ? meanOf : maximumOf).contains(use.get())) {
    Value &copy = copies[use.get()];
    if (!copy) {
      OpBuilder builder(step.getContext());
      builder.setInsertionPointAfterValue(use.get());
      copy = ReshapeOp::create(builder, use.get().getLoc(), use.get().getType(),
                               use.get());
      varying.insert(copy);
    }
    use.set(copy);
  }
  Value value = use.get();
  auto [known, isNew] =
      (isMaximum ? maximumOf : meanOf).try_emplace(value, sums.size());
  if (!isNew) {
    sums[known->second].uses.push_back(&use);
    return success();
  }
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return use.getOwner()->emitOpError()
           << "uses a value of type " << value.getType()
           << " of the micro-batch, expected floats of static shape, of which "
              "there is a mean";
  MicroBatchSum sum;
  sum.value = value;
  sum.isMaximum = isMaximum;
  // An argument differs in each micro-batch: narrowed, it is the value there.
  if (auto narrow = value.getDefiningOp<arith::TruncFOp>();
      narrow && narrow.getIn().getDefiningOp()) {
    sum.narrowed = narrow;
    sum.value = narrow.getIn();
  }
  sum.uses.push_back(&use);
  sums.push_back(std::move(sum));
  return success();
}

/// Means take the place of operands, not of what regions capture.
LogicalResult MicroBatch::checkRegions(Operation *op) {
  Operation *capturing = nullptr;
  if (op->getNumRegions())
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *def = operand.getDefiningOp();
            nested != op && operand.getParentBlock() == body &&
            varying.contains(operand) && !(def && isInUpdatePhase(def)) &&
            !capturing)
          capturing = nested;
    });
  if (!capturing)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "takes a value of the micro-batch into a "
                               "region, expected collectives and updates in "
                               "the body of @"
                            << kTrainStep;
  diag.attachNote(capturing->getLoc()) << "it is used here";
  return diag;
}

LogicalResult MicroBatch::findSums() {
  llvm::DenseSet<OpOperand *> exits;
  for (const MicroBatchState &state : states)
    exits.insert(state.exit);
  for (Operation &op : *body) {
    if (!isInUpdatePhase(&op))
      continue;
    if (failed(checkRegions(&op)))
      return failure();
    for (OpOperand &use : op.getOpOperands()) {
      Operation *def = use.get().getDefiningOp();
      if (!def || isInUpdatePhase(def) || exits.contains(&use))
        continue;
      if (!varying.contains(use.get())) // the same for all micro-batches
        continue;
      if (isa<func::ReturnOp>(op)) {
        unsigned index = use.getOperandNumber();
        if (getResultRole(step, index) != Role::Loss)
          return step.emitOpError()
                 << "makes " << describeResult(step, index)
                 << " in the micro-batch, expected a loss or state there";
      }
      if (failed(addSum(use)))
        return failure();
    }
  }
  return success();
}

FailureOr<MicroBatch> MicroBatch::get(func::FuncOp step, int64_t count,
                                      bool hasStages) {
  if (!step.getFunctionBody().hasOneBlock() ||
      !isa<func::ReturnOp>(step.getFunctionBody().front().getTerminator()))
    return step.emitOpError("expects a body of one block that returns");
  MicroBatch found(step, count);
  found.findUpdatePhase(hasStages);
  if (failed(found.checkBatch()))
    return failure();
  if (failed(found.findState()))
    return failure();
  found.isolateArguments();
  if (failed(found.findSums()))
    return failure();
  return found;
}

//===----------------------------------------------------------------------===//
// What each micro-batch takes
//===----------------------------------------------------------------------===//

Value mpcomm::sliceMicroBatch(OpBuilder &builder, Value batch, int64_t index,
                              int64_t count) {
  auto type = cast<RankedTensorType>(batch.getType());
  int64_t samples = type.getDimSize(0) / count;
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
      strides(type.getRank(), 1), shape(type.getShape());
  starts[0] = index * samples;
  limits[0] = starts[0] + samples;
  shape[0] = samples;
  return SliceOp::create(builder, batch.getLoc(), type.clone(shape), batch,
                         starts, limits, strides);
}

void mpcomm::copySharding(Value value, SignatureEditor &editor,
                          unsigned index) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return;
  auto step = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (ShardingAttr sharding =
          getArgumentSharding(step, argument.getArgNumber()))
    editor.setArgument(index, kShardingAttr, sharding);
}

/// The words of a counter-based generator's key may be any.
Value mpcomm::seedMicroBatch(OpBuilder &builder, Value seed, int64_t index) {
  auto type = cast<RankedTensorType>(seed.getType());
  if (index == 0)
    return seed;
  SmallVector<APInt> words(type.getNumElements(),
                           APInt(type.getElementTypeBitWidth(), 0));
  if (!words.empty())
    words.back() = APInt(type.getElementTypeBitWidth(), index);
  Value shift = arith::ConstantOp::create(builder, seed.getLoc(),
                                          DenseElementsAttr::get(type, words));
  return arith::AddIOp::create(builder, seed.getLoc(), seed, shift);
}

static Value divide(OpBuilder &builder, Location loc, Value total,
                    int64_t count) {
  if (count == 1)
    return total;
  auto type = cast<RankedTensorType>(total.getType());
  Value share = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getFloatAttr(type.getElementType(), 1.0 / count)));
  return arith::MulFOp::create(builder, loc, total, share);
}

void mpcomm::useMean(OpBuilder &builder, const MicroBatchSum &sum,
                     ArrayRef<OpOperand *> uses, Value total, int64_t count) {
  Location loc = total.getLoc();
  Type type = sum.uses.front()->get().getType();
  auto reduce = dyn_cast<AllReduceOp>(uses.front()->getOwner());
  bool isLinear = reduce && !sum.isMaximum;
  if (!sum.narrowed && uses.size() == 1 && isLinear &&
      type == total.getType()) {
    uses.front()->set(total);
    Value reduced = reduce->getResult(uses.front()->getOperandNumber());
    builder.setInsertionPointAfter(reduce);
    Value mean = divide(builder, loc, reduced, count);
    if (mean != reduced)
      reduced.replaceAllUsesExcept(mean, mean.getDefiningOp());
    return;
  }
  Value mean = sum.isMaximum ? total : divide(builder, loc, total, count);
  mean = castFloat(builder, loc, mean, getElementTypeOrSelf(type));
  for (OpOperand *use : uses)
    use->set(mean);
}
