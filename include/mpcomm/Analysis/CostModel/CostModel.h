//===- CostModel.h - seconds of ops and collectives -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of a single op on a cluster: a roofline for compute ops, and latency
// plus bytes over bandwidth for each algorithm of a collective. Formulas,
// papers and limits: docs/Design/CostModel.md. StepModel.h accounts for fusion.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_COSTMODEL_COSTMODEL_H
#define MPCOMM_ANALYSIS_COSTMODEL_COSTMODEL_H

#include "mpcomm/Analysis/Cluster/Cluster.h"
#include "mpcomm/Analysis/CostModel/Profile.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Scheduling/CostCurve.h"
#include <optional>

namespace mpcomm {

/// The distribution of the ranks of a group over the blocks of a cluster.
struct GroupShape {
  int64_t ranks = 1;
  /// For each link level, the number of ranks of the group in one block. The
  /// last number is that of all ranks.
  llvm::SmallVector<int64_t, 4> inside;

  bool operator==(const GroupShape &other) const {
    return ranks == other.ranks && inside == other.inside;
  }
};

/// The shape of the groups that span some axes of a mesh, whose ranks are
/// numbered row-major. `sizes` are the sizes of all axes; `spans` tells which
/// axes belong to the group. If blocks cut groups unevenly, the smallest number
/// of ranks per block counts. Time: linear in axes and levels.
GroupShape getGroupShape(const Cluster &cluster, llvm::ArrayRef<int64_t> sizes,
                         llvm::ArrayRef<bool> spans);

/// The cost of an algorithm that is bounded by level `link` of Cluster::links.
inline CostLine makeLine(CollectiveAlgorithm algorithm, double latency,
                         double secondsPerByte, unsigned link) {
  return {latency, secondsPerByte, static_cast<int>(link),
          static_cast<int>(algorithm)};
}

class CostModel {
public:
  /// `cluster` has an empty check(). `backend` selects among measured lines;
  /// empty takes the first that fits.
  explicit CostModel(Cluster cluster,
                     std::optional<Profile> profile = std::nullopt,
                     std::string backend = "");

  const Cluster &getCluster() const { return cluster; }
  const std::optional<Profile> &getProfile() const { return profile; }

  /// The shape of an op's group; failure, without a diagnostic, if its mesh or
  /// an axis is not found.
  llvm::FailureOr<GroupShape> getGroupShape(CollectiveOpInterface op) const;

  /// The time of the communication library: the measured line if there is one,
  /// else the envelope of Cluster::algorithms. It is a function of the bytes of
  /// payload on the wire (see CollectiveOpInterface::getPayloadBytes): those of
  /// the operands of this rank (all_gather: its own block), or of the results
  /// if there are no operands. `link` of a line is an index into
  /// Cluster::links, `algorithm` a CollectiveAlgorithm.
  CostCurve getCollective(CollectiveKind kind, const GroupShape &shape) const;
  llvm::FailureOr<CostCurve> getCollective(CollectiveOpInterface op) const;

  /// The time of one algorithm; nothing if it does not apply to the collective
  /// or to the group.
  std::optional<CostCurve> getCollective(CollectiveKind kind,
                                         const GroupShape &shape,
                                         CollectiveAlgorithm algorithm) const;

  /// The two groups of a hierarchical collective: the ranks inside one block of
  /// level `level`, and one rank of each block. Nothing if one of them is the
  /// whole group.
  static std::optional<std::pair<GroupShape, GroupShape>>
  splitGroup(const GroupShape &shape, unsigned level);

  /// Bytes of payload on the wire: getPayloadBytes in the wire type.
  static int64_t getWireBytes(CollectiveOpInterface op);

  /// Seconds of an op that is not a collective, without fusion: all operands
  /// are read, all results are written, and there is one launch. The profile is
  /// ignored. An op without CostOpInterface reads its tensors and writes its
  /// results.
  double getSeconds(mlir::Operation *op) const;
  /// The same with `bytes` of memory traffic, with or without a launch, and
  /// with the fraction `share` of the op's flops, and with factors of `product`
  /// if that is given.
  double getSeconds(mlir::Operation *op, int64_t bytes, bool isLaunched,
                    double share = 1, mlir::Type product = {}) const;

  /// Flop/s of an op: for a contraction (PrecisionClass::LowerPrecision), the
  /// rate of its product type, or `product`, times the efficiency of its
  /// product kind; otherwise the rate of the vector units.
  double getFlopRate(mlir::Operation *op, mlir::Type product = {}) const;

private:
  Cluster cluster;
  std::optional<Profile> profile;
  std::string backend;
  unsigned algorithms; ///< set of 1 << CollectiveAlgorithm
};

/// The cost model of `cluster`, the name of a preset or a file. If it is empty,
/// the module's `mpcomm.cluster`, else the preset `local`. `profileFile` may be
/// empty. Emits an error at the module on failure.
llvm::FailureOr<CostModel> getCostModel(mlir::ModuleOp module,
                                        llvm::StringRef cluster,
                                        llvm::StringRef profileFile);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_COSTMODEL_COSTMODEL_H
