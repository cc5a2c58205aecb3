//===- RecomputeElementwise.cpp - cheap values instead of stored ones -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elementwise work runs in the kernel of what needs it, and a kernel ends where
// a product is needed. So each op has a *stage*: the number of products that
// must have run before it, or before the first op that needs it, whichever is
// greater. A value that a later stage reads is stored by one kernel and read by
// another. If it follows element by element from what the later stage reads in
// any case, that stage computes it again. So it does with several values that
// follow from one tensor more, which is in memory in any case, if reading that
// one is less than writing and reading them. A minimum cut (Chen et al. 2016,
// AOTAutograd's partitioner) could keep other tensors instead; none is looked
// for.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

namespace mpcomm {
#define GEN_PASS_DEF_RECOMPUTEELEMENTWISEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-recompute-elementwise"

using namespace mlir;
using namespace mpcomm;

/// Most ops that are repeated for one value.
static constexpr size_t kMaxOps = 16;
/// Marks an op that is computed again: it is not the same op for those that
/// look for equal ones.
static constexpr llvm::StringLiteral kRecomputedAttr = "mpcomm.recomputed";
/// A tensor of this part of a value's bytes costs nothing to read besides.
static constexpr int64_t kSmallPart = 8;

static int64_t countBytes(Value value) {
  return mpcomm::detail::countBytes(TypeRange{value.getType()});
}

static bool isElementwise(Operation *op) {
  return op && OpTrait::hasElementwiseMappableTraits(op) &&
         isMemoryEffectFree(op) && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

/// Whether a kernel starts after the op: a library or a kernel of its own
/// computes it.
static bool isProduct(Operation *op) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision &&
         precision.getPrecisionClass() == PrecisionClass::LowerPrecision;
}

static bool isRepeated(Value value) {
  return matchPattern(value, m_Constant<SplatElementsAttr>(nullptr)) ||
         value.getDefiningOp<BroadcastInDimOp>();
}

/// The ops that read a value in any shape.
static SmallVector<Operation *> getReaders(Value value) {
  SmallVector<Operation *> readers;
  SmallVector<Value> shapes{value};
  while (!shapes.empty())
    for (Operation *user : shapes.pop_back_val().getUsers())
      if (auto reshape = dyn_cast<ReshapeOp>(user))
        shapes.push_back(reshape.getResult());
      else
        readers.push_back(user);
  return readers;
}

static Value stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

namespace {

/// One value to compute again.
struct Plan {
  Value value;
  int64_t stage;
  SmallVector<OpOperand *> uses; // of the stage
  int64_t bytes, saved;          // as it is stored; not moved any more
  llvm::SetVector<Operation *> chain;
  Value kept; // that the chain reads besides; null: none
};

class Recomputer {
public:
  explicit Recomputer(Block &block) : block(block) { findStages(); }

  void run();
  int64_t values = 0, ops = 0, bytes = 0;

private:
  void findStages();
  bool isReadIn(Value value, int64_t stage) const;
  bool isStored(Value value, int64_t stage) const;
  bool isStoredBesides(Value value, int64_t own, int64_t stage) const;
  void plan(Operation *op, SmallVectorImpl<Plan> &plans) const;
  bool collect(Value value, Plan &plan, bool mayKeep, size_t depth) const;
  void recompute(Plan &plan);
  void sink(Operation *op, size_t depth);

  Block &block;
  llvm::DenseMap<Operation *, int64_t> stages;
};

} // namespace

void Recomputer::findStages() {
  for (Operation &op : block) {
    int64_t products = 0;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            maker && maker->getBlock() == &block)
          products =
              std::max(products, stages.lookup(maker) + isProduct(maker));
    });
    stages[&op] = products;
  }
  for (Operation &op : llvm::reverse(block)) {
    if (!isElementwise(&op) && !isa<BroadcastInDimOp, ReshapeOp>(op))
      continue;
    int64_t first = std::numeric_limits<int64_t>::max();
    for (Operation *user : op.getUsers())
      if (Operation *at = block.findAncestorOpInBlock(*user))
        first = std::min(first, stages.lookup(at));
    if (!op.use_empty())
      stages[&op] = std::max(stages[&op], first);
  }
}

/// Whether an op of the stage reads what is in memory, in any shape.
bool Recomputer::isReadIn(Value value, int64_t stage) const {
  return llvm::any_of(getReaders(value), [&](Operation *user) {
    // What only narrows it is stored instead.
    return user->getBlock() == &block && isElementwise(user) &&
           stages.lookup(user) == stage &&
           countBytes(user->getResult(0)) >= countBytes(value);
  });
}

/// Whether a value is in memory without the stage.
bool Recomputer::isStored(Value value, int64_t stage) const {
  Operation *maker = value.getDefiningOp();
  if (!maker || maker->getBlock() != &block || isProduct(maker))
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    int64_t at = stages.lookup(user);
    return user->getBlock() == &block && at > stages.lookup(maker) &&
           at != stage;
  });
}

/// Whether others than elementwise work and sums of stages `own` and `stage`
/// read a value, in any shape.
bool Recomputer::isStoredBesides(Value value, int64_t own,
                                 int64_t stage) const {
  return llvm::any_of(getReaders(value), [&](Operation *user) {
    int64_t at = stages.lookup(user);
    return user->getBlock() != &block ||
           !(isElementwise(user) || isa<ReduceOp>(user)) ||
           (at != own && at != stage);
  });
}

/// Collects the ops that make `value` from what the stage reads. False if they
/// need anything else, but for small tensors, and one that is stored with
/// `mayKeep`.
bool Recomputer::collect(Value value, Plan &plan, bool mayKeep,
                         size_t depth) const {
  int64_t small = plan.bytes / kSmallPart;
  Value stored = stripReshapes(value);
  if (isRepeated(stored)) {
    auto broadcast = stored.getDefiningOp<BroadcastInDimOp>();
    return !broadcast || countBytes(broadcast.getInput()) <= small;
  }
  Operation *maker = stored.getDefiningOp();
  bool isLeaf = !isElementwise(maker) || maker->getBlock() != &block;
  if (isLeaf && (countBytes(stored) <= small || isReadIn(stored, plan.stage)))
    return true;
  if (mayKeep && (!plan.kept || plan.kept == stored) &&
      isStored(stored, plan.stage)) {
    plan.kept = stored;
    return true;
  }
  if (isLeaf)
    return false;
  if (plan.chain.contains(maker))
    return true;
  // What is computed in another shape is another kernel's.
  if (stored != value || depth == kMaxOps)
    return false;
  for (Value operand : maker->getOperands())
    if (isa<RankedTensorType>(operand.getType()) &&
        !collect(operand, plan, mayKeep, depth + 1))
      return false;
  plan.chain.insert(maker);
  return plan.chain.size() <= kMaxOps;
}

/// Moves an op, and those that follow it alone, to where they are needed: in
/// the order of the program they would belong to the first kernel.
void Recomputer::sink(Operation *op, size_t depth) {
  if (!isElementwise(op) || op->use_empty() || depth == kMaxOps)
    return;
  if (op->hasOneUse())
    sink(*op->user_begin(), depth + 1);
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    Operation *at = block.findAncestorOpInBlock(*user);
    if (at && (!first || at->isBeforeInBlock(first)))
      first = at;
  }
  if (first && op->getNextNode() != first)
    op->moveBefore(first);
}

void Recomputer::recompute(Plan &plan) {
  for (OpOperand *use : plan.uses)
    sink(use->getOwner(), 0);
  Operation *first = plan.uses.front()->getOwner();
  for (OpOperand *use : plan.uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  OpBuilder builder(first);
  IRMapping mapping;
  for (Operation *link : plan.chain) {
    Operation *own = builder.clone(*link, mapping);
    own->setAttr(kRecomputedAttr, builder.getUnitAttr());
    stages[own] = plan.stage;
  }
  for (OpOperand *use : plan.uses)
    use->set(mapping.lookupOrDefault(plan.value));
  ++values;
  ops += static_cast<int64_t>(plan.chain.size());
  bytes += plan.saved;
}

/// Plans for what later stages read of an op.
void Recomputer::plan(Operation *op, SmallVectorImpl<Plan> &plans) const {
  if (op->getNumResults() != 1)
    return;
  Value value = op->getResult(0);
  if (!isa<RankedTensorType>(value.getType()) ||
      !isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return;
  llvm::MapVector<int64_t, SmallVector<OpOperand *>> later;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    int64_t stage = stages.lookup(user);
    if (user->getBlock() == &block && stage > stages.lookup(op) &&
        isElementwise(user))
      later[stage].push_back(&use);
  }
  for (auto &[stage, uses] : later) {
    Value stored = value; // or what is narrower
    for (OpOperand *use : uses)
      if (Value result = use->getOwner()->getResult(0);
          countBytes(result) < countBytes(stored))
        stored = result;
    int64_t size = countBytes(stored);
    bool isBesides = isStoredBesides(stored, stages.lookup(op), stage);
    if (isBesides && stored != value)
      continue;
    plans.push_back(
        {value, stage, uses, size, isBesides ? size : 2 * size, {}, {}});
  }
}

void Recomputer::run() {
  SmallVector<Plan> plans;
  for (Operation &op : block)
    plan(&op, plans);
  // What follows from one tensor more, by it and the stage.
  llvm::MapVector<std::pair<Value, int64_t>, SmallVector<Plan>> besides;
  for (Plan &plan : plans) {
    if (isElementwise(plan.value.getDefiningOp()) &&
        collect(plan.value, plan, /*mayKeep=*/false, 0)) {
      recompute(plan);
      continue;
    }
    plan.chain.clear();
    bool isNarrowed = plan.bytes < countBytes(plan.value);
    if (collect(plan.value, plan, /*mayKeep=*/true, 0) && plan.kept &&
        (plan.kept != plan.value || isNarrowed))
      besides[{plan.kept, plan.stage}].push_back(std::move(plan));
  }
  for (auto &[key, group] : besides) {
    int64_t moved = -countBytes(key.first);
    for (const Plan &plan : group)
      moved += plan.saved;
    if (moved <= 0)
      continue;
    for (Plan &plan : group)
      recompute(plan);
    bytes -= countBytes(key.first);
  }
}

namespace {

struct RecomputeElementwise
    : public mpcomm::impl::RecomputeElementwisePassBase<RecomputeElementwise> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock())
        continue;
      Recomputer recomputer(function.getBody().front());
      recomputer.run();
      remark::analysis(function.getLoc(), remark::RemarkOpts::name("Recomputed")
                                              .category(DEBUG_TYPE)
                                              .function(function.getName()))
          << remark::metric("values", recomputer.values)
          << remark::metric("ops", recomputer.ops)
          << remark::metric("bytes", recomputer.bytes);
    }
  }
};

} // namespace
