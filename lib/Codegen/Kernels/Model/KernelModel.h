//===- KernelModel.h - what a kernel computes -------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel's tensor form, put on one iteration space: the *domain*, whose last
// dimension is the *column* (the one that vectors run along) and whose others
// are the *rows*. Loops of ops map to dimensions of the domain, operands to
// linear functions of a point of it, and each result has a kind that says when
// it can be computed.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_KERNELMODEL_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_KERNELMODEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include <optional>

namespace mpcomm::kernels {

/// The element of argument `argument` that belongs to a point of the domain:
/// `offset` + sum of coordinate * stride, in elements.
struct KernelAccess {
  unsigned argument;
  llvm::SmallVector<int64_t> strides;
  int64_t offset = 0;

  bool operator==(const KernelAccess &other) const {
    return argument == other.argument && strides == other.strides &&
           offset == other.offset;
  }
};

/// When a result can be computed.
enum class ResultKind {
  Uniform,   ///< one value, from uniform values
  RowScalar, ///< one value a row, from values of the row
  Element,   ///< one value a point
  RowReduce, ///< one value a row, from all its points
  Accumulate ///< summed up over rows in the destination
};

/// One result of an op of the kernel.
struct KernelResult {
  mutable mlir::linalg::LinalgOp op; // a handle; not changed
  unsigned index = 0;
  ResultKind kind = ResultKind::Uniform;
  /// Dimensions of the domain that it depends on, and those that it reduces.
  llvm::SmallBitVector dims, reduced;
  /// Reductions: the op of the body that takes one more term, and that term.
  mlir::Operation *combiner = nullptr;
  mlir::Value term;
  /// Reductions: magnitudes are compared as integers, which takes a processor
  /// one instruction in place of five.
  bool comparesBits = false;
};

/// A result of the kernel and where it goes.
struct Store {
  mlir::Value value;
  KernelAccess access;
  /// Rows that have the result in common, where only the first may store it:
  /// it, or another result of its op, replaces what it was computed from.
  llvm::SmallVector<int> onceOver = {};
};

/// The linear function of a point, in the loops of one op: a dimension, or a
/// constant where `dim` is -1, per dimension of the operand.
struct MapEntry {
  int dim = -1;
  int64_t constant = 0;
  bool operator==(const MapEntry &other) const {
    return dim == other.dim && constant == other.constant;
  }
};

class KernelModel {
public:
  /// Reads `kernel`, whose arguments lie in memory as `layouts` says (bare
  /// strides, offset 0; shapes agree with the kernel's). Reports an error at
  /// the op that does not fit.
  static std::optional<KernelModel>
  build(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::MemRefType> layouts);

  mutable mlir::func::FuncOp kernel; // a handle; not changed
  llvm::SmallVector<mlir::MemRefType> layouts;
  /// Bytes that the address of each argument is a multiple of; empty where
  /// nothing is known.
  llvm::SmallVector<uint64_t> alignments;
  /// Sizes of the domain; the column is last. Empty: scalars only.
  llvm::SmallVector<int64_t> sizes;
  /// Per op, the dimension of the domain of each loop; -1: a loop of length 1.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int>> loops;
  llvm::DenseMap<mlir::Value, KernelResult> results;
  /// Results in the order of the kernel.
  llvm::SmallVector<mlir::Value> order;
  llvm::SmallVector<Store> stores;
  /// Destinations that take one value everywhere: argument and the value.
  llvm::SmallVector<std::pair<unsigned, mlir::TypedAttr>> fills;
  llvm::MapVector<mlir::OpOperand *, KernelAccess> accesses;

  unsigned numInputs() const {
    mlir::FunctionType type = kernel.getFunctionType();
    return type.getNumInputs() - type.getNumResults();
  }
  int column() const { return static_cast<int>(sizes.size()) - 1; }
  bool hasColumn() const { return !sizes.empty(); }
  int64_t columns() const { return sizes.empty() ? 1 : sizes.back(); }
  llvm::ArrayRef<int64_t> rows() const {
    return llvm::ArrayRef(sizes).drop_back(sizes.empty() ? 0 : 1);
  }
  /// True if an access moves along the column.
  bool alongColumn(const KernelAccess &access) const {
    return hasColumn() && access.strides[column()] != 0;
  }
  const Store *storeOf(mlir::Value value) const {
    for (const Store &store : stores)
      if (store.value == value)
        return &store;
    return nullptr;
  }
};

/// Bytes that the kernel reads and writes, each element of an argument once for
/// reading and once for writing; of gathered rows, those that may be read.
int64_t countMovedBytes(const KernelModel &model);

/// The one value of a tensor that is the same everywhere, a fill with a
/// constant or a splat; null for others.
mlir::TypedAttr matchUniformTensor(mlir::Value tensor);

/// True for ops that KernelModel lets a body contain beside its terminator.
bool isSupportedInBody(mlir::Operation *op);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_KERNELMODEL_H
