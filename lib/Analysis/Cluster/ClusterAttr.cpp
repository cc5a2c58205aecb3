//===- ClusterAttr.cpp - the cluster of a module --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Cluster/ClusterAttr.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mpcomm;

ClusterAttr mpcomm::toAttribute(MLIRContext *context, const Cluster &cluster) {
  Builder builder(context);
  auto f64 = [](double value) { return APFloat(value); };

  const DeviceModel &device = cluster.device;
  auto dictionary = [&](const std::map<std::string, double> &values) {
    SmallVector<NamedAttribute> entries;
    for (const auto &[key, value] : values)
      entries.push_back(
          builder.getNamedAttr(key, builder.getF64FloatAttr(value)));
    return builder.getDictionaryAttr(entries);
  };
  auto deviceAttr = DeviceAttr::get(
      context, device.name, dictionary(device.flops),
      f64(device.memoryBandwidth), device.memoryBytes, f64(device.launch),
      device.efficiency.empty() ? DictionaryAttr()
                                : dictionary(device.efficiency),
      device.fusedAttention);

  SmallVector<Attribute> links, measured, algorithms;
  for (const LinkLevel &link : cluster.links)
    links.push_back(LinkAttr::get(context, link.name, link.ranks,
                                  f64(link.latency), f64(link.bandwidth),
                                  link.contends, link.rails));
  for (const MeasuredCollective &line : cluster.measured)
    measured.push_back(MeasuredAttr::get(context, line.kind, line.ranks,
                                         line.backend, f64(line.alpha),
                                         f64(line.beta), line.link));
  for (const std::string &name : cluster.algorithms)
    algorithms.push_back(builder.getStringAttr(name));
  return ClusterAttr::get(
      context, cluster.name, cluster.source, deviceAttr,
      builder.getArrayAttr(links),
      measured.empty() ? ArrayAttr() : builder.getArrayAttr(measured),
      f64(cluster.computeRateUnderComm), f64(cluster.commRateUnderCompute),
      f64(cluster.collectiveLaunch),
      algorithms.empty() ? ArrayAttr() : builder.getArrayAttr(algorithms));
}

Cluster mpcomm::fromAttribute(ClusterAttr attribute) {
  Cluster cluster;
  cluster.name = attribute.getName().str();
  cluster.source = attribute.getSource().str();
  DeviceAttr device = attribute.getDevice();
  cluster.device.name = device.getName().str();
  auto read = [](DictionaryAttr entries, std::map<std::string, double> &into) {
    for (NamedAttribute entry : entries)
      into[entry.getName().str()] =
          cast<FloatAttr>(entry.getValue()).getValueAsDouble();
  };
  read(device.getFlops(), cluster.device.flops);
  if (device.getEfficiency())
    read(device.getEfficiency(), cluster.device.efficiency);
  cluster.device.memoryBandwidth =
      device.getMemoryBandwidth().convertToDouble();
  cluster.device.memoryBytes = device.getMemoryBytes();
  cluster.device.launch = device.getLaunch().convertToDouble();
  cluster.device.fusedAttention = device.getFusedAttention();
  for (auto link : attribute.getLinks().getAsRange<LinkAttr>())
    cluster.links.push_back({link.getName().str(), link.getRanks(),
                             link.getLatency().convertToDouble(),
                             link.getBandwidth().convertToDouble(),
                             link.getContends(), link.getRails()});
  if (ArrayAttr measured = attribute.getMeasured())
    for (auto line : measured.getAsRange<MeasuredAttr>())
      cluster.measured.push_back(
          {line.getKind().str(), line.getRanks(), line.getBackend().str(),
           line.getAlpha().convertToDouble(), line.getBeta().convertToDouble(),
           line.getLink().str()});
  cluster.computeRateUnderComm =
      attribute.getComputeRateUnderComm().convertToDouble();
  cluster.commRateUnderCompute =
      attribute.getCommRateUnderCompute().convertToDouble();
  cluster.collectiveLaunch = attribute.getCollectiveLaunch().convertToDouble();
  if (ArrayAttr algorithms = attribute.getAlgorithms())
    for (auto name : algorithms.getAsRange<StringAttr>())
      cluster.algorithms.push_back(name.str());
  return cluster;
}

FailureOr<Cluster> mpcomm::findCluster(Operation *op, StringRef nameOrPath) {
  if (nameOrPath.empty()) {
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      module = op->getParentOfType<ModuleOp>();
    for (; module; module = module->getParentOfType<ModuleOp>())
      if (auto attr = module->getAttrOfType<ClusterAttr>(
              MPCommDialect::getClusterAttrName())) {
        Cluster cluster = fromAttribute(attr);
        if (std::string error = cluster.check(); !error.empty())
          return module->emitError()
                 << "'" << MPCommDialect::getClusterAttrName()
                 << "': " << error;
        return cluster;
      }
    nameOrPath = "local";
  }
  llvm::Expected<Cluster> cluster = loadCluster(nameOrPath);
  if (!cluster)
    return op->emitError() << llvm::toString(cluster.takeError());
  return std::move(*cluster);
}
