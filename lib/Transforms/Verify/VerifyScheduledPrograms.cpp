//===- VerifyScheduledPrograms.cpp - the contract of Form 4 ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 4: futures are awaited once, and communicators are not used from two
// streams at a time.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "Verify/Replication.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPROGRAMSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-scheduled-programs"

using namespace mlir;
using namespace mpcomm;

/// Futures come from asyncs only.
static bool verifyOrigin(Value value) {
  if (!isa<FutureType>(value.getType()) || value.getDefiningOp<AsyncOp>())
    return true;
  if (Operation *op = value.getDefiningOp())
    op->emitOpError("gives a future, expected only mpcomm.async to do so");
  else
    emitError(value.getLoc())
        << "a block argument is a future, expected it to be made by "
           "mpcomm.async in the block that awaits it";
  return false;
}

/// The future of `async` is awaited in its block, and not used otherwise. That
/// it is awaited once only is await C1.
static bool verifyUses(AsyncOp async) {
  Value future = async.getFuture();
  if (future.use_empty()) {
    async.emitOpError("is never awaited, expected one mpcomm.await");
    return false;
  }
  for (Operation *user : future.getUsers()) {
    auto await = dyn_cast<AwaitOp>(user);
    StringRef what;
    if (!await)
      what = "uses a future, expected only mpcomm.await to do so";
    else if (await->getBlock() != async->getBlock())
      what = "awaits a future of another block, expected both in one block";
    if (what.empty())
      continue;
    InFlightDiagnostic diag = user->emitOpError(what);
    diag.attachNote(async.getLoc()) << "the future is made here";
    return false;
  }
  return true;
}

namespace {

/// Collectives in flight, by communicator, in the order of their start.
class InFlight {
public:
  /// Walks a block in program order; false after the first error.
  bool walk(Block &block);

private:
  llvm::DenseMap<Attribute, std::map<int64_t, AsyncOp>> byCommunicator;
  llvm::DenseMap<Operation *, int64_t> started;
};

} // namespace

bool InFlight::walk(Block &block) {
  for (Operation &op : block) {
    if (auto async = dyn_cast<AsyncOp>(op)) {
      int64_t number = started.size();
      started[async] = number;
      auto collective = cast<CollectiveOpInterface>(async.getCollective());
      byCommunicator[getCommunicator(collective)][number] = async;
      continue;
    }
    if (auto await = dyn_cast<AwaitOp>(op)) {
      auto async = await.getFuture().getDefiningOp<AsyncOp>();
      auto collective = cast<CollectiveOpInterface>(async.getCollective());
      byCommunicator[getCommunicator(collective)].erase(started.lookup(async));
      continue;
    }
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      auto it = byCommunicator.find(getCommunicator(collective));
      if (it != byCommunicator.end() && !it->second.empty()) {
        InFlightDiagnostic diag =
            op.emitOpError("runs while another collective of its communicator "
                           "is in flight, expected that one awaited before");
        diag.attachNote(it->second.begin()->second.getLoc())
            << "the other one starts here";
        return false;
      }
    }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        if (!walk(inner))
          return false;
  }
  return true;
}

namespace {
struct VerifyScheduledPrograms
    : mpcomm::impl::VerifyScheduledProgramsPassBase<VerifyScheduledPrograms> {
  using VerifyScheduledProgramsPassBase::VerifyScheduledProgramsPassBase;

  void runOnOperation() override {
    bool ok = true;
    getOperation().walk([&](Operation *op) {
      for (Value result : op->getResults())
        ok &= verifyOrigin(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value argument : block.getArguments())
            ok &= verifyOrigin(argument);
      if (auto async = dyn_cast<AsyncOp>(op))
        ok &= verifyUses(async);
    });
    if (ok)
      getOperation().walk([&](FunctionOpInterface function) {
        InFlight inFlight;
        for (Block &block : function.getFunctionBody())
          ok &= inFlight.walk(block);
      });
    if (!ok || failed(verifyReplication(getOperation(), axis)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
