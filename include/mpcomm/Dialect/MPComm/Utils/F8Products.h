//===- F8Products.h - the mark of products of 8 bits ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_UTILS_F8PRODUCTS_H
#define MPCOMM_DIALECT_MPCOMM_UTILS_F8PRODUCTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mpcomm {

/// Unit attribute of a module: a product of two tensors that were widened from
/// 8 bits reads these where tensor cores can multiply them. Set by
/// mpcomm-insert-casts, which knows the chips; convert-mpcomm-to-linalg removes
/// it where it was asked not to follow it.
inline constexpr llvm::StringLiteral kMultiplyF8Attr = "mpcomm.multiply_f8";

/// Whether the module that `op` is or is in has that attribute.
inline bool multipliesF8(mlir::Operation *op) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<mlir::ModuleOp>();
  return module && module->hasAttr(kMultiplyF8Attr);
}

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_UTILS_F8PRODUCTS_H
