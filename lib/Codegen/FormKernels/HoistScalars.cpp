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
  auto isKnown = [&](Value value) {
    return value.getParentBlock() == op.getBody() || isEarly(value);
  };
  auto body = op.getBody()->without_terminator();
  Operation *last =
      op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  return llvm::all_of(op.getInputs(), isEarly) &&
         llvm::all_of(body,
                      [&](Operation &inner) {
                        return isa<arith::DivFOp>(inner) &&
                               llvm::all_of(inner.getOperands(), isKnown);
                      }) &&
         last && last->getBlock() == op.getBody();
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
  // One alone, as of loss scaling, joins the kernel that reads it.
  if (quotients.size() < 2)
    return;
  for (linalg::GenericOp op : quotients) {
    if (&*first == op) {
      ++first;
      continue;
    }
    op->moveBefore(&*first);
    OpBuilder builder(op);
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    op.getOutputsMutable()[0].assign(tensor::EmptyOp::create(
        builder, op.getLoc(), type.getShape(), type.getElementType()));
  }
}
