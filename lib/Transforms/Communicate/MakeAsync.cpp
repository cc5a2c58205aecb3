//===- MakeAsync.cpp - start early, await late ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives start where they stand and are awaited right before the first
// use. In program order: when a collective is wrapped whose operand an earlier
// one gives, that one's await already stands before it.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockOrder.h"
#include "Communicate/Communicator.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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

/// For each of `collectives`, which are in program order, the position of the
/// next barrier of its communicator, nested or not; the end if there is none.
static SmallVector<unsigned>
getNextBarriers(const BlockOrder &order,
                   ArrayRef<CollectiveOpInterface> collectives) {
  llvm::DenseMap<Attribute, unsigned> next;
  SmallVector<unsigned> result(collectives.size(), order.size());
  size_t c = collectives.size();
  for (unsigned position = order.size(); position-- > 0;) {
    Operation *op = order.getOps()[position];
    if (c > 0 && collectives[c - 1] == op) {
      auto it = next.find(getCommunicator(collectives[--c]));
      if (it != next.end())
        result[c] = it->second;
      continue;
    }
    if (op->getNumRegions() == 0 && !isa<CollectiveOpInterface>(op))
      continue;
    op->walk([&](CollectiveOpInterface inner) {
      if (isBarrier(inner))
        next[getCommunicator(inner)] = position;
    });
  }
  return result;
}

/// Puts `collective` into an async, and the await before the op at position
/// `await`, the end of the block if there is none.
static void makeAsync(CollectiveOpInterface collective, const BlockOrder &order,
                      unsigned await) {
  Operation *op = collective;
  Location loc = op->getLoc();
  OpBuilder builder(op);
  auto type =
      FutureType::get(op->getContext(), llvm::to_vector(op->getResultTypes()));
  auto async = AsyncOp::create(builder, loc, type);

  if (await < order.size())
    builder.setInsertionPoint(order.getOps()[await]);
  else
    builder.setInsertionPointToEnd(op->getBlock());
  auto awaited = AwaitOp::create(builder, loc, async.getFuture());
  op->replaceAllUsesWith(awaited.getResults());

  builder.createBlock(&async.getBody());
  op->moveBefore(builder.getBlock(), builder.getBlock()->end());
  builder.setInsertionPointToEnd(builder.getBlock());
  YieldOp::create(builder, loc, op->getResults());
}

/// Returns the number of collectives wrapped.
static int64_t makeAsync(Block &block, StringRef function) {
  auto remarkNamed = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(function);
  };
  SmallVector<CollectiveOpInterface> collectives;
  for (Operation &op : block) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective)
      continue;
    if (!isBarrier(collective)) {
      collectives.push_back(collective);
      continue;
    }
    remark::missed(op.getLoc(), remarkNamed("StaysSynchronous"))
        << remark::reason("a barrier means to wait");
  }
  if (collectives.empty())
    return 0;

  BlockOrder order(block);
  unsigned end = order.size();
  if (block.mightHaveTerminator())
    --end;
  SmallVector<unsigned> barriers = getNextBarriers(order, collectives);
  for (auto [collective, next] : llvm::zip_equal(collectives, barriers)) {
    unsigned await = std::min({order.getFirstUse(collective), next, end});
    unsigned start = order.getPosition(collective);
    if (await <= start) // no dominance: a graph region
      await = end;
    remark::passed(collective.getLoc(), remarkNamed("MadeAsync"))
        << remark::metric("between", await - start - 1);
    makeAsync(collective, order, await);
  }
  return collectives.size();
}

namespace {
struct MakeAsync : mpcomm::impl::MakeAsyncPassBase<MakeAsync> {
  using MakeAsyncPassBase::MakeAsyncPassBase;

  void runOnOperation() override {
    getOperation().walk([](FunctionOpInterface function) {
      SmallVector<Block *> blocks;
      function->walk([&](Block *block) {
        if (!isa_and_nonnull<AsyncOp>(block->getParentOp()))
          blocks.push_back(block);
      });
      int64_t wrapped = 0;
      for (Block *block : blocks)
        wrapped += makeAsync(*block, function.getName());
      remark::analysis(function.getLoc(), remark::RemarkOpts::name("MakeAsync")
                                              .category(DEBUG_TYPE)
                                              .function(function.getName()))
          << remark::metric("wrapped", wrapped);
    });
  }
};
} // namespace
