//===- CostModel.h - seconds of ops and collectives -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an op takes on a cluster, alone: roofline for compute, latency plus
// bytes over bandwidth for each algorithm of a collective. Formulas, papers and
// limits are in docs/Design/CostModel.md. What ops take together, with fusion,
// is in StepModel.h.
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

/// How the ranks of a group lie among the blocks of a cluster.
struct GroupShape {
  int64_t ranks = 1;
  /// For each link level, how many ranks of the group lie in one block. The
  /// last is all of them.
  llvm::SmallVector<int64_t, 4> inside;

  bool operator==(const GroupShape &other) const {
    return ranks == other.ranks && inside == other.inside;
  }
};

/// The shape of the groups that span some axes of a mesh, whose ranks are
/// numbered row-major. Where blocks cut groups unevenly, blocks are taken to
/// hold fewer ranks than some do. `sizes` are those of all axes, `spans` tells
/// which belong to the group. Time: linear in axes and levels.
GroupShape getGroupShape(const Cluster &cluster, llvm::ArrayRef<int64_t> sizes,
                         llvm::ArrayRef<bool> spans);

/// A way to run a collective, which level `link` of Cluster::links bounds.
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

  /// The shape of an op's group; failure, without a diagnostic, where its mesh
  /// or an axis is not found.
  llvm::FailureOr<GroupShape> getGroupShape(CollectiveOpInterface op) const;

  /// What the communication library takes: measured if there is such a line,
  /// else the envelope of Cluster::algorithms. By the bytes of payload on the
  /// wire, as CollectiveOpInterface::getPayloadBytes counts them: the operands
  /// of this rank (all_gather: its own block), or the results where there are
  /// no operands. A line's `link` is an index into Cluster::links, its
  /// `algorithm` a CollectiveAlgorithm.
  CostCurve getCollective(CollectiveKind kind, const GroupShape &shape) const;
  llvm::FailureOr<CostCurve> getCollective(CollectiveOpInterface op) const;

  /// One algorithm alone; nothing where it does not apply to the collective or
  /// to the group.
  std::optional<CostCurve> getCollective(CollectiveKind kind,
                                         const GroupShape &shape,
                                         CollectiveAlgorithm algorithm) const;

  /// The two groups of a hierarchical collective: ranks inside one block of
  /// level `level`, and one rank of each block. Nothing where that cuts
  /// nothing.
  static std::optional<std::pair<GroupShape, GroupShape>>
  splitGroup(const GroupShape &shape, unsigned level);

  /// Bytes of payload on the wire: getPayloadBytes in the wire type.
  static int64_t getWireBytes(CollectiveOpInterface op);

  /// Seconds of an op that is no collective, alone: nothing fused, all operands
  /// read and all results written, launched once. The profile is not asked.
  /// An op without CostOpInterface reads its tensors and writes its results.
  double getSeconds(mlir::Operation *op) const;
  /// With `bytes` of traffic, a launch or none, and a share of its flops.
  double getSeconds(mlir::Operation *op, int64_t bytes, bool isLaunched,
                    double share = 1) const;

  /// Flop/s of an op: by the widest element type of its operands if it is a
  /// contraction (PrecisionClass::LowerPrecision), else of the vector units.
  double getFlopRate(mlir::Operation *op) const;

private:
  Cluster cluster;
  std::optional<Profile> profile;
  std::string backend;
  unsigned algorithms; ///< set of 1 << CollectiveAlgorithm
};

/// The model of `cluster`, a preset's name or a file; of the module's
/// `mpcomm.cluster` where that is empty; of the preset `local` without either.
/// `profileFile` may be empty. Failure after an error at the module.
llvm::FailureOr<CostModel> getCostModel(mlir::ModuleOp module,
                                        llvm::StringRef cluster,
                                        llvm::StringRef profileFile);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_COSTMODEL_COSTMODEL_H
