//===- F8Products.h - products that read 8 bits -----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a device with a rate for products of 8 bits, a product of two tensors that
// were widened from 8 bits reads these, as convert-mpcomm-to-linalg has it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_ANALYSIS_STEPMODEL_F8PRODUCTS_H
#define MPCOMM_LIB_ANALYSIS_STEPMODEL_F8PRODUCTS_H

#include "mpcomm/Analysis/CostModel/CostModel.h"

namespace mpcomm {

struct F8Product {
  mlir::Type element;                       // of 8 bits
  int64_t bytes = 0;                        // that the product reads and writes
  llvm::SmallVector<int64_t, 2> transposed; // bytes of operands that are so
};

/// What `op` is if it is such a product; nothing if it is none. Time: linear in
/// what moves its operands.
std::optional<F8Product> matchF8Product(mlir::Operation *op);

/// Seconds of the product and of the transposes before it.
double getSeconds(const CostModel &model, mlir::Operation *op,
                  const F8Product &product);

} // namespace mpcomm

#endif // MPCOMM_LIB_ANALYSIS_STEPMODEL_F8PRODUCTS_H
