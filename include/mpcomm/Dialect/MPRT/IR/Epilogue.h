//===- Epilogue.h - launches that fuse into a product -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute `mprt.epilogue` marks an mprt.launch after an mprt.gemm whose
// computation a library may fuse into the product. Consecutive launches with
// the same attribute and operands are one epilogue.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
#define MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::mprt {

/// A dictionary: `kind`, the name of an mprt_epilogue_kind ("bias",
/// "bias_gelu", "bias_gelu_aux", "gelu_grad", "bias_grad_a", "bias_grad_b",
/// "scale"), and `bias` and `matrix` if the kind has them: operand numbers of
/// the launch; and `scales`, one or two inputs that are numbers in f32, which
/// "scale" has and kinds that add a bias may have.
inline constexpr llvm::StringLiteral kEpilogueAttr = "mprt.epilogue";

struct Epilogue {
  int32_t kind = 0; ///< mprt_epilogue_kind
  int64_t bias = 0, matrix = 0;
  llvm::SmallVector<int64_t, 2> scales;

  /// Whether the kind has a bias, or a second matrix.
  bool hasBias() const;
  bool hasMatrix() const;
  /// Whether the kind may have scales.
  bool canScale() const;

  /// The epilogue of `launch`; nothing if it has none or a malformed one.
  static std::optional<Epilogue> of(LaunchOp launch);
  void set(LaunchOp launch) const;
};

/// The launches after `product` that are its epilogue, with equal attributes
/// and operands; empty if it has none.
llvm::SmallVector<LaunchOp, 2> epilogueOf(GemmOp product);

/// The next op of a stream after `op` in its block, or null.
mlir::Operation *nextOnStream(mlir::Operation *op);

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
