//===- FlatOps.cpp - ops that can work on flat parts ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/FlatOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpcomm;

static ArrayRef<int64_t> getShape(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : ArrayRef<int64_t>();
}

/// The shape of what `op`, which is elementwise, works on.
static ArrayRef<int64_t> getWorkShape(Operation *op) {
  return getShape(op->getResult(0));
}

FlatKind mpcomm::getFlatKind(Operation *op) {
  if (isa<UnscaleOp, SquaredNormOp, ClipByGlobalNormOp>(op))
    return FlatKind::PerGradient;
  if (op->getNumResults() == 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return FlatKind::None;
  if (isa<GradientOp>(op))
    return FlatKind::Elementwise;
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
    return optimizer.isElementwise() ? FlatKind::Elementwise : FlatKind::None;
  bool isOne = op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
               OpTrait::hasElementwiseMappableTraits(op) &&
               llvm::all_of(op->getOperands(), [&](Value operand) {
                 return getShape(operand) == getWorkShape(op);
               });
  return isOne ? FlatKind::Elementwise : FlatKind::None;
}

SmallVector<OpOperand *> mpcomm::getGradients(Operation *op) {
  return cast<OptimizerOpInterface>(op).getGradientOperands();
}

OpResult mpcomm::findHandedOn(OpOperand &gradient) {
  return cast<OptimizerOpInterface>(gradient.getOwner()).getHandedOn(gradient);
}

bool mpcomm::isSplitIn(Operation *op, Value value) {
  if (getShape(value).empty())
    return false;
  if (getFlatKind(op) == FlatKind::Elementwise)
    return getShape(value) == getWorkShape(op);
  return llvm::any_of(getGradients(op), [&](OpOperand *gradient) {
    return gradient->get() == value || findHandedOn(*gradient) == value;
  });
}

bool mpcomm::isUniform(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>())
    return getShape(broadcast.getInput()).empty();
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat();
}
