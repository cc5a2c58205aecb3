//===- AccumulateGradients.cpp - a step of several micro-batches ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What lies in front of the first collective or update, the forward and the
// backward pass, becomes a function that is called for all micro-batches but
// the last; that one stays where it is, so that what is reduced behind it can
// be reduced under it. Gradients and the loss are added up, state is handed
// from one micro-batch to the next.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-accumulate-gradients"

using namespace mlir;
using namespace mpcomm;

namespace {

/// A value of the micro-batch that what follows needs as its mean, a gradient
/// or the loss, or as its maximum.
struct Sum {
  Value value; // what is added up, in f32 or wider
  bool isMaximum = false;
  /// The value is narrowed before it is used: here, from `value`.
  arith::TruncFOp narrowed;
  SmallVector<OpOperand *> uses; // behind the micro-batch
};

/// State that each micro-batch takes from the one before.
struct State {
  BlockArgument before;
  Value after;
};

class Accumulator {
public:
  Accumulator(func::FuncOp step, int64_t microBatches)
      : step(step), body(step.getFunctionBody().front()), count(microBatches),
        builder(step.getContext()) {}
  LogicalResult run();
  size_t getNumSums() const { return sums.size(); }
  int64_t getBytes() const { return bytes; }

private:
  void findTail();
  LogicalResult findState();
  LogicalResult findSums();
  LogicalResult addSum(OpOperand &use);
  LogicalResult checkBatch();
  void collectPart();
  func::FuncOp createPart();
  Value sliceOf(BlockArgument batch, int64_t index);
  Value seedOf(BlockArgument seed, int64_t index);
  void callPart(func::FuncOp part);
  void finishLast();
  void useMean(Sum &sum, Value total);
  Value combine(const Sum &sum, Value total, Value value);
  Value scaled(Location loc, Value total);
  bool isTail(Operation *op) const { return tail.contains(op); }

  func::FuncOp step;
  Block &body;
  int64_t count, bytes = 0;
  OpBuilder builder;
  /// Collectives, updates, and what depends on them.
  llvm::DenseSet<Operation *> tail;
  SmallVector<BlockArgument> batches, seeds;
  SmallVector<State> states;
  SmallVector<Sum> sums;
  llvm::DenseMap<Value, unsigned> sumOf; // by the value that is used
  llvm::SetVector<Operation *> part;     // in the block's order
  SmallVector<Value> captured;           // what the part takes besides
  /// The sums and the state as the calls leave them.
  SmallVector<Value> totals, handed;
};

} // namespace

/// The terminator counts as an op of the tail: what it returns leaves the
/// micro-batch.
void Accumulator::findTail() {
  for (Operation &op : body) {
    bool ends = isa<OptimizerOpInterface, CollectiveOpInterface, AsyncOp>(op) ||
                op.hasTrait<OpTrait::IsTerminator>();
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        ends |= tail.contains(def);
    if (op.getNumRegions())
      op.walk([&](Operation *nested) {
        ends |= isa<CollectiveOpInterface>(nested);
        for (Value operand : nested->getOperands())
          if (Operation *def = operand.getDefiningOp())
            ends |= tail.contains(def);
      });
    if (ends)
      tail.insert(&op);
  }
}

/// A batch that is used behind the first collective belongs to a forward or
/// backward pass that communicates, which a micro-batch cannot.
LogicalResult Accumulator::checkBatch() {
  for (BlockArgument argument : body.getArguments()) {
    std::optional<Role> role = getArgumentRole(step, argument.getArgNumber());
    if (role != Role::Batch && role != Role::Rng)
      continue;
    std::string what = describeArgument(step, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (role == Role::Rng) {
      if (!type || !type.hasStaticShape() ||
          !isa<IntegerType>(type.getElementType()))
        return step.emitOpError()
               << "has " << what << " of type " << argument.getType()
               << ", expected a ranked tensor of integers of static shape, to "
                  "make a seed of each micro-batch";
      seeds.push_back(argument);
      continue;
    }
    batches.push_back(argument);
    if (!type || !type.hasStaticShape() || type.getRank() == 0)
      return step.emitOpError()
             << "has " << what << " of type " << argument.getType()
             << ", expected a ranked tensor of static shape with samples along "
                "its first dimension";
    if (type.getDimSize(0) > INT64_MAX / count)
      return step.emitOpError() << "has " << what << " of "
                                << type.getDimSize(0) << " samples, too many "
                                << "for " << count << " micro-batches";
    for (Operation *user : argument.getUsers())
      if (isTail(body.findAncestorOpInBlock(*user))) {
        InFlightDiagnostic diag = step.emitOpError()
                                  << "needs " << what
                                  << " behind a collective or an update, "
                                     "expected all of the forward and backward "
                                     "pass in front of them";
        diag.attachNote(user->getLoc()) << "it is used here";
        return diag;
      }
  }
  if (batches.empty())
    return step.emitOpError("has no argument of role batch to cut into "
                            "micro-batches");
  return success();
}

/// State that a micro-batch computes without an update: running statistics,
/// amax histories. It may be reduced behind the micro-batch.
LogicalResult Accumulator::findState() {
  auto exit = cast<func::ReturnOp>(body.getTerminator());
  for (OpOperand &use : exit->getOpOperands()) {
    unsigned index = use.getOperandNumber();
    std::optional<Role> role = getResultRole(step, index);
    if (!role || !isStateRole(*role))
      continue;
    Value value = use.get();
    for (auto reduce = value.getDefiningOp<AllReduceOp>();
         reduce && reduce.getReduction() != Reduction::Max;
         reduce = value.getDefiningOp<AllReduceOp>())
      value = reduce.getInputs()[cast<OpResult>(value).getResultNumber()];
    Operation *def = value.getDefiningOp();
    if (!def || isTail(def) || sumOf.contains(value))
      continue;
    auto *argument = llvm::find_if(body.getArguments(), [&](BlockArgument a) {
      return getDonation(step, a.getArgNumber()) == int64_t(index);
    });
    if (argument == body.getArguments().end())
      return step.emitOpError()
             << "makes " << describeResult(step, index)
             << " in the micro-batch, expected an argument that donates its "
                "buffer to it, to hand it to the next";
    if (argument->getType() != value.getType())
      return step.emitOpError()
             << "makes " << describeResult(step, index) << " of type "
             << value.getType() << " in the micro-batch, expected that of "
             << describeArgument(step, argument->getArgNumber())
             << ", which it takes the place of";
    states.push_back({*argument, value});
  }
  return success();
}

/// The mean over the micro-batches takes the place of `use`.
LogicalResult Accumulator::addSum(OpOperand &use) {
  Value value = use.get();
  auto [known, isNew] = sumOf.try_emplace(value, sums.size());
  if (!isNew) {
    sums[known->second].uses.push_back(&use);
    return success();
  }
  if (auto reduce = dyn_cast<AllReduceOp>(use.getOwner());
      reduce && reduce.getReduction() != Reduction::Sum &&
      reduce.getReduction() != Reduction::Mean &&
      reduce.getReduction() != Reduction::Max)
    return reduce.emitOpError("reduces a value of the micro-batch, expected a "
                              "sum, a mean or a maximum");
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !isa<FloatType>(type.getElementType()))
    return use.getOwner()->emitOpError()
           << "uses a value of type " << value.getType()
           << " of the micro-batch, expected floats of static shape, of which "
              "there is a mean";
  Sum sum;
  sum.value = value;
  if (auto reduce = dyn_cast<AllReduceOp>(use.getOwner()))
    sum.isMaximum = reduce.getReduction() == Reduction::Max;
  if (auto narrow = value.getDefiningOp<arith::TruncFOp>()) {
    sum.narrowed = narrow;
    sum.value = narrow.getIn();
  }
  sum.uses.push_back(&use);
  sums.push_back(std::move(sum));
  return success();
}

LogicalResult Accumulator::findSums() {
  llvm::DenseSet<Value> isState;
  for (const State &state : states)
    isState.insert(state.after);
  for (Operation &op : body) {
    if (!isTail(&op))
      continue;
    for (OpOperand &use : op.getOpOperands()) {
      Operation *def = use.get().getDefiningOp();
      if (!def || isTail(def) || isState.contains(use.get()))
        continue;
      if (isa<func::ReturnOp>(op)) {
        unsigned index = use.getOperandNumber();
        if (getResultRole(step, index) != Role::Loss)
          return step.emitOpError()
                 << "makes " << describeResult(step, index)
                 << " in the micro-batch, expected a loss or state there";
      }
      if (matchPattern(use.get(), m_Constant()))
        continue;
      if (failed(addSum(use)))
        return failure();
    }
  }
  return success();
}

Value Accumulator::combine(const Sum &sum, Value total, Value value) {
  if (sum.isMaximum)
    return arith::MaximumFOp::create(builder, value.getLoc(), total, value);
  return arith::AddFOp::create(builder, value.getLoc(), total, value);
}

/// All that sums and state depend on, but what is constant for a reason: it is
/// cheaper to make again than to hand over.
void Accumulator::collectPart() {
  SmallVector<Value> worklist;
  llvm::DenseSet<Operation *> needed;
  llvm::SetVector<Value> arguments;
  for (const Sum &sum : sums)
    worklist.push_back(sum.value);
  for (const State &state : states)
    worklist.push_back(state.after);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (!def) {
      arguments.insert(value);
      continue;
    }
    def = body.findAncestorOpInBlock(*def);
    if (!def || !needed.insert(def).second)
      continue;
    def->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (operand.getParentBlock() == &body)
          worklist.push_back(operand);
    });
  }
  for (Operation &op : body)
    if (needed.contains(&op))
      part.insert(&op);
  llvm::DenseSet<Value> given(batches.begin(), batches.end());
  given.insert(seeds.begin(), seeds.end());
  for (const State &state : states)
    given.insert(state.before);
  for (BlockArgument argument : body.getArguments())
    if (arguments.contains(argument) && !given.contains(argument))
      captured.push_back(argument);
}

/// The function: captured values, micro-batch, seeds, state, sums in; sums and
/// state out, in the buffers that came in.
func::FuncOp Accumulator::createPart() {
  SmallVector<Value> values(captured);
  llvm::append_range(values, batches);
  llvm::append_range(values, seeds);
  SmallVector<Type> inputs, results;
  for (Value value : values)
    inputs.push_back(value.getType());
  unsigned firstDonor = inputs.size();
  for (const Sum &sum : sums)
    results.push_back(
        getElementTypeOrSelf(sum.value.getType()).getIntOrFloatBitWidth() < 32
            ? cast<ShapedType>(sum.value.getType()).clone(builder.getF32Type())
            : sum.value.getType());
  for (const State &state : states)
    results.push_back(state.before.getType());
  llvm::append_range(inputs, results);

  auto function = func::FuncOp::create(
      step.getLoc(), (step.getName() + ".micro_batch").str(),
      builder.getFunctionType(inputs, results));
  function.setPrivate();
  SymbolTable(step->getParentOfType<ModuleOp>())
      .insert(function, Block::iterator(step));
  for (unsigned i = 0; i < results.size(); ++i)
    function.setArgAttr(firstDonor + i, kDonatedAttr,
                        builder.getI64IntegerAttr(i));

  Block *block = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(values, block->getArguments().take_front(firstDonor));
  for (auto [i, state] : llvm::enumerate(states))
    mapping.map(state.before, block->getArgument(firstDonor + sums.size() + i));
  builder.setInsertionPointToStart(block);
  for (Operation *op : part)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value total = block->getArgument(firstDonor + i);
    Value value = mapping.lookup(sum.value);
    Location loc = value.getLoc();
    value =
        castFloat(builder, loc, value, getElementTypeOrSelf(total.getType()));
    returned.push_back(combine(sum, total, value));
  }
  for (const State &state : states)
    returned.push_back(mapping.lookup(state.after));
  func::ReturnOp::create(builder, step.getLoc(), returned);
  return function;
}

/// Samples of micro-batch `index`, of the argument that now has all of them.
Value Accumulator::sliceOf(BlockArgument batch, int64_t index) {
  auto type = cast<RankedTensorType>(batch.getType());
  int64_t samples = type.getDimSize(0) / count;
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
      strides(type.getRank(), 1), shape(type.getShape());
  starts[0] = index * samples;
  limits[0] = starts[0] + samples;
  shape[0] = samples;
  return SliceOp::create(builder, batch.getLoc(), type.clone(shape), batch,
                         starts, limits, strides);
}

/// A seed of its own for each micro-batch: the words of a counter-based
/// generator's key may be any.
Value Accumulator::seedOf(BlockArgument seed, int64_t index) {
  auto type = cast<RankedTensorType>(seed.getType());
  if (index == 0)
    return seed;
  SmallVector<APInt> words(type.getNumElements(),
                           APInt(type.getElementTypeBitWidth(), 0));
  if (!words.empty())
    words.back() = APInt(type.getElementTypeBitWidth(), index);
  Value shift = arith::ConstantOp::create(builder, seed.getLoc(),
                                          DenseElementsAttr::get(type, words));
  return arith::AddIOp::create(builder, seed.getLoc(), seed, shift);
}

/// The micro-batches but the last, and what the last takes instead of the
/// arguments.
void Accumulator::callPart(func::FuncOp function) {
  for (BlockArgument batch : batches) {
    auto type = cast<RankedTensorType>(batch.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[0] *= count;
    batch.setType(type.clone(shape));
  }
  step.setFunctionType(builder.getFunctionType(
      llvm::to_vector(body.getArgumentTypes()), step.getResultTypes()));
  Operation *first = &body.front();
  builder.setInsertionPoint(first);
  for (auto [sum, type] : llvm::zip(sums, function.getResultTypes())) {
    auto element = cast<FloatType>(getElementTypeOrSelf(type));
    Attribute start = builder.getFloatAttr(
        element, sum.isMaximum
                     ? APFloat::getInf(element.getFloatSemantics(), true)
                     : APFloat::getZero(element.getFloatSemantics()));
    auto scalar = arith::ConstantOp::create(
        builder, step.getLoc(),
        DenseElementsAttr::get(RankedTensorType::get({}, element), start));
    totals.push_back(BroadcastInDimOp::create(builder, step.getLoc(), type,
                                              scalar, ArrayRef<int64_t>()));
  }
  for (const State &state : states)
    handed.push_back(state.before);
  for (int64_t i = 0; i + 1 < count; ++i) {
    SmallVector<Value> operands(captured);
    for (BlockArgument batch : batches)
      operands.push_back(sliceOf(batch, i));
    for (BlockArgument seed : seeds)
      operands.push_back(seedOf(seed, i));
    llvm::append_range(operands, totals);
    llvm::append_range(operands, handed);
    auto call =
        func::CallOp::create(builder, step.getLoc(), function, operands);
    totals.assign(call.getResults().begin(),
                  call.getResults().begin() + sums.size());
    handed.assign(call.getResults().begin() + sums.size(),
                  call.getResults().end());
  }
  // The last one, in place.
  auto replace = [&](Value from, Value to) {
    from.replaceUsesWithIf(to, [&](OpOperand &use) {
      Operation *user = body.findAncestorOpInBlock(*use.getOwner());
      return user == first || first->isBeforeInBlock(user);
    });
  };
  for (BlockArgument batch : batches)
    replace(batch, sliceOf(batch, count - 1));
  for (BlockArgument seed : seeds)
    replace(seed, seedOf(seed, count - 1));
  for (auto [state, value] : llvm::zip(states, handed))
    replace(state.before, value);
}

Value Accumulator::scaled(Location loc, Value total) {
  auto type = cast<RankedTensorType>(total.getType());
  Value share = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getFloatAttr(type.getElementType(), 1.0 / count)));
  return arith::MulFOp::create(builder, loc, total, share);
}

/// Divides by the number of micro-batches, behind a reduction in f32 that is
/// the only use: what is summed then travels from where it was added up.
void Accumulator::useMean(Sum &sum, Value total) {
  Location loc = total.getLoc();
  auto reduce = dyn_cast<AllReduceOp>(sum.uses.front()->getOwner());
  bool isLinear = reduce && !sum.isMaximum;
  if (!sum.narrowed && sum.uses.size() == 1 && isLinear &&
      sum.uses.front()->get().getType() == total.getType()) {
    sum.uses.front()->set(total);
    Value reduced = reduce->getResult(sum.uses.front()->getOperandNumber());
    builder.setInsertionPointAfter(reduce);
    Value mean = scaled(loc, reduced);
    reduced.replaceAllUsesExcept(mean, mean.getDefiningOp());
    return;
  }
  Value mean = sum.isMaximum ? total : scaled(loc, total);
  mean = castFloat(builder, loc, mean,
                   getElementTypeOrSelf(sum.uses.front()->get().getType()));
  for (OpOperand *use : sum.uses)
    use->set(mean);
}

void Accumulator::finishLast() {
  for (auto [sum, total] : llvm::zip(sums, totals)) {
    builder.setInsertionPointAfterValue(sum.value);
    Location loc = sum.value.getLoc();
    Value value = castFloat(builder, loc, sum.value,
                            getElementTypeOrSelf(total.getType()));
    bytes += mpcomm::detail::countBytes(total.getType());
    useMean(sum, combine(sum, total, value));
    if (sum.narrowed && sum.narrowed->use_empty())
      sum.narrowed.erase();
  }
}

LogicalResult Accumulator::run() {
  if (!step.getFunctionBody().hasOneBlock() ||
      !isa<func::ReturnOp>(body.getTerminator()))
    return step.emitOpError("expects a body of one block that returns");
  findTail();
  if (failed(checkBatch()) || failed(findState()) || failed(findSums()))
    return failure();
  collectPart();
  func::FuncOp function = createPart();
  callPart(function);
  finishLast();
  return success();
}

namespace {

struct AccumulateGradients
    : public mpcomm::impl::AccumulateGradientsPassBase<AccumulateGradients> {
  using AccumulateGradientsPassBase::AccumulateGradientsPassBase;

  void runOnOperation() override {
    if (microBatches < 1 || microBatches > (1 << 20)) {
      getOperation().emitError()
          << "expected a number of micro-batches in [1, " << (1 << 20)
          << "], got " << int64_t(microBatches);
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>(kTrainStep);
    if (!step || step.isExternal()) {
      getOperation().emitError()
          << "expected a function @" << kTrainStep << " with a body";
      return signalPassFailure();
    }
    if (microBatches == 1)
      return markAllAnalysesPreserved();
    Accumulator accumulator(step, microBatches);
    if (failed(accumulator.run()))
      return signalPassFailure();
    remark::analysis(step.getLoc(), remark::RemarkOpts::name("Accumulated")
                                        .category(DEBUG_TYPE)
                                        .function(step.getName()))
        << remark::metric("microBatches", int64_t(microBatches))
        << remark::metric("sums", accumulator.getNumSums())
        << remark::metric("bytes", accumulator.getBytes());
  }
};

} // namespace
