//===- HoistScalars.cpp - reciprocals of a step's scalars -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/HoistScalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

/// Whether `op` divides scalars that are there before `first`.
static bool isEarlyQuotient(linalg::GenericOp op, Operation *first) {
  if (op.getNumLoops() != 0 || op.getNumResults() != 1 ||
      !op.getOutputs().front().getDefiningOp<tensor::EmptyOp>())
    return false;
  auto isEarly = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    return maker ? maker->getBlock() == op->getBlock() &&
                       maker->isBeforeInBlock(first)
                 : cast<BlockArgument>(value).getOwner() == op->getBlock();
  };
  return llvm::all_of(op.getInputs(), isEarly) &&
         llvm::all_of(
             op.getBody()->without_terminator(), [&](Operation &inner) {
               return isa<arith::DivFOp>(inner) &&
                      llvm::all_of(inner.getOperands(), [&](Value value) {
                        return value.getParentBlock() == op.getBody() ||
                               isEarly(value);
                      });
             });
}

void mpcomm::hoistScalars(Block &block) {
  // Constants stand first.
  auto first = llvm::find_if_not(block, [](Operation &op) {
    return op.hasTrait<OpTrait::ConstantLike>();
  });
  if (first == block.end())
    return;
  SmallVector<linalg::GenericOp> quotients;
  for (auto op : block.getOps<linalg::GenericOp>())
    if (isEarlyQuotient(op, &*first))
      quotients.push_back(op);
  for (linalg::GenericOp op : llvm::reverse(quotients)) {
    if (&*first != op)
      op->moveBefore(&*first);
    first = op->getIterator();
    Operation *empty = op.getOutputs().front().getDefiningOp();
    empty->moveBefore(op);
    first = empty->getIterator();
  }
}
