//===- Linearity.cpp - what a factor does to an op ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Whether all float operands count together.
static bool isJoint(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getReduction() != Reduction::Prod;
  if (isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::SelectOp,
          arith::ExtFOp, arith::TruncFOp, arith::MaximumFOp, arith::MinimumFOp,
          arith::MaxNumFOp, arith::MinNumFOp, math::AbsFOp, EmbeddingOp>(op))
    return true;
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return isa_and_nonnull<MPCommDialect>(op->getDialect()) && precision &&
         precision.getPrecisionClass() == PrecisionClass::Any;
}

Linearity mpcomm::getLinearity(Operation *op) {
  Linearity linearity;
  auto add = [&](OpOperand &operand) {
    linearity.operands.push_back(&operand);
  };
  if (op->getNumOperands() == 0)
    return linearity;
  if (isa_and_nonnull<MPCommDialect>(op->getDialect()) &&
      op->getName().stripDialect().ends_with("_grad")) {
    linearity.kind = Linearity::Each;
    linearity.gradient = &op->getOpOperand(0);
    add(op->getOpOperand(0));
  } else if (isa<arith::DivFOp>(op)) {
    linearity.kind = Linearity::Each;
    add(op->getOpOperand(0));
  } else if (isa<arith::MulFOp, DotGeneralOp>(op)) {
    linearity.kind = Linearity::Each;
    for (OpOperand &operand : op->getOpOperands())
      add(operand);
  } else if (isJoint(op)) {
    linearity.kind = Linearity::Joint;
    for (OpOperand &operand : op->getOpOperands())
      if (isFloat(operand.get()))
        add(operand);
  }
  return linearity;
}

int Degrees::get(Value value) const {
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  bool isZero = matchPattern(value, m_AnyZeroFloat());
  return isZero ? kAny : 0;
}

void Degrees::propagate(Operation *op) {
  Linearity linearity = getLinearity(op);
  // A sum of nothing but zeros; choices among integers are none.
  bool together = linearity.kind == Linearity::Joint;
  int degree = together && !linearity.operands.empty() ? kAny : 0;
  for (OpOperand &operand : op->getOpOperands()) {
    int own = get(operand.get());
    bool isListed = llvm::is_contained(linearity.operands, &operand);
    if (own == kUnknown || degree == kUnknown) {
      degree = kUnknown;
    } else if (!isListed) {
      // A zero is as good as any other number there.
      if (own > 0)
        degree = kUnknown;
    } else if (together) {
      if (degree == kAny)
        degree = own;
      else if (own != kAny && own != degree)
        degree = kUnknown;
    } else {
      degree = degree == kAny || own == kAny ? kAny : degree + own;
    }
  }
  if (degree == 0)
    return;
  for (Value result : op->getResults())
    set(result, isFloat(result) ? degree : kUnknown);
}
