//===- VerifyCommunication.cpp - no rank hangs, all data match ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives all ranks' programs to the proof, and shows at the ops what it finds.
//
//===----------------------------------------------------------------------===//

#include "Verify/CommunicationModel.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYCOMMUNICATIONPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-communication"

using namespace mlir;
using namespace mpcomm;

/// Says by which calls a rank comes to a place, from the innermost.
static void noteCalls(InFlightDiagnostic &diag,
                      const CommunicationSource &source, int call) {
  for (; call >= 0; call = source.calls[call].call)
    diag.attachNote(source.calls[call].op->getLoc()) << "called here";
}

static std::string describeRank(const CommunicationModel &model,
                                const ProofSide &side) {
  std::string text = "rank " + std::to_string(side.rank);
  for (auto [i, at] : llvm::enumerate(side.coordinates))
    text += (i ? ", " : " (") + model.problem.mesh[i].name + " " +
            std::to_string(at);
  return text + ")";
}

static Location endOf(FunctionOpInterface function) {
  return function.getFunctionBody().front().back().getLoc();
}

/// Where a rank calls the op of `side`, or the end of its program.
static Location locate(const CommunicationModel &model, const ProofSide &side) {
  const CommunicationSource &source = model.sources[side.classIndex];
  return side.op < 0 ? endOf(source.function)
                     : source.ops[side.op].op->getLoc();
}

static int callOf(const CommunicationModel &model, const ProofSide &side) {
  return side.op < 0 ? -1 : model.sources[side.classIndex].ops[side.op].call;
}

static void reportSides(const CommunicationModel &model,
                        const ProofViolation &violation) {
  const ProofSide &first = violation.sides.front();
  const CommunicationSource &source = model.sources[first.classIndex];
  // The instruction is what is wrong where it is no start.
  CommunicationPlace place;
  if (first.instruction >= 0)
    place = source.instructions[first.instruction];
  InFlightDiagnostic diag =
      emitError(place.op ? place.op->getLoc() : locate(model, first))
      << violation.message;
  noteCalls(diag, source, place.op ? place.call : -1);
  if (place.op && first.op >= 0 && place.op != source.ops[first.op].op)
    diag.attachNote(locate(model, first)) << "it starts here";
  for (const ProofSide &side : llvm::drop_begin(violation.sides)) {
    diag.attachNote(locate(model, side))
        << describeRank(model, side)
        << (side.op < 0 ? " is at its end here" : " calls this");
    noteCalls(diag, model.sources[side.classIndex], callOf(model, side));
  }
}

/// Where a rank of a cycle stands, and the call that it is in.
static std::pair<Location, int> locateWait(const CommunicationModel &model,
                                           const ProofWait &wait) {
  const CommunicationSource &source = model.sources[wait.head.classIndex];
  if (wait.awaited < 0 && wait.instruction >= 0)
    return {endOf(source.function), -1};
  CommunicationPlace place = wait.awaited < 0
                                 ? source.ops[wait.head.op]
                                 : source.instructions[wait.instruction];
  return {place.op->getLoc(), place.call};
}

static void reportDeadlock(const CommunicationModel &model,
                           const ProofViolation &violation) {
  // The first line is for all, the others for one rank each.
  SmallVector<StringRef> lines;
  StringRef(violation.message).split(lines, '\n');
  InFlightDiagnostic diag =
      emitError(locateWait(model, violation.cycle.front()).first)
      << lines.front();
  for (auto [wait, line] :
       llvm::zip(violation.cycle, llvm::drop_begin(lines))) {
    if (!line.trim().starts_with("rank")) {
      diag.attachNote(model.symbol->getLoc()) << line.trim();
      break;
    }
    auto [loc, call] = locateWait(model, wait);
    diag.attachNote(loc) << line.trim();
    noteCalls(diag, model.sources[wait.head.classIndex], call);
    if (locate(model, wait.head) != loc)
      diag.attachNote(locate(model, wait.head)) << "what it waits for";
    diag.attachNote(locate(model, wait.needed))
        << "what is needed of " << describeRank(model, wait.needed);
    noteCalls(diag, model.sources[wait.needed.classIndex],
              callOf(model, wait.needed));
  }
  if (!violation.moved.empty())
    diag.attachNote(locate(model, violation.moved.front())) << violation.advice;
}

/// Reports what the proof found at the ops.
static void report(const CommunicationModel &model,
                   const ProofViolation &violation) {
  if (violation.kind == ProofViolationKind::Deadlock)
    return reportDeadlock(model, violation);
  if (violation.sides.empty()) {
    emitError(model.symbol->getLoc())
        << "@" << model.name << " cannot be proved: " << violation.message;
    return;
  }
  reportSides(model, violation);
}

namespace {
struct VerifyCommunication
    : mpcomm::impl::VerifyCommunicationPassBase<VerifyCommunication> {
  using VerifyCommunicationPassBase::VerifyCommunicationPassBase;

  /// Those of modules within, too.
  bool verify(ModuleOp module) {
    bool ok = true;
    for (auto inner : module.getOps<ModuleOp>())
      ok &= verify(inner);
    auto models = readCommunication(module, buffered);
    if (failed(models))
      return false;
    for (const CommunicationModel &model : *models) {
      ProofResult result = proveCommunication(model.problem);
      ok &= result.accepted();
      if (!result.accepted()) {
        report(model, result.violation);
        continue;
      }
      int64_t collectives = 0;
      for (const ProofClass &c : model.problem.classes)
        collectives += int64_t(c.program.collectives.size());
      remark::analysis(model.symbol->getLoc(),
                       remark::RemarkOpts::name("Proved")
                           .category(DEBUG_TYPE)
                           .function(model.name))
          << remark::metric("ranks", result.ranks)
          << remark::metric("cells", result.cells)
          << remark::metric("instructions", result.instructions)
          << remark::metric("collectives", collectives);
    }
    return ok;
  }

  void runOnOperation() override {
    if (!verify(getOperation()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
