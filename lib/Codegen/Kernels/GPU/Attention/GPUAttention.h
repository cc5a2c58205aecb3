//===- GPUAttention.h - what kernels of attention share ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How attention and its gradient go through tiles of the scores: which tiles
// there are, which of them the mask leaves out, and the loop over a block's,
// with the next one's operands on their way while one is computed.
//
// After FlashAttention-2 (Dao 2023): the names S, P, dP, dS are the paper's.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTION_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTION_H

#include "Kernels/GPU/GPUEmitter.h"
#include "Kernels/GPU/GPUTiles.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::kernels {

/// Where scratch of an op's kernels lies, and what tiles of the mask it tells
/// of.
struct AttentionScratch {
  /// A byte for each tile of the mask: nothing, some or all of it is kept.
  enum Class { None = 0, Some = 1, All = 2 };
  int64_t tileRows = 0, tileColumns = 0; ///< of the mask; 0 without one
  int64_t classes = 0;                   ///< offset of the bytes
  /// Of gradients: two f32, lse' and delta, of [batch, heads, paddedRows]; four
  /// with a bias, l', m, delta and one of no use.
  int64_t numbers = 0, paddedRows = 0, numberBytes = 8;
  /// Of the gradient of a bias: tiles of the sums of parts of the batches and
  /// heads, where there is more than one part.
  int64_t biasSums = 0;
  int64_t bytes = 0;

  /// Makes room for the classes of a mask.
  void setMask(int64_t rows, int64_t columns, int64_t ofTileRows,
               int64_t ofTileColumns);
  /// Makes room for numbers of gradients; `all` is batch * heads.
  void setNumbers(int64_t all, int64_t rows, bool hasBias);
  /// Makes room for sums of a bias's gradient.
  void setBiasSums(int64_t sumBytes);
};

/// Attention of an op, and the emission of one of its kernels.
class AttentionCode : public TileCode {
public:
  AttentionCode(mprt::AttentionOp op, llvm::ArrayRef<mlir::MemRefType> layouts,
                llvm::ArrayRef<uint64_t> alignments,
                const AttentionScratch &scratch, const GPUKernel &kernel);

  /// Gives the block its batch, head and part: one of `parts` of the rows or
  /// columns. Those that have more to do under a causal mask begin first: the
  /// last, or with `firstIsLongest` the first.
  void openBlock(int64_t parts, bool firstIsLongest);
  int64_t blocksOf(int64_t parts) const { return batch * heads * parts; }

  /// Operand `argument`, of [batch, positions, heads, size], in the block's
  /// batch and head.
  GPURows rowsOf(unsigned argument);
  /// Where the numbers of the block's batch and head begin, in an argument of
  /// [batch, heads, rows] and in scratch.
  Value lse(unsigned argument);
  Value numbers();
  Value scratchAt(int64_t offset);

  /// A loop over `count` tiles of the scores. `classAt` makes the place of a
  /// tile in the mask's classes (row, column) of its number; `issue` starts the
  /// copies of a tile's operands to a stage (an offset in shared memory);
  /// `body` computes from them. Stages alternate between 0 and `stageBytes`.
  /// Copies committed before are waited for, up to `prologue` is called.
  using Carried = llvm::SmallVector<Value>;
  Carried
  overTiles(int64_t count, int64_t stageBytes, Carried carried,
            llvm::function_ref<std::pair<Value, Value>(Value)> classAt,
            llvm::function_ref<void(Value, Value)> issue,
            llvm::function_ref<void()> prologue,
            llvm::function_ref<Carried(Value, Value, Value, Carried)> body);

  /// The class of a tile of the mask.
  Value classOf(Value row, Value column);

  /// Scores of a tile, counted from one of them.
  struct Scores {
    llvm::SmallVector<std::pair<int64_t, int64_t>> places;
    Value row, column; ///< of the score that is counted from
    bool isInside;     ///< whether all of them exist, in all tiles
  };
  /// The values of scores that are kept, else `otherwise`; as they are, and
  /// without a look at the mask, where `isPartial` is false or null.
  llvm::SmallVector<Value> keep(Value isPartial, const Scores &scores,
                                llvm::ArrayRef<Value> values, Value otherwise);
  /// The same for later: a bit for each of at most 32 scores, and then the
  /// values of those that `first` begins. Of a null predicate bits are null.
  Value keptBits(Value isPartial, const Scores &scores);
  llvm::SmallVector<Value> keepBits(Value isPartial, Value bits, int64_t first,
                                    llvm::ArrayRef<Value> values,
                                    Value otherwise);
  /// scale * s + bias of scores s, in f32. Where the bias is read in pairs, the
  /// first of `scores` begins one. Of scores that do not exist, the bias is
  /// that of the last row or column.
  llvm::SmallVector<Value> addBias(const Scores &scores,
                                   llvm::ArrayRef<Value> values);
  /// Whether to look at the mask, or at the last column, in tile `tile` of
  /// columns, `step` each, of class `kind` (null without a mask).
  Value isPartial(Value kind, Value tile, int64_t step);

  /// Rounds a thread's part of 16 rows of `columns`, scaled, to the rows from
  /// `first` on (of the lane's row g) of `target`.
  void storeRows(const GPURows &target, Value first,
                 llvm::ArrayRef<Quad> columns, std::array<Value, 2> scales);

  mprt::AttentionOp op;
  const AttentionScratch &scratch;
  int64_t batch, heads, rows, columns, size;
  bool hasMask, hasBias;
  bool ofWarpgroups = false; ///< whether they multiply the tiles of a loop
  Value batchIndex, headIndex, part; ///< the block's

private:
  unsigned maskArgument();
  /// Whether each of the scores exists and is kept.
  llvm::SmallVector<Value> keptOf(const Scores &scores);
  /// What `made` makes where `condition` holds, else `values`.
  llvm::SmallVector<Value>
  choose(Value condition, llvm::ArrayRef<Value> values,
         llvm::function_ref<llvm::SmallVector<Value>()> made);
  /// The bias of each of the scores.
  llvm::SmallVector<Value> biasOf(const Scores &scores);

  llvm::ArrayRef<mlir::MemRefType> layouts;
  llvm::ArrayRef<uint64_t> alignments;
};

/// The rows of an operand's first batch and head: all but their base.
GPURows viewOf(mlir::MemRefType layout, uint64_t alignment);

/// Whether warpgroups can multiply the tiles of an op on buffers of `layouts`:
/// rows of 64 or 128 elements that are copied 16 bytes at a time.
bool areTilesOfWarpgroups(mprt::AttentionOp op,
                          llvm::ArrayRef<mlir::MemRefType> layouts,
                          llvm::ArrayRef<uint64_t> alignments);

/// log2 of e.
inline constexpr double kLog2E = 1.4426950408889634;

/// Own rows of a block of a gradient's kernel, and what it pads rows to.
inline constexpr int64_t kOwnRows = 64;

/// Shared memory that a kernel can have without being asked for at its launch.
inline constexpr int64_t kDeclaredSharedBytes = 48 << 10;

/// Rows or columns of a tile that a loop goes through: two operands of them
/// are in shared memory twice.
int64_t stepOf(int64_t size);

/// Writes the classes of the mask's tiles.
GPUKernel emitMaskClasses(mprt::AttentionOp op,
                          llvm::ArrayRef<mlir::MemRefType> layouts,
                          llvm::ArrayRef<uint64_t> alignments,
                          const AttentionScratch &scratch, mlir::OpBuilder &b,
                          llvm::StringRef name);

/// The kernels of an attention_grad; see emitGPUAttention.
llvm::SmallVector<GPUKernel> emitGPUAttentionGrad(
    mprt::AttentionOp op, llvm::ArrayRef<mlir::MemRefType> layouts,
    llvm::ArrayRef<uint64_t> alignments, bool ofWarpgroups,
    const GPULimits &limits, mlir::OpBuilder &b, llvm::StringRef name);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTION_H
