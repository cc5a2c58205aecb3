//===- ClusterAttr.h - the cluster of a module ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `#mpcomm.cluster` and Cluster.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_CLUSTER_CLUSTERATTR_H
#define MPCOMM_ANALYSIS_CLUSTER_CLUSTERATTR_H

#include "mpcomm/Analysis/Cluster/Cluster.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// The attribute of a cluster whose check() is empty.
ClusterAttr toAttribute(mlir::MLIRContext *context, const Cluster &cluster);
Cluster fromAttribute(ClusterAttr attribute);

/// The cluster that `op` is compiled for: `nameOrPath` (a preset or a file) if
/// it is not empty, else the attribute `mpcomm.cluster` of the module around
/// `op`, else the preset `local`. Emits an error at `op` on failure.
llvm::FailureOr<Cluster> findCluster(mlir::Operation *op,
                                     llvm::StringRef nameOrPath = "");

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_CLUSTER_CLUSTERATTR_H
