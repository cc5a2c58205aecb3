//===- GPUWarpgroup.h - products of warpgroups ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma of sm_90a: four warps, a warpgroup, multiply 64 rows by a tile in
// shared memory, while they go on with other values (PTX ISA, Asynchronous
// Warpgroup Level Matrix Instructions).
//
// Tiles consist of panels, one after the other, with 64 elements of 16 bits,
// 128 bytes, of each row, as the layout with a swizzle of 128 bytes has them:
// the 16 bytes that are number c of row r lie at number c xor (r mod 8). Eight
// rows then have 16 bytes of one column in all banks, and a product reads the
// tile either way: its rows as columns of the right operand (`rows`), or
// across, its rows as the terms that are summed (`across`).
//
// A product is in flight from `multiply` to the `wait` that its sums go
// through. Until then neither they nor the left operand in registers may be
// used, nor the tile be written to. Copies (cp.async) are writes of another
// proxy than that through which products read: between a thread's wait for
// them and the barrier there has to be `fenceTiles`.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUWARPGROUP_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUWARPGROUP_H

#include "Kernels/GPU/GPUTiles.h"

namespace mpcomm::kernels {

/// Threads of a warpgroup, and the rows that it multiplies at a time.
inline constexpr int64_t kWarpgroup = 128, kWarpgroupRows = 64;
/// Elements of a panel's row, and its bytes.
inline constexpr int64_t kPanel = 64, kPanelBytes = 2 * kPanel;
/// Rows after which the places of 16 bytes repeat; their bytes, which tiles are
/// aligned to.
inline constexpr int64_t kSwizzleRows = 8,
                         kSwizzleBytes = kSwizzleRows * kPanelBytes;

/// A tile of `count` rows from a pointer to shared memory on, which is a
/// multiple of 1,024, as the operand of a product.
class WarpgroupTile {
public:
  using Value = mlir::Value;

  WarpgroupTile(TileCode &code, Value base, int64_t count);

  /// Elements 16 `slice` to 16 `slice` + 15 of the rows from `row` (a multiple
  /// of 8) on: of a left operand, or the columns of a right one.
  Value rows(int64_t row, int64_t slice) const;
  /// Rows 16 `slice` to 16 `slice` + 15, as the terms of a product whose
  /// columns are their elements.
  Value across(int64_t slice) const;

private:
  Value at(int64_t bytes) const;

  TileCode &code;
  int64_t count;
  Value descriptor;
};

/// A product of a warpgroup's 64 rows, by the slices of 16 terms.
struct WarpgroupProduct {
  llvm::SmallVector<Quad> left;         ///< in registers,
  llvm::SmallVector<mlir::Value> tile;  ///< or of a tile
  llvm::SmallVector<mlir::Value> right; ///< of a tile
  bool isAcross = false;                ///< how that is read
};

/// Begins sums += product, or sums = product, which ends at the wait. A quad is
/// of 8 columns; as many as there are quads, a multiple of 8.
void multiply(TileCode &code, llvm::MutableArrayRef<Quad> sums,
              const WarpgroupProduct &product, bool accumulates);

/// Waits until at most `others` later products are in flight, which `sums` are
/// none of.
void waitForProducts(TileCode &code, int64_t others,
                     llvm::ArrayRef<llvm::MutableArrayRef<Quad>> sums);

/// Makes what the thread has written to shared memory known to products that
/// begin after a barrier.
void fenceTiles(TileCode &code);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUWARPGROUP_H
