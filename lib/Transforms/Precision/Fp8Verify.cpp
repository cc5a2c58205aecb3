//===- Fp8Verify.cpp - 8 bits have scales ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// E4M3 reaches from 2^-9 to 448, E5M2 from 2^-16 to 57344: a tensor that nobody
// has scaled into that range loses its small elements or clips its large ones
// in silence. So a product whose operand was cast as it is, is an error.
//
//===----------------------------------------------------------------------===//

#include "Precision/Fp8Rewriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpcomm;

static bool is8Bits(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
}

/// Whether `value` is a product or quotient, clamped or not.
static bool isScaled(Value value) {
  Operation *op = value.getDefiningOp();
  while (
      isa_and_nonnull<arith::MinimumFOp, arith::MaximumFOp, arith::MinNumFOp,
                      arith::MaxNumFOp, arith::TruncFOp, arith::ExtFOp>(op) ||
      getMoved(op)) {
    Operation *clamped = op->getOperand(0).getDefiningOp();
    // The bound may be on the left.
    if (op->getNumOperands() == 2 &&
        (!clamped || clamped->hasTrait<OpTrait::ConstantLike>()))
      clamped = op->getOperand(1).getDefiningOp();
    op = clamped;
  }
  return isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op);
}

/// Whether `value`, which a product reads, is of 8 bits, or widened from them,
/// without a scale.
static bool lacksScale(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (is8Bits(value) && isa<arith::TruncFOp>(op))
      return !isScaled(op->getOperand(0));
    if (!getMoved(op) && !isa<arith::ExtFOp>(op))
      return is8Bits(value);
    value = op->getOperand(0);
  }
  return is8Bits(value);
}

LogicalResult mpcomm::verifyScaled(func::FuncOp step) {
  WalkResult result = step.walk([&](Operation *op) {
    auto model = dyn_cast<PrecisionOpInterface>(op);
    if (!model || model.getPrecisionClass() != PrecisionClass::LowerPrecision)
      return WalkResult::advance();
    for (OpOperand &use : op->getOpOperands()) {
      if (!lacksScale(use.get()))
        continue;
      op->emitOpError() << "reads 8 bits, operand #" << use.getOperandNumber()
                        << ", that have no scale, expected them cast from a "
                        << "product with a scale, or policy fp8";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
