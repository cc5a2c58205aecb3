//===- Cluster.cpp - devices and links of a cluster -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a cluster must look like, and its JSON form: schema mpcomm-cluster-1,
// docs/Design/ClusterFile.md.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Cluster/Cluster.h"
#include "Support/StrictJSON.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <cmath>

using namespace llvm;
using namespace mpcomm;

static constexpr StringLiteral kSchema = "mpcomm-cluster-1";

//===----------------------------------------------------------------------===//
// check
//===----------------------------------------------------------------------===//

namespace {

/// Keeps the first thing that is wrong.
struct Checker {
  std::string error;

  void expect(bool holds, const Twine &path, const Twine &expected,
              const Twine &got) {
    if (!holds && error.empty())
      error = (path + ": expected " + expected + ", got " + got).str();
  }
  /// Something a second.
  void rate(const Twine &path, double value) {
    between(path, value, "a positive number", value > 0, Cluster::leastRate,
            Cluster::mostRate);
  }
  void seconds(const Twine &path, double value) {
    between(path, value, "a number that is not negative", value >= 0, 0,
            Cluster::mostSeconds);
  }
  void positive(const Twine &path, int64_t value) {
    expect(value > 0, path, "a positive number", Twine(value));
  }
  void notNegative(const Twine &path, int64_t value) {
    expect(value >= 0, path, "a number that is not negative", Twine(value));
  }
  /// What is left of a rate.
  void share(const Twine &path, double value) {
    between(path, value, "a number in (0, 1]", value > 0 && value <= 1,
            Cluster::leastShare, 1);
  }
  void between(const Twine &path, double value, const Twine &what, bool isThat,
               double least, double most) {
    expect(isThat, path, what, print(value));
    expect(value >= least && value <= most, path,
           "a number from " + print(least) + " to " + print(most),
           print(value));
  }
  static std::string print(double value) {
    std::string text;
    raw_string_ostream(text) << format("%g", value);
    return text;
  }
};

} // namespace

std::string Cluster::check() const {
  Checker check;
  check.expect(device.flops.count("f32"), "device.flops", "a key 'f32'",
               "none");
  for (const auto &[type, rate] : device.flops) {
    check.expect(is_contained(DeviceAttr::getFlopKeys(), type),
                 "device.flops." + type, "an element type or 'vector'",
                 "'" + type + "'");
    check.rate("device.flops." + type, rate);
  }
  for (const auto &[kind, share] : device.efficiency) {
    std::string path = "device.efficiency." + kind;
    check.expect(symbolizeProductKind(kind).has_value(), path,
                 "product, convolution, attention or masked_attention",
                 "'" + kind + "'");
    check.expect(share >= 1e-6 && share <= DeviceAttr::kMaxEfficiency, path,
                 "a share from 1e-6 to 4", Checker::print(share));
  }
  check.rate("device.memory_bandwidth", device.memoryBandwidth);
  check.positive("device.memory_bytes", device.memoryBytes);
  check.seconds("device.launch", device.launch);

  check.expect(!links.empty(), "links", "at least one level", "none");
  StringSet<> names;
  int64_t inner = 1;
  for (auto [i, link] : enumerate(links)) {
    std::string path = "links[" + std::to_string(i) + "].";
    check.expect(!link.name.empty(), path + "name", "a name", "\"\"");
    check.expect(names.insert(link.name).second, path + "name",
                 "names that differ", "'" + link.name + "' twice");
    check.seconds(path + "latency", link.latency);
    check.rate(path + "bandwidth", link.bandwidth);
    check.notNegative(path + "rails", link.rails);
    if (i + 1 == links.size()) {
      check.expect(link.ranks == 0, path + "ranks",
                   "0, for all, in the last level", Twine(link.ranks));
    } else {
      check.expect(
          link.ranks > inner && link.ranks % inner == 0, path + "ranks",
          "a multiple of " + Twine(inner) + " and larger", Twine(link.ranks));
      inner = std::max<int64_t>(link.ranks, 1);
    }
  }

  for (auto [i, line] : enumerate(measured)) {
    std::string path = "measured[" + std::to_string(i) + "].";
    check.expect(symbolizeCollectiveKind(line.kind).has_value(), path + "kind",
                 "a collective", "'" + line.kind + "'");
    check.positive(path + "ranks", line.ranks);
    check.seconds(path + "alpha", line.alpha);
    check.between(path + "beta", line.beta, "a number that is not negative",
                  line.beta >= 0, 0, 1 / leastRate);
    check.expect(line.link.empty() || names.contains(line.link), path + "link",
                 "the name of a level", "'" + line.link + "'");
  }
  check.share("compute_rate_under_comm", computeRateUnderComm);
  check.share("comm_rate_under_compute", commRateUnderCompute);
  check.seconds("collective_launch", collectiveLaunch);
  for (auto [i, name] : enumerate(algorithms)) {
    auto algorithm = symbolizeCollectiveAlgorithm(name);
    check.expect(algorithm && *algorithm != CollectiveAlgorithm::Measured,
                 "algorithms[" + Twine(i) + "]", "the name of an algorithm",
                 "'" + name + "'");
  }
  return check.error;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static void readDevice(const json::Value &value, std::string path,
                       std::string &error, DeviceModel &device) {
  ObjectReader reader(value, std::move(path), error);
  reader.read("name", device.name);
  auto readNumbers = [&](StringRef name, bool isOptional,
                         std::map<std::string, double> &into) {
    reader.readValue(
        name, isOptional, [&](const json::Value &numbers, std::string where) {
          ObjectReader(numbers, std::move(where), error)
              .forEach([&](StringRef key, const json::Value &value,
                           const std::string &place) {
                if (std::optional<double> number = value.getAsNumber())
                  into[key.str()] = *number;
                else
                  ObjectReader::fail(error, place, "a number", value);
              });
        });
  };
  readNumbers("flops", false, device.flops);
  readNumbers("efficiency", true, device.efficiency);
  reader.read("memory_bandwidth", device.memoryBandwidth);
  reader.read("memory_bytes", device.memoryBytes);
  reader.read("launch", device.launch);
  reader.read("fused_attention", device.fusedAttention, /*isOptional=*/true);
  reader.finish();
}

static LinkLevel readLink(const json::Value &value, std::string path,
                          std::string &error) {
  LinkLevel link;
  ObjectReader reader(value, std::move(path), error);
  reader.read("name", link.name);
  reader.read("ranks", link.ranks);
  reader.read("latency", link.latency);
  reader.read("bandwidth", link.bandwidth);
  reader.read("contends", link.contends, /*isOptional=*/true);
  reader.read("rails", link.rails, /*isOptional=*/true);
  reader.finish();
  return link;
}

static MeasuredCollective readMeasured(const json::Value &value,
                                       std::string path, std::string &error) {
  MeasuredCollective line;
  ObjectReader reader(value, std::move(path), error);
  reader.read("kind", line.kind);
  reader.read("ranks", line.ranks);
  reader.read("backend", line.backend, /*isOptional=*/true);
  reader.read("alpha", line.alpha);
  reader.read("beta", line.beta);
  reader.read("link", line.link, /*isOptional=*/true);
  reader.finish();
  return line;
}

Expected<Cluster> mpcomm::parseCluster(StringRef text, StringRef file) {
  Cluster cluster;
  Error failure = readDocument(
      text, file, kSchema, [&](ObjectReader &reader, std::string &error) {
        reader.read("name", cluster.name);
        reader.read("source", cluster.source, /*isOptional=*/true);
        reader.readValue(
            "device", false, [&](const json::Value &value, std::string path) {
              readDevice(value, std::move(path), error, cluster.device);
            });
        reader.readArray(
            "links", false, [&](const json::Value &value, std::string path) {
              cluster.links.push_back(readLink(value, std::move(path), error));
            });
        reader.readArray("measured", true,
                         [&](const json::Value &value, std::string path) {
                           cluster.measured.push_back(
                               readMeasured(value, std::move(path), error));
                         });
        reader.read("compute_rate_under_comm", cluster.computeRateUnderComm,
                    /*isOptional=*/true);
        reader.read("comm_rate_under_compute", cluster.commRateUnderCompute,
                    /*isOptional=*/true);
        reader.read("collective_launch", cluster.collectiveLaunch,
                    /*isOptional=*/true);
        reader.read("algorithms", cluster.algorithms, /*isOptional=*/true);
        reader.finish();
        if (error.empty())
          error = cluster.check();
      });
  if (failure)
    return std::move(failure);
  return cluster;
}

std::string mpcomm::toJson(const Cluster &cluster) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("schema", kSchema);
    json.attribute("name", cluster.name);
    json.attribute("source", cluster.source);
    json.attributeObject("device", [&] {
      const DeviceModel &device = cluster.device;
      json.attribute("name", device.name);
      json.attributeObject("flops", [&] {
        for (const auto &[type, rate] : device.flops)
          json.attribute(type, rate);
      });
      if (!device.efficiency.empty())
        json.attributeObject("efficiency", [&] {
          for (const auto &[kind, share] : device.efficiency)
            json.attribute(kind, share);
        });
      json.attribute("memory_bandwidth", device.memoryBandwidth);
      json.attribute("memory_bytes", device.memoryBytes);
      json.attribute("launch", device.launch);
      if (device.fusedAttention)
        json.attribute("fused_attention", true);
    });
    json.attributeArray("links", [&] {
      for (const LinkLevel &link : cluster.links)
        json.object([&] {
          json.attribute("name", link.name);
          json.attribute("ranks", link.ranks);
          json.attribute("latency", link.latency);
          json.attribute("bandwidth", link.bandwidth);
          json.attribute("contends", link.contends);
          json.attribute("rails", link.rails);
        });
    });
    json.attributeArray("measured", [&] {
      for (const MeasuredCollective &line : cluster.measured)
        json.object([&] {
          json.attribute("kind", line.kind);
          json.attribute("ranks", line.ranks);
          json.attribute("backend", line.backend);
          json.attribute("alpha", line.alpha);
          json.attribute("beta", line.beta);
          json.attribute("link", line.link);
        });
    });
    json.attribute("compute_rate_under_comm", cluster.computeRateUnderComm);
    json.attribute("comm_rate_under_compute", cluster.commRateUnderCompute);
    json.attribute("collective_launch", cluster.collectiveLaunch);
    json.attributeArray("algorithms", [&] {
      for (const std::string &name : cluster.algorithms)
        json.value(name);
    });
  });
  return text + "\n";
}

Expected<Cluster> mpcomm::loadCluster(StringRef nameOrPath) {
  if (is_contained(getPresetNames(), nameOrPath))
    return getPreset(nameOrPath);
  Expected<std::string> text = readFile(nameOrPath);
  if (!text)
    return createStringError(toString(text.takeError()) +
                             "; neither is it a preset: expected " +
                             join(getPresetNames(), ", "));
  return parseCluster(*text, nameOrPath);
}
