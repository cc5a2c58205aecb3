//===- TestPrintRankVariance.cpp - which values differ between ranks ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Remarks on each op whose results RankVariance takes to differ between ranks,
// and on each collective under control flow that may.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Analysis/Dataflow/RankVariance.h"

using namespace mlir;
using namespace mpcomm;

namespace {
struct TestPrintRankVariance
    : PassWrapper<TestPrintRankVariance, InterfacePass<FunctionOpInterface>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPrintRankVariance)

  TestPrintRankVariance() = default;
  TestPrintRankVariance(const TestPrintRankVariance &other)
      : PassWrapper(other) {}

  StringRef getArgument() const final {
    return "test-mpcomm-print-rank-variance";
  }
  StringRef getDescription() const final {
    return "Emits a remark on each op that gives different values to the ranks";
  }

  Option<std::string> axis{*this, "axis", llvm::cl::desc("Mesh axis"),
                           llvm::cl::init("dp")};

  void runOnOperation() override {
    RankVariance variance(getOperation(), axis);
    getOperation()->walk([&](Operation *op) {
      if (llvm::any_of(op->getResults(),
                       [&](Value value) { return variance.varies(value); }))
        op->emitRemark() << "varies, from "
                         << variance.describeOrigin(op->getResult(0));
      if (isa<CollectiveOpInterface>(op) && variance.getDivergence(op))
        op->emitRemark() << "runs under control flow that varies";
    });
  }
};
} // namespace

void mpcomm::test::registerTestPrintRankVariancePass() {
  PassRegistration<TestPrintRankVariance>();
}
