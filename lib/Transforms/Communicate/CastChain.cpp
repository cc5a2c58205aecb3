//===- CastChain.cpp - casts with ops before the message ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds and rebuilds chains; linear in their length.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CastChain.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/CastInterfaces.h"

using namespace mlir;
using namespace mpcomm;

/// Whether `op` casts the elements of one tensor between float types.
static bool isFloatCast(Operation *op) {
  return isa_and_nonnull<CastOpInterface>(op) &&
         OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getOperand(0).getType()) &&
         isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType())) &&
         isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
}

unsigned mpcomm::getBits(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth();
}

Type CastChain::getFrom() const {
  return getElementTypeOrSelf(cast->getOperand(0));
}

Type CastChain::getTo() const {
  return getElementTypeOrSelf(cast->getResult(0));
}

/// What `op` multiplies or divides by, if that is one number.
static std::optional<Factor> getFactor(Operation *op) {
  if (!isa<arith::MulFOp, arith::DivFOp>(op))
    return std::nullopt;
  for (unsigned i : {1, 0}) {
    if (i == 0 && isa<arith::DivFOp>(op))
      break;
    Value operand = op->getOperand(i);
    DenseElementsAttr elements;
    if (matchPattern(operand, m_Constant(&elements)) && elements.isSplat())
      return Factor{op, i, elements.getSplatValue<Attribute>(), Value()};
    auto broadcast = operand.getDefiningOp<BroadcastInDimOp>();
    if (broadcast && broadcast.getDims().empty())
      return Factor{op, i, Attribute(), broadcast.getInput()};
  }
  return std::nullopt;
}

/// Whether `op` may be in a chain, and which of its operands goes on in it.
static std::optional<unsigned> getLink(Operation *op, FactorFilter mayPass) {
  if (isa<MovementOpInterface>(op))
    return 0;
  std::optional<Factor> factor = getFactor(op);
  if (!factor || !mayPass(*factor) || op->getOperand(0) == op->getOperand(1))
    return std::nullopt;
  return 1 - factor->operand;
}

std::optional<CastChain> mpcomm::findCastBefore(Value value,
                                                FactorFilter mayPass) {
  CastChain chain;
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (isFloatCast(op)) {
      chain.cast = op;
      return chain;
    }
    std::optional<unsigned> next =
        op && value.hasOneUse() ? getLink(op, mayPass) : std::nullopt;
    if (!next)
      return std::nullopt;
    chain.between.push_back(op);
    value = op->getOperand(*next);
  }
}

std::optional<CastChain> mpcomm::findCastAfter(OpOperand &use,
                                               FactorFilter mayPass) {
  CastChain chain;
  for (OpOperand *at = &use;;) {
    Operation *op = at->getOwner();
    if (isFloatCast(op)) {
      chain.cast = op;
      return chain;
    }
    std::optional<unsigned> link = getLink(op, mayPass);
    if (link != at->getOperandNumber() || !op->getResult(0).hasOneUse())
      return std::nullopt;
    chain.between.push_back(op);
    at = &*op->getResult(0).use_begin();
  }
}

Value mpcomm::rebuild(OpBuilder &builder, ArrayRef<Operation *> ops,
                      ChainOps which, Value value) {
  for (Operation *op : ops) {
    if (isa<MovementOpInterface>(op) != (which == ChainOps::Moves))
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    IRMapping operands;
    if (which == ChainOps::Moves) {
      operands.map(op->getOperand(0), value);
      type = cast<RankedTensorType>(op->getResult(0).getType())
                 .clone(type.getElementType());
    } else {
      Factor factor = *getFactor(op);
      Value number = factor.splat
                         ? Value(arith::ConstantOp::create(
                               builder, op->getLoc(),
                               DenseElementsAttr::get(type, factor.splat)))
                         : Value(BroadcastInDimOp::create(builder, op->getLoc(),
                                                          type, factor.scalar,
                                                          ArrayRef<int64_t>()));
      operands.map(op->getOperand(factor.operand), number);
      operands.map(op->getOperand(1 - factor.operand), value);
    }
    Operation *clone = builder.clone(*op, operands);
    clone->getResult(0).setType(type);
    value = clone->getResult(0);
  }
  return value;
}

Value mpcomm::rebuildCast(OpBuilder &builder, const CastChain &chain,
                          Value value) {
  IRMapping operands;
  operands.map(chain.cast->getOperand(0), value);
  Operation *clone = builder.clone(*chain.cast, operands);
  clone->getResult(0).setType(
      cast<RankedTensorType>(value.getType()).clone(chain.getTo()));
  return clone->getResult(0);
}

void mpcomm::eraseUnused(ArrayRef<Operation *> ops,
                         llvm::function_ref<void(Operation *)> willErase) {
  for (Operation *op : ops) {
    if (!op->use_empty())
      return;
    if (willErase)
      willErase(op);
    op->erase();
  }
}
