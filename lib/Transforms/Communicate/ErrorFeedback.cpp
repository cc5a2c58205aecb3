//===- ErrorFeedback.cpp - what compression loses of gradients ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/ErrorFeedback.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

/// Sets `scale` to what gradients of the function are unscaled by, null for
/// none and for 1, which only has them checked. Fails, with an error, for one
/// that is computed, or another one than before.
static LogicalResult findScale(FunctionOpInterface function, Value &scale) {
  WalkResult result = function.walk([&](UnscaleOp op) {
    DenseElementsAttr constant;
    bool isConstant = matchPattern(op.getScale(), m_Constant(&constant));
    if (!isConstant && !isa<BlockArgument>(op.getScale())) {
      op.emitOpError("has a scale that is computed, expected an argument or a "
                     "constant, by which what is lost is kept");
      return WalkResult::interrupt();
    }
    if (isConstant && constant.getSplatValue<APFloat>().isExactlyValue(1))
      return WalkResult::advance();
    if (scale && scale != op.getScale()) {
      op.emitOpError("has another scale than an op before, expected one, by "
                     "which what is lost is kept");
      return WalkResult::interrupt();
    }
    scale = op.getScale();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

FailureOr<SmallVector<BlockArgument>>
ErrorFeedback::add(CollectiveOpInterface op) {
  SmallVector<BlockArgument> residuals;
  auto function = dyn_cast<FunctionOpInterface>(op->getParentOp());
  if (!function)
    return residuals;
  OfFunction &own = functions[function];
  if (!own.state) {
    if (failed(findScale(function, own.scale)))
      return failure();
    own.state = std::make_shared<GradientState>(function);
    function.walk([&](UpdateLossScaleOp update) {
      OpBuilder atEnd(function.getFunctionBody().front().getTerminator());
      Value found = update.getFound();
      auto type = cast<RankedTensorType>(found.getType());
      Attribute zero = atEnd.getZeroAttr(type.getElementType());
      own.isSkipped = arith::CmpFOp::create(
          atEnd, update.getLoc(), arith::CmpFPredicate::OGT, found,
          arith::ConstantOp::create(atEnd, update.getLoc(),
                                    DenseElementsAttr::get(type, zero)));
    });
  }
  for (auto [input, output] : llvm::zip(op->getOperands(), op->getResults())) {
    BlockArgument parameter = findParameterOf(output);
    residuals.push_back({});
    auto whole = parameter ? dyn_cast<RankedTensorType>(getGlobalArgumentType(
                                 function, parameter.getArgNumber()))
                           : RankedTensorType();
    if (!whole || whole.getNumElements() >
                      mpcomm::detail::countElements(input.getType())) {
      remark::missed(op.getLoc(), remark::RemarkOpts::name("NoFeedback")
                                      .category(pass)
                                      .function(function.getName()))
          << remark::reason("an operand is not the whole gradient of a "
                            "parameter");
      continue;
    }
    FailureOr<BlockArgument> added =
        own.state->add(parameter, suffix, whole.getShape(), op.getMeshAttr(),
                       op.getAxesAttr());
    if (failed(added))
      return failure();
    residuals.back() = *added;
  }
  return residuals;
}

const ErrorFeedback::OfFunction &ErrorFeedback::get(BlockArgument state) const {
  return functions.find(state.getOwner()->getParentOp())->second;
}

FailureOr<BlockArgument> ErrorFeedback::addBeside(BlockArgument residual,
                                                  CollectiveOpInterface op,
                                                  StringRef name,
                                                  ArrayRef<int64_t> shape) {
  return get(residual).state->add(name, shape, op.getMeshAttr(),
                                  op.getAxesAttr());
}

/// The scale for all elements of `type`; a constant may stand further below.
static Value broadcastScale(OpBuilder &builder, Location loc, Value scale,
                            RankedTensorType type) {
  if (Operation *constant = scale.getDefiningOp())
    scale = builder.clone(*constant)->getResult(0);
  return broadcastScalar(builder, loc, scale, type);
}

Value ErrorFeedback::getKept(OpBuilder &builder, BlockArgument residual) const {
  Value scale = get(residual).scale;
  if (!scale)
    return residual;
  Location loc = residual.getLoc();
  auto type = cast<RankedTensorType>(residual.getType());
  return arith::MulFOp::create(builder, loc, residual,
                               broadcastScale(builder, loc, scale, type));
}

void ErrorFeedback::setLost(OpBuilder &builder, BlockArgument residual,
                            Value lost) {
  Location loc = residual.getLoc();
  auto type = cast<RankedTensorType>(residual.getType());
  if (Value scale = get(residual).scale)
    lost = arith::DivFOp::create(builder, loc, lost,
                                 broadcastScale(builder, loc, scale, type));
  setNext(residual, lost);
}

void ErrorFeedback::setNext(BlockArgument state, Value value) {
  const OfFunction &own = get(state);
  if (own.isSkipped) {
    OpBuilder atEnd(state.getOwner()->getTerminator());
    Location loc = state.getLoc();
    auto type = cast<RankedTensorType>(state.getType());
    value = arith::SelectOp::create(
        atEnd, loc, broadcastScalar(atEnd, loc, own.isSkipped, type), state,
        value);
  }
  own.state->setNext(state, value);
}

void ErrorFeedback::apply() {
  for (auto &[function, own] : functions)
    own.state->apply();
}
