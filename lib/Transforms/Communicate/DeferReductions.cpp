//===- DeferReductions.cpp - reductions that end in the next step ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the backward pass leaves no time for, the next forward pass may hide: a
// gradient has to be there where its parameter is first read (Jayarajan et al.,
// "Priority-based Parameter Propagation for Distributed DNN Training", MLSys
// 2019; Peng et al., "A Generic Communication Scheduler for Distributed DNN
// Training Acceleration", SOSP 2019).
//
// The step then begins with the reductions and updates that the one before left
// undone, in the order in which parameters are read. A program stays one step
// that proofs and simulations read as any other: in a steady state each step
// does the work of one, and all of its losses are those that it had.
//
//===----------------------------------------------------------------------===//

#include "Communicate/GradientState.h"
#include "Communicate/Model.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Scheduling/Deferral/Deferral.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_DEFERREDUCTIONSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-defer-reductions"

using namespace mlir;
using namespace mpcomm;

namespace {

/// State that an update computes.
struct Updated {
  BlockArgument before;
  OpResult after;
  unsigned result; // of the step
};

/// A reduction with all that depends on it: one update.
struct Deferrable {
  AllReduceOp reduce;
  SmallVector<Operation *> chain; // of its result alone, in the block's order
  OptimizerOpInterface update;
  SmallVector<Operation *> casts; // of its results, to copies of narrower types
  SmallVector<Updated> states;    // the first is the parameter
  llvm::SmallSetVector<Value, 2> scalars;
};

class DeferReductions
    : public mpcomm::impl::DeferReductionsPassBase<DeferReductions> {
public:
  using DeferReductionsPassBase::DeferReductionsPassBase;
  void runOnOperation() override;

private:
  std::optional<Deferrable> find(AllReduceOp op);
  std::optional<Updated> findState(OpResult result, OpOperand &use);
  bool isCopy(BlockArgument argument, const Deferrable &found);
  bool findStates(Deferrable &found);
  LogicalResult choose(SmallVectorImpl<Deferrable> &found);
  LogicalResult defer(ArrayRef<Deferrable> chosen);
  void makeFlush();

  func::FuncOp step;
  Block *body = nullptr;
  /// What the step begins with, in order.
  SmallVector<Operation *> start;
  /// State that it updates: the argument, the new value, and its result.
  SmallVector<std::tuple<BlockArgument, Value, unsigned>> updated;
  BlockArgument flag;
  int64_t bytes = 0;
  double before = 0, after = 0;
};

} // namespace

/// Whether `value` is a constant, or one in another shape or type.
static bool isOfConstants(Value value) {
  Operation *def = value.getDefiningOp();
  while (def && def->getNumOperands() == 1 && def->getNumRegions() == 0 &&
         isMemoryEffectFree(def) && !isa<RankDependentOpInterface>(def))
    def = def->getOperand(0).getDefiningOp();
  return def && matchPattern(def, m_Constant());
}

/// The clone of an op of constants, with all that it is computed of.
static Value cloneConstant(Value value, OpBuilder &builder,
                           IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *def = value.getDefiningOp();
  for (Value operand : def->getOperands())
    cloneConstant(operand, builder, mapping);
  builder.clone(*def, mapping);
  return mapping.lookup(value);
}

static bool isFloatScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 0 && type.getElementType().isF32();
}

/// What of the state `result` becomes, by `use`; nothing where it is not all
/// that the step does with it.
std::optional<Updated> DeferReductions::findState(OpResult result,
                                                  OpOperand &use) {
  if (use.getOwner() != body->getTerminator())
    return std::nullopt;
  unsigned number = use.getOperandNumber();
  BlockArgument before = getDonor(step, number);
  if (!before || before.getType() != result.getType())
    return std::nullopt;
  return Updated{before, result, number};
}

/// Whether `argument` begins as a copy of the parameter, the first state that
/// was found.
bool DeferReductions::isCopy(BlockArgument argument, const Deferrable &found) {
  auto of =
      step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kCopyOfAttr);
  return of && !found.states.empty() &&
         of.getValue() == mpcomm::getArgumentName(
                              step, found.states.front().before.getArgNumber());
}

/// The state that the update computes: each result takes the place of an
/// argument that the update reads, and nothing else reads it but casts to the
/// copies of parameters that products read.
bool DeferReductions::findStates(Deferrable &found) {
  SmallVector<Updated> copies;
  for (OpResult result : found.update->getResults()) {
    size_t before = found.states.size();
    for (OpOperand &use : result.getUses()) {
      Operation *cast = use.getOwner();
      bool isCast = isa<arith::TruncFOp>(cast) && cast->hasOneUse();
      OpResult value = isCast ? cast->getResult(0) : result;
      std::optional<Updated> state =
          findState(value, isCast ? *cast->use_begin() : use);
      if (!state)
        return false;
      if (isCast) {
        if (!isCopy(state->before, found))
          return false;
        found.casts.push_back(cast);
        copies.push_back(*state);
      } else if (llvm::is_contained(found.update->getOperands(),
                                    Value(state->before))) {
        found.states.push_back(*state);
      } else {
        return false;
      }
    }
    if (found.states.size() != before + 1)
      return false;
  }
  llvm::append_range(found.states, copies);
  return !found.states.empty();
}

std::optional<Deferrable> DeferReductions::find(AllReduceOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getInputs().front().getType());
  bool isSum = op.getReduction() == Reduction::Mean ||
               op.getReduction() == Reduction::Sum;
  if (!isSum || op.getInputs().size() != 1 || !type ||
      !isa<FloatType>(type.getElementType()) ||
      type.getElementTypeBitWidth() > 32 ||
      !findParameterOf(op.getOutputs().front()))
    return std::nullopt;
  Deferrable found;
  found.reduce = op;
  llvm::SetVector<Operation *> chain;
  SmallVector<Operation *> worklist(op->getUsers());
  while (!worklist.empty()) {
    Operation *user = worklist.pop_back_val();
    if (auto update = dyn_cast<OptimizerOpInterface>(user)) {
      if (found.update && found.update != update)
        return std::nullopt;
      found.update = update;
      continue;
    }
    if (user->getBlock() != body || user->getNumRegions() > 0 ||
        !isMemoryEffectFree(user) || user->hasTrait<OpTrait::IsTerminator>())
      return std::nullopt;
    if (chain.insert(user))
      llvm::append_range(worklist, user->getUsers());
  }
  if (!found.update || found.update->getBlock() != body || !findStates(found))
    return std::nullopt;
  found.chain = chain.takeVector();
  llvm::sort(found.chain,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::SmallDenseSet<Value> known;
  known.insert(op.getOutputs().front());
  for (const Updated &state : found.states)
    known.insert(state.before);
  SmallVector<Operation *> ops(found.chain);
  ops.push_back(found.update);
  for (Operation *inner : ops) {
    for (Value operand : inner->getOperands()) {
      if (known.contains(operand) || isOfConstants(operand))
        continue;
      if (!isFloatScalar(operand))
        return std::nullopt;
      found.scalars.insert(operand);
    }
    known.insert(inner->result_begin(), inner->result_end());
  }
  return found;
}

/// Keeps of `found` those that are to be deferred, in the order in which
/// parameters are read.
LogicalResult DeferReductions::choose(SmallVectorImpl<Deferrable> &found) {
  FailureOr<CostModel> model =
      getCostModel(getOperation(), cluster, profileFile);
  if (failed(model))
    return failure();
  std::string why;
  std::optional<StepModel> stepModel = getStepModel(step, *model, why);
  if (!stepModel)
    return step.emitOpError("cannot be modelled: ") << why;
  // Seconds of compute up to and with each op.
  llvm::DenseMap<Operation *, double> until;
  double clock = 0;
  for (Operation &op : *body)
    until[&op] = clock += stepModel->getSeconds(&op);

  // Buckets share the latency of a collective.
  double total = 0, seconds = 0;
  for (const Deferrable &each : found)
    total += static_cast<double>(CostModel::getWireBytes(each.reduce));
  FailureOr<CostCurve> curve = model->getCollective(
      cast<CollectiveOpInterface>(found.front().reduce.getOperation()));
  if (succeeded(curve))
    seconds = curve->at(static_cast<int64_t>(total));
  std::vector<DeferralItem> items;
  for (Deferrable &each : found) {
    DeferralItem &item = items.emplace_back();
    item.bytes = CostModel::getWireBytes(each.reduce);
    item.seconds =
        total ? seconds * static_cast<double>(item.bytes) / total : 0;
    Operation *made = each.reduce.getInputs().front().getDefiningOp();
    item.ready = made ? until.lookup(made) : 0;
    item.needed = clock;
    for (const Updated &state : each.states)
      for (Operation *user : state.before.getUsers())
        if (Operation *reader = body->findAncestorOpInBlock(*user);
            reader && reader != each.update)
          item.needed =
              std::min(item.needed,
                       until.lookup(reader) - stepModel->getSeconds(reader));
  }
  DeferralChoice choice = maxBytes < 0 ? chooseDeferral(items, clock)
                                       : takeDeferral(items, clock, maxBytes);
  before = choice.before;
  after = choice.after;
  SmallVector<Deferrable, 0> chosen;
  for (size_t index : choice.items) {
    bytes += items[index].bytes;
    chosen.push_back(std::move(found[index]));
  }
  found = std::move(chosen);
  return success();
}

LogicalResult DeferReductions::defer(ArrayRef<Deferrable> chosen) {
  Operation *first = &body->front(), *exit = body->getTerminator();
  OpBuilder builder(first);
  GradientState state(step, /*isTransient=*/true);
  FailureOr<BlockArgument> added = state.add("pending", {});
  if (failed(added))
    return failure();
  flag = *added;
  auto scalar = cast<RankedTensorType>(flag.getType());
  auto number = [&](OpBuilder &at, float value) -> Value {
    return arith::ConstantOp::create(
        at, step.getLoc(),
        DenseElementsAttr::get(scalar, at.getF32FloatAttr(value)));
  };
  Value isPending =
      arith::CmpFOp::create(builder, step.getLoc(), arith::CmpFPredicate::OGT,
                            flag, number(builder, 0));
  OpBuilder atEnd(exit);
  state.setNext(flag, number(atEnd, 1));

  // What the updates of that step went by.
  IRMapping carried;
  for (const Deferrable &each : chosen)
    for (Value value : each.scalars) {
      if (carried.contains(value))
        continue;
      FailureOr<BlockArgument> argument = state.add(
          "pending." + std::to_string(carried.getValueMap().size()), {});
      if (failed(argument))
        return failure();
      carried.map(value, *argument);
      state.setNext(*argument, value);
    }

  for (const Deferrable &each : chosen) {
    AllReduceOp reduce = each.reduce;
    Value gradient = reduce.getInputs().front();
    // What is kept is what the rank computed.
    auto divide = gradient.getDefiningOp<PredivideOp>();
    if (divide)
      gradient = divide.getInput();
    auto type = cast<RankedTensorType>(gradient.getType());
    auto wide = type.clone(builder.getF32Type());
    Location loc = reduce.getLoc();
    FailureOr<BlockArgument> pending =
        state.add(each.states.front().before, ".pending", type.getShape(),
                  reduce.getMeshAttr(), reduce.getAxesAttr());
    if (failed(pending))
      return failure();
    Value left = *pending, next = gradient;
    if (wide != type) {
      left = arith::TruncFOp::create(builder, loc, type, left);
      OpBuilder atReduce(reduce);
      next = arith::ExtFOp::create(atReduce, loc, wide, next);
    }
    state.setNext(*pending, next);
    IRMapping mapping = carried;
    mapping.map(gradient, left);
    if (divide)
      builder.clone(*divide, mapping);
    builder.clone(*reduce, mapping)
        ->setAttr(kPendingAttr, builder.getUnitAttr());
    SmallVector<Operation *> ops(each.chain);
    ops.push_back(each.update);
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        if (!mapping.contains(operand) && isOfConstants(operand))
          cloneConstant(operand, builder, mapping);
      builder.clone(*op, mapping);
    }
    for (const Updated &one : each.states) {
      // Copies are of what is selected.
      if (Operation *cast = one.after.getOwner();
          llvm::is_contained(each.casts, cast)) {
        builder.clone(*cast, mapping);
        updated.push_back({one.before, mapping.lookup(one.after), one.result});
        continue;
      }
      auto stateType = cast<RankedTensorType>(one.before.getType());
      Value condition = broadcastScalar(builder, loc, isPending, stateType);
      Value now = arith::SelectOp::create(
          builder, loc, condition, mapping.lookup(one.after), one.before);
      updated.push_back({one.before, now, one.result});
      mapping.map(one.after, now);
    }
  }
  for (Operation &op : *body) {
    if (&op == first)
      break;
    start.push_back(&op);
  }
  for (const Deferrable &each : chosen) {
    for (const Updated &one : each.states)
      exit->setOperand(one.result, one.before);
    for (Operation *op : each.casts)
      op->erase();
    each.update->erase();
    for (Operation *op : llvm::reverse(each.chain))
      op->erase();
    AllReduceOp(each.reduce)->erase();
  }
  llvm::DenseSet<Operation *> inStart(start.begin(), start.end());
  for (auto &[argument, now, result] : updated)
    argument.replaceUsesWithIf(now, [&](OpOperand &use) {
      return !inStart.contains(body->findAncestorOpInBlock(*use.getOwner()));
    });
  state.apply();
  return success();
}

/// A function that does what the step begins with, and no more: for those who
/// read state between steps.
void DeferReductions::makeFlush() {
  llvm::SetVector<BlockArgument> arguments;
  for (Operation *op : start)
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        arguments.insert(argument);
  for (auto &[argument, now, result] : updated) // copies are not read
    arguments.insert(argument);
  SmallVector<Type> inputs, results;
  for (BlockArgument argument : arguments)
    inputs.push_back(argument.getType());
  for (auto &[argument, now, result] : updated)
    results.push_back(now.getType());
  results.push_back(flag.getType());
  auto function =
      func::FuncOp::create(step.getLoc(), kApplyPending,
                           FunctionType::get(&getContext(), inputs, results));
  SymbolTable(getOperation()).insert(function);
  Block *block = function.addEntryBlock();
  IRMapping mapping;
  for (auto [from, to] : llvm::zip(arguments, block->getArguments()))
    mapping.map(from, to);
  OpBuilder builder = OpBuilder::atBlockBegin(block);
  for (Operation *op : start)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (auto &[argument, now, result] : updated)
    returned.push_back(mapping.lookup(now));
  returned.push_back(arith::ConstantOp::create(
      builder, step.getLoc(),
      DenseElementsAttr::get(cast<ShapedType>(flag.getType()),
                             builder.getF32FloatAttr(0))));
  func::ReturnOp::create(builder, step.getLoc(), returned);

  SignatureEditor editor(function);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    NamedAttrList attrs(step.getArgAttrDict(argument.getArgNumber()));
    attrs.erase(kDonatedAttr);
    editor.setArgumentAttrs(i, attrs.getDictionary(&getContext()));
  }
  auto giveBack = [&](unsigned result, BlockArgument argument, unsigned from) {
    editor.setResultAttrs(result, step.getResultAttrDict(from));
    auto *place = llvm::find(arguments, argument);
    editor.setArgument(std::distance(arguments.begin(), place), kDonatedAttr,
                       builder.getI64IntegerAttr(result));
  };
  for (auto [i, one] : llvm::enumerate(updated))
    giveBack(i, std::get<0>(one), std::get<2>(one));
  giveBack(updated.size(), flag, *getDonation(step, flag.getArgNumber()));
  editor.apply();
}

void DeferReductions::runOnOperation() {
  start.clear();
  updated.clear();
  bytes = 0;
  before = after = 0;
  step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  if (!step.getFunctionBody().hasOneBlock()) {
    step.emitOpError("expects a body of one block");
    return signalPassFailure();
  }
  if (maxBytes == 0)
    return markAllAnalysesPreserved();
  body = &step.getFunctionBody().front();
  if (getOperation().lookupSymbol(kApplyPending)) {
    step.emitOpError() << "is beside a function @" << kApplyPending
                       << ", expected none of that name: it is that of updates "
                          "which steps leave to the next";
    return signalPassFailure();
  }
  SmallVector<Deferrable, 0> found;
  llvm::DenseSet<Operation *> updates; // one reduction each
  for (auto op : body->getOps<AllReduceOp>()) {
    std::optional<Deferrable> one = find(op);
    if (one && updates.insert(one->update).second)
      found.push_back(std::move(*one));
    else if (findParameterOf(op.getOutputs().front()))
      remark::missed(op.getLoc(), remark::RemarkOpts::name("NotDeferred")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
          << remark::reason("its result is not one gradient for one update of "
                            "state");
  }
  size_t possible = found.size();
  if (!found.empty() && failed(choose(found)))
    return signalPassFailure();
  if (!found.empty()) {
    if (failed(defer(found)))
      return signalPassFailure();
    makeFlush();
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("Deferred")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("reductions", found.size())
      << remark::metric("possible", possible) << remark::metric("bytes", bytes)
      << remark::metric("before", toMicros(before))
      << remark::metric("after", toMicros(after));
}
