//===- UpdatePhase.cpp - collectives and updates of a rank ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits what UpdatePhasePlan.cpp has planned.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/UpdatePhase.h"
#include "Parallelize/StageClone.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mpcomm;

namespace {

class UpdatePhaseEmitter {
public:
  UpdatePhaseEmitter(OpBuilder &builder, const StageFunctions &stageFunctions,
                     const UpdatePhasePlan &plan, const PipelineMesh &mesh,
                     const PipelineSchedule &schedule, IRMapping &mapping)
      : builder(builder), micro(stageFunctions.getGraph().getMicroBatch()),
        plan(plan), mesh(mesh), schedule(schedule), mapping(mapping) {}
  void exchange(const llvm::DenseMap<unsigned, Value> &totals);
  void emit(const llvm::DenseMap<unsigned, Value> &states);

private:
  Value reduceOverStages(Value value, Reduction kind);
  void copy(Operation *op);
  void copyPart(Operation *op);
  void clip(ClipByGlobalNormOp op);
  Value finishLoss(Value original);
  void noteUses(Operation *op, Operation *made, ArrayRef<unsigned> operands);

  OpBuilder &builder;
  const MicroBatch &micro;
  const UpdatePhasePlan &plan;
  const PipelineMesh &mesh;
  const PipelineSchedule &schedule;
  IRMapping &mapping;
  /// By sum: its total over all ranks that add to it, and who uses it here.
  llvm::DenseMap<unsigned, Value> whole;
  llvm::DenseMap<unsigned, SmallVector<OpOperand *>> uses;
  llvm::DenseMap<OpOperand *, unsigned> sumOfUse;
};

} // namespace

/// Parameters that several ranks hold stay equal: each adds up the gradients of
/// all, in one order.
void UpdatePhaseEmitter::exchange(
    const llvm::DenseMap<unsigned, Value> &totals) {
  struct Waiting {
    unsigned sum;
    int from;
    Value future;
  };
  SmallVector<Waiting> receives;
  SmallVector<Value> sends;
  for (const UpdatePhasePlan::Shared &shared : plan.sums) {
    bool isOwn = llvm::is_contained(shared.contributors, plan.rank);
    std::string tag = (kTiedTag + Twine(shared.sum) + ".").str();
    for (int other : shared.residents)
      if (isOwn && other != plan.rank)
        sends.push_back(
            startSend(builder, mesh, totals.lookup(shared.sum), other,
                      schedule.exchangeChannelOf(plan.rank, other) + 1,
                      tag + Twine(plan.rank)));
    for (int other : shared.contributors)
      if (other != plan.rank)
        receives.push_back(
            {shared.sum, other,
             startRecv(builder, mesh, micro.sums[shared.sum].value.getLoc(),
                       micro.sums[shared.sum].getTotalType(), other,
                       schedule.exchangeChannelOf(other, plan.rank) + 1,
                       tag + Twine(other))});
  }
  std::map<std::pair<unsigned, int>, Value> arrived;
  for (const Waiting &waiting : receives)
    arrived[{waiting.sum, waiting.from}] =
        AwaitOp::create(builder, waiting.future.getLoc(), waiting.future)
            ->getResult(0);
  for (const UpdatePhasePlan::Shared &shared : plan.sums) {
    Value total;
    for (int from : shared.contributors) {
      Value value = from == plan.rank ? totals.lookup(shared.sum)
                                      : arrived[{shared.sum, from}];
      total =
          total ? micro.sums[shared.sum].combine(builder, total, value) : value;
    }
    whole[shared.sum] = total;
  }
  for (Value future : sends)
    AwaitOp::create(builder, future.getLoc(), future);
}

Value UpdatePhaseEmitter::reduceOverStages(Value value, Reduction kind) {
  if (schedule.stages == 1)
    return value;
  auto op = AllReduceOp::create(
      builder, value.getLoc(), ValueRange(value), mesh.mesh, mesh.axes,
      ReductionAttr::get(builder.getContext(), kind), TypeAttr(), TypeAttr());
  return op.getResult(0);
}

/// `operands`: the operands of `op` that `made` has, in their order.
void UpdatePhaseEmitter::noteUses(Operation *op, Operation *made,
                                  ArrayRef<unsigned> operands) {
  for (auto [i, operand] : llvm::enumerate(operands))
    if (auto sum = sumOfUse.find(&op->getOpOperand(operand));
        sum != sumOfUse.end())
      uses[sum->second].push_back(&made->getOpOperand(i));
}

/// A scaling or a collective of the gradients that the rank has. With none its
/// flag is that of the others.
void UpdatePhaseEmitter::copyPart(Operation *op) {
  OperationState state(op->getLoc(), op->getName());
  SmallVector<unsigned> operands, results;
  unsigned handedOn = countHandedOn(op);
  auto isDropped = [&](unsigned i) {
    return i < handedOn && plan.dropped.contains(&op->getOpOperand(i));
  };
  bool hasOwn = !llvm::all_of(llvm::seq<unsigned>(0, handedOn), isDropped);
  for (OpResult result : op->getResults())
    if (!isDropped(result.getResultNumber())) {
      results.push_back(result.getResultNumber());
      state.addTypes(result.getType());
    }
  SmallVector<Value> made;
  if (hasOwn) {
    for (OpOperand &use : op->getOpOperands())
      if (!isDropped(use.getOperandNumber())) {
        operands.push_back(use.getOperandNumber());
        state.addOperands(cloneValue(builder, use.get(), mapping));
      }
    state.addAttributes(op->getAttrDictionary().getValue());
    Operation *copy = builder.create(state);
    noteUses(op, copy, operands);
    llvm::append_range(made, copy->getResults());
  } else {
    for (Type type : state.types)
      made.push_back(arith::ConstantOp::create(
          builder, op->getLoc(), cast<TypedAttr>(builder.getZeroAttr(type))));
  }
  for (auto [index, value] : llvm::zip_equal(results, made)) {
    if (index >= handedOn) // a gradient of any stage is not finite
      value = reduceOverStages(value, Reduction::Max);
    mapping.map(op->getResult(index), value);
  }
}

/// The norm is that of all stages, unless it is given: what several ranks hold
/// counts on one.
void UpdatePhaseEmitter::clip(ClipByGlobalNormOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> gradients, counted;
  SmallVector<unsigned> indices, countedIndices;
  for (OpOperand &use : op.getGradsMutable()) {
    if (plan.dropped.contains(&use))
      continue;
    gradients.push_back(cloneValue(builder, use.get(), mapping));
    indices.push_back(use.getOperandNumber());
    if (!plan.counted.contains(&use))
      continue;
    counted.push_back(gradients.back());
    countedIndices.push_back(use.getOperandNumber());
  }
  Value norm;
  if (Value given = op.getGivenNorm()) {
    norm = cloneValue(builder, given, mapping);
  } else {
    Value squares;
    if (counted.empty()) {
      auto scalar = cast<RankedTensorType>(op.getNorm().getType());
      squares = arith::ConstantOp::create(
          builder, loc, cast<TypedAttr>(builder.getZeroAttr(scalar)));
    } else {
      auto own = SquaredNormOp::create(builder, loc, counted);
      noteUses(op, own, countedIndices);
      squares = own.getSquares();
    }
    squares = reduceOverStages(squares, Reduction::Sum);
    norm = math::SqrtOp::create(builder, loc, squares);
  }
  mapping.map(op.getNorm(), norm);
  if (gradients.empty())
    return;
  auto made = ClipByGlobalNormOp::create(builder, loc, gradients, norm,
                                         op.getMaxNormAttr());
  noteUses(op, made, indices);
  for (auto [index, value] : llvm::zip(indices, made.getClipped()))
    mapping.map(op->getResult(index), value);
}

void UpdatePhaseEmitter::copy(Operation *op) {
  if (auto clipOp = dyn_cast<ClipByGlobalNormOp>(op);
      clipOp && schedule.stages > 1)
    return clip(clipOp);
  if (isPerGradient(op))
    return copyPart(op);
  Operation *made = cloneWithOperands(builder, op, mapping);
  noteUses(op, made,
           llvm::to_vector(llvm::seq<unsigned>(0, op->getNumOperands())));
}

/// All ranks have the loss of the one that makes it.
Value UpdatePhaseEmitter::finishLoss(Value original) {
  Location loc = original.getLoc();
  if (plan.rank == plan.lossRank)
    return mapping.lookup(original);
  auto type = cast<RankedTensorType>(original.getType());
  return arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
}

void UpdatePhaseEmitter::emit(const llvm::DenseMap<unsigned, Value> &states) {
  func::FuncOp step = micro.step;
  Block &body = step.getFunctionBody().front();
  Operation *exit = body.getTerminator();
  for (const UpdatePhasePlan::Shared &shared : plan.sums)
    for (OpOperand *use : micro.sums[shared.sum].uses) {
      mapping.map(use->get(), whole[shared.sum]);
      sumOfUse[use] = shared.sum;
    }
  for (auto [index, value] : states)
    mapping.map(micro.states[index].after, value);
  for (Operation &op : body)
    if (plan.ops.contains(&op))
      copy(&op);
  SmallVector<Value> returned;
  unsigned lossIndex = 0;
  Operation *lossBroadcast = nullptr;
  for (auto [i, result] : llvm::enumerate(plan.results)) {
    Value original = exit->getOperand(result);
    if (getResultRole(step, result) != Role::Loss) {
      returned.push_back(cloneValue(builder, original, mapping));
      continue;
    }
    lossIndex = result;
    Value loss = finishLoss(original);
    if (schedule.stages > 1) {
      loss = broadcastFrom(builder, mesh, loss, plan.lossRank, "loss");
      lossBroadcast = loss.getDefiningOp();
    }
    returned.push_back(loss);
  }
  auto made = func::ReturnOp::create(builder, exit->getLoc(), returned);
  for (auto [i, result] : llvm::enumerate(plan.results)) {
    auto sum = sumOfUse.find(&exit->getOpOperand(result));
    if (sum == sumOfUse.end())
      continue;
    bool isLoss = lossBroadcast && result == lossIndex;
    uses[sum->second].push_back(isLoss ? &lossBroadcast->getOpOperand(0)
                                       : &made->getOpOperand(i));
  }
  for (const UpdatePhasePlan::Shared &shared : plan.sums) {
    if (uses[shared.sum].empty())
      continue;
    Value total = whole[shared.sum];
    builder.setInsertionPointAfterValue(total);
    useMean(builder, micro.sums[shared.sum], uses[shared.sum], total,
            micro.count);
  }
  if (lossBroadcast) { // of what the mean is
    Value loss = lossBroadcast->getOperand(0);
    lossBroadcast->getResult(0).setType(loss.getType());
  }
}

LogicalResult
mpcomm::emitUpdatePhase(OpBuilder &builder,
                        const StageFunctions &stageFunctions,
                        const UpdatePhasePlan &plan, const PipelineMesh &mesh,
                        const PipelineSchedule &schedule, IRMapping mapping,
                        const llvm::DenseMap<unsigned, Value> &totals,
                        const llvm::DenseMap<unsigned, Value> &states) {
  UpdatePhaseEmitter emitter(builder, stageFunctions, plan, mesh, schedule,
                             mapping);
  emitter.exchange(totals);
  emitter.emit(states);
  return success();
}
