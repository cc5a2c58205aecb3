//===- GPUTiles.h - tiles of matrices on tensor cores -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The vocabulary of kernels that multiply tiles in shared memory: copies that
// run beside the computation (cp.async), fragments of matrices (ldmatrix) and
// their products (mma.sync m16n8k16), all of sm_80 and later.
//
// Fragments are as PTX defines them for m16n8k16, with g = lane / 4 and
// t = lane % 4: an accumulator's four values are those of row g, columns 2t and
// 2t + 1, and of row g + 8 likewise. So the accumulators of two neighbouring
// tiles of 8 columns are, once rounded and packed, the left operand of a
// product over these 16 columns.
//
// Rows of a tile lie an odd number of 16 bytes apart: the 8 rows that a phase
// of ldmatrix reads at one column then begin at 8 different multiples of 16
// bytes modulo 128, that is, in all banks once.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTILES_H
#define MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTILES_H

#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include <array>

namespace mpcomm::kernels {

/// Values of a thread: of an accumulator, or what ldmatrix gives.
using Quad = std::array<mlir::Value, 4>;

/// The values of quads, one after the other, and back.
llvm::SmallVector<mlir::Value> valuesOf(llvm::ArrayRef<Quad> quads);
llvm::SmallVector<Quad> quadsOf(llvm::ArrayRef<mlir::Value> values);

/// Bytes from one row to the next of a tile of rows of `size` elements of 16
/// bits, `size` a multiple of 16.
inline int64_t pitchOf(int64_t size) { return size * 2 + 16; }

/// The rows of one batch and head in device memory.
struct GPURows {
  mlir::Value base; ///< of row 0, !llvm.ptr<1>
  int64_t count = 0, size = 0;
  int64_t rowBytes = 0, elementBytes = 2; ///< from one to the next
  /// Bytes of an access: 16, 8 or 4; 2 where elements are read one by one.
  int64_t access = 2;
};

/// Emits the code of a thread, at `b`. Numbers are i32 unless said otherwise.
class TileCode {
public:
  TileCode(mlir::gpu::GPUFuncOp function, mlir::Type element, int64_t threads);

  using Value = mlir::Value;

  Value number(int64_t value);
  Value real(double value);
  Value add(Value x, Value y);
  Value add(Value x, int64_t y);
  Value sub(Value x, Value y);
  Value mul(Value x, int64_t y);
  Value divide(Value x, int64_t y);    ///< of numbers that are not negative
  Value remainder(Value x, int64_t y); ///< likewise
  Value exclusiveOr(Value x, Value y);
  Value least(Value x, int64_t y);
  Value less(Value x, Value y);
  Value less(Value x, int64_t y);
  Value equal(Value x, int64_t y);
  Value both(Value x, Value y);   ///< null is true
  Value either(Value x, Value y); ///< null is false
  Value select(Value condition, Value x, Value y);

  /// base + x * y bytes, counted in 64 bits; base + x bytes.
  Value advance(Value base, Value x, int64_t y);
  Value advance(Value base, int64_t bytes);
  Value load(mlir::Type type, Value pointer, int64_t alignment);
  void store(Value value, Value pointer, int64_t alignment);
  /// The buffer of an argument, as !llvm.ptr<1>.
  Value global(unsigned argument);
  /// Shared memory, as !llvm.ptr<3>; what a launch asks for, from the first
  /// multiple of `alignment` on.
  Value shared(int64_t bytes, int64_t alignment = 128);
  Value launchShared(int64_t alignment) {
    return kernels::launchShared(b, loc, alignment);
  }
  void barrier();

  Value addF(Value x, Value y);
  Value subF(Value x, Value y);
  Value mulF(Value x, Value y);
  Value fma(Value x, Value y, Value z);
  /// The greater; the other one of a NaN.
  Value maxF(Value x, Value y);
  /// 2^x to within 2 units of the 22nd bit, log2 x to within 2^-22 (absolutely
  /// from 1/2 to 2, relatively beyond): ex2.approx.ftz and lg2.approx.ftz.
  Value exp2(Value x);
  Value log2(Value x);
  Value shuffleXor(Value x, int64_t offset);
  /// Of the four lanes that have a row of an accumulator, in all of them.
  Value sumOfRow(Value x);
  Value maxOfRow(Value x);

  /// Two f32 rounded to elements, as an i32.
  Value pack(Value low, Value high);
  Value round(Value x); ///< to an element
  /// The left operand of a product over the columns of two accumulators.
  Quad leftOf(const Quad &first, const Quad &second);

  Quad zeros();
  /// acc += a b, with b the two words of 8 columns.
  void multiply(Quad &acc, const Quad &a, Value b0, Value b1);
  /// 16 x 16 elements from `pointer` on, where that points to the lane's part.
  Quad fragment(Value pointer, bool transposed);
  /// Leaves a fragment in shared memory, 16 bytes a lane from `pointer` on, and
  /// takes it from there, each time anew.
  void put(const Quad &fragment, Value pointer);
  Quad take(Value pointer);
  /// Bytes from a tile's 16 x 16 elements to what the lane reads of them: of a
  /// left operand, or a right one whose columns are elements of rows
  /// (transposed); or of a right one whose columns are the tile's rows.
  Value laneOfLeft(int64_t pitch);
  Value laneOfRight(int64_t pitch);

  /// Begins to copy 16 bytes.
  void copy16(Value source, Value target);
  /// Ends a group of copies, and waits until at most `others` later ones run.
  void commit();
  void wait(int64_t others);

  mlir::gpu::GPUFuncOp function;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::Type element;
  mlir::IntegerType i32, i64;
  mlir::FloatType f32;
  int64_t threads;
  Value thread, lane, warp, block;

private:
  Value constant(mlir::Type type, int64_t value);
};

/// Copies tiles of `count` rows to shared memory, the same part of each by a
/// thread: rows an odd number of 16 bytes apart, or `swizzled`, as
/// GPUWarpgroup.h has them.
class TileCopy {
public:
  TileCopy(TileCode &code, const GPURows &rows, int64_t count,
           bool swizzled = false);

  /// Rows from `first` on to `target` (!llvm.ptr<3>); zeros beyond the last.
  void issue(mlir::Value first, mlir::Value target);

private:
  void issueOne(mlir::Value first, mlir::Value source, mlir::Value target,
                mlir::Value row);

  TileCode &code;
  GPURows rows;
  int64_t count;
  int64_t units = 1, step = 1; ///< accesses of a row, rows at a time
  int64_t pitch;               ///< of a row of the tile
  mlir::Value x, y;            ///< the thread's access and row
  mlir::Value place;           ///< of the access in a row of the tile, in bytes
  /// Bytes from the rows' base to it: i32 where those of all rows fit, which
  /// leaves the base to the block's registers; null where `source` has it.
  mlir::Value offset, source;
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_GPU_GPUTILES_H
