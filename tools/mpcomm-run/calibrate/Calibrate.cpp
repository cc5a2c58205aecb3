//===- Calibrate.cpp - measuring a cluster --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include "report/Steps.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <unistd.h>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Bench
//===----------------------------------------------------------------------===//

/// The levels of links of two, from the inside out.
static constexpr const char *insideLink = "inside", *acrossLink = "across";

/// Of a GPU: what fills its links, where it has the memory.
static constexpr uint64_t mostDeviceBytes = uint64_t(256) << 20;

/// Events that are kept.
static constexpr uint32_t calibrationTrace = 1u << 18;

Error Bench::prepare(const RunOptions &options) {
  Manifest manifest;
  uint64_t block = options.calibrateBlock;
  uint64_t ranks = rank.size(), index = rank.index();
  if (block && (ranks % block || block == ranks))
    return fail("--calibrate-block expects a part of the ", ranks,
                " ranks, from 2 on, found ", block);
  measured = {{0, ranks, index, block ? acrossLink : "", /*sends=*/!block}};
  if (block) {
    manifest.axes = {{"blocks", static_cast<int64_t>(ranks / block)},
                     {"block", static_cast<int64_t>(block)}};
    manifest.communicators = {{{0, 1}}, {{1}}, {{0}}};
    measured.push_back({1, block, index % block, insideLink});
    measured.push_back({2, ranks / block, index / block, acrossLink});
  } else if (ranks >= 4 && ranks % 2 == 0) {
    manifest.axes = {{"pairs", static_cast<int64_t>(ranks / 2)}, {"pair", 2}};
    manifest.communicators = {{{0, 1}}, {{1}}};
    measured.push_back({1, 2, index % 2, ""});
  } else if (ranks > 1) {
    manifest.axes = {{"ranks", static_cast<int64_t>(ranks)}};
    manifest.communicators = {{{0}}};
  }
  if (options.device == "cuda")
    manifest.device = options.device;
  bool isOnNccl = options.comm == "nccl";
  if (isOnNccl)
    Rank::prepareNccl(manifest);
  if (Error error =
          rank.agree(asOption(rank.openDevice(manifest, calibrationImages))))
    return error;
  if (isOnNccl)
    if (Error error = asOption(rank.openNccl()))
      return error;
  if (rank.device().isAsynchronous())
    mostBytes = std::clamp(std::bit_floor(rank.device().memoryBytes() / 16),
                           uint64_t(1) << 20, mostDeviceBytes);
  // A step is a graph of the device where it is not traced.
  if (Error error = rank.createContext(
          manifest, /*events=*/1,
          rank.device().isAsynchronous() ? 0 : calibrationTrace))
    return error;
  Expected<void *> memory = rank.allocate(2 * mostBytes);
  if (memory.failed())
    return memory.error();
  source = static_cast<char *>(*memory);
  target = source + mostBytes;
  // Touches all pages.
  mprt_zero(rank.handle(), MPRT_COMPUTE_STREAM, source, 2 * mostBytes);
  return finish();
}

Error Bench::finish() {
  (void)rank.context().synchronize();
  return healthy("the device");
}

Error Bench::gatherDoubles(double value, std::vector<double> &all) {
  all.resize(rank.size());
  return rank.gather(&value, all.data(), sizeof(value));
}

Error Bench::meet() {
  std::vector<double> all;
  return gatherDoubles(0, all);
}

Error Bench::largest(double &value) {
  std::vector<double> all;
  Error status = gatherDoubles(value, all);
  value = *std::max_element(all.begin(), all.end());
  return status;
}

Error Bench::smallest(double &value) {
  std::vector<double> all;
  Error status = gatherDoubles(value, all);
  value = *std::min_element(all.begin(), all.end());
  return status;
}

Error Bench::healthy(const char *what) const {
  int32_t status = mprt_status_of(rank.handle());
  return status == MPRT_OK ? Error() : rank.describeFailure(what, status);
}

Error Bench::start(const mprt_collective &call, const void *send, void *recv) {
  uint32_t stream = MPRT_COMM_STREAM(call.communicator);
  mprt_collective_run(rank.handle(), stream, &call, send, recv);
  mprt_event_record(rank.handle(), stream, 0);
  return healthy("a collective");
}

Error Bench::wait(const mprt_collective &) {
  mprt_stream_wait(rank.handle(), MPRT_COMPUTE_STREAM, 0);
  return healthy("a collective");
}

Error Bench::run(const mprt_collective &call, const void *send, void *recv) {
  if (Error error = start(call, send, recv))
    return error;
  return wait(call);
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

namespace {

struct Calibration {
  DeviceRates device;
  std::vector<MeasuredKind> lines;
  Contention contention;
};

/// Four digits are more than such measurements are worth.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return std::strtod(text, nullptr);
}

const MeasuredKind *find(const Calibration &result, mprt_collective_kind kind,
                         uint64_t ranks, const std::string &link) {
  for (const MeasuredKind &line : result.lines)
    if (line.kind == kind && line.ranks == ranks && line.link == link)
      return &line;
  return nullptr;
}

/// A level of links: a message's latency, and what a rank sends and receives
/// while all do, from the lines on groups of `ranks`.
Json describeLink(const Calibration &result, uint64_t ranks,
                  const std::string &link) {
  double latency = 0, bandwidth = result.device.memoryBandwidth;
  if (const MeasuredKind *send = find(result, MPRT_SEND, 2, link))
    latency = send->line.alpha;
  const MeasuredKind *gather = find(result, MPRT_ALL_GATHER, ranks, link);
  if (gather && gather->line.beta > 0)
    bandwidth = static_cast<double>(ranks - 1) / gather->line.beta;
  return {{"name", link},
          {"ranks", 0},
          {"latency", rounded(latency)},
          {"bandwidth", rounded(bandwidth)},
          {"contends", true}};
}

Json describeLinks(const Calibration &result, const Rank &rank,
                   uint64_t block) {
  if (!block) {
    Json link = describeLink(result, rank.size(), "");
    link["name"] = rank.backend();
    return Json::array({link});
  }
  Json inside = describeLink(result, block, insideLink);
  inside["ranks"] = block;
  return Json::array(
      {inside, describeLink(result, rank.size() / block, acrossLink)});
}

std::string describeSource(const Rank &rank, const DeviceRates &device) {
  char date[32] = "", host[256] = "";
  std::time_t now = std::time(nullptr);
  std::tm calendar{};
  if (localtime_r(&now, &calendar))
    std::strftime(date, sizeof(date), "%Y-%m-%d", &calendar);
  gethostname(host, sizeof(host) - 1);
  return "mpcomm-run --calibrate, " + std::to_string(rank.size()) +
         (rank.size() == 1 ? " rank" : " ranks") + " over " + rank.backend() +
         " (" + std::to_string(rank.localRanks()) + " on " + host + ", " +
         device.name + "), " + date;
}

std::string render(const Calibration &result, const Rank &rank,
                   uint64_t block) {
  Json flops = Json::object();
  for (const auto &[type, rate] : result.device.flops)
    flops[type] = rounded(rate);
  Json measured = Json::array();
  for (const MeasuredKind &line : result.lines) {
    measured.push_back({{"kind", mprt::nameOf(line.kind)},
                        {"ranks", line.ranks},
                        {"backend", rank.backend()},
                        {"alpha", rounded(line.line.alpha)},
                        {"beta", rounded(line.line.beta)}});
    if (!line.link.empty())
      measured.back()["link"] = line.link;
  }
  Json efficiency = Json::object();
  for (const auto &[kind, share] : result.device.efficiency)
    efficiency[kind] = rounded(share);
  Json file = {{"schema", "mpcomm-cluster-1"},
               {"name", "calibrated"},
               {"source", describeSource(rank, result.device)},
               {"device",
                {{"name", result.device.name},
                 {"flops", flops},
                 {"memory_bandwidth", rounded(result.device.memoryBandwidth)},
                 {"memory_bytes", result.device.memoryBytes},
                 {"launch", rounded(result.device.launch)},
                 {"fused_attention", result.device.fusedAttention}}},
               {"links", describeLinks(result, rank, block)},
               {"measured", measured},
               {"compute_rate_under_comm",
                rounded(result.contention.computeRateUnderComm)},
               {"comm_rate_under_compute",
                rounded(result.contention.commRateUnderCompute)}};
  if (!efficiency.empty())
    file["device"]["efficiency"] = efficiency;
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print(const Calibration &result) {
  std::printf("%-8s", "flop/s");
  for (const auto &[type, rate] : result.device.flops)
    std::printf("  %s %.1f G", type.c_str(), rate * 1e-9);
  if (!result.device.efficiency.empty())
    std::printf("\nshare   ");
  for (const auto &[kind, share] : result.device.efficiency)
    std::printf("  %s %.3f", kind.c_str(), share);
  std::printf("\nmemory    %.1f GB/s\nlaunch    %.0f ns\n",
              result.device.memoryBandwidth * 1e-9, result.device.launch * 1e9);
  if (!result.lines.empty())
    std::printf("\n%-16s %5s %-7s %10s %12s %9s %9s\n", "collective", "ranks",
                "link", "alpha us", "payload MB/s", "error", "worst");
  for (const MeasuredKind &line : result.lines)
    std::printf("%-16s %5llu %-7s %10.1f %12.1f %7.1f %% %7.1f %%\n",
                mprt::nameOf(line.kind),
                static_cast<unsigned long long>(line.ranks), line.link.c_str(),
                line.line.alpha * 1e6,
                line.line.beta > 0 ? 1e-6 / line.line.beta : 0.0,
                100 * line.line.medianError, 100 * line.line.worstError);
  if (!result.lines.empty())
    std::printf("\nrate of compute under communication  %.3f\n"
                "rate of communication under compute  %.3f\n",
                result.contention.computeRateUnderComm,
                result.contention.commRateUnderCompute);
  std::fflush(stdout);
}

} // namespace

Error mpcomm::run::calibrate(Rank &rank, const RunOptions &options) {
  Bench bench(rank);
  if (Error error = rank.agree(bench.prepare(options)))
    return error;
  double seconds = options.calibrateSeconds;
  Calibration result;
  bool isAsynchronous = rank.device().isAsynchronous();
  auto measureRates = isAsynchronous ? measureCuda : measureDevice;
  if (Error error = measureRates(bench, 0.25 * seconds, result.device))
    return error;
  if (rank.size() > 1) {
    double part = 0.6 / static_cast<double>(bench.groups().size());
    for (const MeasuredGroup &group : bench.groups())
      if (Error error =
              measureCollectives(bench, group, part * seconds, result.lines))
        return error;
    auto measureRemains =
        isAsynchronous ? measureCudaContention : measureContention;
    if (Error error = measureRemains(bench, 0.15 * seconds, result.contention))
      return error;
  }
  // Point-to-point lines of pairs were measured with the whole group too.
  std::vector<MeasuredKind> lines;
  for (const MeasuredKind &line : result.lines)
    if (std::none_of(lines.begin(), lines.end(), [&](const MeasuredKind &l) {
          return l.kind == line.kind && l.ranks == line.ranks &&
                 l.link == line.link;
        }))
      lines.push_back(line);
  result.lines = lines;
  Error mine;
  if (rank.index() == 0) {
    if (!options.quiet)
      print(result);
    mine = writeText(options.calibrate,
                     render(result, rank, options.calibrateBlock));
  }
  return rank.agree(mine);
}
