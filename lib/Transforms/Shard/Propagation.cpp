//===- Propagation.cpp - shardings through ops, by factors ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/Propagation.h"
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

//===----------------------------------------------------------------------===//
// What is held
//===----------------------------------------------------------------------===//

void Propagation::add(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.hasStaticShape())
    held[value].dims.resize(type.getRank());
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
  pushAround(value);
}

bool Propagation::isPartial(Value value) const {
  const Held *at = find(value);
  return at && at->partial && !at->partial.empty();
}

ShardingAttr Propagation::get(Value value) const {
  const Held *at = find(value);
  if (!at || at->declared)
    return at ? at->declared : ShardingAttr();
  MLIRContext *context = value.getContext();
  auto none = ArrayAttr::get(context, {});
  SmallVector<Attribute> dims;
  for (ArrayAttr axes : at->dims)
    dims.push_back(axes ? axes : none);
  return ShardingAttr::get(context, meshName, ArrayAttr::get(context, dims),
                           none, at->partial ? at->partial : none, none);
}

void Propagation::push(Operation *op) {
  if (queued.insert(op).second)
    queue.push_back(op);
}

/// The ops that a change of `value` can tell something.
void Propagation::pushAround(Value value) {
  Block *block = value.getParentBlock();
  if (Operation *def = value.getDefiningOp()) {
    push(def);
  } else {
    push(block->getTerminator()); // ties arguments to results
    for (Operation *call : calls.lookup(block->getParentOp()))
      push(call);
  }
  for (Operation *user : value.getUsers()) {
    Operation *op = block->findAncestorOpInBlock(*user);
    push(op);
    if (op == block->getTerminator())
      for (Operation *call : calls.lookup(block->getParentOp()))
        push(call);
  }
}

/// Where that takes nothing from another dimension.
void Propagation::split(const Member &member, ArrayAttr axes) {
  Held *at = find(member.value);
  if (!at || at->isFixed || at->dims[member.dim] ||
      llvm::any_of(at->dims,
                   [&](ArrayAttr other) { return overlaps(other, axes); }))
    return;
  std::string reason;
  FailureOr<int64_t> ranks = countRanks(axes, mesh, reason);
  auto type = cast<RankedTensorType>(member.value.getType());
  if (failed(ranks) || type.getDimSize(member.dim) % *ranks != 0)
    return;
  at->dims[member.dim] = axes;
  pushAround(member.value);
}

//===----------------------------------------------------------------------===//
// Through ops
//===----------------------------------------------------------------------===//

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

void Propagation::propagate(const Members &members) {
  if (ArrayAttr axes = choose(members))
    for (const Member &member : members)
      split(member, axes);
}

/// Two values that are one, or take one another's place.
void Propagation::tie(Value a, Value b) {
  if (a.getType() != b.getType() || !find(a))
    return;
  for (int64_t dim = 0; dim < cast<RankedTensorType>(a.getType()).getRank();
       ++dim)
    propagate({{a, dim}, {b, dim}});
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

/// Whether each result is, along all other axes, what its operand is.
static bool isOverAnAxis(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective &&
         (collective.getCollectiveKind() == CollectiveKind::AllReduce ||
          collective.getCollectiveKind() == CollectiveKind::Broadcast) &&
         op->getNumOperands() == op->getNumResults();
}

void Propagation::visit(Operation *op, bool isFirst) {
  if (isOverAnAxis(op)) {
    for (auto [operand, result] :
         llvm::zip(op->getOperands(), op->getResults()))
      tie(operand, result);
    return;
  }
  if (auto function = dyn_cast<func::FuncOp>(op->getParentOp());
      function && op->hasTrait<OpTrait::ReturnLike>()) {
    for (BlockArgument argument : op->getBlock()->getArguments())
      if (std::optional<int64_t> result =
              getDonation(function, argument.getArgNumber()))
        tie(argument, op->getOperand(*result));
    return;
  }
  if (FunctionOpInterface callee = getFollowedCallee(op)) {
    Block &body = callee.getFunctionBody().front();
    for (auto [operand, argument] :
         llvm::zip(op->getOperands(), body.getArguments()))
      tie(operand, argument);
    for (auto [result, returned] :
         llvm::zip(op->getResults(), body.getTerminator()->getOperands()))
      tie(result, returned);
    return;
  }
  std::optional<ShardingRule> rule = getShardingRule(op);
  if (!rule)
    return;
  bool reduces = llvm::any_of(rule->factors, [](const ShardingFactor &factor) {
    return factor.reduction.has_value();
  });
  if (isFirst && reduces)
    return;
  for (const ShardingFactor &factor : rule->factors)
    if (isReducible(factor))
      propagate(getMembers(op, factor));
}

void Propagation::run(bool isFirst) {
  while (!queue.empty()) {
    Operation *op = queue.front();
    queue.pop_front();
    queued.erase(op);
    visit(op, isFirst);
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
  llvm::SmallDenseSet<unsigned> operands;
  for (auto [i, one] : llvm::enumerate(partial)) {
    if (!one || one.empty())
      continue;
    bool isFloat =
        isa<FloatType>(getElementTypeOrSelf(op->getOperand(i).getType()));
    if (!isFloat || (all && all != one))
      return failure();
    all = one;
    operands.insert(i);
  }
  if (!all)
    return all;
  bool areSums = llvm::all_of(all.getAsRange<PartialAxisAttr>(),
                              [](PartialAxisAttr partial) {
                                return partial.getReduction() != Reduction::Max;
                              });
  bool areMaxima = llvm::all_of(
      all.getAsRange<PartialAxisAttr>(), [](PartialAxisAttr partial) {
        return partial.getReduction() == Reduction::Max;
      });
  if (areMaxima && rule.isMonotone && op->getNumOperands() == 1)
    return all;
  for (ArrayRef<unsigned> set : rule.linear)
    if (areSums && set.size() == operands.size() &&
        llvm::all_of(set, [&](unsigned i) { return operands.contains(i); }))
      return all;
  return failure();
}

/// A partial value is reduced, which moves it twice.
void Propagation::count(Value value, Reshards &found) const {
  if (found.values.insert(value).second)
    found.bytes += (isPartial(value) ? 2 : 1) * countBytesOf(value);
}

/// `values` are read whole.
void Propagation::countWhole(ValueRange values, Reshards &found) const {
  for (Value value : values) {
    const Held *at = find(value);
    if (at && (isPartial(value) ||
               llvm::any_of(at->dims, [](ArrayAttr axes) { return axes; })))
      count(value, found);
  }
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
    bool areAllHeld = true;
    for (auto [value, dim] : llvm::zip(op->getOperands(), factor.operands)) {
      const Held *at = dim >= 0 ? find(value) : nullptr;
      bool isHeld = at && at->dims[dim] == axes;
      saved += isHeld ? countBytesOf(value) : 0;
      areAllHeld &= isHeld || dim < 0;
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
    if (saved >= 0 || areAllHeld)
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
/// makes otherwise. A block of what is whole moves nothing.
void Propagation::countMoved(Operation *op, ArrayRef<Choice> taken,
                             Reshards &found) const {
  auto countThose = [&](ValueRange values, bool areResults) {
    for (auto [i, value] : llvm::enumerate(values)) {
      const Held *at = find(value);
      if (!at)
        continue;
      SmallVector<ArrayAttr> dims(at->dims.size());
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

void Propagation::finish(Operation *op, Reshards &found) {
  if (!op->getRegions().empty()) {
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    countWhole(captured.getArrayRef(), found);
  }
  if (isOverAnAxis(op) || getReshardTarget(op) || getFollowedCallee(op))
    return;
  if (op->hasTrait<OpTrait::ReturnLike>()) {
    for (Value operand : op->getOperands())
      if (isPartial(operand))
        count(operand, found);
    return;
  }
  std::optional<ShardingRule> rule = getShardingRule(op);
  if (!rule)
    return countWhole(op->getOperands(), found);
  SmallVector<Choice> taken = chooseAxes(op, *rule);
  countMoved(op, taken, found);

  // Partial values: those that are read, and those that are made.
  SmallVector<ArrayAttr> partial;
  for (Value operand : op->getOperands())
    partial.push_back(isPartial(operand) ? find(operand)->partial
                                         : ArrayAttr());
  auto getAxes = [&](ArrayAttr list) {
    SmallVector<Attribute> axes;
    for (auto one : list.getAsRange<PartialAxisAttr>())
      axes.push_back(one.getAxis());
    return ArrayAttr::get(op->getContext(), axes);
  };
  FailureOr<ArrayAttr> passed = getPartialResults(op, *rule, partial);
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
    Held *at = find(result);
    if (!at || at->isFixed)
      continue;
    SmallVector<Attribute> made;
    if (succeeded(passed) && *passed)
      llvm::append_range(made, *passed);
    for (const Choice &choice : taken)
      if (choice.factor->reduction &&
          choice.factor->results[result.getResultNumber()] < 0)
        for (auto axis : choice.axes.getAsRange<AxisRefAttr>())
          made.push_back(PartialAxisAttr::get(op->getContext(), axis,
                                              *choice.factor->reduction));
    if (made.empty())
      continue;
    auto all = ArrayAttr::get(op->getContext(), made);
    // Where its readers have it split, it is reduced and split at once.
    if (llvm::any_of(at->dims, [&](ArrayAttr axes) {
          return overlaps(axes, getAxes(all));
        }))
      count(result, found);
    else
      at->partial = all;
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// What is declared, or has to be fed as it is.
void Propagation::seed(func::FuncOp function) {
  Block &body = function.getFunctionBody().front();
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::optional<Role> role = getArgumentRole(function, index);
    ShardingAttr sharding = getArgumentSharding(function, index);
    bool isOpen = !function.isPublic() || (role && isStateRole(*role));
    if (sharding || !isOpen)
      fix(argument, sharding);
  }
  Operation *terminator = body.getTerminator();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (ShardingAttr sharding = getResultSharding(function, i))
      for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
        if (!sharding.getDim(dim).empty())
          split({terminator->getOperand(i), dim}, sharding.getDim(dim));
  for (Operation &op : body)
    if (ShardingAttr target = getReshardTarget(&op))
      fix(op.getResult(0), target);
}

Propagation::Propagation(ModuleOp module, MeshOp mesh)
    : mesh(mesh), meshName(FlatSymbolRefAttr::get(mesh.getSymNameAttr())) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
      continue;
    functions.push_back(function);
    Block &body = function.getFunctionBody().front();
    llvm::for_each(body.getArguments(), [&](Value value) { add(value); });
    for (Operation &op : body) {
      llvm::for_each(op.getResults(), [&](Value value) { add(value); });
      if (FunctionOpInterface callee = getFollowedCallee(&op))
        calls[callee].push_back(&op);
    }
  }
  llvm::for_each(functions, [&](func::FuncOp function) { seed(function); });
  run(/*isFirst=*/true);
  for (func::FuncOp function : functions)
    for (Operation &op : function.getFunctionBody().front())
      push(&op);
  run(/*isFirst=*/false);
  for (func::FuncOp function : functions) {
    Reshards found;
    for (Operation &op : function.getFunctionBody().front())
      finish(&op, found);
    reshards[function] = found;
  }
}
