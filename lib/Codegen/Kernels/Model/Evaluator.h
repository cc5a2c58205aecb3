//===- Evaluator.h - values of a kernel at a row and a chunk ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes tensors of the kernel where they are asked for: at a row, or at a
// chunk of columns of a row. What is the same for all columns stays a scalar
// and is emitted before the loop over columns; what is the same for all rows is
// loaded before the loops over rows. Each value is computed once per row and
// chunk.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EVALUATOR_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EVALUATOR_H

#include "Kernels/Model/KernelModel.h"
#include "Kernels/Model/Schedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/Alignment.h"

namespace mpcomm::kernels {

using LoadMemo = llvm::SmallVector<std::pair<KernelAccess, mlir::Value>>;

/// Transposed tiles of an access: one vector a row of the block.
using TileMemo =
    llvm::SmallVector<std::pair<KernelAccess, llvm::SmallVector<mlir::Value>>,
                      1>;

/// A row: its coordinates, and what is known of it.
struct Row {
  llvm::SmallVector<mlir::Value> coordinates;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  LoadMemo scalars, bases;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> splats;
  /// The row's place in buffers of several rows.
  int64_t inBlock = 0;
};

/// `width` columns from `start` on, of which `mask` takes part (null: all).
struct Chunk {
  mlir::Value start;
  int64_t width = 0;
  mlir::Value mask;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  LoadMemo loads;
  /// Columns that exist, where that is less than the width.
  int64_t active = 0;
  /// Loads that are the same for all rows, and tiles, shared by the rows of a
  /// block.
  LoadMemo *shared = nullptr;
  TileMemo *tiles = nullptr;
};

/// The column plus `shift`, then brought into [low, high] where there are such
/// bounds.
struct ShiftedColumn {
  mlir::Value column;
  int64_t shift = 0;
  std::optional<int64_t> low, high;
};

class Evaluator {
public:
  /// Emits before the terminator of `body`; `buffers` are the model's
  /// arguments there.
  Evaluator(const KernelModel &model, const Schedule &schedule,
            mlir::Block &body, mlir::ValueRange buffers);

  /// Where code of the present chunk goes; `row` and `entry` are where code
  /// before the loop over columns and before all loops goes.
  mlir::OpBuilder code, row, entry;
  mlir::Location loc;
  /// The pass that is being emitted.
  int pass = 0;

  /// The elements of `operand` at a chunk (vector, or scalar where all columns
  /// have one value) or, if `chunk` is null, at a row (scalar).
  mlir::Value operand(mlir::OpOperand &operand, Row &row, Chunk *chunk);
  /// The same of a result of an op.
  mlir::Value result(mlir::Value value, Row &row, Chunk *chunk);
  /// A value of the body of `op`.
  mlir::Value body(mlir::linalg::LinalgOp op, mlir::Value value, Row &row,
                   Chunk *chunk);
  /// A constant, in its type of computation, at the start of the function.
  mlir::Value constant(mlir::TypedAttr value);

  /// Loads all that the kernel reads at a row and chunk, so that it is under
  /// way before the first of it is needed.
  void loadAll(Row &row, Chunk &chunk);
  /// An operand's elements of the chunk, or of the row (null chunk); loaded
  /// once.
  mlir::Value load(const KernelAccess &access, Row &row, Chunk *chunk);

  /// `value` with as many lanes as the chunk has.
  mlir::Value lanes(mlir::Value value, Row &row, Chunk &chunk);

  /// Comparisons of bodies that `body` takes to be true or false in all lanes.
  llvm::SmallDenseMap<mlir::Operation *, bool> assumed;
  /// True if a value of the body of `op` is the number of the column.
  bool isColumnIndex(mlir::linalg::LinalgOp op, mlir::Value value) const;

  /// The index of the first element of an access at a row, or at a chunk.
  mlir::Value base(const KernelAccess &access, Row &row);
  mlir::Value indexAt(const KernelAccess &access, Row &row, Chunk &chunk);

  /// Argument as a one-dimensional buffer of what lies in memory.
  mlir::Value flat(unsigned argument) const { return flats[argument]; }
  mlir::Type elementOf(unsigned argument) const {
    return model.layouts[argument].getElementType();
  }
  /// The buffer of an element that outlives its pass.
  mlir::Value bufferOf(mlir::Value value) const {
    return buffers.lookup(value);
  }
  mlir::Value bufferIndex(Row &row, Chunk &chunk);
  /// Bytes that the address of `width` columns of an access is a multiple of,
  /// as far as is known, where chunks start at multiples of their width.
  llvm::MaybeAlign alignmentOf(const KernelAccess &access, int64_t width) const;

  const KernelModel &model;
  const Schedule &schedule;

private:
  /// The lanes of an access that is contiguous along the innermost row
  /// dimension, by way of a transposed tile of all rows of the block.
  mlir::Value loadTiled(const KernelAccess &access, Row &row, Chunk &chunk);
  mlir::Value index(mlir::linalg::LinalgOp op, unsigned loop, Row &row,
                    Chunk *chunk);
  mlir::Value extract(mlir::linalg::LinalgOp op,
                      mlir::tensor::ExtractOp extract, Row &row, Chunk *chunk);
  mlir::Value bodyOp(mlir::linalg::LinalgOp op, mlir::Operation *inner,
                     Row &row, Chunk *chunk);
  /// A signed comparison of the column with a value of the row, in 32 bits;
  /// null if `compare` is none.
  mlir::Value compareColumn(mlir::linalg::LinalgOp op,
                            mlir::arith::CmpIOp compare, Row &row,
                            Chunk &chunk);
  /// The same with a bound of type index that all lanes have.
  mlir::Value compareLanes(mlir::arith::CmpIPredicate predicate,
                           mlir::Value bound, Chunk &chunk);
  /// The elements of `argument` at `scalars` + `stride` * `index`.
  mlir::Value loadShifted(unsigned argument, mlir::Value scalars,
                          int64_t stride, const ShiftedColumn &index, Row &row,
                          Chunk &chunk);

  llvm::SmallVector<mlir::Value> flats;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  LoadMemo uniforms;
  mlir::OpBuilder top; ///< start of the function: constants, views, buffers
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_EVALUATOR_H
