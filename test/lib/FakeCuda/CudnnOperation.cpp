//===- CudnnOperation.cpp - operations of an emulated graph ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudnnOperation.h"

#include "support/DType.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fake;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

int64_t GraphTensor::offset(int64_t i) const {
  int64_t at = 0;
  for (size_t d = 4; d-- > 0; i /= sizes[d])
    at += i % sizes[d] * strides[d];
  return at;
}

size_t GraphTensor::elementBytes() const {
  switch (type) {
  case CUDNN_DATA_FLOAT:
  case CUDNN_DATA_INT32:
    return 4;
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16:
    return 2;
  case CUDNN_DATA_BOOLEAN:
    return 1;
  default:
    return 0;
  }
}

static double rounded(int type, double value) {
  switch (type) {
  case CUDNN_DATA_FLOAT:
    return double(float(value));
  case CUDNN_DATA_HALF:
    return mprt::f16ToFloat(mprt::floatToF16(float(value)));
  case CUDNN_DATA_BFLOAT16:
    return mprt::bf16ToFloat(mprt::floatToBf16(float(value)));
  default:
    return value;
  }
}

/// The number of the element of `from` that is broadcast to element `i` of
/// `to`.
static int64_t broadcast(const GraphTensor &from, const GraphTensor &to,
                         int64_t i) {
  int64_t at = 0, step = 1;
  for (size_t d = 4; d-- > 0; i /= to.sizes[d]) {
    at += from.sizes[d] == 1 ? 0 : i % to.sizes[d] * step;
    step *= from.sizes[d];
  }
  return at;
}

static bool canBroadcast(const GraphTensor &from, const GraphTensor &to) {
  for (size_t d = 0; d < 4; ++d)
    if (from.sizes[d] != 1 && from.sizes[d] != to.sizes[d])
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Definitions
//===----------------------------------------------------------------------===//

static bool hasTwoOperands(int mode) {
  return mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_MUL ||
         mode == CUDNN_POINTWISE_DIV || mode == CUDNN_POINTWISE_SUB ||
         mode == CUDNN_POINTWISE_CMP_GE ||
         mode == CUDNN_POINTWISE_BINARY_SELECT;
}

static bool isPointwiseRight(const GraphOperation &op) {
  int mode = op.mode;
  bool compares = mode == CUDNN_POINTWISE_CMP_GE;
  bool indexes = mode == CUDNN_POINTWISE_GEN_INDEX;
  bool selects = mode == CUDNN_POINTWISE_BINARY_SELECT;
  bool isKnown = hasTwoOperands(mode) || indexes ||
                 mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG;
  return isKnown && op.b.has_value() == hasTwoOperands(mode) &&
         op.t.has_value() == selects &&
         op.computes == (compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT) &&
         canBroadcast(*op.x, op.y) && (!op.b || canBroadcast(*op.b, op.y)) &&
         (!op.t ||
          (op.t->type == CUDNN_DATA_BOOLEAN && op.t->sizes == op.y.sizes)) &&
         (op.y.type == CUDNN_DATA_BOOLEAN) == compares &&
         (op.y.type == CUDNN_DATA_INT32) == indexes &&
         (op.axis >= 0 && op.axis < 4) == indexes;
}

static bool isProductRight(const GraphOperation &op) {
  const auto &a = op.x->sizes, &b = op.b->sizes, &c = op.y.sizes;
  return a[0] == b[0] && a[0] == c[0] && a[1] == b[1] && a[1] == c[1] &&
         a[3] == b[2] && a[2] == c[2] && b[3] == c[3];
}

/// The same elements in memory, seen in other dimensions.
static bool isReshapeRight(const GraphOperation &op) {
  if (op.x->count() != op.y.count())
    return false;
  std::vector<int64_t> from, to;
  for (int64_t i = 0; i < op.y.count(); ++i) {
    from.push_back(op.x->offset(i));
    to.push_back(op.y.offset(i));
  }
  std::sort(from.begin(), from.end());
  std::sort(to.begin(), to.end());
  return from == to;
}

cudnnStatus_t GraphOperation::check() const {
  bool isRight = false;
  switch (descriptor) {
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    isRight = x && isPointwiseRight(*this);
    break;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    isRight =
        x && computes == CUDNN_DATA_FLOAT && canBroadcast(y, *x) &&
        (mode == CUDNN_REDUCE_TENSOR_ADD || mode == CUDNN_REDUCE_TENSOR_MAX);
    break;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    isRight = x && b && computes == CUDNN_DATA_FLOAT && isProductRight(*this);
    break;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    isRight = x && isReshapeRight(*this);
  }
  return isRight ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static double applied(int mode, double x, double b, double t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  default:
    return t != 0 ? x : b;
  }
}

static void multiply(const GraphOperation &op, const std::vector<double> &a,
                     const std::vector<double> &b, std::vector<double> &c) {
  int64_t m = op.y.sizes[2], n = op.y.sizes[3], k = op.x->sizes[3];
  for (int64_t i = 0; i < op.y.count(); ++i) {
    int64_t batch = i / (m * n), row = i / n % m, column = i % n;
    double sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += a[size_t((batch * m + row) * k + l)] *
             b[size_t((batch * k + l) * n + column)];
    c[size_t(i)] = sum;
  }
}

void fake::compute(const GraphOperation &op, GraphValues &values) {
  std::vector<double> result(size_t(op.y.count()));
  const std::vector<double> &x = values.at(op.x->id);
  if (op.descriptor == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    multiply(op, x, values.at(op.b->id), result);
  } else if (op.descriptor == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    bool adds = op.mode == CUDNN_REDUCE_TENSOR_ADD;
    std::fill(result.begin(), result.end(),
              adds ? 0 : -std::numeric_limits<double>::infinity());
    for (int64_t i = 0; i < op.x->count(); ++i) {
      double &sum = result[size_t(broadcast(op.y, *op.x, i))];
      sum = adds ? sum + x[size_t(i)] : std::max(sum, x[size_t(i)]);
    }
  } else if (op.descriptor == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    std::map<int64_t, double> byPlace;
    for (int64_t i = 0; i < op.x->count(); ++i)
      byPlace[op.x->offset(i)] = x[size_t(i)];
    for (int64_t i = 0; i < op.y.count(); ++i)
      result[size_t(i)] = byPlace.at(op.y.offset(i));
  } else if (op.mode == CUDNN_POINTWISE_GEN_INDEX) {
    int64_t inner = 1;
    for (int64_t d = op.axis + 1; d < 4; ++d)
      inner *= op.y.sizes[size_t(d)];
    for (int64_t i = 0; i < op.y.count(); ++i)
      result[size_t(i)] = double(i / inner % op.y.sizes[size_t(op.axis)]);
  } else {
    for (int64_t i = 0; i < op.y.count(); ++i) {
      auto at = [&](const std::optional<GraphTensor> &tensor) {
        return tensor
                   ? values.at(tensor->id)[size_t(broadcast(*tensor, op.y, i))]
                   : 0;
      };
      result[size_t(i)] = applied(op.mode, at(op.x), at(op.b), at(op.t));
    }
  }
  for (double &value : result)
    value = rounded(op.y.type, value);
  values[op.y.id] = std::move(result);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

cudnnStatus_t fake::check(const std::vector<GraphOperation> &operations,
                          std::map<int64_t, GraphTensor> &outside,
                          std::map<int64_t, bool> &written) {
  std::map<int64_t, GraphTensor> known;
  for (const GraphOperation &op : operations) {
    if (cudnnStatus_t status = op.check())
      return status;
    for (const std::optional<GraphTensor> *read : {&op.x, &op.b, &op.t}) {
      if (!*read)
        continue;
      const GraphTensor &tensor = **read;
      auto [entry, isNew] = known.try_emplace(tensor.id, tensor);
      if (!(entry->second == tensor) || (isNew && tensor.isVirtual))
        return CUDNN_STATUS_BAD_PARAM;
      if (!tensor.isVirtual)
        outside[tensor.id] = tensor;
    }
    // A tensor is not read before it is made.
    if (!known.try_emplace(op.y.id, op.y).second || op.y.isByValue)
      return CUDNN_STATUS_BAD_PARAM;
    if (!op.y.isVirtual) {
      outside[op.y.id] = op.y;
      written[op.y.id] = true;
    }
  }
  return operations.empty() ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}
