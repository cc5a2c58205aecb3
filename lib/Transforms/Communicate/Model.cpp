//===- Model.cpp - the cost model that a pass asks ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "mlir/IR/Diagnostics.h"
#include "mpcomm/Analysis/ClusterAttr.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpcomm;

FailureOr<CostModel> mpcomm::getCostModel(ModuleOp module, StringRef cluster,
                                          StringRef profileFile) {
  FailureOr<Cluster> found = findCluster(module, cluster);
  if (failed(found))
    return failure();
  std::optional<Profile> profile;
  if (!profileFile.empty()) {
    llvm::Expected<Profile> loaded = loadProfile(profileFile);
    if (!loaded)
      return emitError(module.getLoc()) << llvm::toString(loaded.takeError());
    profile = std::move(*loaded);
  }
  return CostModel(std::move(*found), std::move(profile));
}

std::optional<StepModel> mpcomm::getStepModel(FunctionOpInterface function,
                                              const CostModel &model,
                                              std::string &why) {
  ScopedDiagnosticHandler handler(function.getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    why = diagnostic.str();
                                    return success();
                                  });
  FailureOr<StepModel> step = StepModel::get(function, model);
  if (failed(step))
    return std::nullopt;
  return std::move(*step);
}

std::string mpcomm::toMicros(double seconds) {
  return llvm::formatv("{0:f1}", 1e6 * seconds).str();
}
