//===- Grouping.cpp - which ops run in one kernel -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/Grouping.h"
#include "FormKernels/CloneWidenings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

/// Groups with more members than this grow no further.
static constexpr size_t kMaxMembers = 128;

/// Later than every slot.
static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool mpcomm::isView(Operation *op) {
  return isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
             tensor::ExpandShapeOp, tensor::CastOp, tensor::EmptyOp,
             arith::ConstantOp>(op);
}

/// The value whose memory `value` is a window on.
static Value stripViews(Value value) {
  Operation *def = value.getDefiningOp();
  while (def && isView(def) && def->getNumOperands() > 0) {
    value = def->getOperand(0);
    def = value.getDefiningOp();
  }
  return value;
}

/// A fill that goes with what starts from it: reductions take it along, and a
/// contraction onto zero overwrites.
static bool isInitOnly(linalg::FillOp fill) {
  if (fill->use_empty())
    return true;
  return llvm::all_of(fill->getUses(), [](OpOperand &use) {
    auto user = dyn_cast<LinalgOp>(use.getOwner());
    if (user)
      return user.isDpsInit(&use);
    auto loop = use.getOwner();
    return loop->hasAttr(kScatterAddAttr);
  });
}

static bool isZeroFill(linalg::FillOp fill) {
  return matchPattern(fill.value(), m_PosZeroFloat()) ||
         matchPattern(fill.value(), m_Zero());
}

/// Whether an op other than a fill belongs into a kernel.
static bool isKernelOp(Operation *op) {
  return op->hasAttr(kScatterAddAttr) ||
         (isa<LinalgOp>(op) && !isa<linalg::ContractionOpInterface>(op));
}

/// Reports what no kernel can hold.
static LogicalResult checkMember(LinalgOp op) {
  if (!op.hasPureTensorSemantics())
    return op->emitOpError("expected tensors, to make a kernel of it");
  for (AffineMap map : op.getIndexingMapsArray())
    for (AffineExpr expr : map.getResults())
      if (!isa<AffineDimExpr, AffineConstantExpr>(expr))
        return op->emitOpError("expected maps of loops and constants, to make "
                               "a kernel of it, found ")
               << AffineMapAttr::get(map);
  for (Type type : op->getOperandTypes())
    if (auto shaped = dyn_cast<ShapedType>(type);
        shaped && !shaped.hasStaticShape())
      return op->emitOpError("expected static shapes, to make a kernel of it");
  // Scalars, and those that inits are filled with.
  SmallVector<Value> scalars;
  for (Value value : op->getOperands()) {
    auto fill = value.getDefiningOp<linalg::FillOp>();
    if (!isa<TensorType>(value.getType()))
      scalars.push_back(value);
    else if (fill && llvm::is_contained(op.getDpsInits(), value))
      scalars.push_back(fill.value());
  }
  for (Value value : scalars)
    if (!value.getDefiningOp<arith::ConstantOp>())
      return op->emitOpError("expected constants for scalar operands, to make "
                             "a kernel of it");
  return success();
}

LogicalResult Grouping::collect() {
  int64_t position = 0;
  for (Operation &op : block) {
    positions[&op] = position++;
    if (auto fill = dyn_cast<linalg::FillOp>(op)) {
      bool initOnly = isInitOnly(fill);
      if (initOnly)
        initFills.insert(fill);
      if (initOnly || isZeroFill(fill))
        continue;
    } else if (!isKernelOp(&op)) {
      continue;
    }
    auto group = std::make_unique<KernelGroup>();
    KernelMember member{&op, positions[&op], {}};
    group->slot = member.position;
    if (auto linalgOp = dyn_cast<LinalgOp>(op)) {
      if (failed(checkMember(linalgOp)))
        return failure();
      group->space = linalgOp.getStaticLoopRanges();
      member.loops =
          llvm::to_vector(llvm::seq<int64_t>(0, group->space.size()));
    } else {
      group->isScatter = true;
    }
    group->members.push_back(std::move(member));
    groupOf[&op] = group.get();
    numberOf[group.get()] = groups.size();
    groups.push_back(std::move(group));
  }
  return success();
}

KernelGroup *Grouping::lookup(Operation *op) const {
  return op ? groupOf.lookup(op) : nullptr;
}

SmallVector<KernelGroup *> Grouping::getGroups() {
  SmallVector<KernelGroup *> sorted;
  for (auto &group : groups)
    if (group)
      sorted.push_back(group.get());
  llvm::sort(sorted,
             [](KernelGroup *a, KernelGroup *b) { return a->slot < b->slot; });
  return sorted;
}

int64_t Grouping::getSlot(Value value) const {
  Operation *def = stripViews(value).getDefiningOp();
  if (!def || def->getBlock() != &block || isView(def))
    return -1;
  if (initFills.contains(def))
    return -1;
  if (KernelGroup *group = lookup(def))
    return group->slot;
  return positions.lookup(def);
}

/// Calls `visit` with each op that needs `value`, through views, until it
/// returns true; null stands for one in another block. Whether it did.
static bool anyUser(Block &block, Value value,
                    function_ref<bool(Operation *)> visit) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    Operation *op = block.findAncestorOpInBlock(*user);
    if (!op || !isView(op))
      return visit(op);
    return llvm::any_of(op->getResults(), [&](Value result) {
      return anyUser(block, result, visit);
    });
  });
}

int64_t Grouping::getFirstUse(const KernelGroup *a, const KernelGroup *b,
                              Value value) const {
  int64_t first = kNever;
  (void)anyUser(block, value, [&](Operation *op) {
    KernelGroup *group = lookup(op);
    // What another block uses, the block's end is early enough for.
    if (op && (!group || (group != a && group != b)))
      first = std::min(first, group ? group->slot : positions.lookup(op));
    return false;
  });
  return first;
}

int64_t Grouping::getLastUse(const KernelGroup *group, Value value) const {
  int64_t last = -1;
  (void)anyUser(block, value, [&](Operation *op) {
    KernelGroup *user = lookup(op);
    if (!op)
      last = kNever;
    else if (user != group || !group)
      last = std::max(last, user ? user->slot : positions.lookup(op));
    return last == kNever;
  });
  return last;
}

bool Grouping::hasUseOutside(const KernelGroup *group, Value value) const {
  return anyUser(block, value,
                 [&](Operation *op) { return !op || lookup(op) != group; });
}

bool Grouping::isUsedOutside(const KernelGroup *group, OpResult result) const {
  return llvm::any_of(result.getUsers(), [&](Operation *user) {
    Operation *op = block.findAncestorOpInBlock(*user);
    return !op || lookup(op) != group;
  });
}

std::optional<int64_t> Grouping::findSlot(KernelGroup *first,
                                          KernelGroup *second, bool mayHoist) {
  int64_t lower = -1, upper = kNever;
  auto isOwn = [&](Value value) {
    KernelGroup *group = lookup(value.getDefiningOp());
    return group && (group == first || group == second);
  };
  for (KernelGroup *group : {first, second})
    for (const KernelMember &member : group->members) {
      auto need = [&](Value value) {
        if (isOwn(value))
          return;
        // A view of a tensor of one's own is no intermediate: the kernel would
        // have to have run.
        lower =
            std::max(lower, isOwn(stripViews(value)) ? kNever : getSlot(value));
      };
      for (Value operand : member.op->getOperands())
        need(operand);
      for (Value captured : getCapturedTensors(member.op))
        need(captured);
      for (Value result : member.op->getResults())
        upper = std::min(upper, getFirstUse(first, second, result));
    }
  int64_t late = std::max(first->slot, second->slot);
  int64_t early = std::min(first->slot, second->slot);
  if (lower < late && late < upper)
    return late;
  if (mayHoist && lower < early && early < upper)
    return early;
  return std::nullopt;
}

bool Grouping::isWorthwhile(const KernelGroup &first,
                            const KernelGroup &second) const {
  auto measure = [&](const KernelGroup &group, const KernelGroup *self) {
    return getOperands(group,
                       [&](OpResult r) { return isUsedOutside(self, r); });
  };
  KernelOperands left = measure(first, &first),
                 right = measure(second, &second);
  int64_t shared = 0;
  for (Value value : right.inputs) {
    bool isMade = false;
    if (auto result = dyn_cast<OpResult>(value))
      isMade = left.outputs.contains(result);
    if (isMade || left.inputs.contains(value))
      shared += mpcomm::detail::countBytes(TypeRange{value.getType()});
  }
  for (Value value : left.inputs)
    if (auto result = dyn_cast<OpResult>(value))
      if (right.outputs.contains(result))
        shared += mpcomm::detail::countBytes(TypeRange{value.getType()});
  if (first.space.empty() != second.space.empty())
    return true;
  int64_t smaller = std::min(left.countBytes(), right.countBytes());
  return shared > 0 && shared * 8 >= smaller;
}

bool Grouping::areTied(const KernelGroup &first,
                       const KernelGroup &second) const {
  // Scalars of the whole step would tie kernels together for nothing.
  if (first.space.empty() == second.space.empty())
    return true;
  const KernelGroup &scalars = first.space.empty() ? first : second;
  return llvm::all_of(scalars.members, [&](const KernelMember &member) {
    return llvm::all_of(member.op->getUsers(), [&](Operation *user) {
      KernelGroup *group = lookup(block.findAncestorOpInBlock(*user));
      return group == &first || group == &second;
    });
  });
}

bool Grouping::tryMerge(KernelGroup *first, KernelGroup *second,
                        bool mayHoist) {
  if (first == second || first->isScatter || second->isScatter ||
      first->members.size() + second->members.size() > kMaxMembers ||
      !areTied(*first, *second))
    return false;
  std::optional<int64_t> slot = findSlot(first, second, mayHoist);
  if (!slot)
    return false;
  // What was stored in 8 bits would be written wide where it is made, besides.
  KernelGroup *late = first->slot < second->slot ? second : first;
  if (*slot != late->slot && late->members.size() == 1 &&
      isWideningOf8Bits(late->members.front().op))
    return false;
  std::optional<KernelGroup> united = unite(*first, *second);
  if (!united || !isWorthwhile(*first, *second))
    return false;
  auto outside = [&](OpResult result) {
    return llvm::any_of(result.getUsers(), [&](Operation *user) {
      KernelGroup *group = lookup(block.findAncestorOpInBlock(*user));
      return group != first && group != second;
    });
  };
  KernelOperands operands = getOperands(*united, outside);
  if (operands.inputs.size() + operands.outputs.size() > maxOperands ||
      !checkGroup(*united, outside).empty())
    return false;
  united->slot = *slot;
  for (const KernelMember &member : second->members)
    groupOf[member.op] = first;
  *first = std::move(*united);
  size_t number = numberOf.lookup(second);
  numberOf.erase(second);
  groups[number].reset();
  return true;
}

void Grouping::growFromProducers() {
  // In program order, each op joins what makes its operands; a group moves to
  // its last member, as long as nothing has used it yet.
  for (Operation &op : block) {
    if (!groupOf.contains(&op))
      continue;
    SmallVector<Value> operands(op.getOperands());
    for (Value operand : operands) {
      KernelGroup *own = lookup(&op),
                  *producer = lookup(operand.getDefiningOp());
      if (producer && producer != own)
        (void)tryMerge(producer, own, /*mayHoist=*/false);
    }
  }
}

void Grouping::mergeNeighbours() {
  // What could not wait for its consumer: the consumer comes earlier. And what
  // reads the same tensor.
  for (Operation &op : block) {
    KernelGroup *own = lookup(&op);
    if (!own)
      continue;
    SmallVector<Value> operands(op.getOperands());
    for (Value operand : operands) {
      own = lookup(&op);
      if (KernelGroup *producer = lookup(operand.getDefiningOp()))
        (void)tryMerge(producer, own, /*mayHoist=*/true);
    }
  }
  llvm::MapVector<Value, SmallVector<Operation *>> readers;
  for (Operation &op : block)
    if (groupOf.contains(&op))
      for (Value operand : op.getOperands())
        if (auto type = dyn_cast<RankedTensorType>(operand.getType());
            type && type.getRank() > 0 &&
            !isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(
                operand.getDefiningOp()))
          readers[operand].push_back(&op);
  for (auto &[value, ops] : readers)
    for (size_t i = 1; i < ops.size(); ++i)
      (void)tryMerge(lookup(ops[i - 1]), lookup(ops[i]), /*mayHoist=*/true);
}

LogicalResult Grouping::run() {
  if (failed(collect()))
    return failure();
  for (auto &group : groups) {
    if (group->isScatter)
      continue;
    std::string why = checkGroup(
        *group, [&](OpResult r) { return isUsedOutside(group.get(), r); });
    if (!why.empty())
      return group->members.front().op->emitOpError("makes no kernel: ") << why;
  }
  growFromProducers();
  mergeNeighbours();
  return success();
}
