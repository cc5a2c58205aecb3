//===- TestPrintShardings.cpp - which values differ between ranks ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Remarks on each op whose results AxisShardings takes to differ between ranks,
// and on each collective under control flow that may.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"

using namespace mlir;
using namespace mpcomm;

namespace {
struct TestPrintShardings
    : PassWrapper<TestPrintShardings, InterfacePass<FunctionOpInterface>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPrintShardings)

  TestPrintShardings() = default;
  TestPrintShardings(const TestPrintShardings &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-mpcomm-print-shardings"; }
  StringRef getDescription() const final {
    return "Emits a remark on each op that gives different values to the ranks";
  }

  Option<std::string> axis{*this, "axis", llvm::cl::desc("Mesh axis"),
                           llvm::cl::init("dp")};

  void runOnOperation() override {
    AxisShardings shardings(getOperation(), axis);
    getOperation()->walk([&](Operation *op) {
      for (Value value : op->getResults())
        if (shardings.varies(value)) {
          op->emitRemark() << "is " << shardings.get(value).describe()
                           << ", from " << shardings.describeOrigin(value);
          break;
        }
      if (isa<CollectiveOpInterface>(op) && shardings.getDivergence(op))
        op->emitRemark() << "runs under control flow that varies";
    });
  }
};
} // namespace

void mpcomm::test::registerTestPrintShardingsPass() {
  PassRegistration<TestPrintShardings>();
}
