//===- GatherOps.cpp - gather and scatter ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification, type inference, folders and canonicalisations.
//
//===----------------------------------------------------------------------===//

#include "InferError.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// IndexedSlices
//===----------------------------------------------------------------------===//

LogicalResult
IndexedSlices::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t leastSize) const {
  if (dim < 0 || dim >= operand.getRank() ||
      operand.getDimSize(dim) < leastSize)
    return emitError() << "expects 'dim' to be a dimension of " << operand
                       << (leastSize > 0 ? " that is not empty" : "")
                       << ", got " << dim;
  if (batchDims < 0 || batchDims > dim || batchDims > indices.getRank())
    return emitError() << "expects 'batch_dims' in [0, "
                       << std::min(dim, indices.getRank()) << "], got "
                       << batchDims;
  if (operand.getShape().take_front(batchDims) !=
      indices.getShape().take_front(batchDims))
    return emitError() << "expects equal sizes of the first " << batchDims
                       << " dimensions of " << operand << " and " << indices;
  return success();
}

RankedTensorType IndexedSlices::getSlicesType() const {
  SmallVector<int64_t> shape(operand.getShape().take_front(dim));
  llvm::append_range(shape, indices.getShape().drop_front(batchDims));
  llvm::append_range(shape, operand.getShape().drop_front(dim + 1));
  return RankedTensorType::get(shape, operand.getElementType());
}

/// Reports an error of an op whose types are inferred, if it has a location.
static auto inferErrorOf(std::optional<Location> location, StringRef op) {
  return [=] {
    return location ? emitError(*location) << "'mpcomm." << op << "' op "
                    : InFlightDiagnostic();
  };
}

//===----------------------------------------------------------------------===//
// GatherOp
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto operand = dyn_cast<RankedTensorType>(adaptor.getOperand().getType());
  auto indices = dyn_cast<RankedTensorType>(adaptor.getIndices().getType());
  if (!operand || !indices)
    return inferError(location, "gather", "expects ranked tensors");
  IndexedSlices slices{operand, indices, static_cast<int64_t>(adaptor.getDim()),
                       static_cast<int64_t>(adaptor.getBatchDims())};
  if (failed(slices.verify(inferErrorOf(location, "gather"),
                           1))) // gather C1, gather C2
    return failure();
  types.push_back(slices.getSlicesType());
  return success();
}

OpFoldResult GatherOp::fold(FoldAdaptor adaptor) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand());
  if (!splat)
    return {};
  return DenseElementsAttr::get(cast<ShapedType>(getType()),
                                splat.getSplatValue<Attribute>());
}

namespace {

/// Indices start, start + stride, …
struct IndexRange {
  int64_t start, stride;
};

/// A gather of evenly spaced slices is a slice.
struct GatherToSlice : public OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

/// The range that constant indices are, if they are one.
static std::optional<IndexRange> matchRange(Value indices) {
  if (auto iota = indices.getDefiningOp<IotaOp>())
    return cast<ShapedType>(iota.getType()).getRank() == 1
               ? std::optional(IndexRange{0, 1})
               : std::nullopt;
  DenseIntElementsAttr constant;
  if (!matchPattern(indices, m_Constant(&constant)) || constant.empty())
    return std::nullopt;
  auto values = constant.getValues<APInt>();
  IndexRange range{(*values.begin()).getSExtValue(), 1};
  int64_t count = constant.getNumElements();
  if (count == 1)
    return range;
  if (constant.isSplat() || constant.getType().getRank() != 1)
    return std::nullopt;
  std::optional<int64_t> stride =
      llvm::checkedSub(values[1].getSExtValue(), range.start);
  if (!stride)
    return std::nullopt;
  range.stride = *stride;
  for (int64_t i = 2; i < count; ++i)
    if (llvm::checkedSub(values[i].getSExtValue(),
                         values[i - 1].getSExtValue()) != stride)
      return std::nullopt;
  return range;
}

LogicalResult GatherToSlice::matchAndRewrite(GatherOp op,
                                             PatternRewriter &rewriter) const {
  auto operand = cast<RankedTensorType>(op.getOperand().getType());
  int64_t dim = op.getDim(), size = operand.getDimSize(dim);
  int64_t count = cast<ShapedType>(op.getIndices().getType()).getNumElements();
  std::optional<IndexRange> range = matchRange(op.getIndices());
  if (!range || op.getBatchDims() != 0 || count == 0)
    return rewriter.notifyMatchFailure(op, "indices are not a range");
  // Others are clamped.
  if (range->start < 0 || range->start >= size || range->stride < 1 ||
      count - 1 > (size - 1 - range->start) / range->stride)
    return rewriter.notifyMatchFailure(op, "indices are out of range");
  SmallVector<int64_t> starts(operand.getRank(), 0),
      strides(operand.getRank(), 1), limits(operand.getShape());
  starts[dim] = range->start;
  strides[dim] = range->stride;
  limits[dim] = range->start + (count - 1) * range->stride + 1;
  Value slice = SliceOp::create(rewriter, op.getLoc(), op.getOperand(), starts,
                                limits, strides);
  if (slice.getType() != op.getType())
    slice = ReshapeOp::create(rewriter, op.getLoc(), op.getType(), slice);
  rewriter.replaceOp(op, slice);
  return success();
}

void GatherOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<GatherToSlice>(context);
}

//===----------------------------------------------------------------------===//
// GatherGradOp
//===----------------------------------------------------------------------===//

LogicalResult GatherGradOp::verify() {
  auto grad = cast<RankedTensorType>(getGrad().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  IndexedSlices slices = getSlices();
  if (failed(slices.verify([&] { return emitOpError(); },
                           1))) // gather_grad C1, gather_grad C2
    return failure();
  RankedTensorType type = slices.getSlicesType();
  if (grad.getShape() != type.getShape()) // gather_grad C3
    return emitOpError() << "expects a gradient of shape "
                         << type.clone(grad.getElementType()) << ", got "
                         << grad;
  if (grad.getElementType() != result.getElementType()) // gather_grad C4
    return emitOpError() << "expects one element type, got "
                         << grad.getElementType() << " and "
                         << result.getElementType();
  if (std::optional<uint64_t> padding = getPaddingIdx();
      padding && *padding >= static_cast<uint64_t>(
                                 result.getDimSize(getDim()))) // C5
    return emitOpError() << "expects 'padding_idx' in [0, "
                         << result.getDimSize(getDim()) << "), got "
                         << static_cast<int64_t>(*padding);
  return success();
}

//===----------------------------------------------------------------------===//
// ScatterOp
//===----------------------------------------------------------------------===//

LogicalResult ScatterOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto operand = dyn_cast<RankedTensorType>(adaptor.getOperand().getType());
  auto indices = dyn_cast<RankedTensorType>(adaptor.getIndices().getType());
  auto updates = dyn_cast<RankedTensorType>(adaptor.getUpdates().getType());
  if (!operand || !indices || !updates)
    return inferError(location, "scatter", "expects ranked tensors");
  IndexedSlices slices{operand, indices, static_cast<int64_t>(adaptor.getDim()),
                       static_cast<int64_t>(adaptor.getBatchDims())};
  if (failed(slices.verify(inferErrorOf(location, "scatter"),
                           0))) // scatter C1, scatter C2
    return failure();
  RankedTensorType type = slices.getSlicesType();
  if (updates.getShape() != type.getShape()) // scatter C3
    return inferError(location, "scatter", "expects updates of shape ",
                      type.clone(updates.getElementType()), ", got ", updates);
  if (updates.getElementType() != operand.getElementType()) // scatter C4
    return inferError(location, "scatter", "expects one element type, got ",
                      operand.getElementType(), " and ",
                      updates.getElementType());
  if (adaptor.getReduction() == Reduction::Mean) // scatter C5
    return inferError(location, "scatter",
                      "does not take 'mean': divide a sum by a count");
  types.push_back(operand);
  return success();
}

OpFoldResult ScatterOp::fold(FoldAdaptor) {
  bool isEmpty =
      cast<ShapedType>(getUpdates().getType()).getNumElements() == 0;
  if (isEmpty && getOperand() != getResult())
    return getOperand();
  return {};
}

PrecisionClass ScatterOp::getPrecisionClass() {
  std::optional<Reduction> reduction = getReduction();
  return reduction == Reduction::Sum || reduction == Reduction::Prod
             ? PrecisionClass::FP32
             : PrecisionClass::Any;
}

int64_t ScatterOp::getFlops() {
  return getReduction() ? mpcomm::detail::countElements(getUpdates().getType())
                        : 0;
}
