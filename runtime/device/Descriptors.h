//===- Descriptors.h - what a call of a library computes ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks and readings of mprt_gemm_desc, mprt_epilogue, mprt_window_desc and
// mprt_attention_desc that devices share.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_DESCRIPTORS_H
#define MPCOMM_RUNTIME_DEVICE_DESCRIPTORS_H

#include "support/Error.h"

#include <array>
#include <cstdint>

namespace mprt {

inline bool isHalf(uint8_t type) {
  return type == MPRT_F16 || type == MPRT_BF16;
}

inline bool isF8(uint8_t type) {
  return type == MPRT_F8E4M3 || type == MPRT_F8E5M2;
}

/// MPRT_INVALID_ARGUMENT where the descriptor contradicts itself,
/// MPRT_UNSUPPORTED for types that mprt_gemm_desc does not list.
Error check(const mprt_gemm_desc &desc);

/// Whether C has no element.
bool isEmpty(const mprt_gemm_desc &desc);

/// What a library is to do with a product, see mprt_epilogue; null where the
/// kind has none.
struct GemmEpilogue {
  mprt_epilogue_kind kind;
  mprt_dtype biasType;
  void *bias, *matrix;
  std::array<const void *, 2> scales = {}; ///< null: none

  int countScales() const { return !scales[0] ? 0 : scales[1] ? 2 : 1; }

  static bool hasBias(int32_t kind) {
    return kind != MPRT_GELU_GRAD && kind != MPRT_SCALE;
  }
  static bool canScale(int32_t kind) {
    return kind == MPRT_SCALE ||
           (kind >= MPRT_BIAS && kind <= MPRT_BIAS_GELU_AUX);
  }
  static bool hasMatrix(int32_t kind) {
    return kind == MPRT_BIAS_GELU_AUX || kind == MPRT_GELU_GRAD;
  }
};

/// MPRT_INVALID_ARGUMENT where the kind is none, or no kernel has its operands.
Error check(const mprt_epilogue &epilogue);

/// As for products, for mprt_window_desc.
Error check(const mprt_window_desc &desc);

inline bool isConvolution(const mprt_window_desc &desc) {
  return desc.kind <= MPRT_CONVOLUTION_FILTER_GRAD;
}

/// The sizes of operand 0, 1 or 2 of `desc`, all 0 where it has none.
void sizesOfOperand(const mprt_window_desc &desc, int operand,
                    int64_t sizes[4]);

const int64_t *stridesOf(const mprt_window_desc &desc, int operand);

/// Whether strides are those of a dense tensor with the dimensions in `order`,
/// innermost first. Those of sizes of 1 do not matter.
bool isDense(const int64_t sizes[4], const int64_t strides[4],
             const int (&order)[4]);

/// MPRT_INVALID_ARGUMENT where the descriptor contradicts itself, or a kernel
/// does not have its operands.
Error check(const mprt_attention_desc &desc);

/// How many operands an attention has, with its mask.
inline uint32_t countOperands(const mprt_attention_desc &desc) {
  return (desc.kind == MPRT_ATTENTION ? 5 : 9) + desc.has_mask;
}

/// The number of the mask among the operands, if there is one.
inline uint32_t maskOf(const mprt_attention_desc &desc) {
  return desc.kind == MPRT_ATTENTION ? 3 : 6;
}

} // namespace mprt

#endif // MPCOMM_RUNTIME_DEVICE_DESCRIPTORS_H
