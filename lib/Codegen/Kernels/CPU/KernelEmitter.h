//===- KernelEmitter.h - loops of a kernel ----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a kernel's code into a function on buffers.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_CPU_KERNELEMITTER_H
#define MPCOMM_LIB_CODEGEN_KERNELS_CPU_KERNELEMITTER_H

#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/ScatterModel.h"
#include "Kernels/Model/Schedule.h"

namespace mpcomm::kernels {

/// Fills `function`, whose arguments are the buffers of the model's layouts
/// (bytes for i1) and whose body is one block with a return. Fails, with an
/// error, where a sum over rows needs a buffer that it cannot have.
llvm::LogicalResult emitKernel(const KernelModel &model,
                               const Schedule &schedule,
                               mlir::func::FuncOp function);

/// The same for a kernel that is a scatter.
void emitScatter(const ScatterModel &model, unsigned vectorBits,
                 mlir::func::FuncOp function);

/// Calls `visit` for each chunk of a buffer with the index of its first
/// element, the place of that element counted in row-major order, the stride,
/// the width and the mask (null: all); loops are inserted at `b`.
void forEachChunk(mlir::OpBuilder &b, mlir::Location loc,
                  mlir::MemRefType layout, int64_t width, int64_t lanes,
                  llvm::function_ref<void(mlir::OpBuilder &, mlir::Value index,
                                          mlir::Value place, int64_t stride,
                                          int64_t width, mlir::Value mask)>
                      visit);

/// A run of columns: `count` chunks of `width` from `start` on, the last
/// `active` columns of which exist.
struct Piece {
  int64_t start, width, count, active;
};
/// Covers `columns` by chunks of `width`, then of half of that and so on down
/// to `lanes`, the last of which may be partly there.
llvm::SmallVector<Piece> cutColumns(int64_t columns, int64_t width,
                                    int64_t lanes);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_CPU_KERNELEMITTER_H
