//===- TestPrintCost.cpp - what the cost and precision models say ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Remarks on each op of a function that has CostOpInterface or
// PrecisionOpInterface, for -verify-diagnostics. Ops inside of such an op, as
// in the body of a linalg.generic, are part of its cost and get none.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

namespace {
struct TestPrintCost
    : PassWrapper<TestPrintCost, InterfacePass<FunctionOpInterface>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPrintCost)

  StringRef getArgument() const final { return "test-mpcomm-print-cost"; }
  StringRef getDescription() const final {
    return "Emits a remark with the cost and the precision class of each op";
  }

  void runOnOperation() override {
    getOperation()->walk<WalkOrder::PreOrder>([](Operation *op) {
      auto cost = dyn_cast<CostOpInterface>(op);
      auto precision = dyn_cast<PrecisionOpInterface>(op);
      if (!cost && !precision)
        return WalkResult::advance();
      InFlightDiagnostic remark = op->emitRemark();
      if (cost)
        remark << cost.getFlops() << " flops, reads " << cost.getBytesRead()
               << ", writes " << cost.getBytesWritten() << " bytes; ";
      if (precision) {
        remark << stringifyPrecisionClass(precision.getPrecisionClass());
        if (Type type = precision.getAccumulationType())
          remark << ", sums in " << type;
      }
      return WalkResult::skip();
    });
  }
};
} // namespace

void mpcomm::test::registerTestPrintCostPass() {
  PassRegistration<TestPrintCost>();
}
