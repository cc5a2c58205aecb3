//===- Cluster.h - devices and links of a cluster ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a cluster can do, as plain data: the rates of a device and a hierarchy
// of links. The JSON form is described in docs/Design/ClusterFile.md; the
// attribute
// `#mpcomm.cluster` is in ClusterAttr.h.
//
// Seconds, bytes, flop/s and bytes/s everywhere.
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
  /// Ranks of one block: 8 for the GPUs of a node. Levels go from the inside
  /// out, each block made of whole blocks of the level before; the last level
  /// joins all ranks and has 0 here.
  int64_t ranks = 0;
  /// Seconds from the start of a message to the arrival of its first byte.
  double latency = 0;
  /// Bytes/s of one rank in one direction while all ranks of the block use
  /// theirs: a card that four ranks share counts a quarter to each.
  double bandwidth = 0;
  /// Whether two collectives at a time share the bandwidth.
  bool contends = true;
  /// How many ranks of an inner block a flat ring or tree leaves the block
  /// through at once (NCCL: one ring per network card); 0: all of them.
  int64_t rails = 1;
};

struct DeviceModel {
  std::string name;
  /// Flop/s that large matrix products sustain, by element type: "f64", "f32",
  /// "f16", "bf16", "f8", "i8"; and "vector" for all ops that are no
  /// contractions. "f32" is always there.
  std::map<std::string, double> flops;
  /// The share of `flops` that products of a kind (ProductKind) sustain, by the
  /// flops that their ops count: kernels that leave out what a mask drops may
  /// have more than 1, at most 4. 1 for kinds that are missing.
  std::map<std::string, double> efficiency;
  /// Bytes/s, reads and writes together.
  double memoryBandwidth = 0;
  int64_t memoryBytes = 0;
  /// Seconds that an op takes at least.
  double launch = 0;
};

/// The straight line alpha + beta * bytes that a collective was measured to
/// take on groups of `ranks`; it replaces the formulas.
struct MeasuredCollective {
  /// As CollectiveKind prints: "all_reduce", ...
  std::string kind;
  int64_t ranks = 0;
  /// "shm", "mpi", "gloo", "nccl"; empty: any.
  std::string backend;
  double alpha = 0; ///< seconds
  double beta = 0;  ///< seconds a byte of payload (see CostCurve)
  /// The name of the outermost level that the group's messages use; empty: any.
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
  /// What the communication library can do, by the names that
  /// CollectiveAlgorithm prints; empty: everything.
  std::vector<std::string> algorithms;

  /// What figures may be, for nothing that is made of them (of 2^48 elements a
  /// tensor) to leave the range of a double: bytes/s and flop/s, seconds, and
  /// what is left of a rate under contention.
  static constexpr double leastRate = 1, mostRate = 1e30, mostSeconds = 1e9,
                          leastShare = 1e-6;

  /// Empty if well formed, else the JSON path of what is wrong and what was
  /// expected: `links[1].bandwidth: expected a positive number, got 0`.
  std::string check() const;
};

/// Reads the JSON form. `file` names it in errors, which give the path of what
/// is wrong and what was expected there; an unknown key is an error.
llvm::Expected<Cluster> parseCluster(llvm::StringRef json,
                                     llvm::StringRef file = "cluster");

/// The JSON form, which parseCluster reads back to equal figures.
std::string toJson(const Cluster &cluster);

/// The clusters known by name (see docs/Design/ClusterFile.md for sources).
llvm::ArrayRef<llvm::StringLiteral> getPresetNames();
llvm::Expected<Cluster> getPreset(llvm::StringRef name);

/// The preset of that name, or else the JSON file at that path.
llvm::Expected<Cluster> loadCluster(llvm::StringRef nameOrPath);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_CLUSTER_CLUSTER_H
