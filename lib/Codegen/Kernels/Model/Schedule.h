//===- Schedule.h - passes over a row ---------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In which pass over the columns of a row each result is computed, which
// results are kept from one pass to the next, how wide and how many rows at a
// time, and in which order rows come.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCHEDULE_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCHEDULE_H

#include "Kernels/Model/KernelModel.h"

namespace mpcomm::kernels {

struct Schedule {
  /// Element: the first pass it can be computed in. RowReduce, Accumulate: the
  /// pass that runs over its terms. RowScalar: the first pass that can use it.
  llvm::DenseMap<mlir::Value, int> pass;
  int passes = 0;
  /// Elements that are stored in a buffer of one row in this pass, and loaded
  /// in the later ones.
  llvm::MapVector<mlir::Value, int> bufferedIn;
  /// Lanes of one register, and of one chunk of columns.
  int64_t lanes = 16, width = 64;
  /// All chunks of a row are unrolled, and values live on between passes.
  bool keepRow = false;
  /// Dimensions of rows, from the outermost loop to the innermost.
  llvm::SmallVector<int> rowOrder;
  /// Rows of the innermost row dimension that are computed together.
  int64_t rowBlock = 1;
  /// Each sum of columns has all its terms in one block of rows, which stores
  /// it. They are added in the order in which they are added to memory without
  /// that, and to what the sum starts with, so that a shard has the bits of the
  /// whole.
  bool sumsInBlock = false;
  /// Accesses that are contiguous along the innermost row dimension, not along
  /// the column, are transposed in tiles of `lanes` rows and columns.
  bool tiled = false;

  /// Rows that are added up before they are added to a sum of columns: saves
  /// loads and stores of sums.
  static constexpr int64_t kRowsAtATime = 4;

  /// True if an access can be transposed in tiles.
  static bool isTiled(const KernelModel &model, const KernelAccess &access);

  int lastPass() const { return passes - 1; }
  int innermostRow() const { return rowOrder.back(); }
  bool permutesRows() const { return !llvm::is_sorted(rowOrder); }

  /// Linear in the size of the kernel (times the number of passes).
  static Schedule compute(const KernelModel &model, unsigned vectorBits,
                          unsigned unrollColumns, int64_t cacheBytes);
};

/// True if `op` has the column among its loops.
bool loopsOverColumn(const KernelModel &model, mlir::Operation *op);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCHEDULE_H
