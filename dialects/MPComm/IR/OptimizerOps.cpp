//===- OptimizerOps.cpp - optimizer updates -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

/// C1 of both: every one of `values` has the parameter's type.
static LogicalResult checkLikeParam(std::optional<Location> location,
                                    StringRef op, Value param,
                                    ValueRange values) {
  for (Value value : values)
    if (value && value.getType() != param.getType())
      return inferError(location, op, "expects the parameter's type ",
                        param.getType(), ", got ", value.getType());
  return success();
}

LogicalResult SgdUpdateOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  Value buffer = adaptor.getMomentumBuffer();
  if (failed(checkLikeParam(location, "sgd_update", adaptor.getParam(),
                            {adaptor.getGrad(), buffer}))) // sgd_update C1
    return failure();
  bool momentum = adaptor.getMomentumAttr() != nullptr;
  if (momentum != bool(buffer) ||
      (adaptor.getNesterov() && !momentum)) // sgd_update C2
    return inferError(location, "sgd_update",
                      "expects 'momentum' exactly with a momentum buffer, and "
                      "'nesterov' only with both");
  types.push_back(adaptor.getParam().getType());
  if (buffer)
    types.push_back(buffer.getType());
  return success();
}

SmallVector<OpOperand *> SgdUpdateOp::getGradientOperands() {
  return {&getGradMutable()};
}

LogicalResult AdamwUpdateOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (failed(checkLikeParam(location, "adamw_update", adaptor.getParam(),
                            {adaptor.getGrad(), adaptor.getExpAvg(),
                             adaptor.getExpAvgSq()}))) // adamw_update C1
    return failure();
  types.assign(3, adaptor.getParam().getType());
  return success();
}

SmallVector<OpOperand *> AdamwUpdateOp::getGradientOperands() {
  return {&getGradMutable()};
}

SmallVector<OpOperand *> UpdateOp::getGradientOperands() {
  return {&getGradMutable()};
}

/// C4: what any number of ranks may run at any place in the update phase.
static LogicalResult verifyInUpdate(Operation &op) {
  if (op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
      !isa<CollectiveOpInterface, RankDependentOpInterface,
           OptimizerOpInterface>(op))
    return success();
  InFlightDiagnostic diag =
      op.getParentOp()->emitOpError()
      << "expects pure ops without regions that neither communicate nor depend "
         "on the rank nor update, got '"
      << op.getName() << "'";
  diag.attachNote(op.getLoc()) << "the op is here";
  return diag;
}

LogicalResult UpdateOp::verifyRegions() {
  if (getGrad().getType() != getParam().getType()) // update C1
    return emitOpError() << "expects the parameter's type "
                         << getParam().getType() << " for 'grad', got "
                         << getGrad().getType();
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getOperandTypes()) // update C2
    return emitOpError() << "expects arguments of the region of types "
                         << getOperandTypes() << ", got "
                         << block.getArgumentTypes();
  SmallVector<Type> expected{getParam().getType()};
  size_t states = std::min(getNewStates().size(), getInputs().size());
  llvm::append_range(expected, getInputs().take_front(states).getTypes());
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || getResultTypes() != TypeRange(expected) ||
      yield.getOperandTypes() != getResultTypes()) // update C3
    return emitOpError() << "expects to return and to yield the types of the "
                            "parameter and of the states, "
                         << TypeRange(expected) << ", got " << getResultTypes()
                         << " and "
                         << (yield ? TypeRange(yield.getOperandTypes())
                                   : TypeRange());
  for (Operation &op : block.without_terminator())
    if (failed(verifyInUpdate(op))) // update C4
      return failure();
  return success();
}

bool UpdateOp::isElementwise() {
  auto isScalar = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 0;
  };
  auto hasShape = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getShape() ==
                       cast<RankedTensorType>(getParam().getType()).getShape();
  };
  auto fits = [&](Value value) { return isScalar(value) || hasShape(value); };
  Block &block = getBody().front();
  if (!llvm::all_of(block.getArguments(), fits))
    return false;
  for (Operation &op : block.without_terminator()) {
    if (!llvm::all_of(op.getResults(), fits))
      return false;
    DenseElementsAttr constant;
    if (matchPattern(&op, m_Constant(&constant))) {
      if (!constant.isSplat())
        return false;
      continue;
    }
    bool isSpread = isa<BroadcastInDimOp>(op) && isScalar(op.getOperand(0));
    if (!isSpread && !OpTrait::hasElementwiseMappableTraits(&op))
      return false;
  }
  return true;
}
