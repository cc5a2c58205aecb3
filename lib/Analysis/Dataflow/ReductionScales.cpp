//===- ReductionScales.cpp - what reductions have made of values ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk in program order. The scale of a result is computed anew from those
// of the operands; ops with regions are walked until nothing changes, which the
// height of the lattice bounds.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Dataflow/ReductionScales.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// The lattice
//===----------------------------------------------------------------------===//

ReductionScale ReductionScale::join(ReductionScale other) const {
  if (*this == other || other.kind == Any)
    return *this;
  if (kind == Any)
    return other;
  auto isOwn = [](ReductionScale scale) {
    return scale.kind == Own && scale.isOne();
  };
  if (kind == Other || other.kind == Other)
    return isOwn(*this) ? other : isOwn(other) ? *this : mixed();
  if (kind == Mixed || other.kind == Mixed || numerator != other.numerator ||
      denominator != other.denominator)
    return mixed();
  return {Mean, numerator, denominator};
}

ReductionScale ReductionScale::multiplied(int64_t factor) const {
  if (kind != Own && kind != Mean)
    return *this;
  int64_t common = std::gcd(factor, denominator), product;
  if (llvm::MulOverflow(numerator, factor / common, product))
    return mixed();
  return {kind, product, denominator / common};
}

ReductionScale ReductionScale::divided(int64_t factor) const {
  if (kind != Own && kind != Mean)
    return *this;
  int64_t common = std::gcd(factor, numerator), product;
  if (llvm::MulOverflow(denominator, factor / common, product))
    return mixed();
  return {kind, numerator / common, product};
}

ReductionScale ReductionScale::times(ReductionScale other) const {
  auto finite = [](ReductionScale scale) {
    return scale.kind == Any ? ReductionScale() : scale;
  };
  ReductionScale a = finite(*this), b = finite(other);
  if (a.kind == Other || b.kind == Other || a.kind == Mixed || b.kind == Mixed)
    return a == ReductionScale() ? b : b == ReductionScale() ? a : mixed();
  ReductionScale product = a.multiplied(b.numerator).divided(b.denominator);
  if (b.kind == Mean && product.kind == Own)
    product.kind = Mean;
  return product;
}

ReductionScale ReductionScale::reduced(Reduction reduction) const {
  if (kind == Mixed)
    return *this;
  if (reduction == Reduction::Sum || reduction == Reduction::Mean)
    return kind == Any     ? *this
           : kind == Other ? mixed()
                           : ReductionScale(Mean, numerator, denominator);
  ReductionScale other(Other, static_cast<int64_t>(reduction), 1);
  bool isOwn = kind == Any || ((kind == Own || kind == Mean) && isOne());
  return isOwn || *this == other ? other : mixed();
}

std::string ReductionScale::describe() const {
  auto factor = [&] {
    if (isOne())
      return std::string();
    std::string text = std::to_string(numerator);
    if (denominator != 1)
      text += "/" + std::to_string(denominator);
    return text + " times ";
  };
  switch (kind) {
  case Any:
    return "zero";
  case Own:
    return factor() + "what a rank computes";
  case Mean:
    return factor() + "the mean";
  case Other:
    return ("the " + stringifyReduction(static_cast<Reduction>(numerator)))
        .str();
  case Mixed:
    return "neither the mean nor a known multiple of it";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

ReductionScales::ReductionScales(FunctionOpInterface function,
                                 ArrayRef<const AxisShardings *> shardings)
    : function(function), shardings(shardings) {
  if (!function.isExternal())
    visitBlocks(function.getFunctionBody());
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

bool ReductionScales::varies(Value value) const {
  return llvm::any_of(shardings, [&](const AxisShardings *along) {
    return along->varies(value);
  });
}

/// Whether that is new.
bool ReductionScales::set(Value value, ReductionScale scale) {
  if (scale == ReductionScale())
    return states.erase(value);
  ReductionScale &known = states[value];
  bool isNew = !(known == scale);
  known = scale;
  return isNew;
}

ReductionScale ReductionScales::getOperand(Value value) const {
  return matchPattern(value, m_AnyZeroFloat()) ? ReductionScale::any()
                                               : get(value);
}

/// The ranks along an axis that `op` names.
static int64_t countRanksAlong(Operation *op, FlatSymbolRefAttr mesh,
                               StringRef axis) {
  StringAttr name = StringAttr::get(op->getContext(), axis);
  FailureOr<int64_t> ranks = mpcomm::detail::lookupGroupSize(
      op, mesh, ArrayAttr::get(op->getContext(), {name}));
  return succeeded(ranks) ? *ranks : 1;
}

ReductionScale ReductionScales::getReduced(CollectiveOpInterface op,
                                           Value operand) const {
  Reduction reduction = *op.getCollectiveReduction();
  ReductionScale scale = getOperand(operand);
  bool differs = false;
  for (const AxisShardings *along : shardings) {
    if (!llvm::is_contained(op.getAxesAttr(), Attribute(along->getAxis())))
      continue;
    int64_t ranks =
        countRanksAlong(op, op.getMeshAttr(), along->getAxis().getValue());
    AxisSharding held = along->get(operand);
    if (held.getKind() == AxisSharding::Partial) {
      // What it is a part of has the scale already.
      if (held.isPartial(Reduction::Sum) && reduction == Reduction::Mean)
        scale = scale.divided(ranks);
      else if (!held.isPartial(reduction))
        scale = ReductionScale::mixed();
      continue;
    }
    if (held.isOfBlocks()) // blocks are of different elements
      scale = ReductionScale::mixed();
    differs |= !held.isReplicated();
    if (reduction == Reduction::Sum)
      scale = scale.multiplied(ranks);
  }
  return differs ? scale.reduced(reduction) : scale;
}

bool ReductionScales::visitCollective(CollectiveOpInterface op) {
  bool changed = false;
  bool counts = op->getNumOperands() == op->getNumResults();
  bool overData = llvm::any_of(shardings, [&](const AxisShardings *along) {
    return llvm::is_contained(op.getAxesAttr(), Attribute(along->getAxis()));
  });
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    if (!isFloat(result))
      continue;
    ReductionScale scale;
    if (op.getCollectiveKind() == CollectiveKind::Recv)
      scale = ReductionScale::any();
    else if (counts && overData && op.getCollectiveReduction())
      scale = getReduced(op, op->getOperand(i));
    else if (counts)
      scale = getOperand(op->getOperand(i));
    // Another rank's is no mean.
    if (op.getCollectiveKind() == CollectiveKind::Broadcast && overData &&
        varies(op->getOperand(0)))
      scale = ReductionScale::mixed();
    changed |= set(result, scale);
  }
  return changed;
}

/// Of the float results of an op without regions.
ReductionScale ReductionScales::getComputed(Operation *op) const {
  Linearity linearity = getLinearity(op);
  bool isProduct = linearity.kind == Linearity::Each;
  ReductionScale scale = isProduct ? ReductionScale() : ReductionScale::any();
  bool isLinear = false;
  bool isOwn = llvm::any_of(op->getOperands(),
                            [&](Value operand) { return varies(operand); });
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isFloat(operand.get()))
      continue;
    ReductionScale own = getOperand(operand.get());
    // What ranks compute of their own with the greatest of all is their own.
    if (own.getKind() == ReductionScale::Other && isOwn &&
        !varies(operand.get()))
      own = ReductionScale();
    if (own.getKind() == ReductionScale::Mixed)
      return own;
    if (llvm::is_contained(linearity.operands, &operand)) {
      isLinear = true;
      scale = isProduct ? scale.times(own) : scale.join(own);
    } else if (isa<arith::DivFOp>(op) &&
               own.getKind() != ReductionScale::Other) {
      scale = scale.times(own.inverse());
    } else if (!own.isMean() && own.getKind() != ReductionScale::Other &&
               !varies(operand.get())) {
      return ReductionScale::mixed();
    }
  }
  return isLinear ? scale : ReductionScale();
}

/// As AxisShardings does.
bool ReductionScales::visitCall(Operation *call, FunctionOpInterface callee) {
  Block &body = callee.getFunctionBody().front();
  bool isNew = followed.insert(callee).second, changed = isNew;
  for (auto [operand, argument] :
       llvm::zip(call->getOperands(), body.getArguments())) {
    ReductionScale scale = getOperand(operand);
    changed |= set(argument, isNew ? scale : scale.join(get(argument)));
  }
  if (changed)
    visitBlocks(callee.getFunctionBody());
  for (auto [result, returned] :
       llvm::zip(call->getResults(), body.back().getOperands()))
    changed |= set(result, getOperand(returned));
  return changed;
}

/// Arguments of blocks, and results, are what the op takes, or what any
/// terminator inside passes.
bool ReductionScales::visitRegions(Operation *op) {
  bool changed = false;
  ReductionScale passed = ReductionScale::any();
  for (Value operand : op->getOperands())
    if (isFloat(operand))
      passed = passed.join(getOperand(operand));
  // Up from what an earlier visit found, so that this ends.
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Value argument : block.getArguments())
        if (isFloat(argument))
          passed = passed.join(get(argument));
  for (bool again = true; again; changed |= again) {
    again = false;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          if (isFloat(argument))
            again |= set(argument, passed);
    for (Region &region : op->getRegions())
      again |= visitBlocks(region);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (!block.empty())
          for (Value operand : block.back().getOperands())
            if (isFloat(operand))
              passed = passed.join(getOperand(operand));
  }
  for (Value result : op->getResults())
    if (isFloat(result))
      changed |= set(result, passed);
  return changed;
}

bool ReductionScales::visit(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  bool changed = false;
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op)) {
    // Its gradients are checked; what it hands on is as they are.
    for (OpOperand *gradient : optimizer.getGradientOperands())
      if (OpResult result = optimizer.getHandedOn(*gradient))
        changed |= set(result, getOperand(gradient->get()));
    return changed;
  }
  if (auto divide = dyn_cast<PredivideOp>(op)) {
    ReductionScale scale = getOperand(divide.getInput());
    for (const AxisShardings *along : shardings)
      if (llvm::is_contained(divide.getAxes(), Attribute(along->getAxis())))
        scale = scale.divided(countRanksAlong(op, divide.getMeshAttr(),
                                              along->getAxis().getValue()));
    return set(divide.getResult(), scale);
  }
  if (auto async = dyn_cast<AsyncOp>(op))
    return visitBlocks(async.getBody());
  if (auto await = dyn_cast<AwaitOp>(op)) {
    if (auto async = await.getFuture().getDefiningOp<AsyncOp>())
      for (auto [value, result] : llvm::zip(
               async.getBody().front().back().getOperands(), op->getResults()))
        changed |= set(result, get(value));
    return changed;
  }
  if (FunctionOpInterface callee = getFollowedCallee(op);
      callee && callee != function)
    return visitCall(op, callee);
  if (op->getNumRegions())
    return visitRegions(op);
  bool isAnyFloat = llvm::any_of(op->getResults(), isFloat);
  if (!isAnyFloat)
    return false;
  ReductionScale scale = getComputed(op);
  for (Value result : op->getResults())
    if (isFloat(result))
      changed |= set(result, scale);
  return changed;
}

bool ReductionScales::visitBlocks(Region &region) {
  bool changed = false;
  for (Block &block : region)
    for (Operation &op : block)
      changed |= visit(&op);
  return changed;
}
