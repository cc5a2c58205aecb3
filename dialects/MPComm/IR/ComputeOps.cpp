//===- ComputeOps.cpp - contraction, reduction and data movement ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification and type inference. Folders and canonicalisations are in
// MPCommCanonicalization.cpp.
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// DotGeneralOp
//===----------------------------------------------------------------------===//

/// Dimensions of `rank` that neither list names, in order.
static SmallVector<int64_t> freeDims(int64_t rank, ArrayRef<int64_t> batching,
                                     ArrayRef<int64_t> contracting) {
  SmallVector<int64_t> free;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(batching, d) && !llvm::is_contained(contracting, d))
      free.push_back(d);
  return free;
}

SmallVector<int64_t> DotGeneralOp::getLhsFreeDims() {
  return freeDims(getLhs().getType().getRank(), getLhsBatchingDims(),
                  getLhsContractingDims());
}

SmallVector<int64_t> DotGeneralOp::getRhsFreeDims() {
  return freeDims(getRhs().getType().getRank(), getRhsBatchingDims(),
                  getRhsContractingDims());
}

Type DotGeneralOp::getAccumulationType() {
  return mpcomm::detail::getSumType(getLhs().getType().getElementType());
}

LogicalResult DotGeneralOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> location,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  auto lhs = dyn_cast<RankedTensorType>(adaptor.getLhs().getType());
  auto rhs = dyn_cast<RankedTensorType>(adaptor.getRhs().getType());
  if (!lhs || !rhs)
    return inferError(location, "dot_general", "expects ranked tensors");
  ArrayRef<int64_t> lhsBatch = adaptor.getLhsBatchingDims();
  ArrayRef<int64_t> rhsBatch = adaptor.getRhsBatchingDims();
  ArrayRef<int64_t> lhsContract = adaptor.getLhsContractingDims();
  ArrayRef<int64_t> rhsContract = adaptor.getRhsContractingDims();
  if (lhsBatch.size() != rhsBatch.size() ||
      lhsContract.size() != rhsContract.size()) // dot_general C1
    return inferError(location, "dot_general",
                      "expects as many dimensions of lhs as of rhs, got ",
                      lhsBatch.size(), " and ", rhsBatch.size(), " batching, ",
                      lhsContract.size(), " and ", rhsContract.size(),
                      " contracting");
  auto checkDims = [&](RankedTensorType type, StringRef name,
                       ArrayRef<int64_t> batch,
                       ArrayRef<int64_t> contract) -> LogicalResult {
    llvm::SmallBitVector seen(type.getRank());
    for (int64_t d : llvm::concat<const int64_t>(batch, contract)) {
      if (d < 0 || d >= type.getRank()) // dot_general C2
        return inferError(location, "dot_general", "names dimension ", d,
                          " of ", name, ", which has rank ", type.getRank());
      if (seen.test(d))
        return inferError(location, "dot_general", "names dimension ", d,
                          " of ", name, " twice");
      seen.set(d);
    }
    return success();
  };
  if (failed(checkDims(lhs, "lhs", lhsBatch, lhsContract)) ||
      failed(checkDims(rhs, "rhs", rhsBatch, rhsContract)))
    return failure();
  auto checkSizes = [&](ArrayRef<int64_t> l, ArrayRef<int64_t> r) {
    for (auto [a, b] : llvm::zip(l, r))
      if (lhs.getDimSize(a) != rhs.getDimSize(b)) // dot_general C3
        return inferError(location, "dot_general", "pairs dimension ", a,
                          " of lhs, of size ", lhs.getDimSize(a),
                          ", with dimension ", b, " of rhs, of size ",
                          rhs.getDimSize(b));
    return success();
  };
  if (failed(checkSizes(lhsBatch, rhsBatch)) ||
      failed(checkSizes(lhsContract, rhsContract)))
    return failure();
  if (lhs.getElementType() != rhs.getElementType()) // dot_general C4
    return inferError(location, "dot_general", "expects one element type, got ",
                      lhs.getElementType(), " and ", rhs.getElementType());
  SmallVector<int64_t> shape;
  for (int64_t d : lhsBatch)
    shape.push_back(lhs.getDimSize(d));
  for (int64_t d : freeDims(lhs.getRank(), lhsBatch, lhsContract))
    shape.push_back(lhs.getDimSize(d));
  for (int64_t d : freeDims(rhs.getRank(), rhsBatch, rhsContract))
    shape.push_back(rhs.getDimSize(d));
  types.push_back(RankedTensorType::get(shape, lhs.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// TransposeOp, ReshapeOp, BroadcastInDimOp
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return inferError(location, "transpose", "expects a ranked tensor");
  ArrayRef<int64_t> dims = adaptor.getDims();
  llvm::SmallBitVector seen(input.getRank());
  SmallVector<int64_t> shape;
  for (int64_t d : dims) {
    if (d < 0 || d >= input.getRank() || seen.test(d)) // transpose C1
      return inferError(location, "transpose",
                        "expects 'dims' to be a permutation of ",
                        input.getRank(), " dimensions");
    seen.set(d);
    shape.push_back(input.getDimSize(d));
  }
  if (static_cast<int64_t>(dims.size()) != input.getRank())
    return inferError(location, "transpose",
                      "expects 'dims' to be a permutation of ", input.getRank(),
                      " dimensions");
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = cast<RankedTensorType>(getInput().getType());
  RankedTensorType to = cast<RankedTensorType>(getResult().getType());
  if (from.getNumElements() != to.getNumElements()) // reshape C1
    return emitOpError() << "expects as many elements in the result as in the "
                            "operand, got "
                         << to.getNumElements() << " for "
                         << from.getNumElements();
  if (from.getElementType() != to.getElementType()) // reshape C2
    return emitOpError() << "expects one element type, got "
                         << from.getElementType() << " and "
                         << to.getElementType();
  return success();
}

LogicalResult BroadcastInDimOp::verify() {
  RankedTensorType from = cast<RankedTensorType>(getInput().getType());
  RankedTensorType to = cast<RankedTensorType>(getResult().getType());
  ArrayRef<int64_t> dims = getDims();
  if (static_cast<int64_t>(dims.size()) != from.getRank()) // C1
    return emitOpError() << "expects 'dims' to have " << from.getRank()
                         << " entries, got " << dims.size();
  for (auto [i, d] : llvm::enumerate(dims)) {
    if (d < 0 || d >= to.getRank() || (i > 0 && d <= dims[i - 1])) // C1
      return emitOpError() << "expects 'dims' to be increasing and in [0, "
                           << to.getRank() << ")";
    int64_t size = from.getDimSize(i);
    if (size != 1 && size != to.getDimSize(d)) // broadcast_in_dim C2
      return emitOpError() << "cannot make dimension " << i << " of size "
                           << size << " dimension " << d << " of size "
                           << to.getDimSize(d);
  }
  if (from.getElementType() != to.getElementType()) // broadcast_in_dim C3
    return emitOpError() << "expects one element type, got "
                         << from.getElementType() << " and "
                         << to.getElementType();
  return success();
}

//===----------------------------------------------------------------------===//
// ReduceOp
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return inferError(location, "reduce", "expects a ranked tensor");
  ArrayRef<int64_t> dims = adaptor.getDims();
  for (auto [i, d] : llvm::enumerate(dims))
    if (d < 0 || d >= input.getRank() || (i > 0 && d <= dims[i - 1])) // C1
      return inferError(location, "reduce",
                        "expects 'dims' to be increasing and in [0, ",
                        input.getRank(), ")");
  if (adaptor.getReduction() == Reduction::Mean) // reduce C2
    return inferError(location, "reduce",
                      "does not take 'mean': divide a sum by a constant");
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < input.getRank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(input.getDimSize(d));
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// SliceOp, ReverseOp, ConcatenateOp, PadOp, IotaOp
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> location,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return inferError(location, "slice", "expects a ranked tensor");
  size_t rank = input.getRank();
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(),
                    strides = adaptor.getStrides();
  if (starts.size() != rank || limits.size() != rank ||
      strides.size() != rank) // slice C1
    return inferError(location, "slice", "expects ", rank,
                      " starts, limits and strides, got ", starts.size(), ", ",
                      limits.size(), " and ", strides.size());
  SmallVector<int64_t> shape;
  for (size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] ||
        limits[d] > input.getDimSize(d) || strides[d] < 1) // slice C2
      return inferError(location, "slice", "has window ", starts[d], ":",
                        limits[d], ":", strides[d], " of dimension ", d,
                        " of size ", input.getDimSize(d));
    int64_t extent = limits[d] - starts[d];
    shape.push_back(extent / strides[d] + (extent % strides[d] != 0));
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ReverseOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  if (!input)
    return inferError(location, "reverse", "expects a ranked tensor");
  int64_t last = -1;
  for (int64_t d : adaptor.getDims()) {
    if (d <= last || d >= input.getRank()) // reverse C1
      return inferError(location, "reverse",
                        "expects increasing 'dims' in [0, ", input.getRank(),
                        "), got ", d, " after ", last);
    last = d;
  }
  types.push_back(input);
  return success();
}

LogicalResult ConcatenateOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) // concatenate C1
    return inferError(location, "concatenate", "expects at least one operand");
  auto first = dyn_cast<RankedTensorType>(adaptor.getInputs()[0].getType());
  if (!first)
    return inferError(location, "concatenate", "expects ranked tensors");
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank())
    return inferError(location, "concatenate", "expects 'dim' in [0, ",
                      first.getRank(), "), got ", dim);
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    auto type = dyn_cast<RankedTensorType>(input.getType());
    bool fits = type && type.getElementType() == first.getElementType() &&
                type.getRank() == first.getRank();
    for (int64_t d = 0; fits && d < first.getRank(); ++d)
      fits = d == dim || type.getDimSize(d) == first.getDimSize(d);
    if (!fits) // concatenate C2
      return inferError(location, "concatenate", "cannot join ",
                        input.getType(), " to ", first, " along dimension ",
                        dim);
    shape[dim] += type.getDimSize(dim);
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> location,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RankedTensorType>(adaptor.getInput().getType());
  auto value = dyn_cast<RankedTensorType>(adaptor.getValue().getType());
  if (!input || !value)
    return inferError(location, "pad", "expects ranked tensors");
  size_t rank = input.getRank();
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh(),
                    interior = adaptor.getInterior();
  if (low.size() != rank || high.size() != rank ||
      interior.size() != rank) // pad C1
    return inferError(location, "pad", "expects ", rank,
                      " low, high and interior amounts, got ", low.size(), ", ",
                      high.size(), " and ", interior.size());
  SmallVector<int64_t> shape;
  for (size_t d = 0; d < rank; ++d) {
    if (low[d] < 0 || high[d] < 0 || interior[d] < 0) // pad C2
      return inferError(
          location, "pad", "expects amounts that are not negative, got ",
          low[d], ", ", high[d], " and ", interior[d], " for dimension ", d);
    int64_t size = input.getDimSize(d), gaps = std::max<int64_t>(size - 1, 0);
    int64_t most = mpcomm::detail::kMaxElements; // no sum below overflows
    if (low[d] > most || high[d] > most || size > most ||
        (gaps && interior[d] > most / gaps))
      return inferError(location, "pad", "makes dimension ", d,
                        " larger than any tensor's");
    shape.push_back(low[d] + size + gaps * interior[d] + high[d]);
  }
  if (value.getRank() != 0 ||
      value.getElementType() != input.getElementType()) // pad C3
    return inferError(location, "pad", "expects a value of type ",
                      RankedTensorType::get({}, input.getElementType()),
                      ", got ", value);
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult IotaOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  int64_t dim = getDim();
  if (dim < 0 || dim >= type.getRank()) // iota C1
    return emitOpError() << "expects 'dim' in [0, " << type.getRank()
                         << "), got " << dim;
  return success();
}
