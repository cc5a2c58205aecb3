//===- IndexingOps.cpp - order, running totals, random numbers ------------===//
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

LogicalResult TopKOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto values = cast<RankedTensorType>(getValues().getType());
  auto indices = cast<RankedTensorType>(getIndices().getType());
  int64_t dim = getDim(), k = getK();
  if (dim < 0 || dim >= input.getRank()) // top_k C1
    return emitOpError() << "expects 'dim' in [0, " << input.getRank()
                         << "), got " << dim;
  int64_t size = input.getDimSize(dim);
  if (size > INT32_MAX) // top_k C1
    return emitOpError() << "expects a dimension of less than 2^31 elements, "
                            "got "
                         << size;
  if (k < 1 || k > size) // top_k C2
    return emitOpError() << "expects 'k' in [1, " << size << "], got " << k;
  SmallVector<int64_t> shape(input.getShape());
  shape[dim] = k;
  auto expected = RankedTensorType::get(shape, input.getElementType());
  if (values != expected) // top_k C3
    return emitOpError() << "expects values of type " << expected << ", got "
                         << values;
  if (indices.getShape() != ArrayRef(shape)) // top_k C4
    return emitOpError() << "expects indices of the shape of " << expected
                         << ", got " << indices;
  return success();
}

LogicalResult CumulativeOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> location,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return inferError(location, "cumulative", "expects a ranked tensor");
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= input.getRank()) // cumulative C1
    return inferError(location, "cumulative", "expects 'dim' in [0, ",
                      input.getRank(), "), got ", dim);
  if (adaptor.getReduction() == Reduction::Mean) // cumulative C2
    return inferError(location, "cumulative",
                      "does not take 'mean': divide a sum by the counts");
  types.push_back(input);
  return success();
}

LogicalResult RngOp::verify() {
  if (uint64_t id = getId(); id > UINT32_MAX) // rng C1
    return emitOpError() << "expects 'id' in [0, 2^32), got " << int64_t(id);
  auto element = cast<FloatType>(getResult().getType().getElementType());
  if (element.getFPMantissaWidth() < 8) // rng C2
    return emitOpError() << "expects elements of at least 8 bits of mantissa, "
                            "got "
                         << element;
  return success();
}
