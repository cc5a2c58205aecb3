//===- GPUSums.h - sums over the rows of many blocks ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What blocks leave of a sum over rows: where it lies in scratch memory, as
// `terms` rows of `elements` columns, and the kernel that adds the terms up, in
// one order, so that a step gives the same bits each time.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSUMS_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSUMS_H

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/Model/Evaluator.h"
#include "llvm/ADT/MapVector.h"
#include <array>

namespace mpcomm::kernels {

/// Threads of a block that adds up terms.
constexpr int64_t kSumThreads = 256;

class GPUSums {
public:
  GPUSums(const KernelModel &model, const GPUSchedule &schedule);

  /// Of all sums; 0 where each block finishes its own.
  int64_t scratchBytes() const { return bytes; }

  /// Makes views of the kernel's scratch.
  void open(mlir::OpBuilder &b, mlir::Location loc, mlir::Value scratch);

  /// The place in scratch of what a block adds to one element of `tensor`.
  /// `blocks`: the block's split and its place along the columns; `kept`: its
  /// coordinates in the dimensions that sums keep; `column`: null where the sum
  /// keeps none.
  mlir::Value placeOf(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::Value tensor, std::array<mlir::Value, 2> blocks,
                      mlir::ValueRange kept, mlir::Value column) const;
  mlir::Value load(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor,
                   mlir::Value place, int64_t width) const;
  void store(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor,
             mlir::Value place, mlir::Value lanes) const;

  /// Takes a block's sum (a scalar) to where it goes: the destination, or
  /// scratch.
  void finish(Evaluator &eval, mlir::Value tensor, mlir::Value value,
              std::array<mlir::Value, 2> blocks, mlir::ValueRange kept,
              mlir::Value column) const;

  /// Writes the kernel that adds up; requires scratch.
  void emit(GPUKernel &kernel);
  /// Its grid.
  int64_t blocks() const;

private:
  struct Sum {
    const KernelResult *result = nullptr;
    const Store *store = nullptr;
    mlir::Type type; ///< in which it is added up
    /// Positions in the schedule's kept dimensions.
    llvm::SmallVector<unsigned> own, dropped;
    llvm::SmallVector<int64_t> ownSizes, droppedSizes;
    bool keepsColumn = false, isDirect = false;
    int64_t terms = 1, elements = 1, offset = 0;
    mlir::Value view;

    /// Threads of a block along the elements.
    int64_t width() const;
  };
  const Sum &of(mlir::Value tensor) const { return sums.find(tensor)->second; }
  /// Combines with what the destination starts with, and stores.
  void storeTotal(Evaluator &eval, const Sum &sum, mlir::Value value,
                  mlir::ValueRange own, mlir::Value column) const;

  const KernelModel &model;
  const GPUSchedule &schedule;
  llvm::MapVector<mlir::Value, Sum> sums;
  int64_t bytes = 0;
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUSUMS_H
