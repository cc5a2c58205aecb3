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
// any case, that stage computes it again. This is what a minimum cut (Chen et
// al. 2016, AOTAutograd's partitioner) finds where recomputation needs no
// further tensor; a cut that reads others instead is not looked for.
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

static Value stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

namespace {

class Recomputer {
public:
  explicit Recomputer(Block &block) : block(block) { findStages(); }

  void run();
  int64_t values = 0, ops = 0, bytes = 0;

private:
  void findStages();
  bool isReadIn(Value value, int64_t stage) const;
  bool collect(Value value, int64_t stage, int64_t most, size_t depth,
               llvm::SetVector<Operation *> &chain) const;
  void recompute(Operation *op, int64_t stage, ArrayRef<OpOperand *> uses);

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
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user->getBlock() != &block)
      return false;
    if (isa<ReshapeOp>(user))
      return isReadIn(user->getResult(0), stage);
    return isElementwise(user) && stages.lookup(user) == stage;
  });
}

/// Collects the ops that make `value` from what the stage reads. False if they
/// need anything else, but for small tensors.
bool Recomputer::collect(Value value, int64_t stage, int64_t most, size_t depth,
                         llvm::SetVector<Operation *> &chain) const {
  Value stored = stripReshapes(value);
  if (isRepeated(stored)) {
    auto broadcast = stored.getDefiningOp<BroadcastInDimOp>();
    return !broadcast || countBytes(broadcast.getInput()) <= most;
  }
  Operation *maker = stored.getDefiningOp();
  if (!isElementwise(maker) || maker->getBlock() != &block)
    return countBytes(stored) <= most || isReadIn(stored, stage);
  if (chain.contains(maker))
    return true;
  // What is computed in another shape is another kernel's.
  if (stored != value || depth == kMaxOps)
    return false;
  for (Value operand : maker->getOperands())
    if (isa<RankedTensorType>(operand.getType()) &&
        !collect(operand, stage, most, depth + 1, chain))
      return false;
  chain.insert(maker);
  return chain.size() <= kMaxOps;
}

void Recomputer::recompute(Operation *op, int64_t stage,
                           ArrayRef<OpOperand *> uses) {
  llvm::SetVector<Operation *> chain;
  int64_t size = countBytes(op->getResult(0));
  for (OpOperand *use : uses) // what is stored may be narrower
    for (Value result : use->getOwner()->getResults())
      size = std::min(size, countBytes(result));
  if (!collect(op->getResult(0), stage, size / kSmallPart, 0, chain))
    return;
  Operation *first = uses.front()->getOwner();
  for (OpOperand *use : uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  OpBuilder builder(first);
  IRMapping mapping;
  for (Operation *link : chain) {
    Operation *own = builder.clone(*link, mapping);
    own->setAttr(kRecomputedAttr, builder.getUnitAttr());
    stages[own] = stage;
  }
  for (OpOperand *use : uses)
    use->set(mapping.lookup(op->getResult(0)));
  ++values;
  ops += static_cast<int64_t>(chain.size());
  bytes += 2 * size;
}

void Recomputer::run() {
  SmallVector<Operation *> candidates;
  for (Operation &op : block)
    if (isElementwise(&op) &&
        isa<FloatType>(getElementTypeOrSelf(op.getResult(0).getType())))
      candidates.push_back(&op);
  for (Operation *op : candidates) {
    llvm::MapVector<int64_t, SmallVector<OpOperand *>> later;
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      int64_t stage = stages.lookup(user);
      if (user->getBlock() == &block && stage > stages.lookup(op) &&
          isElementwise(user))
        later[stage].push_back(&use);
    }
    for (auto &[stage, uses] : later)
      recompute(op, stage, uses);
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
