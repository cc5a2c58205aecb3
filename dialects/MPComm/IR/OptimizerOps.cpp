//===- OptimizerOps.cpp - optimizer updates -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
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
