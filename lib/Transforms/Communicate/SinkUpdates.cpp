//===- SinkUpdates.cpp - updates after the backward pass ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stable partition of each block, between ops that fix an order: what needs
// no collective's result comes first. `late` holds the collectives seen and all
// that depends on them; invariant: an op that is not in it has no operand from
// it, so that it may run before.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace mpcomm {
#define GEN_PASS_DEF_SINKUPDATESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-sink-updates"

using namespace mlir;
using namespace mpcomm;

/// Whether `op`, or an op in its regions, uses a result of an op in `late`.
static bool uses(Operation *op, const llvm::DenseSet<Operation *> &late) {
  auto usesIt = [&](Operation *user) {
    return llvm::any_of(user->getOperands(), [&](Value operand) {
      return late.contains(operand.getDefiningOp());
    });
  };
  if (op->getNumRegions() == 0)
    return usesIt(op);
  return op
      ->walk([&](Operation *inner) {
        return usesIt(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Sinks within `block` and the blocks in it; returns the number of ops that
/// others now precede.
static int64_t sinkUpdates(Block &block) {
  llvm::DenseSet<Operation *> late;
  SmallVector<Operation *> dependents;
  size_t after = 0; // dependents that were before an op of the first part
  int64_t moved = 0;

  auto moveBefore = [&](Block::iterator end) {
    if (after)
      for (Operation *op : dependents)
        op->moveBefore(&block, end);
    moved += after;
    late.clear();
    dependents.clear();
    after = 0;
  };
  for (auto it = block.begin(), end = block.end(); it != end;) {
    Operation *op = &*it;
    if (!getCollective(op))
      for (Region &region : op->getRegions())
        for (Block &inner : region)
          moved += sinkUpdates(inner);
    if (isOrderingPoint(op) || op->hasTrait<OpTrait::IsTerminator>()) {
      moveBefore(it);
      ++it;
      continue;
    }
    ++it;
    if (!late.empty() && uses(op, late)) {
      late.insert(op);
      dependents.push_back(op);
      continue;
    }
    // Computation with what is gathered is no update.
    if (isMovableCollective(op) && !isMovableGather(op))
      late.insert(op);
    after = dependents.size();
  }
  moveBefore(block.end());
  return moved;
}

namespace {
struct SinkUpdates : mpcomm::impl::SinkUpdatesPassBase<SinkUpdates> {
  using SinkUpdatesPassBase::SinkUpdatesPassBase;

  void runOnOperation() override {
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      int64_t moved = 0;
      for (Block &block : function.getFunctionBody())
        moved += sinkUpdates(block);
      remark::analysis(function.getLoc(),
                       remark::RemarkOpts::name("SinkUpdates")
                           .category(DEBUG_TYPE)
                           .function(function.getName()))
          << remark::metric("moved", moved);
      changed |= moved > 0;
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
