//===- CollectiveBytes.cpp - a pass in a plugin of its own ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says what each collective carries, and fails where a function carries more
// than it may. docs/Guides/PassPlugin.md shows how it is used.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;

namespace {

struct CollectiveBytes
    : PassWrapper<CollectiveBytes, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CollectiveBytes)

  CollectiveBytes() = default;
  CollectiveBytes(const CollectiveBytes &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "collective-bytes"; }
  StringRef getDescription() const override {
    return "Says how many bytes the collectives of a function carry";
  }

  void runOnOperation() override {
    int64_t total = 0;
    // Collectives of any kind, of this dialect or of another.
    getOperation().walk([&](mpcomm::CollectiveOpInterface op) {
      op->emitRemark() << "carries " << op.getPayloadBytes() << " bytes";
      total += op.getPayloadBytes();
    });
    if (limit >= 0 && total > limit) {
      getOperation().emitOpError()
          << "carries " << total << " bytes, expected at most "
          << int64_t(limit);
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }

  Option<int64_t> limit{*this, "limit", llvm::cl::init(-1),
                        llvm::cl::desc("bytes a function may carry; -1: any")};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "CollectiveBytes", "1.0",
          [] { PassRegistration<CollectiveBytes>(); }};
}
