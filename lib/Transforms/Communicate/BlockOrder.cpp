//===- BlockOrder.cpp - positions of the ops of a block -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers the ops of a block once.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockOrder.h"

using namespace mlir;
using namespace mpcomm;

BlockOrder::BlockOrder(Block &block) : block(block) {
  for (Operation &op : block) {
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
}

unsigned BlockOrder::getPosition(Operation *op) const {
  Operation *ancestor = block.findAncestorOpInBlock(*op);
  if (!ancestor)
    return size();
  auto it = positions.find(ancestor);
  return it == positions.end() ? size() : it->second;
}

unsigned BlockOrder::getFirstUse(Operation *op) const {
  unsigned first = size();
  for (Operation *user : op->getUsers())
    first = std::min(first, getPosition(user));
  return first;
}
