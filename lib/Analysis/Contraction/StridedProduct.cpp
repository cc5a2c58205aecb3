//===- StridedProduct.cpp - what a strided matrix product can do ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpcomm;

ProductLoops::ProductLoops(DotGeneralOp op) {
  auto lhsType = cast<RankedTensorType>(op.getLhs().getType());
  auto rhsType = cast<RankedTensorType>(op.getRhs().getType());
  lhs.resize(lhsType.getRank());
  rhs.resize(rhsType.getRank());
  auto paired = [&](ArrayRef<int64_t> left, ArrayRef<int64_t> right) {
    for (auto [l, r] : llvm::zip_equal(left, right)) {
      lhs[l] = rhs[r] = sizes.size();
      sizes.push_back(lhsType.getDimSize(l));
    }
  };
  paired(op.getLhsBatchingDims(), op.getRhsBatchingDims());
  for (int64_t d : op.getLhsFreeDims()) {
    lhs[d] = sizes.size();
    sizes.push_back(lhsType.getDimSize(d));
  }
  for (int64_t d : op.getRhsFreeDims()) {
    rhs[d] = sizes.size();
    sizes.push_back(rhsType.getDimSize(d));
  }
  numParallel = sizes.size();
  result = llvm::to_vector(llvm::seq<int64_t>(0, numParallel));
  paired(op.getLhsContractingDims(), op.getRhsContractingDims());
}

/// Adds the strides of an operand whose dimensions have these loops.
static void addStrides(ArrayRef<int64_t> loops, ArrayRef<int64_t> strides,
                       int64_t ContractionDim::*field,
                       SmallVectorImpl<ContractionDim> &dims) {
  for (auto [loop, stride] : llvm::zip_equal(loops, strides))
    dims[loop].*field += stride;
}

static constexpr int64_t ContractionDim::*kOperands[] = {
    &ContractionDim::a, &ContractionDim::b, &ContractionDim::c};

/// The dimensions of row-major tensors.
static SmallVector<ContractionDim> getDims(ArrayRef<int64_t> sizes,
                                           ArrayRef<int64_t> a,
                                           ArrayRef<int64_t> b,
                                           ArrayRef<int64_t> c) {
  SmallVector<ContractionDim> dims(sizes.size());
  for (auto [dim, size] : llvm::zip_equal(dims, sizes))
    dim.size = size;
  const ArrayRef<int64_t> operands[] = {a, b, c};
  for (auto [loops, field] : llvm::zip_equal(operands, kOperands)) {
    auto shape =
        llvm::map_to_vector(loops, [&](int64_t loop) { return sizes[loop]; });
    addStrides(loops, computeStrides(shape), field, dims);
  }
  return dims;
}

bool mpcomm::isStridedProduct(ArrayRef<int64_t> sizes, ArrayRef<int64_t> a,
                              ArrayRef<int64_t> b, ArrayRef<int64_t> c) {
  std::optional<int64_t> count = countProducts(getDims(sizes, a, b, c));
  return count && *count <= 1;
}

std::optional<StridedGemm> mpcomm::getStridedProduct(ArrayRef<int64_t> sizes,
                                                     ArrayRef<int64_t> a,
                                                     ArrayRef<int64_t> b,
                                                     ArrayRef<int64_t> c) {
  SmallVector<StridedGemm, 0> products;
  std::string reason;
  if (llvm::is_contained(sizes, 0) ||
      !planContraction(getDims(sizes, a, b, c), /*accumulate=*/false, products,
                       reason) ||
      products.size() != 1)
    return std::nullopt;
  return products.front();
}

bool mpcomm::isF8OfTensorCores(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
}

bool mpcomm::fitsTensorCoresOfF8(const StridedGemm &product,
                                 int64_t resultBytes) {
  // cuBLASLt's documentation, "Using FP8"; in bytes, which operands count in.
  auto isMultiple = [](int64_t bytes) { return bytes % 16 == 0; };
  return product.k.a == 1 && product.k.b == 1 && isMultiple(product.m.size) &&
         isMultiple(product.n.size) && isMultiple(product.k.size) &&
         isMultiple(product.m.a) && isMultiple(product.n.b) &&
         isMultiple(product.m.c * resultBytes) &&
         llvm::all_of(product.batch, [&](const ContractionDim &dim) {
           return isMultiple(dim.a) && isMultiple(dim.b) &&
                  isMultiple(dim.c * resultBytes);
         });
}

/// Sorts the loops of an operand unless those that are summed, from
/// `numParallel` on, are its last and in order.
static void putSumsLast(SmallVectorImpl<int64_t> &loops, int64_t numParallel) {
  auto isSum = [&](int64_t loop) { return loop >= numParallel; };
  auto *sums = llvm::find_if(loops, isSum);
  if (!std::all_of(sums, loops.end(), isSum) ||
      !std::is_sorted(sums, loops.end()))
    llvm::sort(loops);
}

std::optional<OperandLoops> mpcomm::orderForTensorCoresOfF8(
    ArrayRef<int64_t> sizes, int64_t numParallel, const OperandLoops &loops,
    ArrayRef<int64_t> resultLoops, Type lhs, Type rhs, Type result) {
  Type left = getElementTypeOrSelf(lhs), right = getElementTypeOrSelf(rhs);
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(result));
  if (!isF8OfTensorCores(left) || !isF8OfTensorCores(right) ||
      (isa<Float8E5M2Type>(left) && isa<Float8E5M2Type>(right)) || !element ||
      element.getWidth() < 16 || element.getWidth() > 32)
    return std::nullopt;
  OperandLoops ordered = loops;
  for (SmallVector<int64_t> &list : ordered)
    putSumsLast(list, numParallel);
  std::optional<StridedGemm> product =
      getStridedProduct(sizes, ordered[0], ordered[1], resultLoops);
  if (!product || !fitsTensorCoresOfF8(*product, element.getWidth() / 8))
    return std::nullopt;
  return ordered;
}

LogicalResult mpcomm::getContractionDims(linalg::LinalgOp op,
                                         ArrayRef<Type> types,
                                         SmallVectorImpl<ContractionDim> &dims,
                                         std::string &reason) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  if (llvm::is_contained(sizes, ShapedType::kDynamic)) {
    reason = "expects sizes that are static";
    return failure();
  }
  dims.assign(sizes.size(), {});
  for (auto [dim, size] : llvm::zip_equal(dims, sizes))
    dim.size = size;
  for (auto [type, map, field] :
       llvm::zip_equal(types, op.getIndexingMapsArray(), kOperands)) {
    auto buffer = dyn_cast<MemRefType>(type);
    SmallVector<int64_t> strides, loops;
    int64_t offset;
    if (!buffer || failed(buffer.getStridesAndOffset(strides, offset)) ||
        llvm::is_contained(strides, ShapedType::kDynamic)) {
      reason = "expects buffers of static strides, got ";
      llvm::raw_string_ostream(reason) << type;
      return failure();
    }
    for (AffineExpr result : map.getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(result);
      if (!dim) {
        reason = "expects indexing maps of dimensions";
        return failure();
      }
      loops.push_back(dim.getPosition());
    }
    addStrides(loops, strides, field, dims);
  }
  return success();
}
