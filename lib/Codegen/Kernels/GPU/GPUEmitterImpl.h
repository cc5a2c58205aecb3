//===- GPUEmitterImpl.h - one kernel of a GPU -------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state of writing one kernel: GPUEmitter.cpp has what all kernels need
// and items, GPURows.cpp rows with their reductions, GPURowSums.cpp sums over
// rows.
//
// Invariants: what a thread stores of a chunk it has computed before, so that a
// result may replace an operand. Threads without work compute what some other
// thread does too, at the first column or row, and store nothing: no branch
// surrounds loads or shuffles. A barrier is in a loop only where all
// threads of the block take as many turns.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTERIMPL_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTERIMPL_H

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUSums.h"
#include "Kernels/Model/Evaluator.h"
#include "Kernels/Model/LaneOps.h"

namespace mpcomm::kernels {

/// True if the destination of one value is read by the kernel too.
bool replacesScalar(const KernelModel &model, const Store &store);

class GPUEmitter {
public:
  GPUEmitter(const KernelModel &model, const GPUSchedule &schedule,
             GPUSums &sums, mlir::gpu::GPUFuncOp function)
      : model(model), schedule(schedule), sums(sums), function(function),
        eval(model, schedule.passes, function.getBody().front(),
             function.getArguments().take_front(model.layouts.size())),
        loc(function.getLoc()) {}
  /// The whole kernel; uniform results too, unless `storesUniform` is false.
  void run(bool storesUniform);
  /// Uniform results alone.
  void runUniform();

private:
  /// A chunk of a row and whether its thread has it (null: yes).
  struct Piece {
    Chunk chunk;
    mlir::Value valid;
  };
  /// A row of a group.
  struct GPURow {
    Row row;
    mlir::Value valid;
    /// The pieces that are there in the present pass; in registers, in all.
    llvm::SmallVector<Piece, 1> pieces;
  };
  /// A reduction along rows while its pass runs. The greatest or least of
  /// elements of 16 bits is one of them: `narrow` is their type, else null.
  struct RowSum {
    mlir::Value tensor;
    const KernelResult *result;
    mlir::Type narrow;
    llvm::SmallVector<mlir::Value> perRow;
  };
  /// A comparison in an element's body that comes out one way for nearly all
  /// columns: of the column with `place`, a value of the row, for equality, or
  /// of values of the row for inequality (null place).
  struct RareCase {
    mlir::linalg::LinalgOp op;
    mlir::arith::CmpIOp compare;
    mlir::Value place;
  };
  /// A sum over rows while they run: of each of the thread's chunks, or one.
  struct Accumulator {
    mlir::Value tensor;
    const KernelResult *result;
    bool keepsColumn, overColumn;
    llvm::SmallVector<mlir::Value> totals;
  };

  mlir::Value number(int64_t value) {
    return indexConstant(eval.code, loc, value);
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs) {
    return addScaled(eval.code, loc, lhs, rhs, 1);
  }
  void setGeometry();
  /// A loop from `begin` in steps; emits its body with what it carries, which
  /// it returns.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value begin, int64_t end, mlir::Value step,
       mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);

  void storeUniform();
  void emitFills();
  void emitItems();
  void emitRows();
  void emitBlock(llvm::MutableArrayRef<GPURow> rows);
  void emitPass(llvm::MutableArrayRef<GPURow> rows);
  void openPieces(llvm::MutableArrayRef<GPURow> rows, mlir::Value base);
  void openPiece(llvm::MutableArrayRef<GPURow> rows, mlir::Value start,
                 mlir::Value valid);
  llvm::SmallVector<mlir::Value> overColumns(
      llvm::MutableArrayRef<GPURow> rows, mlir::ValueRange carried,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>
          body);
  void emitPieces(llvm::MutableArrayRef<GPURow> rows,
                  llvm::MutableArrayRef<RowSum> sums);
  mlir::Value placeInShared(const GPUSchedule::SharedRow &row,
                            const Chunk &chunk);
  void readShared(Piece &piece);
  void writeShared(GPURow &row, Piece &piece);
  void emitRowEnd(llvm::MutableArrayRef<GPURow> rows);
  void reduceGroups(llvm::MutableArrayRef<GPURow> rows,
                    llvm::MutableArrayRef<RowSum> sums);
  void openAccumulators();
  void clearScratchSums();
  void closeAccumulators();
  mlir::Value pickedPlace(mlir::Value tensor) const;
  void pickColumn(mlir::Value tensor, mlir::Value place,
                  llvm::MutableArrayRef<GPURow> rows);
  void storeElements(llvm::MutableArrayRef<GPURow *> rows);
  void findRareCases();
  llvm::SmallVector<mlir::Value> elementsOf(GPURow &row, Piece &piece);
  llvm::SmallVector<mlir::Value> usualElementsOf(GPURow &row, Piece &piece);
  void storeScalar(const Store &store, GPURow &row, mlir::Value value,
                   mlir::Value condition);
  mlir::Value termOf(const KernelResult &result, GPURow &row, Piece &piece,
                     mlir::Type narrow = {});
  mlir::Value neutral(const KernelResult &result) {
    return eval.constant(neutralOf(result.combiner));
  }
  mlir::Value neutralLanes(const KernelResult &result, mlir::Type narrow = {});
  /// Whether barriers of one reduction alone are in the loop over rows.
  bool hasOneReduction() const;
  llvm::SmallVector<int64_t> keptSizes() const;
  /// True where there are no rows because a dimension that sums keep is empty.
  bool keepsNothing() const { return llvm::is_contained(keptSizes(), 0); }

  const KernelModel &model;
  const GPUSchedule &schedule;
  GPUSums &sums;
  mlir::gpu::GPUFuncOp function;
  Evaluator eval;
  mlir::Location loc;

  mlir::Value thread, block, lane, group, warpLane, warp;
  mlir::Value columnBlock, split;
  llvm::SmallVector<mlir::Value> keptCoordinates;
  llvm::SmallVector<Accumulator> accumulators;
  llvm::SmallVector<RareCase> rareCases;
  /// Where the schedule's rows in shared memory begin.
  mlir::Value sharedBase;
  /// Where the buffers of row reductions are in this turn.
  mlir::Value turn;
  /// By type: sums of columns of all groups of the block.
  llvm::DenseMap<mlir::Type, mlir::Value> sharedSums;
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUEMITTERIMPL_H
