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

/// Microsoft, "Azure AI benchmarking guide" (github.com/Azure/AI-benchmarking-
/// guide, Azure_Results), with random values after 10,000 warm-up iterations:
/// cuBLASLt on an A100 253.7 Tflop/s in f16, on an H100 1290.1 of 1979 in f8;
/// BabelStream Triad 1.70 of 2.039 and 2.97 of 3.35 TB/s; attention by
/// FlashAttention-2 on an A100 179.5 Tflop/s.
static constexpr double kAmpereProduct = 253.7e12;
static constexpr double kHopperShare = 1290.1 / 1979;
static constexpr double kAmpereTriad = 1.70 / 2.039;
static constexpr double kHopperTriad = 2.97 / 3.35;

/// What a kernel adds to its own time in a full stream: 3.8 us a kernel that
/// runs 2.9 us (NVIDIA, "Getting Started with CUDA Graphs", 2019).
static constexpr double kKernelLaunch = 0.9e-6;

/// NCCL's tuning model (src/graph/tuning.cc): the base latency of a ring with
/// the LL protocol, and a hop with LL128 over NVLink and over a network.
static constexpr double kNcclBase = 6.6e-6;
static constexpr double kNcclHopNvlink = 1.9e-6;
static constexpr double kNcclHopNet = 4.0e-6;

/// Shares of the rate of products. Kernels skip the half of the scores that a
/// causal mask drops, while the op counts all of them.
static void setAttention(DeviceModel &device, double share) {
  device.fusedAttention = true;
  device.efficiency["attention"] = share;
  device.efficiency["masked_attention"] = 2 * share;
}

/// GH100 in its SXM form; H100 and H200 differ in memory only.
static DeviceModel makeHopper() {
  DeviceModel device;
  // 16-bit products at the share that f8 sustains. (The best that they reach
  // for a short time is 80.3 %: Bekman, "Machine Learning Engineering".)
  device.flops["bf16"] = device.flops["f16"] = kHopperShare * 989e12;
  device.flops["f8"] = 1290.1e12;
  // Data sheet: 67 for f32 without tensor cores, and for f64 with them; the
  // share is taken to be the same.
  device.flops["f32"] = device.flops["f64"] = kHopperShare * 67e12;
  device.flops["vector"] = 67e12;
  // FlashAttention-2 as in PyTorch, forward, 128 wide, 4096 rows: 298 Tflop/s
  // (github.com/pytorch/benchmark, pull request 2296).
  setAttention(device, 298e12 / device.flops["bf16"]);
  device.launch = kKernelLaunch;
  return device;
}

static DeviceModel makeAmpere() {
  DeviceModel device;
  device.name = "A100 SXM4 80GB";
  device.flops["bf16"] = device.flops["f16"] = kAmpereProduct;
  // Data sheet: 312 in 16 bits, 19.5 in f32 and, with tensor cores, in f64; the
  // share is taken to be the same.
  device.flops["f32"] = device.flops["f64"] = kAmpereProduct / 312 * 19.5;
  device.flops["vector"] = 19.5e12;
  setAttention(device, 179.5e12 / kAmpereProduct);
  device.memoryBandwidth = kAmpereTriad * 2.039e12;
  device.memoryBytes = 80'000'000'000;
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
  cluster.device.memoryBandwidth = kHopperTriad * 3.35e12;
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

/// Eight A100 on NVSwitch, as in a DGX A100.
static Cluster makeDgxA100() {
  Cluster cluster = makeDgxH100();
  cluster.device = makeAmpere();
  // NVLink 3 through NVSwitch: all_reduce on 8 devices at 232.54 GB/s
  // (nccl-tests issue 175). A 200 Gb/s card a device: 24 GB/s (nccl issue 412).
  cluster.links[0].bandwidth = 232.5e9;
  cluster.links[1].bandwidth = 24e9;
  // No NVLink SHARP before the third generation of NVSwitch.
  cluster.algorithms = {"ring", "tree"};
  return cluster;
}

static Cluster makeH200() {
  Cluster cluster = makeDgxH100();
  cluster.device.name = "H200 SXM 141GB";
  cluster.device.memoryBandwidth = kHopperTriad * 4.8e12; // data sheet
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
  // Products with tensor cores sustain 95 (github.com/mli/transformers-
  // benchmarks); f32 at nine tenths of the data sheet's 15.7. There is no bf16:
  // it runs at f32's rate.
  device.flops["f16"] = 95e12;
  device.flops["f32"] = 0.9 * 15.7e12;
  device.flops["f64"] = 0.9 * 7.8e12;
  device.flops["vector"] = 15.7e12;
  // The same: vector multiplication, 0.098 Tflop/s of 8 bytes each. (Jia et
  // al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking",
  // 2018, reach 805 GB/s of 900 nominal.)
  device.memoryBandwidth = 784e9;
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
  static constexpr StringLiteral names[] = {"dgx-a100",      "dgx-h100",
                                            "h200-nvlink-8", "ethernet-10g",
                                            "ethernet-100g", "local"};
  return names;
}

Expected<Cluster> mpcomm::getPreset(StringRef name) {
  Cluster cluster;
  if (name == "dgx-a100")
    cluster = makeDgxA100();
  else if (name == "dgx-h100")
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
