//===- AxisShardings.cpp - what ranks along an axis hold ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk in program order decides straight-line code. Regions are walked
// until nothing changes: values only move up in the lattice.
//
// Invariant of the walk over an op with regions: its block arguments are local
// if one of its operands is not replicated, or an operand of a terminator
// inside; so are its results. That is coarser than following each loop-carried
// value, and needs to know nothing of the op.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Dataflow/AxisShardings.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

std::string AxisSharding::describe() const {
  switch (kind) {
  case Replicated:
    return "replicated";
  case Exchanged:
    return "exchanged along dimension " + std::to_string(detail);
  case Share:
    return "a share";
  case Split:
    return "split along dimension " + std::to_string(detail);
  case Partial:
    return ("partial " + stringifyReduction(static_cast<Reduction>(detail)))
        .str();
  case Local:
    return "local";
  }
  return "";
}

AxisSharding mpcomm::getAxisSharding(ShardingAttr sharding, StringRef axis) {
  if (!sharding)
    return {};
  auto has = [&](ArrayAttr axes) {
    return llvm::any_of(axes.getAsRange<AxisRefAttr>(),
                        [&](AxisRefAttr one) { return one.getName() == axis; });
  };
  if (has(sharding.getFlat()))
    return AxisSharding::split(0);
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    if (has(sharding.getDim(dim)))
      return AxisSharding::split(dim);
  for (auto partial : sharding.getPartial().getAsRange<PartialAxisAttr>())
    if (partial.getAxis().getName() == axis)
      return AxisSharding::partial(partial.getReduction());
  return has(sharding.getLocal()) ? AxisSharding::local() : AxisSharding();
}

/// What ranks hold of an argument, by its attribute.
static AxisSharding getDeclared(FunctionOpInterface function, unsigned index,
                                StringRef axis) {
  ShardingAttr sharding = getArgumentSharding(function, index);
  AxisSharding held = getAxisSharding(sharding, axis);
  auto own = dyn_cast<RankedTensorType>(function.getArgumentTypes()[index]);
  auto whole =
      dyn_cast<RankedTensorType>(getGlobalArgumentType(function, index));
  if (!sharding || !held.isSplit() || !sharding.isFlat() || !own || !whole)
    return held;
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(function,
                                                           sharding.getMesh());
  std::string reason;
  FailureOr<int64_t> ranks = mesh ? countRanks(sharding.getFlat(), mesh, reason)
                                  : FailureOr<int64_t>(failure());
  bool isPadded =
      failed(ranks) || mpcomm::detail::multiplySaturated(
                           mpcomm::detail::countElements(own), *ranks) !=
                           mpcomm::detail::countElements(whole);
  return AxisSharding::split(held.getDim(), isPadded);
}

AxisShardings::AxisShardings(FunctionOpInterface function, StringRef axisName,
                             Gradients gradients)
    : AxisShardings(function, axisName, gradients, /*followsMessages=*/true) {}

AxisShardings::AxisShardings(FunctionOpInterface function, StringRef axisName,
                             Gradients gradients, bool followsMessages)
    : function(function),
      axis(StringAttr::get(function->getContext(), axisName)),
      gradients(gradients), followsMessages(followsMessages) {
  if (function.isExternal())
    return;
  Region &body = function.getFunctionBody();
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::optional<Role> role = getArgumentRole(function, index);
    if (getArgumentSharding(function, index))
      mark(argument, getDeclared(function, index, axisName));
    else if (role == Role::Batch || role == Role::Rng ||
             isa<FutureType>(argument.getType()))
      mark(argument);
  }
  while (visitRegion(body) && !body.hasOneBlock()) {
  }
}

void AxisShardings::vary(Value value) {
  if (!mark(value))
    return;
  while (visitRegion(function.getFunctionBody())) {
  }
}

bool AxisShardings::anyVaries(ValueRange values) const {
  return llvm::any_of(values, [&](Value value) { return varies(value); });
}

bool AxisShardings::mark(Value value, AxisSharding sharding) {
  if (sharding.isReplicated())
    return false;
  auto [found, isNew] = states.try_emplace(value, sharding);
  if (isNew)
    return true;
  AxisSharding joined = found->second.join(sharding);
  if (joined == found->second)
    return false;
  found->second = joined;
  return true;
}

bool AxisShardings::markResults(Operation *op, AxisSharding sharding) {
  bool changed = false;
  for (Value result : op->getResults())
    changed |= mark(result, sharding);
  return changed;
}

/// Walks the region once; true if a value was added. Arguments of blocks other
/// than the first get what a terminator passes.
bool AxisShardings::visitRegion(Region &region) {
  bool changed = false;
  for (Block &block : region)
    for (Operation &op : block)
      changed |= visit(&op);
  if (region.hasOneBlock() || region.empty())
    return changed;
  bool passed = llvm::any_of(region, [&](Block &block) {
    return !block.empty() && anyVaries(block.back().getOperands());
  });
  if (passed)
    for (Block &block : llvm::drop_begin(region))
      for (Value argument : block.getArguments())
        changed |= mark(argument);
  return changed;
}

/// What ranks that hold `held` of a value have after a collective over the
/// axis, of which the dimension `dim` counts.
static AxisSharding getReduced(AxisSharding held, Reduction reduction) {
  // A reduction of blocks is of different elements.
  if (held.isOfBlocks() ||
      (held.getKind() == AxisSharding::Partial && !held.isPartial(reduction)))
    return AxisSharding::local();
  return {};
}

static StringAttr getTiedTag(Operation *op) {
  auto tag = op->getAttrOfType<StringAttr>(kTagAttr);
  return tag && tag.getValue().starts_with(kTiedTag) ? tag : StringAttr();
}

/// `function` and what it calls, directly or not.
static SetVector<Operation *> findReached(FunctionOpInterface function) {
  SetVector<Operation *> reached;
  reached.insert(function);
  for (size_t i = 0; i < reached.size(); ++i)
    reached[i]->walk([&](CallOpInterface call) {
      if (Operation *callee = call.resolveCallable())
        reached.insert(callee);
    });
  return reached;
}

/// Of senders whose arguments say what they are, with what these call. What
/// another function sends with a tag, too, makes it unknown.
void AxisShardings::findSent(ModuleOp module) {
  sentReplicated.emplace();
  llvm::MapVector<Operation *, SmallVector<SendOp>> sends; // by function
  module.walk([&](SendOp op) {
    if (getTiedTag(op))
      sends[op->getParentOfType<FunctionOpInterface>().getOperation()]
          .push_back(op);
  });
  if (sends.empty())
    return;
  llvm::DenseMap<Operation *, bool> areReplicated;
  for (auto other : module.getOps<FunctionOpInterface>()) {
    // What nobody outside calls is what those that call it make of it.
    if (!other.isPublic() && other != function)
      continue;
    SetVector<Operation *> reached = findReached(other);
    if (llvm::none_of(reached,
                      [&](Operation *from) { return sends.contains(from); }))
      continue;
    bool isKnown =
        other != function && !other.isExternal() && hasAllRoles(other);
    std::optional<AxisShardings> sender;
    if (isKnown)
      sender.emplace(AxisShardings(other, axis, gradients,
                                   /*followsMessages=*/false));
    for (Operation *from : reached)
      for (SendOp op : sends.lookup(from))
        areReplicated.try_emplace(op, true).first->second &=
            isKnown && (from == other || sender->followed.contains(from)) &&
            !sender->anyVaries(op->getOperands());
  }
  for (const auto &[_, ops] : sends)
    for (SendOp op : ops)
      sentReplicated->try_emplace(getTiedTag(op), true).first->second &=
          areReplicated.lookup(op);
}

bool AxisShardings::isSentReplicated(Operation *receive) {
  StringAttr tag = getTiedTag(receive);
  auto module = function->getParentOfType<ModuleOp>();
  if (!tag || !module || !followsMessages)
    return false;
  if (!sentReplicated)
    findSent(module);
  return sentReplicated->lookup(tag);
}

bool AxisShardings::visitCollective(CollectiveOpInterface op) {
  bool overAxis = llvm::is_contained(op.getAxesAttr(), Attribute(axis));
  if (!overAxis) {
    bool isMessage = op.getCollectiveKind() == CollectiveKind::Recv;
    if (isMessage && isSentReplicated(op))
      return false;
    if (isMessage || op->getNumOperands() != op->getNumResults())
      return (isMessage || anyVaries(op->getOperands())) && markResults(op);
    bool changed = false;
    for (auto [operand, result] :
         llvm::zip(op->getOperands(), op->getResults()))
      if (AxisSharding held = get(operand); !held.isReplicated())
        changed |=
            mark(result, isa<AllReduceOp>(op) ? held : AxisSharding::local());
    return changed;
  }
  bool changed = false;
  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
    for (auto [operand, result] :
         llvm::zip(op->getOperands(), op->getResults()))
      changed |=
          mark(result, getReduced(get(operand), *op.getCollectiveReduction()));
    return changed;
  case CollectiveKind::ReduceScatter: {
    auto scatter = cast<ReduceScatterOp>(op);
    bool isWhole = op.getAxesAttr().size() == 1;
    for (auto [operand, result, dim] : llvm::zip(
             scatter.getInputs(), scatter.getOutputs(), scatter.getDims())) {
      AxisSharding reduced =
          getReduced(get(operand), *op.getCollectiveReduction());
      changed |= mark(result, isWhole && reduced.isReplicated()
                                  ? AxisSharding::split(dim)
                                  : AxisSharding::local());
    }
    return changed;
  }
  case CollectiveKind::AllGather:
    // Blocks along another dimension would be put together in the wrong order.
    for (auto [operand, result, dim] :
         llvm::zip(op->getOperands(), op->getResults(),
                   cast<AllGatherOp>(op).getDims()))
      if (AxisSharding held = get(operand);
          held.isSplit() && !held.isSplitAlong(dim))
        changed |= mark(result);
    return changed;
  case CollectiveKind::Broadcast:
    return false;
  case CollectiveKind::AllToAll: {
    auto exchange = cast<AllToAllOp>(op.getOperation());
    bool isWhole = op.getAxesAttr().size() == 1;
    for (auto [result, split, concat] :
         llvm::zip(exchange.getOutputs(), exchange.getSplitDims(),
                   exchange.getConcatDims()))
      changed |= mark(result, isWhole && split == concat
                                  ? AxisSharding::exchanged(split)
                                  : AxisSharding::local());
    return changed;
  }
  case CollectiveKind::Permute:
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter:
  case CollectiveKind::Recv:
    return markResults(op);
  case CollectiveKind::Send:
  case CollectiveKind::Barrier:
    return false;
  }
  return markResults(op);
}

/// Whether all elements of `value` are equal, so that a part of it is as good
/// as another.
static bool isUniform(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() == 0)
    return true;
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>())
    return cast<RankedTensorType>(broadcast.getInput().getType())
               .getNumElements() == 1;
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat();
}

/// Whether any block of `value` along `dim` is as good as another: of what is
/// made of nothing that has the dimension, and of ops on a few such values.
static bool isUniformAlong(Value value, int64_t dim, int depth = 3) {
  if (isUniform(value))
    return true;
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return false;
  if (isa<tensor::EmptyOp>(result.getOwner()))
    return true;
  std::optional<ShardingRule> rule = getShardingRule(result.getOwner());
  const ShardingFactor *factor =
      rule ? rule->findOfResult(result.getResultNumber(), dim) : nullptr;
  return factor && depth > 0 &&
         llvm::all_of(
             llvm::zip(result.getOwner()->getOperands(), factor->operands),
             [&](auto pair) {
               auto [operand, operandDim] = pair;
               return operandDim < 0 ||
                      isUniformAlong(operand, operandDim, depth - 1);
             });
}

/// Whether `value` is made of constants alone: the same whoever computes it.
static bool isOfConstants(Value value, int depth = 4) {
  Operation *def = value.getDefiningOp();
  return def && depth > 0 && isMemoryEffectFree(def) &&
         !isa<RankDependentOpInterface>(def) &&
         llvm::all_of(def->getOperands(), [&](Value operand) {
           return isOfConstants(operand, depth - 1);
         });
}

bool mpcomm::isLinearIn(Operation *op, const ShardingRule &rule,
                        llvm::function_ref<bool(Value)> isPartial) {
  return llvm::any_of(rule.linear, [&](ArrayRef<unsigned> set) {
    return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
      Value value = operand.get();
      bool isListed = llvm::is_contained(set, operand.getOperandNumber());
      return isListed
                 ? isPartial(value) || matchPattern(value, m_AnyZeroFloat())
                 : !isPartial(value);
    });
  });
}

/// The same where operands are what ranks have exchanged, or replicated.
bool AxisShardings::visitExchanged(Operation *op, const ShardingRule &rule) {
  const ShardingFactor *factor = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    AxisSharding held = get(operand.get());
    if (held.isReplicated())
      continue;
    const ShardingFactor *own =
        held.getKind() == AxisSharding::Exchanged
            ? rule.findOfOperand(operand.getOperandNumber(), held.getDim())
            : nullptr;
    if (!own || (factor && own != factor))
      return markResults(op);
    factor = own;
  }
  // All that came is treated in one way, whichever block of the whole it is.
  for (auto [operand, dim] : llvm::zip(op->getOperands(), factor->operands))
    if (get(operand).isReplicated() && !isUniform(operand) &&
        !(dim >= 0 && isUniformAlong(operand, dim) && isOfConstants(operand)))
      return markResults(op);
  bool changed = false;
  for (auto [result, dim] : llvm::zip(op->getResults(), factor->results))
    changed |= mark(result, dim >= 0 ? AxisSharding::exchanged(dim)
                            : dim == ShardingFactor::kNone &&
                                    factor->reduction == Reduction::Sum
                                ? AxisSharding::share()
                                : AxisSharding::local());
  return changed;
}

/// The results of `op` by its rule.
bool AxisShardings::visitByRule(Operation *op, const ShardingRule &rule) {
  if (llvm::any_of(op->getOperands(), [&](Value operand) {
        return get(operand).getKind() == AxisSharding::Exchanged;
      }))
    return visitExchanged(op, rule);
  AxisSharding all;
  const ShardingFactor *factor = nullptr;
  bool fits = true, hasShares = false, isPadded = false;
  for (OpOperand &operand : op->getOpOperands()) {
    AxisSharding held = get(operand.get());
    if (held.isReplicated())
      continue;
    if (held.getKind() == AxisSharding::Share) {
      hasShares = true;
      continue;
    }
    if (held.getKind() != AxisSharding::Split) {
      all = all.join(held);
      continue;
    }
    const ShardingFactor *own =
        rule.findOfOperand(operand.getOperandNumber(), held.getDim());
    fits &= own && (!factor || own == factor);
    factor = own;
    isPadded |= held.isPadded();
  }
  if (!fits || ((factor || hasShares) && !all.isReplicated()) ||
      all.getKind() == AxisSharding::Local)
    return markResults(op);
  if (hasShares && !factor) {
    bool areBlocks = llvm::all_of(op->getOperands(), [&](Value operand) {
      return varies(operand) || isUniform(operand);
    });
    return markResults(op, areBlocks ? AxisSharding::share()
                                     : AxisSharding::local());
  }
  bool changed = false;
  if (factor) {
    for (auto [operand, dim] : llvm::zip(op->getOperands(), factor->operands))
      if (dim >= 0 && !varies(operand) && !isUniformAlong(operand, dim))
        return markResults(op);
    // Of a share it is not known which factor it lacks.
    if (hasShares &&
        llvm::any_of(factor->results, [](int64_t dim) { return dim < 0; }))
      return markResults(op);
    for (auto [result, dim] : llvm::zip(op->getResults(), factor->results))
      changed |= mark(result, dim >= 0 ? AxisSharding::split(dim, isPadded)
                              : dim == ShardingFactor::kLocal ||
                                      (isPadded && factor->reduction)
                                  ? AxisSharding::local()
                              : factor->reduction
                                  ? AxisSharding::partial(*factor->reduction)
                                  : AxisSharding());
    return changed;
  }
  bool isSum = all.isPartial(Reduction::Sum) || all.isPartial(Reduction::Mean);
  bool isExtreme =
      all.isPartial(Reduction::Max) || all.isPartial(Reduction::Min);
  bool passes =
      isSum ? isLinearIn(op, rule, [&](Value value) { return varies(value); })
            : isExtreme && rule.isMonotone;
  for (Value result : op->getResults())
    changed |=
        mark(result, passes && isa<FloatType>(getElementTypeOrSelf(result))
                         ? all
                         : AxisSharding::local());
  return changed;
}

/// Of an op that hands on each gradient, times a factor that all share.
std::optional<Reduction> mpcomm::getReductionOfGradients(Operation *op) {
  if (isa<SquaredNormOp>(op))
    return Reduction::Sum;
  if (isa<UnscaleOp>(op))
    return Reduction::Max;
  return std::nullopt;
}

bool AxisShardings::visitPerGradient(OptimizerOpInterface op,
                                     ArrayRef<OpOperand *> gradients) {
  AxisSharding shared;
  size_t split = 0;
  for (OpOperand &operand : op->getOpOperands())
    if (!llvm::is_contained(gradients, &operand))
      shared = shared.join(get(operand.get()));
  bool isLocal = !shared.isReplicated();
  for (OpOperand *gradient : gradients) {
    // Gradients are filled up with zeros, which no norm and no flag counts.
    split += get(gradient->get()).isOfBlocks();
    isLocal |= varies(gradient->get()) && !get(gradient->get()).isOfBlocks();
  }
  // A flag is the greatest of all; a norm is given, if it is of more than the
  // rank's own elements.
  AxisSharding rest;
  auto clip = dyn_cast<ClipByGlobalNormOp>(op.getOperation());
  std::optional<Reduction> reduction = getReductionOfGradients(op);
  if (split && reduction == Reduction::Max)
    rest = AxisSharding::partial(*reduction);
  else if (reduction == Reduction::Sum && split == gradients.size())
    rest = AxisSharding::partial(*reduction);
  else if (split && !(clip && clip.getGivenNorm()))
    isLocal = true;
  bool changed = false;
  llvm::SmallDenseSet<Value> handedOn;
  for (OpOperand *gradient : gradients)
    if (OpResult result = op.getHandedOn(*gradient)) {
      handedOn.insert(result);
      changed |=
          mark(result, isLocal ? AxisSharding::local() : get(gradient->get()));
    }
  for (Value result : op->getResults())
    if (!handedOn.contains(result))
      changed |= mark(result, isLocal ? AxisSharding::local() : rest);
  return changed;
}

bool AxisShardings::visitOptimizer(OptimizerOpInterface op) {
  if (op->hasAttr(kLocalUpdateAttr))
    return anyVaries(op->getOperands()) && markResults(op);
  optimizers.insert(op);
  SmallVector<OpOperand *> reduced = op.getGradientOperands();
  if (gradients == Gradients::Reduced) {
    bool varies = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return this->varies(operand.get()) &&
             !llvm::is_contained(reduced, &operand);
    });
    return varies && markResults(op);
  }
  if (!anyVaries(op->getOperands()))
    return false;
  if (!isa<SgdUpdateOp, AdamwUpdateOp, UpdateOp>(op))
    return visitPerGradient(op, reduced);
  return visitByRule(op, *getShardingRule(op));
}

FunctionOpInterface mpcomm::getFollowedCallee(Operation *op) {
  auto call = dyn_cast<CallOpInterface>(op);
  auto callee =
      call ? dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable())
           : FunctionOpInterface();
  if (!callee || callee.isExternal() ||
      !callee.getFunctionBody().hasOneBlock() ||
      callee.getNumArguments() != op->getNumOperands())
    return nullptr;
  Block &body = callee.getFunctionBody().front();
  if (body.empty() || !body.back().hasTrait<OpTrait::ReturnLike>() ||
      body.back().getNumOperands() != op->getNumResults())
    return nullptr;
  return callee;
}

/// An argument varies if it does in one of the calls; a result of a call if
/// what the function returns then does. The function is walked anew only where
/// that can tell more. What sums start from is split as the callee says.
bool AxisShardings::visitCall(Operation *call, FunctionOpInterface callee) {
  Block &body = callee.getFunctionBody().front();
  bool changed = followed.insert(callee).second;
  for (auto [operand, argument] :
       llvm::zip(call->getOperands(), body.getArguments())) {
    AxisSharding held = get(operand);
    if (held.isReplicated() && isUniform(operand))
      held = getDeclared(callee, argument.getArgNumber(), axis.getValue());
    changed |= mark(argument, held);
  }
  if (changed)
    visitRegion(callee.getFunctionBody());
  for (auto [result, returned] :
       llvm::zip(call->getResults(), body.back().getOperands()))
    changed |= mark(result, get(returned));
  return changed;
}

/// Each value is what it was in the region of its op.
bool AxisShardings::visitAwait(AwaitOp op) {
  auto async = op.getFuture().getDefiningOp<AsyncOp>();
  if (!async)
    return varies(op.getFuture()) && markResults(op);
  bool changed = false;
  for (auto [value, result] : llvm::zip(
           async.getBody().front().back().getOperands(), op->getResults()))
    changed |= mark(result, get(value));
  return changed;
}

/// Whether a region of `op` uses a value from outside that varies.
static bool capturesVarying(Operation *op, const AxisShardings &shardings) {
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  return llvm::any_of(captured,
                      [&](Value value) { return shardings.varies(value); });
}

bool AxisShardings::visit(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
    return visitOptimizer(optimizer);
  if (auto update = dyn_cast<UpdateFp8ScaleOp>(op);
      update && gradients == Gradients::Reduced &&
      !update->hasAttr(kLocalUpdateAttr))
    return anyVaries({update.getHistory(), update.getScale()}) &&
           markResults(op);
  if (auto async = dyn_cast<AsyncOp>(op)) {
    bool changed = visitRegion(async.getBody());
    // A future is what its values are; where they differ, local.
    AxisSharding joined;
    for (Value value : async.getBody().front().back().getOperands())
      joined = joined.join(get(value));
    return mark(async.getFuture(), joined) || changed;
  }
  if (auto await = dyn_cast<AwaitOp>(op))
    return visitAwait(await);
  if (auto slice = dyn_cast<AllSliceOp>(op);
      slice && !varies(slice.getInput()) &&
      llvm::is_contained(slice.getAxesAttr(), Attribute(axis)))
    return mark(slice.getResult(), slice.getAxes().size() == 1
                                       ? AxisSharding::split(slice.getDim())
                                       : AxisSharding::local());
  if (ShardingAttr target = getReshardTarget(op))
    return markResults(op, getAxisSharding(target, axis.getValue()));
  if (FunctionOpInterface callee = getFollowedCallee(op);
      callee && callee != function)
    return visitCall(op, callee);
  bool operandVaries = anyVaries(op->getOperands());
  if (auto dependent = dyn_cast<RankDependentOpInterface>(op))
    operandVaries |=
        llvm::is_contained(dependent.getAxesAttr(), Attribute(axis));
  if (operandVaries && op->getNumResults() > 0 && !capturesVarying(op, *this))
    if (std::optional<ShardingRule> rule = getShardingRule(op))
      return visitByRule(op, *rule);
  if (op->getNumRegions() == 0) {
    if (op->getNumResults() == 0)
      return false;
    bool unknown = !operandVaries && !isMemoryEffectFree(op);
    return (operandVaries || unknown) && markResults(op);
  }

  bool unknown = !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() &&
                 !isMemoryEffectFree(op);
  bool changed = false;
  for (bool again = true; again; changed |= again) {
    again = false;
    for (Region &region : op->getRegions())
      again |= visitRegion(region);
    bool passed = operandVaries || unknown;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        passed |= !block.empty() && anyVaries(block.back().getOperands());
    if (!passed)
      continue;
    again |= markResults(op);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          again |= mark(argument);
  }
  return changed;
}

/// Control is decided by scalars: conditions and bounds.
bool AxisShardings::dependsOnVaryingScalar(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value value) {
    return !isa<ShapedType>(value.getType()) && varies(value);
  });
}

Operation *AxisShardings::getDivergence(Operation *op) const {
  for (Operation *at = op; at && at != function; at = at->getParentOp()) {
    Block *block = at->getBlock();
    Operation *parent = at->getParentOp();
    if (block && !block->isEntryBlock())
      for (Block &other : *block->getParent())
        if (!other.empty() && dependsOnVaryingScalar(&other.back()))
          return &other.back();
    if (!parent || parent == function || isa<AsyncOp>(parent))
      continue;
    if (dependsOnVaryingScalar(parent))
      return parent;
    for (Region &region : parent->getRegions())
      for (Block &other : region)
        if (!other.empty() && dependsOnVaryingScalar(&other.back()))
          return &other.back();
  }
  return nullptr;
}

Value AxisShardings::getOrigin(Value value) const {
  llvm::DenseSet<Value> seen;
  while (seen.insert(value).second) {
    Operation *op = value.getDefiningOp();
    if (!op) {
      Block *block = cast<BlockArgument>(value).getOwner();
      op = block->getParentOp();
      if (!op || op == function)
        return value;
    }
    Value from;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (varies(operand) && !seen.contains(operand)) {
          from = operand;
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    if (!from)
      return value;
    value = from;
  }
  return value;
}

std::string AxisShardings::describeOrigin(Value value) const {
  Value origin = getOrigin(value);
  auto argument = dyn_cast<BlockArgument>(origin);
  if (argument && argument.getOwner()->getParentOp() == function &&
      argument.getOwner()->isEntryBlock())
    return describeArgument(function, argument.getArgNumber());
  if (Operation *op = origin.getDefiningOp())
    return ("'" + op->getName().getStringRef() + "'").str();
  return "a block argument";
}
