//===- LaneOps.h - vectors, scalars and memory ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The small vocabulary of generated code: values are scalars or vectors of
// `width` lanes in a type that the machine computes in; memory holds narrower
// floats and bools as bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LANEOPS_H
#define MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LANEOPS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/Alignment.h"

namespace mpcomm::kernels {

/// The type in which values of `element` are computed: f32 for half precision.
mlir::Type computeType(mlir::Type element);
/// The type of `element` in memory: a byte for i1.
mlir::Type memoryType(mlir::Type element);

/// `type` with the lanes of `like`, which is a scalar or a vector.
mlir::Type withLanesOf(mlir::Type type, mlir::Type like);

/// Between memory and computation; `raw` and `value` are scalars or vectors.
mlir::Value fromMemory(mlir::OpBuilder &b, mlir::Location loc, mlir::Value raw,
                       mlir::Type element);
mlir::Value toMemory(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                     mlir::Type element);

mlir::Value indexConstant(mlir::OpBuilder &b, mlir::Location loc,
                          int64_t value);
/// a + b * c, with what is known to be zero left out.
mlir::Value addScaled(mlir::OpBuilder &b, mlir::Location loc, mlir::Value a,
                      mlir::Value value, int64_t scale);
mlir::Value splat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value scalar,
                  int64_t width);
/// The first `active` of `width` lanes.
mlir::Value maskOf(mlir::OpBuilder &b, mlir::Location loc, int64_t active,
                   int64_t width);

/// `width` elements of the flat buffer from `index` on, `stride` apart. `mask`
/// may be null. The value is as in memory. `alignment` is that of the first
/// element's address; what is not masked is then one access where that allows.
/// Lanes that the mask leaves out are those of `others`, or zero.
mlir::Value loadLanes(mlir::OpBuilder &b, mlir::Location loc, mlir::Value flat,
                      mlir::Value index, int64_t stride, int64_t width,
                      mlir::Value mask, llvm::MaybeAlign alignment = {},
                      mlir::Value others = {});
void storeLanes(mlir::OpBuilder &b, mlir::Location loc, mlir::Value flat,
                mlir::Value index, int64_t stride, mlir::Value value,
                mlir::Value mask, llvm::MaybeAlign alignment = {});

/// The columns of the square matrix whose rows are `rows`, by shuffles:
/// n log2(n) of them for n rows of n lanes, n a power of two.
llvm::SmallVector<mlir::Value> transposeLanes(mlir::OpBuilder &b,
                                              mlir::Location loc,
                                              llvm::ArrayRef<mlir::Value> rows);

/// Whether `combiner` finds the largest of magnitudes, from a constant on that
/// is -inf or not negative. Magnitudes are ordered as the integers of the same
/// bits are, NaN last, if taking one clears the sign of a NaN.
bool isOfMagnitudes(mlir::Operation *combiner);
/// The op named `combiner` on two values, free to be contracted with a product;
/// with `comparesBits` the larger of the integers of their bits.
mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc,
                    mlir::Operation *combiner, mlir::Value lhs, mlir::Value rhs,
                    bool comparesBits = false);
/// What `combiner` leaves unchanged, in its type of computation.
mlir::TypedAttr neutralOf(mlir::Operation *combiner);
/// Whether combining anything with `start`, which may be null, gives the same
/// bits.
bool isNeutral(mlir::TypedAttr start, mlir::Operation *combiner);
/// Whether `start`, which may be null, can be combined with the result of all
/// terms as well as with the first.
bool mayStartLast(mlir::TypedAttr start, mlir::Operation *combiner);
/// Halves `vector` until it has `width` lanes; 1 gives a scalar.
mlir::Value foldLanes(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::Operation *combiner, mlir::Value vector,
                      int64_t width, bool comparesBits = false);
/// Lanes of a value; 0 for a scalar.
int64_t lanesOf(mlir::Value value);

/// Allows an addf, subf or mulf to be contracted.
void allowContraction(mlir::Operation *op);

} // namespace mpcomm::kernels

#endif // MPCOMM_LIB_CODEGEN_KERNELS_MODEL_LANEOPS_H
