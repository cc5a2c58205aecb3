//===- MakeAsync.cpp - start early, await late ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives start where they are and are awaited right before the first
// use. In program order: when a collective is wrapped whose operand an earlier
// one gives, that one's await is already before it.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_MAKEASYNCPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-make-async"

using namespace mlir;
using namespace mpcomm;

/// A barrier means that the rank waits; it stays synchronous.
static bool isBarrier(CollectiveOpInterface op) {
  return op.getCollectiveKind() == CollectiveKind::Barrier;
}

namespace {

/// A collective and the op before which it is awaited; null: at the end of the
/// block.
struct Wrapping {
  CollectiveOpInterface collective;
  Operation *await = nullptr;
};

/// Plans all awaits of a block before it changes anything.
class BlockWrapper {
public:
  BlockWrapper(Block &block, StringRef function)
      : block(block), function(function) {}

  /// Returns the number of collectives wrapped, here and in blocks inside.
  int64_t run();

private:
  void plan();
  void awaitBeforeBarriers(Operation *op);
  void report();
  void apply(Wrapping &wrapping);
  remark::RemarkOpts remarkNamed(StringRef name) const {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(function);
  }

  Block &block;
  StringRef function;
  SmallVector<Wrapping> wrappings;
  /// By communicator: those that no barrier is after so far.
  llvm::DenseMap<Attribute, SmallVector<size_t>> inFlight;
  int64_t wrappedInside = 0;
};

} // namespace

/// What is in flight on the communicator of a barrier, be it `op` or in it, is
/// awaited before `op`.
void BlockWrapper::awaitBeforeBarriers(Operation *op) {
  op->walk([&](CollectiveOpInterface inner) {
    auto it = inFlight.find(getCommunicator(inner));
    if (!isBarrier(inner) || it == inFlight.end())
      return;
    for (size_t i : it->second)
      if (!wrappings[i].await || op->isBeforeInBlock(wrappings[i].await))
        wrappings[i].await = op;
    inFlight.erase(it);
  });
}

void BlockWrapper::plan() {
  Operation *end = block.mightHaveTerminator() ? &block.back() : nullptr;
  for (Operation &op : block) {
    if (isa<AsyncOp>(op))
      continue;
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (collective && !isBarrier(collective)) {
      Operation *use = getFirstUse(&op);
      if (!use || use->isBeforeInBlock(&op)) // unused, or a graph region
        use = end;
      inFlight[getCommunicator(collective)].push_back(wrappings.size());
      wrappings.push_back({collective, use});
      continue;
    }
    if (!collective && op.getNumRegions() == 0)
      continue;
    awaitBeforeBarriers(&op);
    if (collective)
      remark::missed(op.getLoc(), remarkNamed("StaysSynchronous"))
          << remark::reason("a barrier means to wait");
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        wrappedInside += BlockWrapper(inner, function).run();
  }
}

/// A remark for each; counts ops only if somebody listens.
void BlockWrapper::report() {
  if (!block.getParentOp()->getContext()->getRemarkEngine())
    return;
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (auto [i, op] : llvm::enumerate(block))
    numbers[&op] = i;
  for (Wrapping &wrapping : wrappings) {
    int64_t end =
        wrapping.await ? numbers[wrapping.await] : int64_t(numbers.size());
    remark::passed(wrapping.collective.getLoc(), remarkNamed("MadeAsync"))
        << remark::metric("between", end - numbers[wrapping.collective] - 1);
  }
}

void BlockWrapper::apply(Wrapping &wrapping) {
  Operation *op = wrapping.collective;
  Location loc = op->getLoc();
  OpBuilder builder(op);
  auto type =
      FutureType::get(op->getContext(), llvm::to_vector(op->getResultTypes()));
  auto async = AsyncOp::create(builder, loc, type);

  if (wrapping.await)
    builder.setInsertionPoint(wrapping.await);
  else
    builder.setInsertionPointToEnd(&block);
  auto awaited = AwaitOp::create(builder, loc, async.getFuture());
  op->replaceAllUsesWith(awaited.getResults());

  builder.createBlock(&async.getBody());
  op->moveBefore(builder.getBlock(), builder.getBlock()->end());
  builder.setInsertionPointToEnd(builder.getBlock());
  YieldOp::create(builder, loc, op->getResults());
}

int64_t BlockWrapper::run() {
  plan();
  report();
  for (Wrapping &wrapping : wrappings)
    apply(wrapping);
  return wrappedInside + wrappings.size();
}

namespace {
struct MakeAsync : mpcomm::impl::MakeAsyncPassBase<MakeAsync> {
  using MakeAsyncPassBase::MakeAsyncPassBase;

  void runOnOperation() override {
    forEachFunction(getOperation(), [](FunctionOpInterface function) {
      int64_t wrapped = 0;
      for (Block &block : function.getFunctionBody())
        wrapped += BlockWrapper(block, function.getName()).run();
      remark::analysis(function.getLoc(), remark::RemarkOpts::name("MakeAsync")
                                              .category(DEBUG_TYPE)
                                              .function(function.getName()))
          << remark::metric("wrapped", wrapped);
    });
  }
};
} // namespace
