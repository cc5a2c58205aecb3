//===- Cluster.h - devices and links of a cluster ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cluster as plain data: the rates of a device and a hierarchy of links.
// docs/Design/ClusterFile.md describes the JSON form; ClusterAttr.h converts to
// and from the attribute `#mpcomm.cluster`.
//
// Units are seconds, bytes, flop/s and bytes/s.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_CLUSTER_CLUSTER_H
#define MPCOMM_ANALYSIS_CLUSTER_CLUSTER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mpcomm {

/// Links that join blocks of consecutive ranks.
struct LinkLevel {
  std::string name;
  /// Ranks of one block, for example 8 for the GPUs of a node. Levels are
  /// ordered from the innermost to the outermost. A block consists of whole
  /// blocks of the previous level. The last level joins all ranks; its value is
  /// 0.
  int64_t ranks = 0;
  /// Seconds from the start of a message to the arrival of its first byte.
  double latency = 0;
  /// Bytes/s of one rank in one direction while all ranks of the block
  /// communicate. If four ranks share a card, each has a quarter of its
  /// bandwidth.
  double bandwidth = 0;
  /// Whether simultaneous collectives share the bandwidth.
  bool contends = true;
  /// Number of ranks through which a flat ring or tree leaves an inner block at
  /// once (NCCL: one ring per network card); 0: all of them.
  int64_t rails = 1;
};

struct DeviceModel {
  std::string name;
  /// Flop/s that large matrix products sustain, by element type: "f64", "f32",
  /// "f16", "bf16", "f8", "i8"; and "vector" for ops that are not contractions.
  /// "f32" is required.
  std::map<std::string, double> flops;
  /// The share of `flops` that products of a kind (ProductKind) sustain, by the
  /// flops of CostOpInterface; 1 for missing kinds. It may be up to 4 for
  /// kernels that skip elements which a mask excludes.
  std::map<std::string, double> efficiency;
  /// Bytes/s, reads and writes together.
  double memoryBandwidth = 0;
  int64_t memoryBytes = 0;
  /// Seconds that a kernel takes in addition to its work.
  double launch = 0;
  /// Whether one kernel computes attention; otherwise it is computed as
  /// products and softmax.
  bool fusedAttention = false;
};

/// The measured time alpha + beta * bytes of a collective on groups of `ranks`.
/// It replaces the formulas.
struct MeasuredCollective {
  /// The text of a CollectiveKind: "all_reduce", ...
  std::string kind;
  int64_t ranks = 0;
  /// "shm", "mpi", "gloo", "nccl"; empty: any.
  std::string backend;
  double alpha = 0; ///< seconds
  double beta = 0;  ///< seconds per byte of payload (see CostCurve)
  /// Name of the outermost level that messages of the group use; empty: any.
  std::string link;
};

struct Cluster {
  std::string name;
  /// Where the figures come from.
  std::string source;
  DeviceModel device;
  std::vector<LinkLevel> links;
  std::vector<MeasuredCollective> measured;
  /// Rate of compute while this rank communicates, in (0, 1].
  double computeRateUnderComm = 1;
  /// Rate of communication while this rank computes, in (0, 1].
  double commRateUnderCompute = 1;
  /// Seconds that each collective takes before its first message.
  double collectiveLaunch = 0;
  /// Algorithms of the communication library, by the text of
  /// CollectiveAlgorithm; empty: all.
  std::vector<std::string> algorithms;

  /// Limits on bytes/s and flop/s, on seconds, and on the rates under
  /// contention. Within them, no derived figure (for tensors of up to 2^48
  /// elements) leaves the range of a double.
  static constexpr double leastRate = 1, mostRate = 1e30, mostSeconds = 1e9,
                          leastShare = 1e-6;

  /// Empty if well formed; else the JSON path of the error and the expected
  /// value: `links[1].bandwidth: expected a positive number, got 0`.
  std::string check() const;
};

/// Reads the JSON form. Errors start with `file` and give the JSON path and the
/// expected value. An unknown key is an error.
llvm::Expected<Cluster> parseCluster(llvm::StringRef json,
                                     llvm::StringRef file = "cluster");

/// The JSON form, which parseCluster reads back to equal figures.
std::string toJson(const Cluster &cluster);

/// The presets (see docs/Design/ClusterFile.md for their sources).
llvm::ArrayRef<llvm::StringLiteral> getPresetNames();
llvm::Expected<Cluster> getPreset(llvm::StringRef name);

/// The preset of that name; if there is none, the JSON file at that path.
llvm::Expected<Cluster> loadCluster(llvm::StringRef nameOrPath);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_CLUSTER_CLUSTER_H
