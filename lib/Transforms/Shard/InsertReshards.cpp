//===- InsertReshards.cpp - where ranks need what they have parts of ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state that is split is needed whole by the forward pass, which is what the
// loss depends on, and again by the backward pass: each has a reshard of its
// own, so that the whole need not be kept in between. What only moves or
// converts the whole is done twice, too; else its result would be kept instead.
// One reshard serves both passes where nothing that is gathered is used between
// the last use of the one and the first of the other. What is widened is
// gathered before it is.
//
//===----------------------------------------------------------------------===//

#include "Shard/Parts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"
#include <map>

namespace mpcomm {
#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-insert-reshards"

using namespace mlir;
using namespace mpcomm;

namespace {

class ReshardInserter {
public:
  ReshardInserter(func::FuncOp function, const FlatSharding &flat)
      : body(function.getFunctionBody().front()), function(function),
        flat(flat), parts(function, flat), builder(function.getContext()) {}
  void run(bool gradients, int64_t keepBytes);

private:
  void findForward();
  void findGathered();
  void findKept(int64_t keepBytes);
  bool isForward(Operation *op) const { return forward.contains(op); }
  bool needsWhole(OpOperand &use) const {
    return parts.contains(use.get()) && !updated.contains(use.get()) &&
           !parts.isReadBy(use);
  }
  Value getNarrow(Value part) const;
  Value getFor(Value value, bool isForward, Operation *user);
  void insertGathers(int64_t keepBytes);
  void insertScatters();

  Block &body;
  func::FuncOp function;
  const FlatSharding &flat;
  Parts parts;
  OpBuilder builder;
  /// Results of optimizers, and what is made of them.
  llvm::DenseSet<Value> updated;
  /// What the loss depends on, and what else is no new state.
  llvm::DenseSet<Operation *> forward;
  /// Cheap ops of nothing but gathered values and what all batches share.
  llvm::DenseSet<Operation *> repeated;
  /// What each value of a repeated op, or part, is gathered for: the part.
  llvm::DenseMap<Value, SmallVector<Value, 1>> gathered;
  /// Ops that are not repeated and read gathered values, in program order.
  SmallVector<Operation *> readers;
  llvm::DenseSet<Value> kept;           // parts that are gathered once
  llvm::DenseMap<Value, Value> made[2]; // the second: again
  int64_t gathers = 0, again = 0, scatters = 0;
};

} // namespace

/// Values of the block that `op`, or what is in its regions, reads.
static void forEachUse(Operation *op, function_ref<void(OpOperand &)> visit) {
  op->walk([&](Operation *nested) {
    for (OpOperand &use : nested->getOpOperands())
      if (use.get().getParentBlock() == op->getBlock())
        visit(use);
  });
}

void ReshardInserter::findForward() {
  auto mark = [&](Value value) {
    if (Operation *def = value.getDefiningOp())
      forward.insert(def);
  };
  for (OpOperand &use : body.getTerminator()->getOpOperands()) {
    std::optional<Role> role = getResultRole(function, use.getOperandNumber());
    if (!role || !isStateRole(*role))
      mark(use.get());
  }
  for (Operation &op : llvm::reverse(body))
    if (forward.contains(&op))
      forEachUse(&op, [&](OpOperand &use) { mark(use.get()); });
}

/// Whether doing `op` twice costs less than keeping what it makes.
static bool isCheap(Operation *op) {
  if (op->getNumRegions() || op->getNumResults() != 1 ||
      !isMemoryEffectFree(op))
    return false;
  auto cost = dyn_cast<CostOpInterface>(op);
  return OpTrait::hasElementwiseMappableTraits(op) ||
         (cost && cost.getFlops() == 0);
}

/// What takes fewest bytes to gather, of which `part` is made by casts alone.
Value ReshardInserter::getNarrow(Value part) const {
  for (auto cast = part.getDefiningOp<arith::ExtFOp>();
       cast && parts.contains(cast.getIn());
       cast = part.getDefiningOp<arith::ExtFOp>())
    part = cast.getIn();
  return part;
}

/// Parts that an update makes are left to mpcomm-localize.
void ReshardInserter::findGathered() {
  llvm::DenseSet<Value> varying;
  for (BlockArgument argument : body.getArguments()) {
    std::optional<Role> role =
        getArgumentRole(function, argument.getArgNumber());
    if (role == Role::Batch || role == Role::Rng)
      varying.insert(argument);
  }
  for (Operation &op : body) {
    bool isUpdate = isa<OptimizerOpInterface>(op), varies = false;
    SetVector<Value> read;
    forEachUse(&op, [&](OpOperand &use) {
      Value value = use.get();
      isUpdate |= updated.contains(value);
      varies |= varying.contains(value);
      if (auto found = gathered.find(value); found != gathered.end())
        read.insert_range(found->second);
      else if (needsWhole(use))
        read.insert(getNarrow(value));
    });
    if (isUpdate)
      updated.insert_range(op.getResults());
    if (varies || isa<CollectiveOpInterface>(op))
      varying.insert_range(op.getResults());
    if (read.empty())
      continue;
    if (!varies && !isUpdate && isCheap(&op)) {
      repeated.insert(&op);
      gathered[op.getResult(0)] = llvm::to_vector<1>(read);
    } else {
      readers.push_back(&op);
    }
  }
}

/// What is gathered once. A negative limit is none.
void ReshardInserter::findKept(int64_t keepBytes) {
  struct Uses {
    size_t lastForward = 0, firstBackward = SIZE_MAX;
  };
  llvm::MapVector<Value, Uses> usesOf;
  std::vector<SetVector<Value>> readBy;
  for (auto [i, op] : llvm::enumerate(readers)) {
    SetVector<Value> &read = readBy.emplace_back();
    forEachUse(op, [&](OpOperand &use) {
      if (auto found = gathered.find(use.get()); found != gathered.end())
        read.insert_range(found->second);
      else if (needsWhole(use))
        read.insert(getNarrow(use.get()));
    });
    for (Value part : read) {
      Uses &uses = usesOf[part];
      if (isForward(op))
        uses.lastForward = i;
      else
        uses.firstBackward = std::min(uses.firstBackward, i);
    }
  }
  // Those that are gathered again, the last of the forward pass first.
  std::multimap<size_t, Value, std::greater<size_t>> others;
  for (auto &[part, uses] : usesOf) {
    bool isBetween = false;
    for (size_t i = uses.lastForward + 1;
         !isBetween && uses.firstBackward != SIZE_MAX && i < uses.firstBackward;
         ++i)
      isBetween = !readBy[i].empty() && !readBy[i].contains(part);
    if (!isBetween)
      kept.insert(part);
    else
      others.emplace(uses.lastForward, part);
  }
  int64_t bytes = 0;
  for (auto [_, part] : others) {
    bytes += mpcomm::detail::countBytes(part.getType());
    if (keepBytes >= 0 && bytes > keepBytes)
      break;
    kept.insert(part);
  }
}

/// `value` as the pass of `user` has it.
Value ReshardInserter::getFor(Value value, bool isForward, Operation *user) {
  auto found = gathered.find(value);
  bool isPart = found == gathered.end();
  if (isPart && !parts.contains(value))
    return value;
  // What is widened is widened for each pass, though it may be gathered once.
  Value narrow = isPart ? getNarrow(value) : Value();
  bool isWidened = isPart && narrow != value;
  bool isAgain =
      !isForward &&
      (isWidened ||
       !llvm::all_of(isPart ? ArrayRef<Value>(narrow)
                            : ArrayRef<Value>(found->second),
                     [&](Value part) { return kept.contains(part); }));
  if (Value known = made[isAgain].lookup(value))
    return known;
  builder.setInsertionPoint(user);
  Value result;
  if (isWidened) {
    Operation *widen = value.getDefiningOp();
    Value whole = getFor(widen->getOperand(0), isForward, user);
    builder.setInsertionPoint(user);
    Operation *clone = builder.clone(*widen);
    clone->setOperand(0, whole);
    result = clone->getResult(0);
  } else if (isPart) {
    auto reshard = ReshardOp::create(
        builder, value.getLoc(), value,
        ShardingAttr::get(builder.getContext(), flat.sharding.getMesh(),
                          cast<RankedTensorType>(value.getType()).getRank()));
    if (isAgain)
      reshard->setAttr(kGatheredAgainAttr, builder.getUnitAttr());
    ++(isAgain ? again : gathers);
    result = reshard;
  } else {
    Operation *def = value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : def->getOperands())
      operands.push_back(getFor(operand, isForward, user));
    builder.setInsertionPoint(user);
    Operation *clone = builder.clone(*def);
    clone->setOperands(operands);
    result = clone->getResult(0);
  }
  return made[isAgain][value] = result;
}

void ReshardInserter::insertGathers(int64_t keepBytes) {
  findForward();
  findGathered();
  findKept(keepBytes);
  for (Operation *op : readers)
    forEachUse(op, [&](OpOperand &use) {
      if (gathered.contains(use.get()) || needsWhole(use))
        use.set(getFor(use.get(), isForward(op), op));
    });
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (repeated.contains(&op) && op.use_empty())
      op.erase();
}

/// Of reductions of gradients of which only parts are read.
void ReshardInserter::insertScatters() {
  for (auto reduce : body.getOps<AllReduceOp>()) {
    if (reduce.getInputs().size() != 1 || reduce.getAxes() != flat.axes ||
        reduce.getMeshAttr() != flat.sharding.getMesh())
      continue;
    builder.setInsertionPointAfter(reduce);
    Value reduced = reduce->getResult(0);
    if (!parts.areAllReadBy(reduced))
      continue;
    auto sharding =
        ShardingAttr::get(builder.getContext(), flat.sharding.getMesh(),
                          cast<RankedTensorType>(reduced.getType()).getRank())
            .withFlat(flat.sharding.getFlat());
    auto reshard =
        ReshardOp::create(builder, reduce.getLoc(), reduced, sharding);
    reduced.replaceAllUsesExcept(reshard, reshard);
    ++scatters;
  }
}

void ReshardInserter::run(bool gradients, int64_t keepBytes) {
  if (gradients)
    insertScatters();
  insertGathers(keepBytes);
  remark::analysis(function.getLoc(), remark::RemarkOpts::name("Resharded")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()))
      << remark::metric("gathers", gathers) << remark::metric("again", again)
      << remark::metric("scatters", scatters);
}

namespace {

struct InsertReshards
    : public mpcomm::impl::InsertReshardsPassBase<InsertReshards> {
  using InsertReshardsPassBase::InsertReshardsPassBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      FailureOr<FlatSharding> flat = FlatSharding::get(function);
      if (failed(flat))
        return signalPassFailure();
      if (*flat)
        ReshardInserter(function, *flat).run(gradients, keepBytes);
    }
  }
};

} // namespace
