//===- GPUAttentionBackward.h - dq, dk and dv of attention ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of dq and those of dk and dv have in common, be it warps
// that multiply or warpgroups.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONBACKWARD_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONBACKWARD_H

#include "Kernels/GPU/Attention/GPUAttention.h"

namespace mpcomm::kernels {

/// Warps of a block, with 16 own rows each.
inline constexpr int64_t kWarpsOfGrad = kOwnRows / 16;

/// Operands of a gradient.
enum : unsigned { kDout, kQ, kK, kV, kOut, kLse };

class BackwardEmitter {
public:
  /// Emits the kernel of dk and dv, or (`ofRows`) that of dq.
  BackwardEmitter(AttentionCode &code, bool ofRows, int64_t step);
  virtual ~BackwardEmitter() = default;
  virtual void run() = 0;

protected:
  using Value = mlir::Value;
  using Carried = AttentionCode::Carried;
  /// Products that a warp carries from tile to tile: dq, or dk and dv.
  int64_t results() const { return ofRows ? 1 : 2; }
  int64_t ownCount() const { return ofRows ? code.rows : code.columns; }
  int64_t otherCount() const { return ofRows ? code.columns : code.rows; }
  /// Own rows of k and v, or of q and dout; the others.
  GPURows own(int64_t which);
  GPURows other(int64_t which);

  /// Gives the block and the lane their own rows: those of its part.
  void open();
  void setOwn();
  /// Loads lse' and delta of own rows (`ofRows`).
  void loadOwnNumbers();
  /// Tile `tile` of the others among the mask's tiles, which are as large as
  /// those of own rows.
  std::pair<Value, Value> classAt(Value tile);
  /// Bytes of the numbers of a tile's others, and of a row's.
  int64_t numberBytes() const { return step * code.scratch.numberBytes; }
  /// Begins the copy of the numbers of rows from `first` on.
  void copyNumbers(Value numbers, Value first, Value target);
  /// Takes numbers of `count` times 8 others from there, the first of them 8
  /// `first`: with a bias where they are needed, since few registers are left;
  /// without one, at once.
  enum Which { AtOnce, ForShift, ForDifferentiate };
  void loadOtherNumbers(int64_t first, int64_t count, Value from, Which which);
  /// Whether to look at the mask in a tile.
  Value partialOf(Value kind, Value tile);
  /// The thread's scores of others `from` to `to` of a tile, of 8 each.
  AttentionCode::Scores placesOf(Value tile, int64_t from, int64_t to);
  /// Which of the thread's scores of a tile are kept, while few registers are
  /// in use.
  Value keptBits(Value partial, Value tile);
  /// What the power of two is taken of, of others from `from` on, 8 each: S
  /// becomes c S - lse', or log2(e) (scale S + bias - m) - l'; then P; and dP
  /// becomes dS.
  void shift(llvm::MutableArrayRef<Quad> s, Value tile, int64_t from);
  void exponentiate(Quad &s);
  /// All of a tile's scores: S becomes P, 0 where `bits` leave out.
  void weigh(llvm::MutableArrayRef<Quad> s, Value tile, Value partial,
             Value bits);
  void differentiate(Quad &dp, const Quad &p, int64_t tile);
  Carried zeros();
  void finish(llvm::ArrayRef<Value> carried);

  AttentionCode &code;
  bool ofRows;
  int64_t slices, step; ///< of 16 elements of a row; others of a tile
  double factor;
  Value firstOwn, ownRow;

private:
  void loadNumbersOfTile(int64_t tile, Value from, Which which);

  unsigned firstResult;
  /// Of two rows: lse' and delta; with a bias l', m and delta.
  using Numbers = std::array<std::array<Value, 2>, 3>;
  /// Number `which` of the row of value i of an accumulator.
  Value numberOf(int64_t which, int64_t tile, int64_t i);
  Numbers ownNumbers; ///< of own rows g, g + 8 (`ofRows`)
  llvm::SmallVector<Numbers>
      otherNumbers; ///< by tile of 8 others, of 2t, 2t + 1
};

/// How the gradient of a bias is summed up: each of `tiles` over `count`
/// batches and heads, `perPart` of them by a block.
struct BiasGradPlan {
  int64_t rowTiles = 0, columnTiles = 0, tiles = 0;
  int64_t count = 0, perPart = 0, parts = 0;

  BiasGradPlan(mprt::AttentionOp op, llvm::ArrayRef<mlir::MemRefType> layouts,
               const GPULimits &limits);
  /// Bytes of the sums of all parts, which scratch has room for; 0 for one.
  int64_t sumBytes() const;
};

/// The kernels of the gradient of a bias, of which the op has a buffer: `name`,
/// then where there are several parts `name`_sums.
void emitBiasGrad(mprt::AttentionOp op,
                  llvm::ArrayRef<mlir::MemRefType> layouts,
                  llvm::ArrayRef<uint64_t> alignments,
                  const AttentionScratch &scratch, const BiasGradPlan &plan,
                  mlir::OpBuilder &b, llvm::StringRef name,
                  llvm::SmallVectorImpl<GPUKernel> &kernels);

/// The kernel for sm_90a.
void emitWarpgroupBackward(AttentionCode &code, bool ofRows);

/// Shared memory that a launch of it has to ask for; 0 where the kernel
/// declares what it has.
int64_t sharedBytesOfBackward(const AttentionCode &code, bool ofRows);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONBACKWARD_H
