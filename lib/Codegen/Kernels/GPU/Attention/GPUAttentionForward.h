//===- GPUAttentionForward.h - the forward kernel of attention --*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the forward kernels have in common: those whose warps multiply, and
// those whose warpgroups do.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONFORWARD_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONFORWARD_H

#include "Kernels/GPU/Attention/GPUAttention.h"

namespace mpcomm::kernels {

/// Rows of a block, and how its warps share them.
struct AttentionPlan {
  int64_t warps = 4, fragments = 1; ///< of 16 rows, a warp
  int64_t step = 64;                ///< columns of a tile
  bool ofWarpgroups = false;        ///< of four warps

  int64_t rows() const { return warps * fragments * 16; }
  /// Rows from one of a warp's fragments to the next, and from the first of a
  /// warp to that of the next.
  int64_t rowsOfFragment() const { return ofWarpgroups ? warps * 16 : 16; }
  int64_t rowsOfWarp() const { return ofWarpgroups ? 16 : fragments * 16; }
};

class ForwardEmitter {
public:
  ForwardEmitter(AttentionCode &code, const AttentionPlan &plan);
  virtual ~ForwardEmitter() = default;
  void run();

protected:
  using Value = mlir::Value;
  using Carried = AttentionCode::Carried;
  /// What a warp carries from tile to tile.
  struct State {
    State(const AttentionPlan &plan, int64_t size);

    llvm::SmallVector<Quad> sums; // O
    llvm::SmallVector<std::array<Value, 2>> most,
        total; // m, l of rows g, g + 8

    Carried flatten() const;
    void assign(llvm::ArrayRef<Value> values);
  };

  /// Loads q, goes through the tiles and returns what is carried.
  virtual Carried overTiles(const State &state) = 0;

  /// What comes between the products, for fragments from `first` on: S is
  /// scaled and gets its bias, where factors are not in the exponent, and is
  /// masked.
  void weigh(Value partial, Value tile,
             llvm::MutableArrayRef<llvm::SmallVector<Quad>> s,
             int64_t first = 0);
  /// S becomes P; m, l and O follow.
  void exponentiate(int64_t fragment, llvm::SmallVector<Quad> &s, State &state);
  /// P, as the left operands of products with 16 rows of v each.
  llvm::SmallVector<Quad> leftOf(llvm::ArrayRef<Quad> p);
  llvm::MutableArrayRef<Quad> sumsOf(int64_t fragment, State &state);
  Value rowOf(int64_t fragment);

  AttentionCode &code;
  AttentionPlan plan;
  Value firstRow;

private:
  using MadeScores = llvm::function_ref<llvm::SmallVector<Value>(
      const AttentionCode::Scores &, llvm::ArrayRef<Value>)>;
  /// Replaces the scores of a tile, 16 columns at a time, so that no more is in
  /// registers at once.
  void forScores(Value tile, llvm::MutableArrayRef<llvm::SmallVector<Quad>> s,
                 int64_t first, MadeScores made);
  void finish(const State &state);

  double factor = 0; ///< c
  bool scaleFirst = false;
};

/// The kernel for sm_90a: a warpgroup has 64 rows for each of its fragments.
void emitWarpgroupForward(AttentionCode &code, const AttentionPlan &plan);

/// Shared memory that a launch of it has to ask for; 0 where the kernel
/// declares what it has.
int64_t sharedBytesOfForward(const AttentionPlan &plan, int64_t size);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_ATTENTION_GPUATTENTIONFORWARD_H
