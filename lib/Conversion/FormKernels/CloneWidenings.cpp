//===- CloneWidenings.cpp - casts to f32 where they are read --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value that is stored in 16 bits is widened in registers by whoever reads
// it: it costs no pass over memory, where one widening for several kernels
// would be written out in f32 for all but one of them.
//
//===----------------------------------------------------------------------===//

#include "CloneWidenings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

/// Whether `op` widens the elements of one tensor and does nothing else.
static bool isWidening(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op.getNumDpsInits() != 1 ||
      op.getNumReductionLoops() != 0 || !op.hasPureTensorSemantics())
    return false;
  Block *body = op.getBlock();
  auto widen = dyn_cast<arith::ExtFOp>(body->front());
  return widen && body->getOperations().size() == 2 &&
         widen.getIn() == body->getArgument(0) &&
         body->getTerminator()->getOperand(0) == widen.getOut();
}

void mpcomm::cloneWidenings(Block &block) {
  SmallVector<linalg::GenericOp> widenings;
  for (auto op : block.getOps<linalg::GenericOp>())
    if (isWidening(op))
      widenings.push_back(op);
  // From the last on: one may read another.
  for (linalg::GenericOp op : llvm::reverse(widenings)) {
    llvm::SmallSetVector<Operation *, 4> readers;
    for (Operation *user : op->getUsers())
      if (user->getBlock() == &block && isa<LinalgOp>(user) &&
          !isa<linalg::ContractionOpInterface>(user))
        readers.insert(user);
    // One reader may have the original if nobody else does.
    bool hasOthers = llvm::any_of(op->getUsers(), [&](Operation *user) {
      return !readers.contains(user);
    });
    for (Operation *reader : readers.getArrayRef().drop_front(
             hasOthers || readers.empty() ? 0 : 1)) {
      OpBuilder builder(reader);
      Operation *own = builder.clone(*op);
      op->getResult(0).replaceUsesWithIf(
          own->getResult(0),
          [&](OpOperand &use) { return use.getOwner() == reader; });
    }
  }
}
