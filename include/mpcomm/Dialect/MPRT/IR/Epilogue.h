//===- Epilogue.h - launches that a product may take over -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute `mprt.epilogue` of mprt.launch: what its kernel does after the
// mprt.gemm before it is something that a library may do with the product.
// Kernels of several launches in a row that have it, on the same operands, do
// it together.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
#define MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::mprt {

/// A dictionary: `kind`, the name of an mprt_epilogue_kind ("bias",
/// "bias_gelu", "bias_gelu_aux", "gelu_grad", "bias_grad_a", "bias_grad_b"),
/// and what that has of `bias` and `matrix`: numbers of the launch's operands.
inline constexpr llvm::StringLiteral kEpilogueAttr = "mprt.epilogue";

struct Epilogue {
  int32_t kind = 0; ///< mprt_epilogue_kind
  int64_t bias = 0, matrix = 0;

  /// What the kind has beside the product.
  bool hasBias() const;
  bool hasMatrix() const;

  /// That of `launch`; none where it has none, or a wrong one.
  static std::optional<Epilogue> of(LaunchOp launch);
  void set(LaunchOp launch) const;
};

/// The launches after `product` that are its epilogue, which all have the same
/// attribute and operands; none where it has none.
llvm::SmallVector<LaunchOp, 2> epilogueOf(GemmOp product);

/// What a stream does next after `op` in its block; null: nothing.
mlir::Operation *nextOnStream(mlir::Operation *op);

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
