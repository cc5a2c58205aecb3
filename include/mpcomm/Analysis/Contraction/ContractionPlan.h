//===- ContractionPlan.h - contractions as matrix products ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Works on sizes and strides, without IR.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_CONTRACTION_CONTRACTIONPLAN_H
#define MPCOMM_ANALYSIS_CONTRACTION_CONTRACTIONPLAN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <string>

namespace mpcomm {

/// One dimension of a contraction: its size, and its stride in each operand in
/// elements (0 if the operand does not have the dimension).
struct ContractionDim {
  int64_t size = 1;
  int64_t a = 0, b = 0, c = 0;
};

/// A matrix product with strided batch dimensions (see mprt_gemm_desc), at
/// offsets (in elements) into its operands.
struct StridedGemm {
  bool swapped = false; // A and B, and M and N, changed places
  bool accumulate = false;
  int64_t offsetA = 0, offsetB = 0, offsetC = 0;
  ContractionDim m, n, k;
  llvm::SmallVector<ContractionDim, 4> batch;
};

/// Writes a contraction as matrix products. Dimensions that are contiguous in
/// both operands that have them are merged. Of the remaining dimensions, the
/// largest of M, N and K stay matrix dimensions, and up to four others become
/// batch dimensions. All others (and sums over several strided K) are unrolled
/// into several products. `accumulate`: add to C. Fails, with a reason, if no
/// choice leaves a unit stride in A, in B, and in the rows of C. No size may be
/// 0. Time: linear in the number of products, which is the product of the
/// unrolled sizes.
bool planContraction(llvm::ArrayRef<ContractionDim> dims, bool accumulate,
                     llvm::SmallVectorImpl<StridedGemm> &products,
                     std::string &reason);

/// The number of products of planContraction(): 0 for an empty contraction,
/// nothing if it fails.
std::optional<int64_t> countProducts(llvm::ArrayRef<ContractionDim> dims);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_CONTRACTION_CONTRACTIONPLAN_H
