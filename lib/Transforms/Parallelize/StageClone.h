//===- StageClone.h - ops of a step in another function ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies ops with whatever they need that has no copy yet: what is repeated
// comes along.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_STAGECLONE_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_STAGECLONE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mpcomm {

/// The copy of `op` at the builder's place, after copies of the ops that it
/// depends on and that `mapping` does not know. Arguments that it depends on
/// are known.
inline mlir::Operation *cloneWithOperands(mlir::OpBuilder &builder,
                                          mlir::Operation *op,
                                          mlir::IRMapping &mapping) {
  // Depth first, without recursion: chains of ops are long.
  llvm::SmallVector<mlir::Operation *> stack{op};
  mlir::Operation *copy = nullptr;
  while (!stack.empty()) {
    mlir::Operation *next = stack.back();
    size_t depth = stack.size();
    next->walk([&](mlir::Operation *nested) {
      for (mlir::Value operand : nested->getOperands())
        if (operand.getParentBlock() == next->getBlock() &&
            !mapping.contains(operand) && operand.getDefiningOp())
          stack.push_back(operand.getDefiningOp());
    });
    if (stack.size() != depth)
      continue;
    stack.pop_back();
    bool isKnown = next != op && next->getNumResults() &&
                   mapping.contains(next->getResult(0));
    if (!isKnown)
      copy = builder.clone(*next, mapping);
  }
  return copy;
}

/// The copy of `value`.
inline mlir::Value cloneValue(mlir::OpBuilder &builder, mlir::Value value,
                              mlir::IRMapping &mapping) {
  if (mlir::Value known = mapping.lookupOrNull(value))
    return known;
  cloneWithOperands(builder, value.getDefiningOp(), mapping);
  return mapping.lookup(value);
}

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_STAGECLONE_H
