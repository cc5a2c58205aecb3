//===- TestPrintShardingRules.cpp - how ops may be split ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the sharding rule of each op of public functions, a line of JSON each,
// without factors where it has none. A factor of an op with a body, its own or
// a function, also has the dimensions of the values in it.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mpcomm;
using namespace llvm;

static json::Array toArray(ArrayRef<int64_t> dims) {
  json::Array array;
  for (int64_t dim : dims)
    array.push_back(dim);
  return array;
}

static Block *getBody(Operation *op) {
  if (auto scan = dyn_cast<ScanOp>(op))
    return &scan.getBodyFunction().getFunctionBody().front();
  return op->getNumRegions() ? &op->getRegion(0).front() : nullptr;
}

/// The dimensions that `factor` has of the results of ops in `body`.
static json::Array getInner(Operation *op, Block &body,
                            const ShardingFactor &factor) {
  JoinedFactors joined(body);
  size_t carries = 0, slices = 0;
  if (auto scan = dyn_cast<ScanOp>(op)) {
    carries = scan.getCarries().size();
    slices = scan.getSlices().size();
    for (size_t i = 0; i < carries; ++i) {
      auto type = cast<RankedTensorType>(body.getArgument(i).getType());
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        joined.join(body.getArgument(i), dim,
                    body.getTerminator()->getOperand(i), dim);
    }
  }
  joined.finish();
  std::optional<unsigned> found;
  for (auto [i, dim] : llvm::enumerate(factor.operands))
    if (dim >= 0 && !found)
      found = joined.find(body.getArgument(i),
                          dim - (i >= carries && i < carries + slices));
  json::Array dims;
  for (Operation &inner : body.without_terminator())
    for (Value result : inner.getResults())
      dims.push_back(joined.getDim(result, *found));
  return dims;
}

static json::Object print(Operation *op) {
  std::optional<ShardingRule> rule = getShardingRule(op);
  json::Object printed{{"op", op->getName().getStringRef()}};
  if (!rule)
    return printed;
  json::Array factors, linear;
  for (const ShardingFactor &factor : rule->factors) {
    json::Object entry{{"size", factor.size},
                       {"operands", toArray(factor.operands)},
                       {"results", toArray(factor.results)}};
    if (factor.reduction)
      entry["reduction"] = stringifyReduction(*factor.reduction);
    if (Block *body = getBody(op))
      entry["inner"] = getInner(op, *body, factor);
    factors.push_back(std::move(entry));
  }
  for (ArrayRef<unsigned> set : rule->linear)
    linear.push_back(toArray(SmallVector<int64_t>(set)));
  printed["factors"] = std::move(factors);
  printed["linear"] = std::move(linear);
  printed["monotone"] = rule->isMonotone;
  return printed;
}

namespace {
struct TestPrintShardingRules
    : PassWrapper<TestPrintShardingRules, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPrintShardingRules)

  StringRef getArgument() const final {
    return "test-mpcomm-print-sharding-rules";
  }
  StringRef getDescription() const final {
    return "Prints the sharding rules of the ops of public functions";
  }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<FunctionOpInterface>())
      if (function.isPublic() && !function.isExternal())
        for (Operation &op :
             function.getFunctionBody().front().without_terminator())
          outs() << json::Value(print(&op)) << "\n";
  }
};
} // namespace

void mpcomm::test::registerTestPrintShardingRulesPass() {
  PassRegistration<TestPrintShardingRules>();
}
