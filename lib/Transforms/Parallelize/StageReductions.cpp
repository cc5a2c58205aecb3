//===- StageReductions.cpp - reductions that fill the bubble --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one stage of a rank has added up over all micro-batches need not wait
// for the rank's other stages: its reduction moves from the update phase to
// after the action that added the last of it. Where it is awaited stays in the
// update phase.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/UpdatePhase.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mpcomm;

namespace {

class ReductionMover {
public:
  ReductionMover(Block &body, const PipelineMesh &mesh,
                 ArrayRef<ActionEnd> actions)
      : mesh(mesh) {
    for (auto [i, op] : llvm::enumerate(body))
      numbers[&op] = i;
    for (auto [i, action] : llvm::enumerate(actions))
      actionOf[action.call] = i;
    after.resize(actions.size());
  }
  void plan(BucketableOpInterface reduce);
  void apply(ArrayRef<ActionEnd> actions);

private:
  const PipelineMesh &mesh;
  llvm::DenseMap<Operation *, unsigned> actionOf, numbers;
  /// By action: reductions, each after what only makes its operands.
  std::vector<std::vector<Operation *>> after;
};

} // namespace

/// Ranks that meet along other axes than the pipeline's run one program, so
/// that they agree on the order; ranks of the pipeline do not.
void ReductionMover::plan(BucketableOpInterface reduce) {
  for (Attribute axis : mesh.axes)
    if (llvm::is_contained(reduce.getAxesAttr(), axis))
      return;
  // Depth first, so that what an op reads comes before it.
  std::vector<Operation *> ops;
  llvm::DenseSet<Operation *> seen;
  std::optional<unsigned> last;
  SmallVector<std::pair<Operation *, unsigned>> stack{{reduce, 0}};
  while (!stack.empty()) {
    auto &[op, next] = stack.back();
    if (next == op->getNumOperands()) {
      ops.push_back(op);
      stack.pop_back();
      continue;
    }
    Operation *def = op->getOperand(next++).getDefiningOp();
    if (!def || !seen.insert(def).second)
      continue;
    if (auto action = actionOf.find(def); action != actionOf.end())
      last = std::max(last.value_or(0), action->second);
    else if (isMemoryEffectFree(def) && def->getNumRegions() == 0 &&
             !isa<CollectiveOpInterface>(def))
      stack.push_back({def, 0});
    else
      return; // of other ranks, or of another reduction
  }
  if (last)
    llvm::append_range(after[*last], ops);
}

void ReductionMover::apply(ArrayRef<ActionEnd> actions) {
  llvm::DenseSet<Operation *> placed;
  for (auto [action, ops] : llvm::zip(actions, after)) {
    Operation *at = action.last;
    for (Operation *op : ops) {
      bool isThere = numbers.lookup(op) < numbers.lookup(action.last);
      if (isThere || !placed.insert(op).second)
        continue;
      op->moveAfter(at);
      at = op;
    }
  }
}

void mpcomm::fixOrder(Block &body, const PipelineMesh &mesh) {
  OpBuilder builder(body.getParentOp()->getContext());
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective || llvm::none_of(mesh.axes, [&](Attribute axis) {
          return llvm::is_contained(collective.getAxesAttr(), axis);
        }))
      continue;
    Location loc = op.getLoc();
    builder.setInsertionPoint(&op);
    auto async = AsyncOp::create(
        builder, loc,
        FutureType::get(op.getContext(), llvm::to_vector(op.getResultTypes())));
    auto await = AwaitOp::create(builder, loc, async.getFuture());
    op.replaceAllUsesWith(await.getResults());
    builder.createBlock(&async.getBody());
    op.moveBefore(builder.getBlock(), builder.getBlock()->end());
    builder.setInsertionPointToEnd(builder.getBlock());
    YieldOp::create(builder, loc, op.getResults());
  }
}

void mpcomm::startReductions(Block &body, const PipelineMesh &mesh,
                             ArrayRef<ActionEnd> actions) {
  ReductionMover mover(body, mesh, actions);
  for (auto reduce : body.getOps<BucketableOpInterface>())
    if (!reduce.isGather())
      mover.plan(reduce);
  mover.apply(actions);
}
