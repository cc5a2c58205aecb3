//===- SimplifyCollectives.cpp - the walk over collectives ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In program order, then the dead ones; the rewrites are in
// SimplifyReductions.cpp and SimplifyExchanges.cpp.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"
#include "Communicate/Communicator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mpcomm {
#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-simplify-collectives"

using namespace mlir;
using namespace mpcomm;

unsigned CollectiveSimplifier::SameOp::getHashValue(Operation *op) {
  return OperationEquivalence::computeHash(
      op, OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
}

bool CollectiveSimplifier::SameOp::isEqual(Operation *a, Operation *b) {
  if (a == b)
    return true;
  if (a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
      b == getTombstoneKey())
    return false;
  return a->getBlock() == b->getBlock() &&
         OperationEquivalence::isEquivalentTo(
             a, b, OperationEquivalence::exactValueMatch,
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

void CollectiveSimplifier::passed(Operation *op, StringRef name,
                                  Numerics needed) {
  changed = true;
  remark::passed(op->getLoc(), remark::RemarkOpts::name(name)
                                   .category(DEBUG_TYPE)
                                   .function(function.getName()))
      << remark::reason("{0}",
                        needed == Numerics::Exact ? "exact" : "reassociating");
}

void CollectiveSimplifier::replace(Operation *op, ValueRange values,
                                   StringRef name) {
  passed(op, name, lastNeeded);
  op->replaceAllUsesWith(values);
  op->erase();
}

bool CollectiveSimplifier::reuseEarlier(CollectiveOpInterface op) {
  auto [it, inserted] = known.insert(op);
  if (inserted)
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, (*it)->getResults(), "Duplicate");
  return true;
}

bool CollectiveSimplifier::simplify(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp,
            CollectiveBroadcastOp, AllSliceOp>(
          [&](auto concrete) { return simplify(concrete); })
      .Default([](Operation *) { return false; });
}

void CollectiveSimplifier::visit(Operation *op) {
  if (simplify(op))
    return;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || !reuseEarlier(collective))
    remaining.insert(op);
}

/// Erases collectives without uses, and those that only they used.
void CollectiveSimplifier::eraseDead() {
  while (!remaining.empty()) {
    Operation *op = remaining.pop_back_val();
    if (!op->use_empty())
      continue;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (isMovableCollective(def) || isa<AllSliceOp>(def))
          remaining.insert(def);
    passed(op, "Dead", Numerics::Exact);
    op->erase();
  }
}

bool CollectiveSimplifier::run() {
  SmallVector<Operation *> collectives;
  int64_t before = 0;
  function->walk([&](Operation *op) {
    before += isa<CollectiveOpInterface>(op);
    if (isMovableCollective(op) || isa<AllSliceOp>(op))
      collectives.push_back(op);
  });
  for (Operation *op : collectives)
    visit(op);
  known.clear();
  eraseDead();
  if (!before || !function->getContext()->getRemarkEngine())
    return changed;
  int64_t after = 0;
  function->walk([&](CollectiveOpInterface) { ++after; });
  remark::analysis(function.getLoc(),
                   remark::RemarkOpts::name("SimplifyCollectives")
                       .category(DEBUG_TYPE)
                       .function(function.getName()))
      << remark::metric("before", before) << remark::metric("after", after);
  return changed;
}

namespace {
struct SimplifyCollectives
    : mpcomm::impl::SimplifyCollectivesPassBase<SimplifyCollectives> {
  using SimplifyCollectivesPassBase::SimplifyCollectivesPassBase;

  void runOnOperation() override {
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      if (!function.isExternal())
        changed |= CollectiveSimplifier(function, numerics).run();
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
