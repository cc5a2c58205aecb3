//===- AccumulateGradients.cpp - a step of several micro-batches ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What lies before the update phase, the forward and the backward pass, becomes
// a function that is called for all micro-batches but the last; that one stays
// where it is, so that what is reduced after it can be reduced under it.
// Gradients and the loss are added up, state is handed from one micro-batch to
// the next.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/MicroBatch.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-accumulate-gradients"

using namespace mlir;
using namespace mpcomm;

namespace {

class Accumulator {
public:
  explicit Accumulator(MicroBatch &batch)
      : micro(batch), step(batch.step), body(step.getFunctionBody().front()),
        builder(step.getContext()) {}
  void run();
  int64_t getBytes() const { return bytes; }

private:
  void collectBody();
  func::FuncOp createBody();
  void callBody(func::FuncOp part);
  void finishLast();

  MicroBatch &micro;
  func::FuncOp step;
  Block &body;
  int64_t bytes = 0;
  OpBuilder builder;
  llvm::SetVector<Operation *> part; // in the block's order
  SmallVector<Value> captured;       // what the part takes besides
  /// The sums and the state as the calls leave them.
  SmallVector<Value> totals, handed;
};

} // namespace

/// All that sums and state depend on.
void Accumulator::collectBody() {
  SmallVector<Value> worklist;
  llvm::DenseSet<Operation *> needed;
  llvm::SetVector<Value> arguments;
  for (const MicroBatchSum &sum : micro.sums)
    worklist.push_back(sum.value);
  for (const MicroBatchState &state : micro.states)
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
  llvm::DenseSet<Value> given(micro.batches.begin(), micro.batches.end());
  given.insert(micro.seeds.begin(), micro.seeds.end());
  for (const MicroBatchState &state : micro.states)
    given.insert(state.before);
  for (BlockArgument argument : body.getArguments())
    if (arguments.contains(argument) && !given.contains(argument))
      captured.push_back(argument);
}

/// The function: captured values, micro-batch, seeds, state, sums in; sums and
/// state out, in the buffers that came in.
func::FuncOp Accumulator::createBody() {
  SmallVector<Value> values(captured);
  llvm::append_range(values, micro.batches);
  llvm::append_range(values, micro.seeds);
  SmallVector<Type> inputs, results;
  for (Value value : values)
    inputs.push_back(value.getType());
  unsigned firstDonor = inputs.size();
  for (const MicroBatchSum &sum : micro.sums)
    results.push_back(sum.getTotalType());
  for (const MicroBatchState &state : micro.states)
    results.push_back(state.before.getType());
  llvm::append_range(inputs, results);

  auto function = func::FuncOp::create(
      step.getLoc(), (step.getName() + ".micro_batch").str(),
      builder.getFunctionType(inputs, results));
  function.setPrivate();
  SymbolTable(step->getParentOfType<ModuleOp>())
      .insert(function, Block::iterator(step));
  SignatureEditor editor(function);
  for (unsigned i = 0; i < results.size(); ++i)
    editor.setArgument(firstDonor + i, kDonatedAttr,
                       builder.getI64IntegerAttr(i));
  for (auto [i, value] : llvm::enumerate(values))
    copySharding(value, editor, i);
  for (auto [i, sum] : llvm::enumerate(micro.sums))
    if (ShardingAttr sharding = sum.getSharding()) {
      editor.setArgument(firstDonor + i, kShardingAttr, sharding);
      editor.setResult(i, kShardingAttr, sharding);
    }
  editor.apply();

  Block *block = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(values, block->getArguments().take_front(firstDonor));
  for (auto [i, state] : llvm::enumerate(micro.states))
    mapping.map(state.before,
                block->getArgument(firstDonor + micro.sums.size() + i));
  builder.setInsertionPointToStart(block);
  for (Operation *op : part)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (auto [i, sum] : llvm::enumerate(micro.sums)) {
    Value total = block->getArgument(firstDonor + i);
    Value value = mapping.lookup(sum.value);
    Location loc = value.getLoc();
    value =
        castFloat(builder, loc, value, getElementTypeOrSelf(total.getType()));
    returned.push_back(sum.combine(builder, total, value));
  }
  for (const MicroBatchState &state : micro.states)
    returned.push_back(mapping.lookup(state.after));
  func::ReturnOp::create(builder, step.getLoc(), returned);
  return function;
}

/// The micro-batches but the last, and what the last takes instead of the
/// arguments.
void Accumulator::callBody(func::FuncOp function) {
  for (BlockArgument batch : micro.batches) {
    auto type = cast<RankedTensorType>(batch.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[0] *= micro.count;
    batch.setType(type.clone(shape));
  }
  step.setFunctionType(builder.getFunctionType(
      llvm::to_vector(body.getArgumentTypes()), step.getResultTypes()));
  Operation *first = &body.front();
  builder.setInsertionPoint(first);
  for (const MicroBatchSum &sum : micro.sums)
    totals.push_back(sum.makeStart(builder, step.getLoc()));
  for (const MicroBatchState &state : micro.states)
    handed.push_back(state.before);
  for (int64_t i = 0; i + 1 < micro.count; ++i) {
    SmallVector<Value> operands(captured);
    for (BlockArgument batch : micro.batches)
      operands.push_back(sliceMicroBatch(builder, batch, i, micro.count));
    for (BlockArgument seed : micro.seeds)
      operands.push_back(seedMicroBatch(builder, seed, i));
    llvm::append_range(operands, totals);
    llvm::append_range(operands, handed);
    auto call =
        func::CallOp::create(builder, step.getLoc(), function, operands);
    totals.assign(call.getResults().begin(),
                  call.getResults().begin() + micro.sums.size());
    handed.assign(call.getResults().begin() + micro.sums.size(),
                  call.getResults().end());
  }
  // The last one, in place.
  auto replace = [&](Value from, Value to) {
    from.replaceUsesWithIf(to, [&](OpOperand &use) {
      Operation *user = body.findAncestorOpInBlock(*use.getOwner());
      return user == first || first->isBeforeInBlock(user);
    });
  };
  for (BlockArgument batch : micro.batches)
    replace(batch,
            sliceMicroBatch(builder, batch, micro.count - 1, micro.count));
  for (BlockArgument seed : micro.seeds)
    replace(seed, seedMicroBatch(builder, seed, micro.count - 1));
  for (auto [state, value] : llvm::zip(micro.states, handed))
    replace(state.before, value);
}

void Accumulator::finishLast() {
  for (auto [sum, total] : llvm::zip(micro.sums, totals)) {
    builder.setInsertionPointAfterValue(sum.value);
    Location loc = sum.value.getLoc();
    Value value = castFloat(builder, loc, sum.value,
                            getElementTypeOrSelf(total.getType()));
    bytes += mpcomm::detail::countBytes(total.getType());
    useMean(builder, sum, sum.uses, sum.combine(builder, total, value),
            micro.count);
    if (sum.narrowed && sum.narrowed->use_empty())
      sum.narrowed.erase();
  }
}

void Accumulator::run() {
  collectBody();
  func::FuncOp function = createBody();
  callBody(function);
  finishLast();
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
    func::FuncOp step = getTrainStep(getOperation());
    if (!step)
      return signalPassFailure();
    if (microBatches == 1)
      return markAllAnalysesPreserved();
    FailureOr<MicroBatch> micro = MicroBatch::get(step, microBatches);
    if (failed(micro))
      return signalPassFailure();
    Accumulator accumulator(*micro);
    accumulator.run();
    remark::analysis(step.getLoc(), remark::RemarkOpts::name("Accumulated")
                                        .category(DEBUG_TYPE)
                                        .function(step.getName()))
        << remark::metric("microBatches", int64_t(microBatches))
        << remark::metric("sums", micro->sums.size())
        << remark::metric("bytes", accumulator.getBytes());
  }
};

} // namespace
