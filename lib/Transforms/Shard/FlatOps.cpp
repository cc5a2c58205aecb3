//===- FlatOps.cpp - ops that can work on flat parts ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/FlatOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

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

/// Whether an op works on other sizes if its types have them; of a slice the
/// limits are to be changed, too.
static bool isSizedByTypes(Operation &op) {
  StringRef dialect = op.getName().getDialectNamespace();
  return (dialect == "arith" || dialect == "math" || dialect == "mpcomm") &&
         !isa<SymbolUserOpInterface>(op) && op.getNumRegions() == 0;
}

/// The first dimension of the parameter, and of all that is split with it. Each
/// rank has two rows at least, so that they are not taken for no dimension.
static std::optional<ShardingFactor> findRows(Operation *op, int64_t ranks) {
  if (!isa<OptimizerOpInterface>(op) || op->getNumRegions() == 0)
    return std::nullopt;
  if (!llvm::all_of(op->getRegion(0).front(), isSizedByTypes))
    return std::nullopt;
  std::optional<ShardingRule> rule = getShardingRule(op);
  const ShardingFactor *rows = rule ? rule->findOfOperand(0, 0) : nullptr;
  auto isFirst = [](int64_t dim) { return dim <= 0; };
  if (!rows || !llvm::all_of(rows->operands, isFirst) ||
      !llvm::all_of(rows->results, isFirst) || rows->size % ranks != 0 ||
      rows->size == ranks)
    return std::nullopt;
  return *rows;
}

ShardingFactor mpcomm::getRows(Operation *op) { return *findRows(op, 1); }

std::optional<Reduction> mpcomm::findExtremum(Operation *op, int64_t ranks) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      op->getNumRegions() != 0 || !isMemoryEffectFree(op) ||
      !getShape(op->getResult(0)).empty())
    return std::nullopt;
  // What a part is filled up with would count; 8 bits are not reduced.
  ArrayRef<int64_t> shape = getShape(op->getOperand(0));
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(op->getOperand(0)));
  if (shape.empty() || ShapedType::getNumElements(shape) % ranks != 0 ||
      !element || element.getWidth() < 16)
    return std::nullopt;
  std::optional<ShardingRule> rule = getShardingRule(op);
  std::optional<Reduction> found;
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    const ShardingFactor *factor = rule ? rule->findOfOperand(0, dim) : nullptr;
    bool isExtremum = factor && (factor->reduction == Reduction::Max ||
                                 factor->reduction == Reduction::Min);
    if (!isExtremum || (found && found != factor->reduction))
      return std::nullopt;
    found = factor->reduction;
  }
  return found;
}

bool mpcomm::isOfGradients(Operation *op) {
  return isa<UnscaleOp, SquaredNormOp, ClipByGlobalNormOp>(op);
}

FlatKind mpcomm::getFlatKind(Operation *op, int64_t ranks) {
  if (isOfGradients(op))
    return FlatKind::PerGradient;
  if (op->getNumResults() == 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return FlatKind::None;
  if (findExtremum(op, ranks))
    return FlatKind::Extremum;
  if (isa<GradientOp>(op))
    return FlatKind::Elementwise;
  if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
    return optimizer.isElementwise() ? FlatKind::Elementwise
           : findRows(op, ranks)     ? FlatKind::Rows
                                     : FlatKind::None;
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

bool mpcomm::isSplitIn(Operation *op, Value value, int64_t ranks) {
  if (getShape(value).empty())
    return false;
  switch (getFlatKind(op, ranks)) {
  case FlatKind::Elementwise:
    return getShape(value) == getWorkShape(op);
  case FlatKind::Rows: {
    ShardingFactor rows = getRows(op);
    auto isRows = [&](auto values, ArrayRef<int64_t> dims) {
      return llvm::any_of(llvm::zip(values, dims), [&](auto pair) {
        return std::get<0>(pair) == value && std::get<1>(pair) == 0;
      });
    };
    return isRows(op->getOperands(), rows.operands) ||
           isRows(op->getResults(), rows.results);
  }
  case FlatKind::PerGradient:
    return llvm::any_of(getGradients(op), [&](OpOperand *gradient) {
      return gradient->get() == value || findHandedOn(*gradient) == value;
    });
  case FlatKind::Extremum:
    return value == op->getOperand(0);
  case FlatKind::None:
    return false;
  }
  return false;
}

bool mpcomm::isUniform(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>())
    return getShape(broadcast.getInput()).empty();
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat();
}
