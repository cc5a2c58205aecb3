//===- FoldMovement.cpp - movement into the maps of what computes ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After the conversion, linalg.transpose and broadcasts stand between ops that
// read their operands through maps. These patterns compose the maps. Transposes
// go into contractions only: an elementwise kernel that reads a transposed
// operand walks memory against the grain, a matrix product does not care.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

/// The loops that index each dimension, or nothing where one is no plain loop.
static std::optional<SmallVector<int64_t>> getLoops(AffineMap map) {
  SmallVector<int64_t> loops;
  for (AffineExpr expr : map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim)
      return std::nullopt;
    loops.push_back(dim.getPosition());
  }
  return loops;
}

/// Whether a contraction with these maps, on operands with the loop sizes of
/// `op`, is a strided matrix product.
static bool isStridedProduct(linalg::ContractOp op, ArrayRef<AffineMap> maps) {
  SmallVector<SmallVector<int64_t>, 3> loops;
  for (AffineMap map : maps) {
    auto list = getLoops(map);
    if (!list)
      return false;
    loops.push_back(*list);
  }
  return isStridedProduct(op.getStaticLoopRanges(), loops[0], loops[1],
                          loops[2]);
}

/// `map` with its results reordered: result i becomes result `order[i]`.
static AffineMap scatterResults(AffineMap map, ArrayRef<int64_t> order) {
  SmallVector<AffineExpr> exprs(order.size());
  for (auto [i, d] : llvm::enumerate(order))
    exprs[d] = map.getResult(i);
  return AffineMap::get(map.getNumDims(), 0, exprs, map.getContext());
}

/// `map` with its results reordered: result i is the old result `order[i]`.
static AffineMap gatherResults(AffineMap map, ArrayRef<int64_t> order) {
  SmallVector<AffineExpr> exprs;
  for (int64_t d : order)
    exprs.push_back(map.getResult(d));
  return AffineMap::get(map.getNumDims(), 0, exprs, map.getContext());
}

namespace {

struct FoldTransposeIntoOperand : public OpRewritePattern<linalg::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::ContractOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto transpose = op.getInputs()[i].getDefiningOp<linalg::TransposeOp>();
      if (!transpose)
        continue;
      SmallVector<AffineMap> maps = op.getIndexingMapsArray();
      maps[i] = scatterResults(maps[i], transpose.getPermutation());
      if (!isStridedProduct(op, maps))
        continue;
      rewriter.modifyOpInPlace(op, [&] {
        op.getInputsMutable()[i].assign(transpose.getInput());
        op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no transpose that folds");
  }
};

struct FoldTransposeOfResult : public OpRewritePattern<linalg::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto contract = op.getInput().getDefiningOp<linalg::ContractOp>();
    if (!contract || !contract->hasOneUse())
      return rewriter.notifyMatchFailure(op,
                                         "operand is no product of its own");
    auto fill = contract.getOutputs()[0].getDefiningOp<linalg::FillOp>();
    if (!fill)
      return rewriter.notifyMatchFailure(op, "product adds to a tensor");
    SmallVector<AffineMap> maps = contract.getIndexingMapsArray();
    maps[2] = gatherResults(maps[2], op.getPermutation());
    if (!isStridedProduct(contract, maps))
      return rewriter.notifyMatchFailure(op, "no strided product");
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value empty = tensor::EmptyOp::create(
        rewriter, fill.getLoc(), type.getShape(), type.getElementType());
    Value init =
        linalg::FillOp::create(rewriter, fill.getLoc(), fill.value(), empty)
            .getResult(0);
    Location loc = contract.getLoc();
    auto product = linalg::ContractOp::create(
        rewriter, loc, TypeRange{type}, contract.getInputs(), ValueRange{init},
        rewriter.getAffineMapArrayAttr(maps));
    rewriter.replaceOp(op, product);
    return success();
  }
};

/// A transpose after elementwise work on a product moves before it, where
/// the product can take it.
struct MoveTransposeToProduct : public OpRewritePattern<linalg::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::TransposeOp op,
                                PatternRewriter &rewriter) const override;
};

/// A generic that reads a broadcast reads what was broadcast.
struct FoldBroadcastIntoGeneric : public OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult
FoldBroadcastIntoGeneric::matchAndRewrite(linalg::GenericOp op,
                                          PatternRewriter &rewriter) const {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  bool changed = false;
  SmallVector<Value> inputs(op.getInputs());
  for (auto [i, input] : llvm::enumerate(inputs)) {
    auto broadcast = input.getDefiningOp<linalg::GenericOp>();
    if (!broadcast || !isBroadcast(broadcast))
      continue;
    AffineMap own = maps[i];
    maps[i] = broadcast.getIndexingMapsArray()[0].compose(own);
    // The size of each loop must still follow from an operand.
    if (!inversePermutation(concatAffineMaps(maps, op.getContext()))) {
      maps[i] = own;
      continue;
    }
    input = broadcast.getInputs()[0];
    changed = true;
  }
  if (!changed)
    return rewriter.notifyMatchFailure(op, "reads no broadcast");
  rewriter.modifyOpInPlace(op, [&] {
    op.getInputsMutable().assign(inputs);
    op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
  });
  return success();
}

LogicalResult
MoveTransposeToProduct::matchAndRewrite(linalg::TransposeOp op,
                                        PatternRewriter &rewriter) const {
  auto generic = op.getInput().getDefiningOp<linalg::GenericOp>();
  if (!generic || !generic->hasOneUse() || generic.getNumResults() != 1 ||
      generic.getNumParallelLoops() != generic.getNumLoops() ||
      generic.hasIndexSemantics() ||
      generic.payloadUsesValueFromOperand(generic.getDpsInitOperand(0)))
    return rewriter.notifyMatchFailure(op, "operand is not elementwise");
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  SmallVector<unsigned> full;
  for (auto [i, map] : llvm::enumerate(maps))
    if (map.getNumResults() == generic.getNumLoops())
      full.push_back(i);
  // The product and the result.
  if (full.size() != 2 || full[1] != generic.getNumDpsInputs() ||
      !maps[full[0]].isIdentity() || !maps[full[1]].isIdentity())
    return rewriter.notifyMatchFailure(op, "not of one tensor");
  auto product =
      generic.getInputs()[full[0]].getDefiningOp<linalg::ContractOp>();
  if (!product || !product->hasOneUse())
    return rewriter.notifyMatchFailure(op, "not of a product of its own");
  SmallVector<AffineMap> productMaps = product.getIndexingMapsArray();
  productMaps[2] = gatherResults(productMaps[2], op.getPermutation());
  if (!isStridedProduct(product, productMaps))
    return rewriter.notifyMatchFailure(op, "no strided product");

  // Loop d_{perm[j]} becomes loop j.
  AffineMap loops = AffineMap::getPermutationMap(
      invertPermutationVector(op.getPermutation()), op.getContext());
  for (AffineMap &map : maps)
    map = map.compose(loops);
  maps[full[0]] = maps[full[1]] =
      rewriter.getMultiDimIdentityMap(generic.getNumLoops());
  SmallVector<Value> inputs(generic.getInputs());
  inputs[full[0]] = transposeTensor(rewriter, op.getLoc(), inputs[full[0]],
                                    op.getPermutation());
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Value init = tensor::EmptyOp::create(rewriter, generic.getLoc(),
                                       type.getShape(), type.getElementType());
  auto moved = linalg::GenericOp::create(
      rewriter, generic.getLoc(), TypeRange{type}, inputs, ValueRange{init},
      maps, generic.getIteratorTypesArray());
  rewriter.inlineRegionBefore(generic.getRegion(), moved.getRegion(),
                              moved.getRegion().begin());
  rewriter.replaceOp(op, moved);
  return success();
}

void mpcomm::populateFoldMovementPatterns(RewritePatternSet &patterns) {
  patterns.add<FoldTransposeIntoOperand, FoldTransposeOfResult,
               MoveTransposeToProduct, FoldBroadcastIntoGeneric>(
      patterns.getContext());
}
