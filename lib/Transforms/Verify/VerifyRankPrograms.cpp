//===- VerifyRankPrograms.cpp - the contract of Form 3 --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 3: synchronous collectives.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
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
    getOperation().walk([&](Operation *op) {
      if (!isa<AsyncOp, AwaitOp>(op))
        return;
      op->emitOpError() << "is in a rank program, expected synchronous "
                           "collectives";
      ok = false;
    });
    if (!ok)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
