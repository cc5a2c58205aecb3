//===- ShardingChecks.h - what ranks have to hold ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is derived of a rank's program against what it declares.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_VERIFY_SHARDINGCHECKS_H
#define MPCOMM_LIB_TRANSFORMS_VERIFY_SHARDINGCHECKS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"
#include "mpcomm/Analysis/Dataflow/ReductionScales.h"

namespace mpcomm {

/// The axes of the module's meshes that are `axis`, or parts of it as
/// `mpcomm-decompose-collectives` makes them, and have more than one rank.
llvm::SmallVector<llvm::StringRef> findSubAxes(mlir::ModuleOp module,
                                               llvm::StringRef axis);

/// Results of role parameter, optimizer_state, buffer and loss_scale, and with
/// `isStep` the loss, are what their sharding says along the axis; without one
/// they are replicated. Reports all that are not, at the op that returns them.
bool verifyResults(mlir::FunctionOpInterface function,
                   const AxisShardings &shardings, bool isStep);

/// Gradients that enter optimizer ops are the same on all ranks, or parts of
/// such.
bool verifyGradients(const AxisShardings &shardings);

/// Gradients, and losses that are returned, are means over `axis`; magnitudes
/// that 8-bit scales are updated from are the greatest; and other state is no
/// multiple of a mean.
bool verifyScales(mlir::FunctionOpInterface function,
                  const ReductionScales &scales,
                  llvm::ArrayRef<OptimizerOpInterface> optimizers,
                  llvm::StringRef axis, bool isStep);

/// All ranks, or none, come to `op`.
bool verifyControl(CollectiveOpInterface op, const AxisShardings &shardings);

/// Shardings of arguments and results name a mesh, axes of it, and sizes that
/// divide. Time: linear in arguments, results and symbols.
bool verifyDeclared(mlir::ModuleOp module);

/// Collectives name meshes and axes that exist, and all the same mesh.
bool verifyMeshes(llvm::ArrayRef<CollectiveOpInterface> collectives);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_VERIFY_SHARDINGCHECKS_H
