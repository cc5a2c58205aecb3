//===- Linearity.cpp - the powers of a factor that values carry -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

Linearity mpcomm::getLinearity(Operation *op) {
  auto linear = dyn_cast<LinearOpInterface>(op);
  return linear ? linear.getLinearity() : Linearity();
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
    if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
      set(result, degree);
    else if (!together || degree == kUnknown)
      set(result, kUnknown); // else not multiplied, so unchanged
}
