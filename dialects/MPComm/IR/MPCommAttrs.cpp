//===- MPCommAttrs.cpp - attributes of clusters ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of #mpcomm.cluster and its parts, and of the attribute on a module.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/BuiltinOps.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/Utils/F8Products.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpcomm;

using EmitError = function_ref<InFlightDiagnostic()>;

static LogicalResult verifyPositive(EmitError emitError, StringRef what,
                                    const APFloat &value) {
  if (value.isFinite() && value.isNonZero() && !value.isNegative())
    return success();
  return emitError() << "expects '" << what << "' to be positive, got "
                     << value.convertToDouble();
}

static LogicalResult verifyNotNegative(EmitError emitError, StringRef what,
                                       const APFloat &value) {
  if (value.isFinite() && (value.isZero() || !value.isNegative()))
    return success();
  return emitError() << "expects '" << what << "' not to be negative, got "
                     << value.convertToDouble();
}

static LogicalResult verifyRate(EmitError emitError, StringRef what,
                                const APFloat &value) {
  double rate = value.convertToDouble();
  if (rate > 0 && rate <= 1)
    return success();
  return emitError() << "expects '" << what << "' in (0, 1], got " << rate;
}

ArrayRef<StringLiteral> DeviceAttr::getFlopKeys() {
  static constexpr StringLiteral keys[] = {"f64", "f32", "f16",   "bf16",
                                           "f8",  "i8",  "vector"};
  return keys;
}

LogicalResult DeviceAttr::verify(EmitError emitError, StringRef,
                                 DictionaryAttr flops, APFloat memoryBandwidth,
                                 int64_t memoryBytes, APFloat launch,
                                 DictionaryAttr efficiency, bool) {
  if (failed(verifyPositive(emitError, "memory_bandwidth",
                            memoryBandwidth)) || // device C1
      failed(verifyNotNegative(emitError, "launch", launch)))
    return failure();
  if (memoryBytes <= 0)
    return emitError() << "expects 'memory_bytes' to be positive, got "
                       << memoryBytes;
  auto verifyValue = [&](NamedAttribute entry, StringRef list) {
    auto value = dyn_cast<FloatAttr>(entry.getValue());
    if (!value || !value.getType().isF64())
      return LogicalResult(
          emitError() << "expects an f64 for '" << entry.getName().strref()
                      << "' of '" << list << "', got " << entry.getValue());
    return verifyPositive(emitError, entry.getName(), value.getValue());
  };
  for (NamedAttribute entry : flops) { // device C2
    if (!llvm::is_contained(getFlopKeys(), entry.getName().getValue()))
      return emitError() << "expects keys of 'flops' to be element types or "
                            "'vector', got '"
                         << entry.getName().getValue() << "'";
    if (failed(verifyValue(entry, "flops")))
      return failure();
  }
  for (NamedAttribute entry :
       efficiency ? efficiency.getValue() : ArrayRef<NamedAttribute>()) {
    if (!symbolizeProductKind(entry.getName().strref())) // device C3
      return emitError() << "expects keys of 'efficiency' to be kinds of "
                            "products, got '"
                         << entry.getName().strref() << "'";
    if (failed(verifyValue(entry, "efficiency")))
      return failure();
    double share = cast<FloatAttr>(entry.getValue()).getValueAsDouble();
    if (share > kMaxEfficiency)
      return emitError() << "expects '" << entry.getName().strref()
                         << "' of 'efficiency' to be at most " << kMaxEfficiency
                         << ", got " << share;
  }
  if (!flops.contains("f32"))
    return emitError() << "expects 'flops' to have 'f32'";
  return success();
}

LogicalResult LinkAttr::verify(EmitError emitError, StringRef name,
                               int64_t ranks, APFloat latency,
                               APFloat bandwidth, bool, int64_t rails) {
  if (failed(verifyNotNegative(emitError, "latency", latency)) || // link C1
      failed(verifyPositive(emitError, "bandwidth", bandwidth)))
    return failure();
  if (ranks < 0 || rails < 0) // link C2
    return emitError() << "expects 'ranks' and 'rails' not to be negative, got "
                       << ranks << " and " << rails;
  if (name.empty())
    return emitError() << "expects a name for each link";
  return success();
}

LogicalResult MeasuredAttr::verify(EmitError emitError, StringRef kind,
                                   int64_t ranks, StringRef, APFloat alpha,
                                   APFloat beta, StringRef) {
  if (!symbolizeCollectiveKind(kind)) // measured C1
    return emitError() << "expects 'kind' to be a collective, got '" << kind
                       << "'";
  if (ranks <= 0) // measured C2
    return emitError() << "expects 'ranks' to be positive, got " << ranks;
  return success(succeeded(verifyNotNegative(emitError, "alpha", alpha)) &&
                 succeeded(verifyNotNegative(emitError, "beta", beta)));
}

LogicalResult
ClusterAttr::verify(EmitError emitError, StringRef, StringRef, DeviceAttr,
                    ArrayAttr links, ArrayAttr measured,
                    APFloat computeRateUnderComm, APFloat commRateUnderCompute,
                    APFloat collectiveLaunch, ArrayAttr algorithms) {
  if (links.empty()) // cluster C1
    return emitError() << "expects at least one link";
  llvm::StringSet<> names;
  int64_t inner = 1;
  for (Attribute attr : links) {
    auto link = dyn_cast<LinkAttr>(attr);
    if (!link)
      return emitError() << "expects 'links' to hold #mpcomm.link, got "
                         << attr;
    if (!names.insert(link.getName()).second)
      return emitError() << "names link '" << link.getName() << "' twice";
    bool isLast =
        attr == links.getValue().back() && names.size() == links.size();
    if (isLast) { // cluster C2
      if (link.getRanks() != 0)
        return emitError() << "expects the last link to join all ranks, as 0, "
                              "got "
                           << link.getRanks();
      continue;
    }
    if (link.getRanks() <= inner || link.getRanks() % inner != 0)
      return emitError() << "expects 'ranks' of link '" << link.getName()
                         << "' to be a multiple of " << inner
                         << " and larger, got " << link.getRanks();
    inner = link.getRanks();
  }
  if (measured)
    for (Attribute attr : measured) { // cluster C3
      auto line = dyn_cast<MeasuredAttr>(attr);
      if (!line)
        return emitError() << "expects 'measured' to hold #mpcomm.measured, "
                              "got "
                           << attr;
      if (!line.getLink().empty() && !names.contains(line.getLink()))
        return emitError() << "has a measured collective on link '"
                           << line.getLink() << "', which does not exist";
    }
  if (failed(verifyRate(emitError, "compute_rate_under_comm",
                        computeRateUnderComm)) || // cluster C4
      failed(verifyRate(emitError, "comm_rate_under_compute",
                        commRateUnderCompute)) ||
      failed(
          verifyNotNegative(emitError, "collective_launch", collectiveLaunch)))
    return failure();
  if (algorithms)
    for (Attribute attr : algorithms) { // cluster C5
      auto name = dyn_cast<StringAttr>(attr);
      std::optional<CollectiveAlgorithm> algorithm;
      if (name)
        algorithm = symbolizeCollectiveAlgorithm(name.getValue());
      if (!algorithm || *algorithm == CollectiveAlgorithm::Measured)
        return emitError() << "expects 'algorithms' to hold names of "
                              "algorithms, got "
                           << attr;
    }
  return success();
}

LogicalResult MPCommDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() == kStageAttr) {
    auto stage = dyn_cast<IntegerAttr>(attr.getValue());
    if (!stage || !stage.getType().isSignlessInteger(64) ||
        stage.getInt() < 0 || stage.getInt() > INT16_MAX)
      return op->emitOpError()
             << "expects '" << kStageAttr << "' to be an i64 from 0 to "
             << INT16_MAX << ", got " << attr.getValue();
    return success();
  }
  if (attr.getName() == kMultiplyF8Attr) {
    if (!isa<UnitAttr>(attr.getValue()) || !isa<ModuleOp>(op))
      return op->emitOpError()
             << "expects '" << kMultiplyF8Attr
             << "' to be a unit attribute of a module, got " << attr.getValue();
    return success();
  }
  if (attr.getName() == kTagAttr) {
    auto tag = dyn_cast<StringAttr>(attr.getValue());
    if (!tag || tag.empty())
      return op->emitOpError()
             << "expects '" << kTagAttr << "' to be a non-empty string, got "
             << attr.getValue();
    return success();
  }
  if (attr.getName() == kLocalUpdateAttr) {
    if (!isa<UnitAttr>(attr.getValue()) || !isGradientUpdate(op))
      return op->emitOpError() << "expects '" << kLocalUpdateAttr
                               << "' to be a unit attribute of an update, got "
                               << attr.getValue();
    return success();
  }
  if (attr.getName() == kShardingsAttr) {
    auto shardings = dyn_cast<ArrayAttr>(attr.getValue());
    if (!shardings || shardings.size() != op->getNumResults() ||
        !llvm::all_of(shardings, llvm::IsaPred<ShardingAttr, UnitAttr>))
      return op->emitOpError()
             << "expects '" << kShardingsAttr
             << "' to be a #mpcomm.sharding, or unit, for each result, got "
             << attr.getValue();
    return success();
  }
  if (attr.getName() == kPendingAttr) {
    if (!isa<UnitAttr>(attr.getValue()) || !isa<AllReduceOp>(op))
      return op->emitOpError()
             << "expects '" << kPendingAttr
             << "' to be a unit attribute of an all_reduce, got "
             << attr.getValue();
    return success();
  }
  if (attr.getName() != getClusterAttrName())
    return success();
  if (!isa<ModuleOp>(op))
    return op->emitOpError() << "cannot carry '" << getClusterAttrName()
                             << "': it is not a module";
  if (!isa<ClusterAttr>(attr.getValue()))
    return op->emitOpError()
           << "expects '" << getClusterAttrName()
           << "' to be #mpcomm.cluster<...>, got " << attr.getValue();
  return success();
}
