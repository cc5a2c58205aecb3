//===- Epilogue.h - launches that a product may take over -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute `mprt.epilogue` of mprt.launch: what its kernel does with the
// result of the mprt.gemm in front of it is something that a library may do
// with the product.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
#define MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H

#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm::mprt {

/// A dictionary: `kind` ("bias", "bias_gelu" or "bias_gelu_aux"), `bias` and,
/// of the last, `result`: numbers of the launch's operands.
inline constexpr llvm::StringLiteral kEpilogueAttr = "mprt.epilogue";

struct Epilogue {
  int32_t kind = 0; ///< mprt_epilogue_kind
  int64_t bias = 0, result = 0;

  /// That of `launch`; none where it has none, or a wrong one.
  static std::optional<Epilogue> of(LaunchOp launch);
  void set(LaunchOp launch) const;
};

/// What a stream does next behind `op` in its block; null: nothing.
mlir::Operation *nextOnStream(mlir::Operation *op);

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_EPILOGUE_H
