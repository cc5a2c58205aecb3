//===- LinalgBuilder.h - linalg ops over one row space -------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the patterns of this folder write their lowerings with: generics over a
// row space. A row space is a list of sizes; its last dimension is the column,
// the others are rows. Operands lie on all of it, on its rows, on its columns,
// or are scalars. Floats narrower than 32 bits are widened to f32 where a body
// reads them and narrowed where it yields them, so bodies and sums are in f32
// or f64.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_LINALGBUILDER_H
#define MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_LINALGBUILDER_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Combine.h"

namespace mpcomm {

/// The type in which elements of a type are computed: as they are summed.
inline mlir::Type getComputeType(mlir::Type element) {
  return detail::getSumType(element);
}

/// A constant of a float or integer type (index too).
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Type type, double value);

/// `loc`, marked as stemming from an op of this name (without dialect): kernels
/// are named by these marks.
mlir::Location markOrigin(mlir::Location loc, llvm::StringRef name);
mlir::Location markOrigin(mlir::Operation *op);

/// The scalar that `combine` leaves other operands unchanged with.
mlir::TypedAttr getIdentity(Reduction reduction, mlir::Type type);

/// The same elements in another static shape, by tensor.collapse_shape and
/// tensor.expand_shape over the smallest groups of dimensions that correspond.
mlir::Value reshapeTensor(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value value, llvm::ArrayRef<int64_t> shape);

mlir::Value transposeTensor(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value, llvm::ArrayRef<int64_t> dims);

/// Puts the dimensions of `value` in the order of their loops, which are
/// sorted.
mlir::Value sortByLoop(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value value, llvm::SmallVector<int64_t> &loops);

/// A tensor filled with a constant.
mlir::Value makeFilled(mlir::OpBuilder &builder, mlir::Location loc,
                       llvm::ArrayRef<int64_t> shape, mlir::TypedAttr value);

/// The elements converted to another float type; `value` itself if they are.
mlir::Value castTensor(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value value, mlir::Type element);

class LinalgBuilder {
public:
  /// A tensor, and which of its elements belongs to a point of the space.
  struct Operand {
    mlir::Value value;
    mlir::AffineMap map;
  };
  using Builder = mlir::ImplicitLocOpBuilder;
  using Body =
      llvm::function_ref<mlir::Value(Builder &, llvm::ArrayRef<mlir::Value>)>;
  using BodyOfSeveral = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      Builder &, llvm::ArrayRef<mlir::Value>)>;

  LinalgBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                llvm::ArrayRef<int64_t> space)
      : builder(loc, builder), space(space) {}

  /// The builder over the rows of this space.
  LinalgBuilder rows() {
    return LinalgBuilder(builder, builder.getLoc(),
                         llvm::ArrayRef(space).drop_back());
  }

  Operand full(mlir::Value value) { return dims(value, 0, space.size()); }
  Operand row(mlir::Value value) { return dims(value, 0, space.size() - 1); }
  Operand column(mlir::Value value) {
    return dims(value, space.size() - 1, space.size());
  }
  Operand scalar(mlir::Value value) { return dims(value, 0, 0); }
  Operand mapped(mlir::Value value, mlir::AffineMap map) {
    return {value, map};
  }

  /// A tensor over the whole space.
  mlir::Value map(llvm::ArrayRef<Operand> inputs, mlir::Type element,
                  Body body);
  /// Several of them from one generic.
  llvm::SmallVector<mlir::Value> mapSeveral(llvm::ArrayRef<Operand> inputs,
                                            llvm::ArrayRef<mlir::Type> elements,
                                            BodyOfSeveral body);
  /// The reduction of the body's value over the dimensions for which `reduced`
  /// is set; the others stay, in order. The result has the type that the body
  /// yields.
  mlir::Value reduce(Reduction reduction, llvm::ArrayRef<Operand> inputs,
                     llvm::ArrayRef<bool> reduced, mlir::Type element,
                     Body body);
  /// As `reduce`: over the columns, a value per row.
  mlir::Value reduceColumns(Reduction reduction, llvm::ArrayRef<Operand> inputs,
                            mlir::Type element, Body body);
  /// The maximum of each row. A NaN in a row may or may not come through:
  /// for what subtracts it from the row again.
  mlir::Value maximumOfRows(Operand input, mlir::Type element);
  /// As `reduce`: over the rows, a value per column.
  mlir::Value reduceRows(Reduction reduction, llvm::ArrayRef<Operand> inputs,
                         mlir::Type element, Body body);

private:
  Operand dims(mlir::Value value, unsigned begin, unsigned end);
  llvm::SmallVector<mlir::Value> generic(
      llvm::ArrayRef<Operand> inputs, llvm::ArrayRef<mlir::Value> inits,
      llvm::ArrayRef<mlir::AffineMap> initMaps, llvm::ArrayRef<bool> reduced,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(
          Builder &, llvm::ArrayRef<mlir::Value>, llvm::ArrayRef<mlir::Value>)>
          body);

  Builder builder;
  llvm::SmallVector<int64_t> space;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_LINALGBUILDER_H
