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

std::optional<CollectiveCost> mpcomm::getTwoLevelCost(const CostModel &model,
                                                      const GroupShape &shape,
                                                      unsigned level) {
  auto groups = CostModel::splitGroup(shape, level);
  if (!groups)
    return std::nullopt;
  auto [inside, across] = *groups;
  if (inside.ranks * across.ranks != shape.ranks) // shares would not be equal
    return std::nullopt;
  auto share = static_cast<double>(inside.ranks);
  CollectiveCost scatter =
      model.getCollective(CollectiveKind::ReduceScatter, inside);
  CollectiveCost reduce =
      model.getCollective(CollectiveKind::AllReduce, across);
  CollectiveCost gather =
      model.getCollective(CollectiveKind::AllGather, inside);
  llvm::SmallVector<AffineCost, 2> ways;
  for (const AffineCost &a : scatter.pieces)
    for (const AffineCost &b : reduce.pieces)
      for (const AffineCost &c : gather.pieces)
        ways.push_back(
            {CollectiveAlgorithm::Hierarchical,
             a.latency + b.latency + c.latency,
             a.secondsPerByte + (b.secondsPerByte + c.secondsPerByte) / share,
             b.link});
  return CollectiveCost::getEnvelope(std::move(ways));
}

double mpcomm::getPackingSeconds(const CostModel &model, size_t tensors,
                                 double bytes) {
  if (tensors < 2)
    return 0;
  const DeviceModel &device = model.getCluster().device;
  return 4 * bytes / device.memoryBandwidth +
         static_cast<double>(tensors + 1) * device.launch;
}

std::string mpcomm::toMicros(double seconds) {
  return llvm::formatv("{0:f1}", 1e6 * seconds).str();
}
