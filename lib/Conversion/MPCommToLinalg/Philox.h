//===- Philox.h - counter-based random words ------------------ -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_PHILOX_H
#define MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_PHILOX_H

#include "LinalgBuilder.h"
#include <array>

namespace mpcomm {

/// The four words that Philox-4x32-10 makes of a counter and a key (Salmon et
/// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). All words are
/// i64 values in [0, 2^32). About 100 ops, constants folded.
std::array<mlir::Value, 4> emitPhilox(mlir::ImplicitLocOpBuilder &builder,
                                      std::array<mlir::Value, 4> counter,
                                      std::array<mlir::Value, 2> key);

/// The four words of the element of the innermost loops, which are over
/// `shape`; `key` are the two words of the seed, and `id` distinguishes ops.
std::array<mlir::Value, 4> emitRandomWords(mlir::ImplicitLocOpBuilder &builder,
                                           llvm::ArrayRef<int64_t> shape,
                                           llvm::ArrayRef<mlir::Value> key,
                                           uint64_t id);

/// The words of a seed as operands over a space of `rank` dimensions.
std::array<LinalgBuilder::Operand, 2> seedWords(LinalgBuilder &linalg,
                                                mlir::Value seed, int64_t rank);

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPCOMMTOLINALG_PHILOX_H
