//===- ScatterModel.h - what a kernel scatters ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that is one mprt.scatter: which dimensions its loops run over, and
// where each of its tensors comes from.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERMODEL_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERMODEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include <array>
#include <optional>

namespace mpcomm::kernels {

/// True for kernels that contain an mprt.scatter.
bool isScatterKernel(mlir::func::FuncOp kernel);

struct ScatterModel {
  enum Tensor { Target, Updates, Indices };

  /// Neighbouring dimensions that lie together in all tensors, as one: the
  /// size, and the stride in each tensor, in elements; 0 where a tensor does
  /// not have it.
  struct Dim {
    int64_t size;
    std::array<int64_t, 3> strides;
  };
  using Dims = llvm::SmallVector<Dim, 2>;

  /// Reads `kernel`, whose arguments lie in memory as `layouts` says. Reports
  /// an error if it has another form.
  static std::optional<ScatterModel>
  build(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::MemRefType> layouts);

  static int64_t count(const Dims &dims);
  /// The dimensions of target and updates that indices do not decide: shared
  /// with the indices, and not.
  int64_t countPlanes() const { return count(batch) * count(planes); }
  int64_t countUpdates() const {
    return countPlanes() * count(indexed) * count(slice);
  }

  mutable mprt::ScatterOp op; // a handle; not changed
  Dims batch, planes, indexed, slice;
  /// The dimension that indices name.
  int64_t size = 0, stride = 0;
  /// The argument of each tensor; none of one that is the same everywhere: then
  /// its value.
  std::array<std::optional<unsigned>, 3> arguments;
  std::array<mlir::TypedAttr, 3> uniform;
  /// What the target is filled with first; null: it has values.
  mlir::TypedAttr initial;
};

/// Writes the code that both targets have in common.
class ScatterEmitter {
public:
  ScatterEmitter(const ScatterModel &model, mlir::ValueRange buffers,
                 mlir::OpBuilder &b, mlir::Location loc);

  using Offsets = std::array<mlir::Value, 3>;

  mlir::Value number(int64_t value);
  /// A value of the element type as it lies in memory.
  mlir::Value constantInMemory(mlir::TypedAttr value);
  /// The buffer of the target, as one dimension.
  mlir::Value getTarget() const { return flat[ScatterModel::Target]; }
  Offsets origin();
  /// `offsets`, moved by `coordinate` along a dimension, or to a point.
  Offsets move(Offsets offsets, mlir::Value coordinate,
               const ScatterModel::Dim &dim);
  /// The index at `offsets`.
  mlir::Value loadIndex(const Offsets &offsets);
  /// Whether updates of an index count; null: always.
  mlir::Value isValid(mlir::Value index);
  /// The element of the dimension that a valid index names.
  mlir::Value toElement(mlir::Value index);
  /// Combines `width` elements; 0: one, as a scalar.
  void update(const Offsets &offsets, const ScatterModel::Dim &dim,
              int64_t width, mlir::Value mask, llvm::MaybeAlign alignment = {});

private:
  const ScatterModel &model;
  mlir::OpBuilder &b;
  mlir::Location loc;
  std::array<mlir::Value, 3> flat;
};

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_SCATTERMODEL_H
