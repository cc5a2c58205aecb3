//===- Propagation.cpp - shardings through ops, by factors ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/Propagation.h"
#include "Shard/FlatOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpcomm;

static int64_t countBytesOf(Value value) {
  return mpcomm::detail::countBytes(value.getType());
}

static bool overlaps(ArrayAttr a, ArrayAttr b) {
  return a && b &&
         llvm::any_of(a.getAsRange<AxisRefAttr>(), [&](AxisRefAttr x) {
           return llvm::any_of(b.getAsRange<AxisRefAttr>(),
                               [&](AxisRefAttr y) { return x.overlaps(y); });
         });
}

/// Whether some of `axes` are of those with `names`.
static bool isOver(ArrayAttr axes, ArrayAttr names) {
  return axes && names &&
         llvm::any_of(axes.getAsRange<AxisRefAttr>(), [&](AxisRefAttr axis) {
           return llvm::is_contained(names, Attribute(axis.getName()));
         });
}

static ArrayAttr getAxes(ArrayAttr partial) {
  SmallVector<Attribute> axes;
  for (auto one : partial.getAsRange<PartialAxisAttr>())
    axes.push_back(one.getAxis());
  return ArrayAttr::get(partial.getContext(), axes);
}

bool Propagation::follows(func::FuncOp function) {
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
    return false;
  Block &body = function.getFunctionBody().front();
  return !body.empty() && body.back().hasTrait<OpTrait::ReturnLike>() &&
         body.back().getNumOperands() == function.getNumResults();
}

//===----------------------------------------------------------------------===//
// What is held
//===----------------------------------------------------------------------===//

void Propagation::add(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.hasStaticShape())
    held[value].dims.resize(type.getRank());
}

Propagation::Dims Propagation::getDims(Value value) const {
  const Held *at = find(value);
  return at ? at->dims : Dims();
}

bool Propagation::isPartial(Value value) const {
  const Held *at = find(value);
  return at && at->partial && !at->partial.empty();
}

/// 0 where the mesh does not have them.
int64_t Propagation::countRanksOf(ArrayAttr axes) const {
  std::string reason;
  FailureOr<int64_t> ranks = countRanks(axes, mesh, reason);
  return succeeded(ranks) ? *ranks : 0;
}

void Propagation::fix(Value value, ShardingAttr declared) {
  Held *at = find(value);
  if (!at)
    return;
  at->isFixed = true;
  at->declared = declared;
  if (!declared)
    return;
  for (int64_t dim = 0; dim < declared.getRank(); ++dim)
    if (!declared.getDim(dim).empty())
      at->dims[dim] = declared.getDim(dim);
  at->partial = declared.getPartial();
  at->local = declared.getLocal();
  changed.push_back(value);
}

ShardingAttr Propagation::getSplit(Value value) const {
  const Held *at = find(value);
  if (!at)
    return {};
  MLIRContext *context = value.getContext();
  auto none = ArrayAttr::get(context, {});
  SmallVector<Attribute> dims;
  for (ArrayAttr axes : at->dims)
    dims.push_back(axes ? axes : none);
  return ShardingAttr::get(context, meshName, ArrayAttr::get(context, dims),
                           none, none, none);
}

ShardingAttr Propagation::get(Value value) const {
  const Held *at = find(value);
  if (!at || at->declared)
    return at ? at->declared : ShardingAttr();
  ShardingAttr split = getSplit(value);
  auto none = split.getFlat();
  return ShardingAttr::get(value.getContext(), meshName, split.getDims(), none,
                           at->partial ? at->partial : none,
                           at->local ? at->local : none);
}

//===----------------------------------------------------------------------===//
// Through ops
//===----------------------------------------------------------------------===//

void Propagation::push(Operation *op) {
  if (auto found = numbers.find(op); found != numbers.end())
    queue.insert(found->second);
}

/// Where that takes nothing from another dimension.
void Propagation::split(const Member &member, ArrayAttr axes) {
  Held *at = find(member.value);
  if (!at || at->isFixed || at->dims[member.dim] ||
      llvm::any_of(at->dims,
                   [&](ArrayAttr other) { return overlaps(other, axes); }))
    return;
  int64_t ranks = countRanksOf(axes);
  auto type = cast<RankedTensorType>(member.value.getType());
  if (ranks == 0 || type.getDimSize(member.dim) % ranks != 0)
    return;
  at->dims[member.dim] = axes;
  changed.push_back(member.value);
}

/// The axes that most bytes of `members` have; null where none is split.
ArrayAttr Propagation::choose(const Members &members) const {
  llvm::SmallMapVector<ArrayAttr, int64_t, 4> bytes;
  for (const Member &member : members)
    if (const Held *at = find(member.value); at && at->dims[member.dim])
      bytes[at->dims[member.dim]] += countBytesOf(member.value);
  ArrayAttr best;
  for (auto &[axes, count] : bytes)
    if (!best || count > bytes[best])
      best = axes;
  return best;
}

void Propagation::propagate(const Members &members, int64_t size) {
  ArrayAttr axes = choose(members);
  int64_t ranks = axes ? countRanksOf(axes) : 0;
  if (ranks != 0 && size % ranks == 0)
    for (const Member &member : members)
      split(member, axes);
}

/// Two values that are one, or take one another's place.
void Propagation::tie(Value a, Value b, ArrayAttr except) {
  if (a == b || a.getType() != b.getType() || !find(a) || !find(b))
    return;
  ties[a].push_back({b, except});
  ties[b].push_back({a, except});
}

void Propagation::visitTies(Value value) {
  auto found = ties.find(value);
  if (found == ties.end())
    return;
  for (const Tie &other : found->second)
    for (auto [dim, axes] : llvm::enumerate(getDims(value)))
      if (axes && !isOver(axes, other.except))
        split({other.value, static_cast<int64_t>(dim)}, axes);
}

Propagation::Members Propagation::getMembers(Operation *op,
                                             const ShardingFactor &factor) {
  Members members;
  auto addAll = [&](ValueRange values, ArrayRef<int64_t> dims) {
    for (auto [value, dim] : llvm::zip(values, dims))
      if (dim >= 0)
        members.push_back({value, dim});
  };
  addAll(op->getOperands(), factor.operands);
  addAll(op->getResults(), factor.results);
  return members;
}

/// Whether ranks that reduce along a factor can say what they hold.
static bool isReducible(const ShardingFactor &factor) {
  return llvm::none_of(
             factor.results,
             [](int64_t dim) { return dim == ShardingFactor::kLocal; }) &&
         (!factor.reduction || *factor.reduction == Reduction::Sum ||
          *factor.reduction == Reduction::Max);
}

/// Whether each result has the place of an operand.
static bool isAllReduceOrBroadcast(CollectiveOpInterface op) {
  return op &&
         (op.getCollectiveKind() == CollectiveKind::AllReduce ||
          op.getCollectiveKind() == CollectiveKind::Broadcast) &&
         op->getNumOperands() == op->getNumResults();
}

/// Ops that are tied are not visited.
void Propagation::visit(Operation *op) {
  std::optional<ShardingRule> rule = getShardingRule(op);
  if (!rule || (isFirst && llvm::any_of(rule->factors, [](const auto &factor) {
                  return factor.reduction.has_value();
                })))
    return;
  for (const ShardingFactor &factor : rule->factors)
    if (isReducible(factor))
      propagate(getMembers(op, factor), factor.size);
}

void Propagation::run() {
  while (true) {
    while (!changed.empty()) {
      Value value = changed.front();
      changed.pop_front();
      visitTies(value);
      if (Operation *def = value.getDefiningOp())
        push(def);
      for (Operation *user : value.getUsers())
        push(user); // in a region: what it reads has no factor
    }
    if (queue.empty())
      return;
    Operation *op = ops[*queue.begin()];
    queue.erase(queue.begin());
    visit(op);
  }
}

//===----------------------------------------------------------------------===//
// What is left to be resharded
//===----------------------------------------------------------------------===//

/// Whether what `op` reads of partial values is reduced after `op` at no
/// greater cost than before it: nothing else reads them, and they do not grow.
static bool isCheaperAfter(Operation *op, ArrayRef<ArrayAttr> partial) {
  int64_t before = 0, after = 0;
  llvm::SmallDenseSet<Value> seen;
  for (auto [value, axes] : llvm::zip(op->getOperands(), partial)) {
    if (!axes || !seen.insert(value).second)
      continue;
    if (!llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return user == op; }))
      return false;
    before += countBytesOf(value);
  }
  for (Value result : op->getResults())
    after += countBytesOf(result);
  return after <= before;
}

/// Of the partial values that `op` reads, what its results are partial in.
/// Fails where one of them has to be reduced first.
static FailureOr<ArrayAttr> getPartialResults(Operation *op,
                                              const ShardingRule &rule,
                                              ArrayRef<ArrayAttr> partial) {
  ArrayAttr all;
  llvm::SmallDenseSet<Value> values;
  for (auto [value, one] : llvm::zip(op->getOperands(), partial)) {
    if (!one)
      continue;
    if (!isa<FloatType>(getElementTypeOrSelf(value.getType())) ||
        (all && all != one))
      return failure();
    all = one;
    values.insert(value);
  }
  if (!all)
    return all;
  auto isMaximum = [](PartialAxisAttr axis) {
    return axis.getReduction() == Reduction::Max;
  };
  auto axes = all.getAsRange<PartialAxisAttr>();
  bool passes =
      llvm::none_of(axes, isMaximum)
          ? isLinearIn(op, rule,
                       [&](Value value) { return values.contains(value); })
          : llvm::all_of(axes, isMaximum) && rule.isMonotone &&
                op->getNumOperands() == 1;
  if (!passes)
    return failure();
  return all;
}

/// A partial value is reduced, which moves it twice.
void Propagation::count(Value value, Counts &found) const {
  if (found.moved.insert(value).second)
    found.bytes += (isPartial(value) ? 2 : 1) * countBytesOf(value);
}

/// `value` is needed as `dims` say, which are none where it is needed whole: a
/// block of what is whole moves nothing.
void Propagation::countUnlike(Value value, ArrayRef<ArrayAttr> dims,
                              Counts &found) const {
  const Held *at = find(value);
  bool moves = isPartial(value);
  for (size_t dim = 0; at && dim < at->dims.size(); ++dim)
    moves |= at->dims[dim] && (dims.empty() || at->dims[dim] != dims[dim]);
  if (moves)
    count(value, found);
}

/// Those that save most bytes come first; no axis splits two factors.
SmallVector<Propagation::Choice>
Propagation::chooseAxes(Operation *op, const ShardingRule &rule) const {
  SmallVector<Choice> choices;
  for (const ShardingFactor &factor : rule.factors) {
    ArrayAttr axes =
        isReducible(factor) ? choose(getMembers(op, factor)) : ArrayAttr();
    std::string reason;
    if (!axes)
      continue;
    if (FailureOr<int64_t> ranks = countRanks(axes, mesh, reason);
        failed(ranks) || factor.size % *ranks != 0)
      continue;
    int64_t saved = 0;
    bool areFitting = true; // a block of what is whole moves nothing
    for (auto [value, dim] : llvm::zip(op->getOperands(), factor.operands)) {
      const Held *at = dim >= 0 ? find(value) : nullptr;
      if (!at || !at->dims[dim])
        continue;
      bool isHeld = at->dims[dim] == axes;
      saved += isHeld ? countBytesOf(value) : 0;
      areFitting &= isHeld;
    }
    for (auto [value, dim] :
         llvm::zip(ValueRange(op->getResults()), factor.results)) {
      const Held *at = dim >= 0 ? find(value) : nullptr;
      if (dim < 0 && factor.reduction)
        saved -= 2 * countBytesOf(value);
      else if (at && at->dims[dim] != axes)
        saved -= countBytesOf(value);
    }
    // Ranks that hold what they need do not compute it all.
    if (saved >= 0 || areFitting)
      choices.push_back({&factor, axes, saved});
  }
  llvm::stable_sort(choices, [](const Choice &a, const Choice &b) {
    return a.saved > b.saved;
  });
  SmallVector<Choice> taken;
  for (const Choice &choice : choices)
    if (llvm::none_of(taken, [&](const Choice &other) {
          return overlaps(other.axes, choice.axes);
        }))
      taken.push_back(choice);
  return taken;
}

/// Operands that `op` reads otherwise than they are held, and results that it
/// makes otherwise.
void Propagation::countMoved(Operation *op, ArrayRef<Choice> taken,
                             Counts &found) const {
  auto countThose = [&](ValueRange values, bool areResults) {
    for (auto [i, value] : llvm::enumerate(values)) {
      const Held *at = find(value);
      if (!at)
        continue;
      Dims dims(at->dims.size());
      for (const Choice &choice : taken) {
        int64_t dim =
            areResults ? choice.factor->results[i] : choice.factor->operands[i];
        if (dim >= 0)
          dims[dim] = choice.axes;
      }
      bool moves = llvm::any_of(llvm::zip(at->dims, dims), [&](auto pair) {
        auto [holds, works] = pair;
        return holds != works && (areResults ? works : holds);
      });
      if (moves)
        count(value, found);
    }
  };
  countThose(op->getOperands(), false);
  countThose(op->getResults(), true);
}

/// Where readers of `value` have it split over the same axes, it is reduced and
/// split at once.
void Propagation::setPartial(Value value, ArrayRef<Attribute> partial,
                             Counts &found) {
  Held *at = find(value);
  if (!at || at->isFixed || partial.empty())
    return;
  auto all = ArrayAttr::get(value.getContext(), partial);
  ArrayAttr over = getAxes(all);
  if (llvm::any_of(at->dims,
                   [&](ArrayAttr axes) { return overlaps(axes, over); }))
    count(value, found);
  else
    at->partial = all;
}

void Propagation::finishByRule(Operation *op, const ShardingRule &rule,
                               Counts &found) {
  SmallVector<Choice> taken = chooseAxes(op, rule);
  countMoved(op, taken, found);
  // Partial values: those that are read, and those that are made.
  SmallVector<ArrayAttr> partial;
  for (Value operand : op->getOperands())
    partial.push_back(isPartial(operand) ? find(operand)->partial
                                         : ArrayAttr());
  FailureOr<ArrayAttr> passed = getPartialResults(op, rule, partial);
  if (succeeded(passed) && *passed &&
      (!isCheaperAfter(op, partial) ||
       llvm::any_of(taken, [&](const Choice &choice) {
         return overlaps(choice.axes, getAxes(*passed));
       })))
    passed = failure();
  if (failed(passed))
    for (Value operand : op->getOperands())
      if (isPartial(operand))
        count(operand, found);
  for (OpResult result : op->getResults()) {
    SmallVector<Attribute> made;
    if (succeeded(passed) && *passed)
      llvm::append_range(made, *passed);
    for (const Choice &choice : taken)
      if (choice.factor->reduction &&
          choice.factor->results[result.getResultNumber()] < 0)
        for (auto axis : choice.axes.getAsRange<AxisRefAttr>())
          made.push_back(PartialAxisAttr::get(op->getContext(), axis,
                                              *choice.factor->reduction));
    setPartial(result, made, found);
  }
}

/// An all_reduce ends partial sums over its axes, and keeps those over others.
void Propagation::finishCollective(CollectiveOpInterface op, Counts &found) {
  ArrayAttr names = op.getAxesAttr();
  bool isReduction = op.getCollectiveKind() == CollectiveKind::AllReduce;
  for (auto [operand, result] :
       llvm::zip(op->getOperands(), op->getResults())) {
    Dims dims = getDims(operand);
    for (ArrayAttr &axes : dims)
      if (isOver(axes, names))
        axes = {};
    bool isReduced = true, isKept = isReduction;
    if (isPartial(operand))
      for (auto one : find(operand)->partial.getAsRange<PartialAxisAttr>()) {
        bool isOwn =
            llvm::is_contained(names, Attribute(one.getAxis().getName()));
        isReduced &= isReduction && isOwn && !one.getAxis().isSubAxis() &&
                     one.getReduction() == op.getCollectiveReduction();
        isKept &= !isOwn && one.getReduction() != Reduction::Max &&
                  op.getCollectiveReduction() != Reduction::Max &&
                  op.getCollectiveReduction() != Reduction::Min;
      }
    Dims own = getDims(operand);
    if (own != dims || (isPartial(operand) && !isReduced && !isKept))
      count(operand, found);
    else if (isPartial(operand) && isKept)
      setPartial(result, find(operand)->partial.getValue(), found);
  }
}

/// Of gradients that are split a norm is a partial sum, and a flag a partial
/// maximum; what is given the norm needs no more.
void Propagation::finishPerGradient(Operation *op, Counts &found) {
  SmallVector<OpOperand *> gradients = getGradients(op);
  llvm::SmallSetVector<Attribute, 2> axes;
  llvm::SmallDenseSet<Value> handedOn;
  std::optional<Reduction> reduction = getReductionOfGradients(op);
  bool isGiven = op->getNumOperands() > gradients.size();
  for (OpOperand *gradient : gradients) {
    if (isPartial(gradient->get()))
      count(gradient->get(), found);
    if (!reduction && !isGiven)
      countUnlike(gradient->get(), {}, found);
    for (ArrayAttr over : getDims(gradient->get()))
      if (over)
        axes.insert_range(over);
    if (OpResult result = findHandedOn(*gradient))
      handedOn.insert(result);
  }
  SmallVector<Attribute> partial;
  for (Attribute axis : reduction ? axes.getArrayRef() : ArrayRef<Attribute>())
    partial.push_back(PartialAxisAttr::get(
        op->getContext(), cast<AxisRefAttr>(axis), *reduction));
  for (Value result : op->getResults())
    if (!handedOn.contains(result))
      setPartial(result, partial, found);
}

/// What results are declared as, or take the place of.
void Propagation::finishReturn(func::FuncOp function, Counts &found) {
  Block &body = function.getFunctionBody().front();
  llvm::DenseMap<int64_t, Value> donors;
  for (BlockArgument argument : body.getArguments())
    if (std::optional<int64_t> result =
            getDonation(function, argument.getArgNumber()))
      donors[*result] = argument;
  for (OpOperand &use : body.getTerminator()->getOpOperands()) {
    Value value = use.get();
    unsigned index = use.getOperandNumber();
    ShardingAttr declared = getResultSharding(function, index);
    Dims dims;
    if (declared) {
      for (int64_t dim = 0; dim < declared.getRank(); ++dim)
        dims.push_back(declared.getDim(dim).empty() ? ArrayAttr()
                                                    : declared.getDim(dim));
      if (isPartial(value) && find(value)->partial == declared.getPartial() &&
          dims == getDims(value))
        continue;
    } else if (Value donor = donors.lookup(index)) {
      dims = getDims(donor);
    } else if (!function.isPublic()) {
      dims = getDims(value);
    }
    countUnlike(value, dims, found);
  }
}

void Propagation::finish(Operation *op, Counts &found) {
  // What differs between ranks makes values that do.
  SmallVector<Attribute> local;
  for (Value operand : op->getOperands())
    if (const Held *at = find(operand); at && at->local)
      for (Attribute axis : at->local)
        if (!llvm::is_contained(local, axis))
          local.push_back(axis);
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (isAllReduceOrBroadcast(collective))
    llvm::erase_if(local, [&](Attribute axis) {
      return llvm::is_contained(collective.getAxesAttr(),
                                Attribute(cast<AxisRefAttr>(axis).getName()));
    });
  auto over = ArrayAttr::get(op->getContext(), local);
  for (Value result : op->getResults())
    if (Held *at = find(result); at && !at->isFixed && !local.empty() &&
                                 llvm::none_of(at->dims, [&](ArrayAttr axes) {
                                   return overlaps(axes, over);
                                 }))
      at->local = over;

  if (!op->getRegions().empty()) {
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    for (Value value : captured)
      countUnlike(value, {}, found);
  }
  if (isAllReduceOrBroadcast(collective))
    return finishCollective(collective, found);
  if (getReshardTarget(op))
    return;
  if (FunctionOpInterface callee = getFollowedCallee(op)) {
    Block &body = callee.getFunctionBody().front();
    for (auto [operand, argument] :
         llvm::zip(op->getOperands(), body.getArguments()))
      countUnlike(operand, getDims(argument), found);
    for (auto [result, returned] :
         llvm::zip(op->getResults(), body.getTerminator()->getOperands()))
      if (getDims(result) != getDims(returned))
        countUnlike(returned, getDims(result), found);
    return;
  }
  if (isOfGradients(op))
    return finishPerGradient(op, found);
  if (std::optional<ShardingRule> rule = getShardingRule(op))
    return finishByRule(op, *rule, found);
  for (Value operand : op->getOperands())
    countUnlike(operand, {}, found);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// What is held alike in the block and in others.
void Propagation::tieOf(func::FuncOp function) {
  Block &body = function.getFunctionBody().front();
  Operation *terminator = body.getTerminator();
  for (BlockArgument argument : body.getArguments())
    if (std::optional<int64_t> result =
            getDonation(function, argument.getArgNumber());
        result && *result >= 0 && *result < function.getNumResults())
      tie(argument, terminator->getOperand(*result));
  for (Operation &op : body.without_terminator()) {
    if (auto collective = dyn_cast<CollectiveOpInterface>(op);
        isAllReduceOrBroadcast(collective)) {
      for (auto [operand, result] :
           llvm::zip(op.getOperands(), op.getResults()))
        tie(operand, result, collective.getAxesAttr());
    } else if (FunctionOpInterface callee = getFollowedCallee(&op)) {
      Block &other = callee.getFunctionBody().front();
      for (auto [operand, argument] :
           llvm::zip(op.getOperands(), other.getArguments()))
        tie(operand, argument);
      for (auto [result, returned] :
           llvm::zip(op.getResults(), other.getTerminator()->getOperands()))
        tie(result, returned);
    } else if (isOfGradients(&op)) {
      for (OpOperand *gradient : getGradients(&op))
        if (OpResult result = findHandedOn(*gradient))
          tie(gradient->get(), result);
    } else {
      numbers[&op] = ops.size();
      ops.push_back(&op);
    }
  }
}

/// What is declared, or has to be fed as it is.
void Propagation::seed(func::FuncOp function) {
  Block &body = function.getFunctionBody().front();
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::optional<Role> role = getArgumentRole(function, index);
    ShardingAttr sharding = getArgumentSharding(function, index);
    bool isOpen = !function.isPublic() || (role && isReplicatedRole(*role));
    if (sharding || !isOpen)
      fix(argument, sharding);
  }
  for (Operation &op : body)
    if (ShardingAttr target = getReshardTarget(&op))
      fix(op.getResult(0), target);
  Operation *terminator = body.getTerminator();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (ShardingAttr sharding = getResultSharding(function, i))
      for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
        if (!sharding.getDim(dim).empty())
          split({terminator->getOperand(i), dim}, sharding.getDim(dim));
}

Propagation::Propagation(ModuleOp module, MeshOp mesh)
    : mesh(mesh), meshName(FlatSymbolRefAttr::get(mesh.getSymNameAttr())) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!follows(function))
      continue;
    functions.push_back(function);
    Block &body = function.getFunctionBody().front();
    llvm::for_each(body.getArguments(), [&](Value value) { add(value); });
    for (Operation &op : body)
      llvm::for_each(op.getResults(), [&](Value value) { add(value); });
  }
  for (func::FuncOp function : functions)
    tieOf(function);
  for (func::FuncOp function : functions)
    seed(function);
  run();
  isFirst = false;
  for (size_t number = 0; number < ops.size(); ++number)
    queue.insert(queue.end(), number);
  run();
  for (func::FuncOp function : functions) {
    Counts &found = counts[function];
    for (Operation &op :
         function.getFunctionBody().front().without_terminator()) {
      finish(&op, found);
      for (Value result : op.getResults()) {
        found.split += llvm::any_of(getDims(result),
                                    [](ArrayAttr axes) { return !!axes; });
        found.partial += isPartial(result);
      }
    }
    finishReturn(function, found);
  }
}
