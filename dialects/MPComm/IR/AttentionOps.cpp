//===- AttentionOps.cpp - attention and its gradient ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

int64_t mpcomm::detail::countAttentionFlops(Type query, Type key,
                                            int64_t products, int64_t others) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(query).getShape();
  int64_t scores = cast<RankedTensorType>(key).getDimSize(1);
  for (int64_t size : shape.take_front(3))
    scores = multiplySaturated(scores, size);
  // A product is a multiply-add for each of the D elements of a row.
  int64_t each = 2 * products * shape[3] + others;
  return multiplySaturated(scores, each);
}

namespace {
/// What attention and its gradient are given.
struct AttentionTypes {
  RankedTensorType query, key, value, mask, bias;
  double scale;

  template <typename Adaptor>
  explicit AttentionTypes(Adaptor adaptor)
      : query(dyn_cast<RankedTensorType>(adaptor.getQuery().getType())),
        key(dyn_cast<RankedTensorType>(adaptor.getKey().getType())),
        value(dyn_cast<RankedTensorType>(adaptor.getValue().getType())),
        scale(adaptor.getScale().convertToDouble()) {
    if (Value given = adaptor.getMask())
      mask = dyn_cast<RankedTensorType>(given.getType());
    if (Value given = adaptor.getBias())
      bias = dyn_cast<RankedTensorType>(given.getType());
  }

  RankedTensorType getLse() const {
    ArrayRef<int64_t> sizes = query.getShape();
    SmallVector<int64_t> shape{sizes[0], sizes[2], sizes[1]};
    if (bias)
      shape.push_back(2);
    return RankedTensorType::get(shape, getSumType());
  }

  Type getSumType() const {
    return mpcomm::detail::getSumType(query.getElementType());
  }
};
} // namespace

/// C5 of attention, whose scores are of `scores`.
static LogicalResult checkBias(std::optional<Location> location, StringRef op,
                               RankedTensorType bias, RankedTensorType scores) {
  auto isEach = [](int64_t size, int64_t ofScores) {
    return size == 1 || size == ofScores;
  };
  if (bias.getRank() != 4 ||
      !llvm::all_of_zip(bias.getShape(), scores.getShape(), isEach))
    return inferError(location, op,
                      "expects a bias of rank 4, each dimension 1 or that of "
                      "the scores, ",
                      scores, ", got ", bias);
  unsigned bits = bias.getElementType().getIntOrFloatBitWidth();
  Type sums = mpcomm::detail::getSumType(scores.getElementType());
  if (bits < 16 || bits > sums.getIntOrFloatBitWidth())
    return inferError(location, op,
                      "expects a bias of at least 16 bits, and no more than ",
                      sums, ", got ", bias);
  return success();
}

/// C1 to C5 of attention.
static LogicalResult checkAttention(std::optional<Location> location,
                                    StringRef op, const AttentionTypes &types) {
  auto [query, key, value, mask, bias, scale] = types;
  if (!query || !key || !value || query.getRank() != 4 || key.getRank() != 4 ||
      value.getRank() != 4) // attention C1
    return inferError(location, op,
                      "expects query, key and value of rank 4, [samples, rows, "
                      "heads, depth]");
  SmallVector<int64_t> rows(query.getShape());
  rows[1] = key.getDimSize(1);
  if (key.getShape() != ArrayRef(rows)) // attention C1
    return inferError(location, op,
                      "expects a key of the query's sizes but along dimension "
                      "1, got ",
                      key, " for ", query);
  if (value.getShape() != key.getShape()) // attention C1
    return inferError(location, op, "expects a value of the key's shape, got ",
                      value, " for ", key);
  auto scores = RankedTensorType::get(
      {rows[0], rows[2], query.getDimSize(1), rows[1]}, query.getElementType());
  if (!mpcomm::detail::isCountable(scores)) // attention C1
    return inferError(location, op, "has scores of type ", scores,
                      ", expected at most 2^48 of them");
  Type element = query.getElementType();
  if (key.getElementType() != element ||
      value.getElementType() != element) // attention C2
    return inferError(location, op, "expects one element type, got ", query,
                      ", ", key, " and ", value);
  if (element.getIntOrFloatBitWidth() < 16) // attention C2
    return inferError(location, op,
                      "expects elements of at least 16 bits, got ", element);
  auto expected = RankedTensorType::get(
      {query.getDimSize(1), rows[1]}, IntegerType::get(query.getContext(), 1));
  if (mask && mask != expected) // attention C3
    return inferError(location, op, "expects a mask of type ", expected,
                      ", got ", mask);
  if (!std::isfinite(scale)) // attention C4
    return inferError(location, op, "expects a finite scale, got ",
                      std::to_string(scale));
  return bias ? checkBias(location, op, bias, scores) // attention C5
              : success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  AttentionTypes given(adaptor);
  if (failed(checkAttention(location, "attention", given)))
    return failure();
  types.assign({given.query, given.getLse()});
  return success();
}

LogicalResult AttentionGradOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  AttentionTypes given(adaptor);
  if (failed(checkAttention(location, "attention_grad", given)))
    return failure();
  if (adaptor.getGrad().getType() != given.query ||
      adaptor.getOutput().getType() != given.query) // attention_grad C2
    return inferError(location, "attention_grad",
                      "expects a gradient and an output of type ", given.query,
                      ", got ", adaptor.getGrad().getType(), " and ",
                      adaptor.getOutput().getType());
  if (adaptor.getLse().getType() != given.getLse()) // attention_grad C3
    return inferError(location, "attention_grad", "expects an lse of type ",
                      given.getLse(), ", got ", adaptor.getLse().getType());
  types.assign({given.query, given.key, given.key});
  if (!adaptor.getWithBiasGrad())
    return success();
  if (!given.bias) // attention_grad C4
    return inferError(location, "attention_grad",
                      "expects a bias whose gradient 'bias_grad' asks for");
  types.push_back(given.bias.clone(given.getSumType()));
  return success();
}
