//===- SimplifyCollectives.cpp - the walk over collectives ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In program order, then the dead ones; the rewrites are in
// SimplifyReductions.cpp, SimplifyExchanges.cpp and SimplifySlices.cpp, but for
// what holds for all collectives.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
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

static StringRef getClassName(Numerics numerics) {
  switch (numerics) {
  case Numerics::Exact:
    return "exact";
  case Numerics::Reassociating:
    return "reassociating";
  case Numerics::Lossy:
    return "lossy";
  }
  return "";
}

void CollectiveSimplifier::passed(Operation *op, StringRef name,
                                  Numerics needed) {
  changed = true;
  remark::passed(op->getLoc(), remark::RemarkOpts::name(name)
                                   .category(DEBUG_TYPE)
                                   .function(function.getName()))
      << remark::reason("{0}", getClassName(needed));
}

void CollectiveSimplifier::erase(Operation *op) {
  replicas.notifyOperationErased(op);
  op->erase();
}

void CollectiveSimplifier::replace(Operation *op, ValueRange values,
                                   StringRef name) {
  passed(op, name, lastNeeded);
  op->replaceAllUsesWith(values);
  erase(op);
}

bool CollectiveSimplifier::reuseEarlier(CollectiveOpInterface op) {
  auto [it, inserted] = known.insert(op);
  if (inserted)
    return false;
  lastNeeded = Numerics::Exact;
  replace(op, (*it)->getResults(), "Duplicate");
  return true;
}

/// The mesh and the axes that `op`, a collective or an all_slice, names.
static std::pair<FlatSymbolRefAttr, ArrayAttr> getGroup(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return {collective.getMeshAttr(), collective.getAxesAttr()};
  auto dependent = cast<RankDependentOpInterface>(op);
  return {dependent.getMeshAttr(), dependent.getAxesAttr()};
}

/// Axes of size one go; with the last of them the op, which gives its operands,
/// rounded to the wire type. Returns whether it is gone.
bool CollectiveSimplifier::dropAxesOfOne(Operation *op) {
  auto [symbol, axes] = getGroup(op);
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, symbol);
  if (!mesh)
    return false;
  SmallVector<Attribute> kept;
  llvm::copy_if(axes, std::back_inserter(kept), [&](Attribute axis) {
    return mesh.getAxisSize(cast<StringAttr>(axis).getValue()) != 1;
  });
  if (kept.size() == axes.size())
    return false;
  lastNeeded = Numerics::Exact;
  if (!kept.empty()) {
    passed(op, "AxesOfOne", lastNeeded);
    op->setAttr("axes", ArrayAttr::get(op->getContext(), kept));
    return false;
  }
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  Type wire = collective ? collective.getWireType() : Type();
  // Lowering refuses to reduce fewer bits, and says so.
  if (wire && wire.getIntOrFloatBitWidth() < 16)
    return false;
  OpBuilder builder = getBuilder(op);
  SmallVector<Value> values(op->getOperands());
  for (Value &value : values)
    if (wire && rounds(collective, value.getType()))
      value = castFloat(builder, op->getLoc(),
                        castFloat(builder, op->getLoc(), value, wire),
                        getElementTypeOrSelf(value.getType()));
  // A rank that is no target gets zeros.
  if (collective &&
      llvm::equal(collective.getTargets(1), ArrayRef<int64_t>{-1}))
    values.front() = arith::ConstantOp::create(
        builder, op->getLoc(),
        cast<TypedAttr>(builder.getZeroAttr(op->getResult(0).getType())));
  replace(op, values, "GroupOfOne");
  return true;
}

bool CollectiveSimplifier::simplify(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp,
            CollectiveBroadcastOp, CollectivePermuteOp, AllSliceOp>(
          [&](auto concrete) { return simplify(concrete); })
      .Default([](Operation *) { return false; });
}

void CollectiveSimplifier::visit(Operation *op) {
  if (dropAxesOfOne(op) || isa<BarrierOp>(op) || simplify(op))
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
        if (mayChange(def))
          remaining.insert(def);
    passed(op, "Dead", Numerics::Exact);
    erase(op);
  }
}

/// Whether `op` is a collective, or an all_slice, that rewrites may touch.
bool CollectiveSimplifier::mayChange(Operation *op) const {
  bool isBarrier = isa<BarrierOp>(op) && !getAsync(op);
  return (isMovableCollective(op) || isBarrier || isa<AllSliceOp>(op)) &&
         ranks.areShared(getGroup(op).second);
}

bool CollectiveSimplifier::run() {
  SmallVector<Operation *> collectives;
  int64_t before = 0;
  function->walk([&](Operation *op) {
    before += isa<CollectiveOpInterface>(op);
    if (mayChange(op))
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
    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    RankFunctions ranks(getOperation());
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      if (!function.isExternal())
        changed |=
            CollectiveSimplifier(function, ranks, *model, numerics).run();
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
