//===- Parts.cpp - values that ranks have parts of ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/Parts.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// How state is split
//===----------------------------------------------------------------------===//

std::string DeclaredSharding::describe(func::FuncOp function) const {
  return isResult ? describeResult(function, index)
                  : describeArgument(function, index);
}

SmallVector<DeclaredSharding>
mpcomm::getDeclaredShardings(func::FuncOp function) {
  SmallVector<DeclaredSharding> declared;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (ShardingAttr sharding = getArgumentSharding(function, i))
      declared.push_back({sharding, function.getArgumentTypes()[i], i, false,
                          function.getArgAttr(i, kGlobalTypeAttr) != nullptr});
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (ShardingAttr sharding = getResultSharding(function, i))
      declared.push_back(
          {sharding, function.getResultTypes()[i], i, true,
           function.getResultAttr(i, kGlobalTypeAttr) != nullptr});
  return declared;
}

bool FlatSharding::accepts(ShardingAttr other) const {
  bool isOne = !sharding || (sharding.getMesh() == other.getMesh() &&
                             sharding.getFlat() == other.getFlat());
  return isOne && other.isFlat() && other.getPartial().empty() &&
         other.getLocal().empty() &&
         llvm::none_of(other.getFlat().getAsRange<AxisRefAttr>(),
                       [](AxisRefAttr axis) { return axis.isSubAxis(); });
}

FailureOr<FlatSharding> FlatSharding::get(func::FuncOp function) {
  FlatSharding found;
  for (const DeclaredSharding &declared : getDeclaredShardings(function)) {
    if (declared.isLocal)
      continue;
    if (!found.accepts(declared.sharding))
      return function.emitOpError()
             << "has " << declared.describe(function) << " of sharding "
             << declared.sharding
             << ", expected state that is split flat, over the same whole axes "
                "everywhere";
    found.sharding = declared.sharding;
  }
  if (!found)
    return found;
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      function, found.sharding.getMesh());
  std::string reason = "names " + found.sharding.getMesh().getValue().str() +
                       ", which is not an mpcomm.mesh";
  FailureOr<int64_t> ranks =
      mesh ? countRanks(found.sharding.getFlat(), mesh, reason)
           : FailureOr<int64_t>(failure());
  if (failed(ranks))
    return function.emitOpError()
           << "has a sharding " << found.sharding << ", which " << reason;
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
    return function.emitOpError("has state that is split, expected a body of "
                                "one block");
  found.ranks = *ranks;
  SmallVector<Attribute> names;
  for (auto axis : found.sharding.getFlat().getAsRange<AxisRefAttr>())
    names.push_back(axis.getName());
  found.axes = ArrayAttr::get(function.getContext(), names);
  return found;
}

//===----------------------------------------------------------------------===//
// What works on parts
//===----------------------------------------------------------------------===//

func::FuncOp mpcomm::getCallee(CallOpInterface call) {
  auto callee = dyn_cast_if_present<func::FuncOp>(call.resolveCallable());
  return callee && !callee.isExternal() ? callee : func::FuncOp();
}

bool Parts::isReadBy(OpOperand &use) const {
  Operation *user = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (user == body.getTerminator())
    return getResultSharding(function, index) != nullptr;
  if (!ops.contains(user))
    return false;
  if (auto call = dyn_cast<CallOpInterface>(user))
    return getArgumentSharding(getCallee(call), index) != nullptr;
  if (ShardingAttr target = getReshardTarget(user))
    return values.contains(use.get()) || target.isFlat();
  if (!isSplitIn(user, use.get(), ranks))
    return false;
  if (getFlatKind(user, ranks) != FlatKind::PerGradient)
    return true;
  OpResult handedOn = findHandedOn(use);
  return values.contains(handedOn ? Value(handedOn) : use.get());
}

bool Parts::areAllReadBy(Value value) const {
  return !value.use_empty() &&
         llvm::all_of(value.getUses(),
                      [&](OpOperand &use) { return isReadBy(use); });
}

/// Whether `op` may take `value`, which it works on, in parts: what differs
/// between ranks has none.
bool Parts::isSplittable(Operation *op, Value value) const {
  return !isSplitIn(op, value, ranks) || values.contains(value) ||
         isUniform(value) ||
         llvm::none_of(shardings, [&](const AxisShardings &axis) {
           return axis.varies(value);
         });
}

bool Parts::markResults(Operation *op) {
  bool changed = ops.insert(op).second;
  for (Value result : op->getResults())
    if (isSplitIn(op, result, ranks))
      changed |= values.insert(result).second;
  return changed;
}

void Parts::markCall(CallOpInterface call) {
  func::FuncOp callee = getCallee(call);
  if (!callee)
    return;
  for (unsigned i = 0; i < callee.getNumArguments(); ++i)
    if (getArgumentSharding(callee, i))
      ops.insert(call);
  for (OpResult result : call->getResults())
    if (getResultSharding(callee, result.getResultNumber())) {
      ops.insert(call);
      values.insert(result);
    }
}

void Parts::markForward(Operation &op) {
  if (auto call = dyn_cast<CallOpInterface>(op))
    return markCall(call);
  if (ShardingAttr target = getReshardTarget(&op)) {
    ops.insert(&op);
    if (target.isFlat())
      values.insert(op.getResult(0));
    return;
  }
  FlatKind kind = getFlatKind(&op, ranks);
  if (kind == FlatKind::Elementwise || kind == FlatKind::Rows) {
    bool readsPart = llvm::any_of(op.getOperands(), [&](Value operand) {
      return contains(operand) && isSplitIn(&op, operand, ranks);
    });
    if (readsPart && llvm::all_of(op.getOperands(), [&](Value operand) {
          return isSplittable(&op, operand);
        }))
      markResults(&op);
  } else if (kind == FlatKind::Extremum) {
    if (contains(op.getOperand(0)))
      ops.insert(&op);
  } else if (kind == FlatKind::PerGradient) {
    for (OpOperand *gradient : getGradients(&op))
      if (contains(gradient->get())) {
        ops.insert(&op);
        if (OpResult result = findHandedOn(*gradient))
          values.insert(result);
      }
  }
}

void Parts::markBackward(Operation &op) {
  FlatKind kind = getFlatKind(&op, ranks);
  if (kind == FlatKind::Elementwise && !contains(&op)) {
    auto type = dyn_cast<RankedTensorType>(op.getResult(0).getType());
    bool isUsed = type && type.getRank() > 0 && !op.use_empty() &&
                  llvm::all_of(op.getResults(), [&](Value result) {
                    return !isSplitIn(&op, result, ranks) ||
                           result.use_empty() || areAllReadBy(result);
                  });
    if (isUsed && type.getNumElements() >= ranks)
      markResults(&op);
  } else if (kind == FlatKind::PerGradient) {
    for (OpOperand *gradient : getGradients(&op))
      if (OpResult result = findHandedOn(*gradient);
          result && !contains(result) && areAllReadBy(result)) {
        ops.insert(&op);
        values.insert(result);
      }
  }
}

Parts::Parts(func::FuncOp function, const FlatSharding &flat)
    : function(function), body(function.getFunctionBody().front()),
      ranks(flat.ranks) {
  for (auto axis : flat.axes.getAsRange<StringAttr>())
    shardings.emplace_back(function, axis.getValue());
  for (BlockArgument argument : body.getArguments())
    if (getArgumentSharding(function, argument.getArgNumber()))
      values.insert(argument);
  for (Operation &op : body.without_terminator())
    markForward(op);
  for (Operation &op : llvm::reverse(body.without_terminator()))
    markBackward(op);
}
