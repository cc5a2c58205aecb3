//===- CudnnOperation.h - operations of an emulated graph -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations on tensors of four dimensions, one by one, as cuDNN's graph API
// defines them. Values between them are rounded to the tensor's type; sums are
// in f64.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_CUDNNOPERATION_H
#define MPCOMM_TEST_LIB_FAKECUDA_CUDNNOPERATION_H

#include "CudnnApi.h"

#include <array>
#include <map>
#include <optional>
#include <vector>

namespace fake {

struct GraphTensor {
  int64_t id = -1;
  int type = -1;
  std::array<int64_t, 4> sizes{}, strides{};
  bool isVirtual = false, isByValue = false;

  bool operator==(const GraphTensor &) const = default;
  int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  /// Where element number `i`, row-major, lies in memory.
  int64_t offset(int64_t i) const;
  int64_t last() const { return offset(count() - 1); }
  /// The bytes of an element; 0 for an unknown type.
  size_t elementBytes() const;
};

struct GraphOperation {
  int descriptor = -1; // that of the operation
  int mode = -1;       // of pointwise operations, or of reductions
  int64_t axis = -1;   // of GEN_INDEX
  int computes = CUDNN_DATA_FLOAT;
  std::optional<GraphTensor> x, b, t; // a and b of a product
  GraphTensor y;

  /// CUDNN_STATUS_BAD_PARAM where types or shapes contradict the definition.
  cudnnStatus_t check() const;
};

/// The values of a graph's tensors, by id, row-major.
using GraphValues = std::map<int64_t, std::vector<double>>;

/// Computes one operation. Operands are known.
void compute(const GraphOperation &operation, GraphValues &values);

/// Checks the operations in their order: each is right, tensors of one id are
/// equal, and each virtual one is made once, before it is read. The tensors
/// with memory or a number get into `outside`, those that are written into
/// `written`.
cudnnStatus_t check(const std::vector<GraphOperation> &operations,
                    std::map<int64_t, GraphTensor> &outside,
                    std::map<int64_t, bool> &written);

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_CUDNNOPERATION_H
