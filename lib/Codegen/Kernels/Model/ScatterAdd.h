//===- ScatterAdd.h - kernels that add rows to rows -------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the emitters of `mpcomm.scatter_add` have in common.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERADD_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERADD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpcomm::kernels {

/// Checks the types of a kernel, which must be dy: [rows..., C], ids: [rows...]
/// of integers, destination: [V, C], with dy and destination of one float type,
/// and that ids can be `skipped`; reports an error otherwise.
llvm::LogicalResult checkScatterAdd(mlir::func::FuncOp kernel, int64_t skipped);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERADD_H
