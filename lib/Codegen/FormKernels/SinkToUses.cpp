//===- SinkToUses.cpp - ops to where they are needed ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/SinkToUses.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

void mpcomm::sinkToUses(Block &block,
                        llvm::function_ref<bool(Operation *)> isMovable) {
  llvm::DenseMap<Operation *, size_t> place; // before which of the others
  SmallVector<Operation *> movable, others;
  for (Operation &op : block) {
    if (isMovable(&op)) {
      movable.push_back(&op);
      continue;
    }
    place[&op] = others.size();
    others.push_back(&op);
  }
  for (Operation *op : llvm::reverse(movable)) {
    size_t first = others.size() - 1; // the terminator, before other blocks
    for (Operation *user : op->getUsers())
      if (Operation *at = block.findAncestorOpInBlock(*user))
        first = std::min(first, place.lookup(at));
    place[op] = first;
  }
  for (Operation *op : movable)
    op->moveBefore(others[place.lookup(op)]);
}
