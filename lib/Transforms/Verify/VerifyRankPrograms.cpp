//===- VerifyRankPrograms.cpp - the contract of Form 3 --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 3: synchronous collectives that all ranks come to, and replicated state.
//
//===----------------------------------------------------------------------===//

#include "Verify/Replication.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYRANKPROGRAMSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-rank-programs"

using namespace mlir;
using namespace mpcomm;

namespace {
struct VerifyRankPrograms
    : mpcomm::impl::VerifyRankProgramsPassBase<VerifyRankPrograms> {
  using VerifyRankProgramsPassBase::VerifyRankProgramsPassBase;

  void runOnOperation() override {
    bool ok = true;
    SmallVector<CollectiveOpInterface> collectives;
    getOperation().walk([&](Operation *op) {
      if (auto collective = dyn_cast<CollectiveOpInterface>(op))
        collectives.push_back(collective);
      if (!isa<AsyncOp, AwaitOp>(op))
        return;
      op->emitOpError() << "is in a rank program, expected synchronous "
                           "collectives";
      ok = false;
    });
    if (!ok || failed(verifyReplication(getOperation(), collectives, axis)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
