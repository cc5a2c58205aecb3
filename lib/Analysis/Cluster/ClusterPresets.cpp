//===- ClusterPresets.cpp - clusters known by name ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Published figures, each with where it comes from; docs/Design/ClusterFile.md
// lists them with addresses. `mpcomm-run --calibrate` replaces them by measured
// ones.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Cluster/Cluster.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace mpcomm;

/// Data sheets give what memory could do at best. STREAM-like kernels reach
/// about nine tenths of it on these devices: assumed, not measured here.
static constexpr double kMemoryEfficiency = 0.9;

/// What a kernel adds to its own time in a full stream: 3.8 us a kernel that
/// runs 2.9 us (NVIDIA, "Getting Started with CUDA Graphs", 2019).
static constexpr double kKernelLaunch = 0.9e-6;

/// NCCL's tuning model (src/graph/tuning.cc): the base latency of a ring with
/// the LL protocol, and a hop with LL128 over NVLink and over a network.
static constexpr double kNcclBase = 6.6e-6;
static constexpr double kNcclHopNvlink = 1.9e-6;
static constexpr double kNcclHopNet = 4.0e-6;

/// GH100 in its SXM form; H100 and H200 differ in memory only.
static DeviceModel makeHopper() {
  DeviceModel device;
  // Reached by matrix products: Bekman, "Machine Learning Engineering", table
  // of maximum achievable matmul flops: 794.5 of 989 (80.3 %), f8 1402.6.
  device.flops["bf16"] = device.flops["f16"] = 794.5e12;
  device.flops["f8"] = 1402.6e12;
  // Data sheet: 67 for f32 without tensor cores, and for f64 with them; the
  // share that is reached is taken to be that of bf16.
  device.flops["f32"] = device.flops["f64"] = 0.803 * 67e12;
  device.flops["vector"] = 67e12;
  device.launch = kKernelLaunch;
  return device;
}

/// NVLink 4 through NVSwitch: 450 GB/s a direction, of which NCCL reaches 370
/// (NCCL's maintainers, nccl-tests issue 212).
static LinkLevel makeNvlink4(int64_t ranks) {
  return {"nvlink",   ranks, kNcclHopNvlink, 370e9, /*contends=*/true,
          /*rails=*/0};
}

static Cluster makeDgxH100() {
  Cluster cluster;
  cluster.device = makeHopper();
  cluster.device.name = "H100 SXM5 80GB";
  cluster.device.memoryBandwidth = kMemoryEfficiency * 3.35e12; // data sheet
  cluster.device.memoryBytes = 80'000'000'000;
  cluster.links.push_back(makeNvlink4(8));
  // A 400 Gb/s NDR card a device: 46 to 48 GB/s (NCCL's maintainers, nccl-tests
  // issue 290). Rings leave a node through all eight.
  cluster.links.push_back({"infiniband", 0, kNcclHopNet, 47e9,
                           /*contends=*/true, /*rails=*/0});
  cluster.collectiveLaunch = kNcclBase;
  // Inside a node, `direct` stands for NVLink SHARP, at NVLink's rate.
  cluster.algorithms = {"ring", "tree", "direct"};
  // Compute takes 18.9 % longer under communication, on average ("Character-
  // izing Compute-Communication Overlap in GPU-Accelerated Distributed Deep
  // Learning", 2025).
  cluster.computeRateUnderComm = 1 / 1.189;
  cluster.source = "NVIDIA data sheets, NCCL's tuning model, nccl-tests issues";
  return cluster;
}

static Cluster makeH200() {
  Cluster cluster = makeDgxH100();
  cluster.device.name = "H200 SXM 141GB";
  cluster.device.memoryBandwidth = kMemoryEfficiency * 4.8e12; // data sheet
  cluster.device.memoryBytes = 141'000'000'000;
  cluster.links = {makeNvlink4(0)};
  return cluster;
}

/// Nodes of `ranks` V100 on NVLink that share one Ethernet card.
static Cluster makeEthernet(int64_t ranks, int64_t memoryBytes,
                            double nvlinkBandwidth, double cardBandwidth,
                            double latency) {
  Cluster cluster;
  DeviceModel &device = cluster.device;
  device.name = "V100 SXM2";
  // cuBLAS reaches 83 with tensor cores (Markidis et al., "NVIDIA Tensor Core
  // Programmability, Performance & Precision", IPDPSW 2018); f32 at nine tenths
  // of the data sheet's 15.7. There is no bf16: it runs at f32's rate.
  device.flops["f16"] = 83e12;
  device.flops["f32"] = 0.9 * 15.7e12;
  device.flops["f64"] = 0.9 * 7.8e12;
  device.flops["vector"] = 15.7e12;
  // Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
  // Microbenchmarking", 2018: 750 GiB/s of 900 GB/s nominal.
  device.memoryBandwidth = 750.0 * (1 << 30);
  device.memoryBytes = memoryBytes;
  device.launch = kKernelLaunch;
  cluster.links.push_back({"nvlink", ranks, kNcclHopNvlink, nvlinkBandwidth,
                           /*contends=*/true, /*rails=*/0});
  // TCP or RoCE in frames of 1500 bytes carries 94 % of the line rate. The card
  // is shared: a rank's part of it, and a ring has all of it.
  cluster.links.push_back({"ethernet", 0, latency,
                           0.94 * cardBandwidth / static_cast<double>(ranks),
                           /*contends=*/true, /*rails=*/0});
  cluster.collectiveLaunch = kNcclBase;
  cluster.algorithms = {"ring", "tree"};
  // Two channels of a slow card take two of the 80 multiprocessors.
  cluster.computeRateUnderComm = 78.0 / 80.0;
  cluster.source = "NVIDIA data sheets, NCCL's tuning model, papers named in "
                   "docs/Design/ClusterFile.md";
  return cluster;
}

/// Two cores of a server, a rank each, over shared memory: measured on the
/// machine on which this project's tests run.
static Cluster makeLocal() {
  Cluster cluster;
  DeviceModel &device = cluster.device;
  device.name = "one core with AVX-512";
  device.flops["f32"] = 100e9; // oneDNN, weights not packed; 200 packed
  device.flops["f64"] = 50e9;
  device.flops["bf16"] = 100e9; // oneDNN: 109 to 114
  device.flops["vector"] = 20e9;
  device.memoryBandwidth =
      26e9; // memcpy of 100 MB on both: 13 read and written
  device.memoryBytes = int64_t(12) << 30;
  device.launch = 0.2e-6;
  // all_reduce of 4 KB in a few microseconds, of 25 MB in 2.5 ms on two ranks.
  cluster.links.push_back({"shm", 0, 1e-6, 10e9, /*contends=*/true,
                           /*rails=*/1});
  cluster.collectiveLaunch = 1e-6;
  cluster.algorithms = {"direct"};
  // No core is left over: compute and communication take turns.
  cluster.computeRateUnderComm = 0.5;
  cluster.commRateUnderCompute = 0.5;
  cluster.source = "measured: GEMM, memcpy and all_reduce on two cores";
  return cluster;
}

ArrayRef<StringLiteral> mpcomm::getPresetNames() {
  static constexpr StringLiteral names[] = {
      "dgx-h100", "h200-nvlink-8", "ethernet-10g", "ethernet-100g", "local"};
  return names;
}

Expected<Cluster> mpcomm::getPreset(StringRef name) {
  Cluster cluster;
  if (name == "dgx-h100")
    cluster = makeDgxH100();
  else if (name == "h200-nvlink-8")
    cluster = makeH200();
  else if (name == "ethernet-10g")
    // As AWS p3.8xlarge: four devices of 16 GB, four of whose six links of
    // 25 GB/s make rings. A TCP message takes about 40 us: Gloo's all_reduce of
    // 4 KB on two ranks, two messages, takes 82 here; MG-WFBP (Shi et al.,
    // 2019) fitted 0.97 ms to an all_reduce over 10 Gb/s, some 24 of them.
    cluster = makeEthernet(4, 16'000'000'000, 87e9, 1.25e9, 40e-6);
  else if (name == "ethernet-100g")
    // As AWS p3dn.24xlarge: eight devices of 32 GB. NCCL's network hop.
    cluster = makeEthernet(8, 32'000'000'000, 130e9, 12.5e9, kNcclHopNet);
  else if (name == "local")
    cluster = makeLocal();
  else
    return createStringError("unknown cluster '" + name + "': expected " +
                             join(getPresetNames(), ", "));
  cluster.name = name.str();
  return cluster;
}
