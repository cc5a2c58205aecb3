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

/// One walk in program order that checks futures and knows what is in flight.
class ScheduleChecker {
public:
  /// Checks the op and what it holds.
  void check(Operation *op);

  bool ok = true;

private:
  void start(AsyncOp async);
  void finish(AwaitOp await);
  void checkSynchronous(CollectiveOpInterface op);

  /// By communicator, in the order of their start.
  llvm::DenseMap<Attribute, std::map<int64_t, AsyncOp>> inFlight;
  llvm::DenseMap<Operation *, int64_t> started;
};

} // namespace

void ScheduleChecker::start(AsyncOp async) {
  ok &= verifyUses(async);
  int64_t number = started.size();
  started[async] = number;
  auto collective = cast<CollectiveOpInterface>(async.getCollective());
  inFlight[getCommunicator(collective)][number] = async;
}

void ScheduleChecker::finish(AwaitOp await) {
  auto async = await.getFuture().getDefiningOp<AsyncOp>();
  if (!async) // verifyOrigin has said so
    return;
  auto collective = cast<CollectiveOpInterface>(async.getCollective());
  inFlight[getCommunicator(collective)].erase(started.lookup(async));
}

void ScheduleChecker::checkSynchronous(CollectiveOpInterface op) {
  auto it = inFlight.find(getCommunicator(op));
  if (it == inFlight.end() || it->second.empty())
    return;
  ok = false;
  InFlightDiagnostic diag =
      op->emitOpError("runs while another collective of its communicator is in "
                      "flight, expected that one awaited before");
  diag.attachNote(it->second.begin()->second.getLoc())
      << "the other one starts here";
}

void ScheduleChecker::check(Operation *op) {
  if (isa<FunctionOpInterface>(op))
    inFlight.clear();
  for (Value result : op->getResults())
    ok &= verifyOrigin(result);
  if (auto async = dyn_cast<AsyncOp>(op))
    return start(async);
  if (auto await = dyn_cast<AwaitOp>(op))
    return finish(await);
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return checkSynchronous(collective);
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      for (Value argument : block.getArguments())
        ok &= verifyOrigin(argument);
      for (Operation &inner : block)
        check(&inner);
    }
}

namespace {
struct VerifyScheduledPrograms
    : mpcomm::impl::VerifyScheduledProgramsPassBase<VerifyScheduledPrograms> {
  using VerifyScheduledProgramsPassBase::VerifyScheduledProgramsPassBase;

  void runOnOperation() override {
    ScheduleChecker checker;
    checker.check(getOperation());
    if (!checker.ok)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
