//===- SinkUpdates.cpp - updates after the backward pass ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stable sort of each block, between ops that fix an order: what needs no
// collective's result comes first, then what needs that of the first collective
// and of none after it, and so on; last, what only moves a value for the
// terminator, so that no bucket has to end before it. `late` holds the
// collectives seen and all that depends on them, with the number of the last
// collective; invariant: an op has no smaller number than one that it depends
// on.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include <limits>
#include <map>

namespace mpcomm {
#define GEN_PASS_DEF_SINKUPDATESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-sink-updates"

using namespace mlir;
using namespace mpcomm;

/// The last collective of `late` that `op`, or an op in its regions, depends
/// on; 0: none.
static int64_t getLast(Operation *op,
                       const llvm::DenseMap<Operation *, int64_t> &late) {
  int64_t last = 0;
  auto visit = [&](Operation *user) {
    for (Value operand : user->getOperands())
      last = std::max(last, late.lookup(operand.getDefiningOp()));
  };
  if (op->getNumRegions() == 0)
    visit(op);
  else
    op->walk(visit);
  return last;
}

/// Sinks within `block` and the blocks in it; returns the number of ops that
/// others now precede.
static int64_t sinkUpdates(Block &block) {
  llvm::DenseMap<Operation *, int64_t> late;
  SmallVector<std::pair<int64_t, Operation *>> dependents;
  size_t after = 0; // dependents that were before an op of the first part
  int64_t moved = 0, collectives = 0;

  auto moveBefore = [&](Block::iterator end) {
    auto isLess = [](const auto &a, const auto &b) {
      return a.first < b.first;
    };
    if (after || !llvm::is_sorted(dependents, isLess)) {
      std::map<int64_t, SmallVector<Operation *>> byNumber;
      size_t resorted = 0; // that have one of a smaller number behind them
      int64_t least = std::numeric_limits<int64_t>::max();
      for (auto [number, op] : llvm::reverse(dependents)) {
        resorted += number > least;
        least = std::min(least, number);
      }
      for (auto [number, op] : dependents)
        byNumber[number].push_back(op);
      for (auto &[number, ops] : byNumber)
        for (Operation *op : ops)
          op->moveBefore(&block, end);
      after = std::max(after, resorted);
    }
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
    if (int64_t last = late.empty() ? 0 : getLast(op, late)) {
      if (isMovedOnce(op) && !getReader(op))
        last = std::numeric_limits<int64_t>::max();
      late[op] = last;
      dependents.push_back({last, op});
      continue;
    }
    // Computation with what is gathered is no update.
    if (isMovableCollective(op) && !isMovableGather(op))
      late[op] = ++collectives;
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
