//===- Sharding.h - what a rank holds, as types -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shapes that follow from a sharding and a mesh, and shardings of functions'
// arguments and results.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_UTILS_SHARDING_H
#define MPCOMM_DIALECT_MPCOMM_UTILS_SHARDING_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <string>

namespace mpcomm {

/// Unit attribute of an mpcomm.reshard, and of its all_gather: gathers for the
/// backward pass what another one gathers for the forward pass. It is no
/// duplicate of that one: the whole is not kept in between.
inline constexpr llvm::StringLiteral kGatheredAgainAttr =
    "mpcomm.gathered_again";

/// On an op, for people: what ranks hold of its results, an array of
/// #mpcomm.sharding, or of `unit` for what is no tensor of static shape.
inline constexpr llvm::StringLiteral kShardingsAttr = "mpcomm.shardings";

/// Ranks along `axes`, a list of #mpcomm.axis; a failure with a `reason` where
/// the mesh lacks one of them, or a sub-axis does not divide its axis.
llvm::FailureOr<int64_t> countRanks(mlir::ArrayAttr axes, MeshOp mesh,
                                    std::string &reason);

/// The type of what a rank holds of a value of type `whole`: dimensions divided
/// by the ranks of their axes; with `flat` [ceil(elements / ranks)]; else
/// `whole`. A failure with a `reason` where the mesh lacks an axis, or ranks do
/// not divide a dimension.
llvm::FailureOr<mlir::RankedTensorType>
getLocalType(ShardingAttr sharding, mlir::RankedTensorType whole, MeshOp mesh,
             std::string &reason);

/// The attribute `mpcomm.sharding`; null where there is none.
ShardingAttr getArgumentSharding(mlir::FunctionOpInterface function,
                                 unsigned index);
ShardingAttr getResultSharding(mlir::FunctionOpInterface function,
                               unsigned index);

/// Of a tensor of `rank` dimensions of which ranks along `axes`, names of axes
/// of `mesh`, have values of their own.
ShardingAttr getLocalSharding(mlir::FlatSymbolRefAttr mesh,
                              mlir::ArrayAttr axes, int64_t rank);

/// What `op` reshards its operand to; null where it is no mpcomm.reshard.
ShardingAttr getReshardTarget(mlir::Operation *op);

/// The type of the whole: `mpcomm.global_type`, or that of the argument.
mlir::Type getGlobalArgumentType(mlir::FunctionOpInterface function,
                                 unsigned index);
mlir::Type getGlobalResultType(mlir::FunctionOpInterface function,
                               unsigned index);

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_UTILS_SHARDING_H
