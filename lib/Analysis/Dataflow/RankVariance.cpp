//===- RankVariance.cpp - which values differ between ranks ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk in program order decides straight-line code. Regions are walked
// until nothing changes: the set of varying values only grows.
//
// Invariant of the walk over an op with regions: its block arguments vary if
// one of its operands does, or an operand of a terminator inside; so do its
// results. That is coarser than following each loop-carried value, and needs to
// know nothing of the op.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Dataflow/RankVariance.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

RankVariance::RankVariance(FunctionOpInterface function, StringRef axisName,
                           Gradients gradients)
    : function(function),
      axis(StringAttr::get(function->getContext(), axisName)),
      gradients(gradients) {
  if (function.isExternal())
    return;
  Region &body = function.getFunctionBody();
  for (BlockArgument argument : body.getArguments()) {
    std::optional<Role> role =
        getArgumentRole(function, argument.getArgNumber());
    if (role == Role::Batch || role == Role::Rng ||
        isa<FutureType>(argument.getType()))
      mark(argument);
  }
  while (visitRegion(body) && !body.hasOneBlock()) {
  }
}

void RankVariance::vary(Value value) {
  if (!mark(value))
    return;
  while (visitRegion(function.getFunctionBody())) {
  }
}

bool RankVariance::anyVaries(ValueRange values) const {
  return llvm::any_of(values, [&](Value value) { return varies(value); });
}

bool RankVariance::markResults(Operation *op) {
  bool changed = false;
  for (Value result : op->getResults())
    changed |= mark(result);
  return changed;
}

/// Walks the region once; true if a value was added. Arguments of blocks other
/// than the first get what a terminator passes.
bool RankVariance::visitRegion(Region &region) {
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

bool RankVariance::visitCollective(CollectiveOpInterface op) {
  bool overAxis = llvm::is_contained(op.getAxesAttr(), Attribute(axis));
  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::AllGather:
  case CollectiveKind::Broadcast:
    if (overAxis)
      return false;
    return anyVaries(op->getOperands()) && markResults(op);
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Permute:
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter:
    return (overAxis || anyVaries(op->getOperands())) && markResults(op);
  case CollectiveKind::Recv:
    return markResults(op);
  case CollectiveKind::Send:
  case CollectiveKind::Barrier:
    return false;
  }
  return markResults(op);
}

bool RankVariance::visitOptimizer(OptimizerOpInterface op) {
  optimizers.insert(op);
  SmallVector<OpOperand *> reduced;
  if (gradients == Gradients::Reduced)
    reduced = op.getGradientOperands();
  bool varies = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
    return this->varies(operand.get()) &&
           !llvm::is_contained(reduced, &operand);
  });
  return varies && markResults(op);
}

/// The function that `op` calls, if it has a body of one block and takes the
/// operands as its arguments; else null.
static FunctionOpInterface getCallee(Operation *op) {
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
/// that can tell more.
bool RankVariance::visitCall(Operation *call, FunctionOpInterface callee) {
  Block &body = callee.getFunctionBody().front();
  bool changed = followed.insert(callee).second;
  for (auto [operand, argument] :
       llvm::zip(call->getOperands(), body.getArguments()))
    changed |= varies(operand) && mark(argument);
  if (changed)
    visitRegion(callee.getFunctionBody());
  for (auto [result, returned] :
       llvm::zip(call->getResults(), body.back().getOperands()))
    changed |= varies(returned) && mark(result);
  return changed;
}

bool RankVariance::visit(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
    return visitOptimizer(optimizer);
  if (auto update = dyn_cast<UpdateFp8ScaleOp>(op);
      update && gradients == Gradients::Reduced)
    return anyVaries({update.getHistory(), update.getScale()}) &&
           markResults(op);
  if (auto async = dyn_cast<AsyncOp>(op)) {
    bool changed = visitRegion(async.getBody());
    Operation &yield = async.getBody().front().back();
    return (anyVaries(yield.getOperands()) && mark(async.getFuture())) ||
           changed;
  }
  if (FunctionOpInterface callee = getCallee(op); callee && callee != function)
    return visitCall(op, callee);
  bool operandVaries = anyVaries(op->getOperands());
  if (auto dependent = dyn_cast<RankDependentOpInterface>(op))
    operandVaries |=
        llvm::is_contained(dependent.getAxesAttr(), Attribute(axis));
  if (op->getNumRegions() == 0) {
    if (op->getNumResults() == 0 || varies(op->getResult(0)))
      return false;
    bool unknown =
        !operandVaries && !isa<AwaitOp>(op) && !isMemoryEffectFree(op);
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
bool RankVariance::dependsOnVaryingScalar(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value value) {
    return !isa<ShapedType>(value.getType()) && varies(value);
  });
}

Operation *RankVariance::getDivergence(Operation *op) const {
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

Value RankVariance::getOrigin(Value value) const {
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

std::string RankVariance::describeOrigin(Value value) const {
  Value origin = getOrigin(value);
  auto argument = dyn_cast<BlockArgument>(origin);
  if (argument && argument.getOwner()->getParentOp() == function &&
      argument.getOwner()->isEntryBlock())
    return describeArgument(function, argument.getArgNumber());
  if (Operation *op = origin.getDefiningOp())
    return ("'" + op->getName().getStringRef() + "'").str();
  return "a block argument";
}
