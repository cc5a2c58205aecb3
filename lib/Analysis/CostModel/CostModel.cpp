//===- CostModel.cpp - seconds of ops -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Roofline (Williams, Waterman and Patterson, "Roofline: An Insightful Visual
// Performance Model for Multicore Architectures", CACM 2009): an op takes the
// longer of its flops at the device's rate and its bytes at the memory's, and
// what it takes to start it.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mpcomm/Analysis/Cluster/ClusterAttr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;

CostModel::CostModel(Cluster given, std::optional<Profile> profile,
                     std::string backend)
    : cluster(std::move(given)), profile(std::move(profile)),
      backend(std::move(backend)), algorithms(0) {
  for (const std::string &name : cluster.algorithms)
    if (auto algorithm = symbolizeCollectiveAlgorithm(name))
      algorithms |= 1u << static_cast<unsigned>(*algorithm);
  if (algorithms == 0)
    algorithms =
        ~(1u << static_cast<unsigned>(CollectiveAlgorithm::Hierarchical));
}

//===----------------------------------------------------------------------===//
// Collectives in the IR
//===----------------------------------------------------------------------===//

FailureOr<GroupShape> CostModel::getGroupShape(CollectiveOpInterface op) const {
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  if (!mesh)
    return failure();
  SmallVector<bool> spans(mesh.getAxisSizes().size(), false);
  for (Attribute axis : op.getAxesAttr()) {
    auto names = mesh.getAxisNames().getValue();
    const auto *found = llvm::find(names, axis);
    if (found == names.end())
      return failure();
    spans[found - names.begin()] = true;
  }
  return mpcomm::getGroupShape(cluster, mesh.getAxisSizes(), spans);
}

FailureOr<CostCurve> CostModel::getCollective(CollectiveOpInterface op) const {
  FailureOr<GroupShape> shape = getGroupShape(op);
  if (failed(shape))
    return failure();
  return getCollective(op.getCollectiveKind(), *shape);
}

int64_t CostModel::getWireBytes(CollectiveOpInterface op) {
  Type wire = op.getWireType();
  if (!wire)
    return op.getPayloadBytes();
  int64_t elements = 0;
  for (Type type : op->getNumOperands() ? TypeRange(op->getOperandTypes())
                                        : TypeRange(op->getResultTypes()))
    elements += mpcomm::detail::countElements(type);
  return elements * static_cast<int64_t>(
                        llvm::divideCeil(wire.getIntOrFloatBitWidth(), 8));
}

//===----------------------------------------------------------------------===//
// Roofline
//===----------------------------------------------------------------------===//

/// The key of an element type in DeviceModel::flops.
static StringRef getFlopKey(Type type) {
  if (type.isF64())
    return "f64";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (auto real = dyn_cast<FloatType>(type); real && real.getWidth() <= 8)
    return "f8";
  if (type.isInteger() && type.getIntOrFloatBitWidth() <= 8)
    return "i8";
  return "f32";
}

double CostModel::getFlopRate(Operation *op, Type product) const {
  const auto &flops = cluster.device.flops;
  double f32 = flops.at("f32");
  auto lookup = [&](StringRef key, double otherwise) {
    auto found = flops.find(key.str());
    return found == flops.end() ? otherwise : found->second;
  };
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  if (!precision ||
      precision.getPrecisionClass() != PrecisionClass::LowerPrecision)
    return lookup("vector", f32);
  auto cost = dyn_cast<CostOpInterface>(op);
  Type type = product ? product : cost ? cost.getProductType() : Type();
  StringRef key = type ? getFlopKey(type) : "f32";
  double share = 1;
  if (cost) {
    const auto &efficiency = cluster.device.efficiency;
    auto found =
        efficiency.find(stringifyProductKind(cost.getProductKind()).str());
    if (found != efficiency.end())
      share = found->second;
  }
  // What a device has no units for, it does in the next wider type.
  if (key == "f64")
    return share * lookup(key, f32 / 2);
  if (key == "f8")
    return share * lookup(key, lookup("bf16", lookup("f16", f32)));
  return share * lookup(key, f32);
}

double CostModel::getSeconds(Operation *op, int64_t bytes, bool isLaunched,
                             double share, Type product) const {
  double flops = 0;
  if (auto cost = dyn_cast<CostOpInterface>(op))
    flops = share * static_cast<double>(std::max<int64_t>(cost.getFlops(), 0));
  if (flops == 0 && bytes <= 0)
    return 0;
  double compute = flops / getFlopRate(op, product);
  double memory = static_cast<double>(bytes) / cluster.device.memoryBandwidth;
  return std::max(compute, memory) + (isLaunched ? cluster.device.launch : 0);
}

/// Counts that are too large stay at the greatest number.
static int64_t addSaturated(int64_t a, int64_t b) {
  int64_t sum;
  return llvm::AddOverflow(a, b, sum) ? std::numeric_limits<int64_t>::max()
                                      : sum;
}

double CostModel::getSeconds(Operation *op) const {
  if (isa<AwaitOp, YieldOp>(op))
    return 0;
  if (auto cost = dyn_cast<CostOpInterface>(op))
    return getSeconds(op,
                      addSaturated(cost.getBytesRead(), cost.getBytesWritten()),
                      /*isLaunched=*/true);
  if (op->getNumRegions() == 0)
    return getSeconds(op,
                      addSaturated(countBytes(op->getOperandTypes()),
                                   countBytes(op->getResultTypes())),
                      /*isLaunched=*/true);
  // Every region once, or as often as a loop is known to run.
  double seconds = 0;
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Operation &inner : block) {
        if (inner.hasTrait<OpTrait::IsTerminator>())
          continue;
        if (auto collective = dyn_cast<CollectiveOpInterface>(inner)) {
          FailureOr<CostCurve> cost = getCollective(collective);
          if (succeeded(cost))
            seconds += cost->at(getWireBytes(collective));
          continue;
        }
        seconds += getSeconds(&inner);
      }
  if (auto loop = dyn_cast<LoopLikeOpInterface>(op))
    if (std::optional<APInt> trips = loop.getStaticTripCount())
      seconds *= trips->roundToDouble(/*isSigned=*/false);
  return seconds;
}

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
