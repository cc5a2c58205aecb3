//===- Replication.h - what is replicated -----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that Forms 3 and 4 share: what must be replicated, and that all
// of them come to each collective.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_VERIFY_REPLICATION_H
#define MPCOMM_LIB_TRANSFORMS_VERIFY_REPLICATION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/Dataflow/AxisShardings.h"

namespace mpcomm {

/// Results of role parameter, optimizer_state, buffer and loss_scale, and the
/// loss of @train_step, are the same on all ranks along the axis. Reports all
/// that are not, at the op that returns them.
llvm::LogicalResult verifyResultsReplicated(mlir::FunctionOpInterface function,
                                            const AxisShardings &shardings,
                                            llvm::StringRef axis);

/// What `mpcomm-verify-rank-programs` says of meshes, control flow, gradients
/// and results, for all functions of the module, of which `collectives` are
/// all. `axis` is the one along which batches differ.
llvm::LogicalResult
verifyReplication(mlir::ModuleOp module,
                  llvm::ArrayRef<CollectiveOpInterface> collectives,
                  llvm::StringRef axis);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_VERIFY_REPLICATION_H
