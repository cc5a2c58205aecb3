//===- VerifyShardings.cpp - what ranks hold is what is declared ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shardings tell whether communication is of the right kind, scales whether a
// mean is one, fingerprints whether it is of the right value.
//
//===----------------------------------------------------------------------===//

#include "Verify/Fingerprints.h"
#include "Verify/ShardingChecks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_VERIFYSHARDINGSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-verify-shardings"

using namespace mlir;
using namespace mpcomm;

namespace {
class VerifyShardings
    : public mpcomm::impl::VerifyShardingsPassBase<VerifyShardings> {
public:
  using VerifyShardingsPassBase::VerifyShardingsPassBase;
  void runOnOperation() override;

private:
  bool verify(FunctionOpInterface function,
              ArrayRef<CollectiveOpInterface> collectives,
              ArrayRef<StringRef> subAxes, bool isStep);
  bool verifyFingerprints(FunctionOpInterface function,
                          ArrayRef<const AxisShardings *> shardings);

  std::optional<Fingerprints> fingerprints;
};
} // namespace

/// The functions that are a step, or a stage of one.
static llvm::DenseSet<Operation *> findSteps(ModuleOp module) {
  llvm::DenseSet<Operation *> steps;
  SymbolTable symbols(module);
  if (Operation *step = symbols.lookup(kTrainStep)) {
    steps.insert(step);
    if (auto program = dyn_cast<ProgramOp>(step))
      for (auto name : program.getFunctions().getAsRange<FlatSymbolRefAttr>())
        steps.insert(symbols.lookup(name.getValue()));
  }
  return steps;
}

bool VerifyShardings::verifyFingerprints(
    FunctionOpInterface function, ArrayRef<const AxisShardings *> shardings) {
  auto recorded = function->getAttrOfType<DenseI64ArrayAttr>(kFingerprintsAttr);
  if (!function.isPublic() || (!record && !recorded))
    return true;
  std::optional<SmallVector<int64_t>> found =
      fingerprints->compute(function, shardings);
  if (record) {
    if (found)
      function->setAttr(kFingerprintsAttr,
                        DenseI64ArrayAttr::get(&getContext(), *found));
    else
      function->removeAttr(kFingerprintsAttr);
    return true;
  }
  if (!found || found->size() != static_cast<size_t>(recorded.size())) {
    function.emitOpError() << "has " << recorded.size()
                           << " fingerprints, expected one for each of its "
                           << function.getNumResults()
                           << " results and one for its messages";
    return false;
  }
  bool ok = true;
  for (auto [i, number, expected] :
       llvm::enumerate(*found, recorded.asArrayRef())) {
    if (number == expected)
      continue;
    ok = false;
    InFlightDiagnostic diag = function.emitOpError();
    if (i < function.getNumResults())
      diag << "computes " << describeResult(function, i);
    else
      diag << "sends messages";
    diag << " otherwise than when its fingerprint was recorded";
  }
  return ok;
}

bool VerifyShardings::verify(FunctionOpInterface function,
                             ArrayRef<CollectiveOpInterface> collectives,
                             ArrayRef<StringRef> subAxes, bool isStep) {
  bool ok = true;
  SmallVector<std::unique_ptr<AxisShardings>> owned;
  SmallVector<const AxisShardings *> shardings;
  for (StringRef axis : subAxes) {
    owned.push_back(std::make_unique<AxisShardings>(function, axis));
    const AxisShardings &along = *owned.back();
    shardings.push_back(&along);
    ok &= verifyGradients(along);
    for (CollectiveOpInterface op : collectives)
      ok &= verifyControl(op, along);
    ok &= verifyResults(function, along, isStep);
  }
  // Scales of values that are not what they should be tell nothing new.
  if (ok && !shardings.empty())
    ok = verifyScales(function, ReductionScales(function, shardings),
                      shardings.front()->getOptimizers(), axis, isStep);
  return ok && verifyFingerprints(function, shardings);
}

void VerifyShardings::runOnOperation() {
  ModuleOp module = getOperation();
  fingerprints.emplace();
  llvm::DenseMap<Operation *, SmallVector<CollectiveOpInterface>> byFunction;
  SmallVector<CollectiveOpInterface> collectives;
  module.walk([&](CollectiveOpInterface op) {
    collectives.push_back(op);
    byFunction[op->getParentOfType<FunctionOpInterface>()].push_back(op);
  });
  if (!verifyMeshes(collectives) || !verifyDeclared(module))
    return signalPassFailure();
  SmallVector<StringRef> subAxes = findSubAxes(module, axis);
  llvm::DenseSet<Operation *> steps = findSteps(module);
  bool ok = true;
  forEachFunction(module, [&](FunctionOpInterface function) {
    if (!function.isExternal())
      ok &=
          verify(function, byFunction[function], subAxes,
                 steps.contains(function) || function.getName() == kTrainStep);
  });
  fingerprints.reset();
  if (!ok)
    return signalPassFailure();
  if (!record)
    markAllAnalysesPreserved();
}
