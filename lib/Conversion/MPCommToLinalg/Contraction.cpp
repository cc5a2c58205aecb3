//===- Contraction.cpp - dot_general to linalg.contract -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A contraction names each dimension of its operands by a map, so no operand is
// reshaped; one is transposed only where no strided matrix product could read
// it (see StridedProduct.h).
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

namespace {

struct LowerDotGeneral : public OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

static AffineMap getMap(Builder &builder, size_t numLoops,
                        ArrayRef<int64_t> loops) {
  SmallVector<AffineExpr> exprs;
  for (int64_t loop : loops)
    exprs.push_back(builder.getAffineDimExpr(loop));
  return AffineMap::get(numLoops, 0, exprs, builder.getContext());
}

LogicalResult
LowerDotGeneral::matchAndRewrite(DotGeneralOp op,
                                 PatternRewriter &rewriter) const {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  Type element = type.getElementType();
  // Products of 16-bit operands sum in f32 and round once, into the result:
  // `mprt.gemm` does both. Written out in f32 they would take twice the memory
  // and a kernel to round them.
  bool roundsItself = element.isBF16() || element.isF16();
  Type sumType = roundsItself ? element : getComputeType(element);
  ProductLoops loops(op);
  SmallVector<int64_t> &result = loops.result;
  Value lhs = op.getLhs(), rhs = op.getRhs();
  size_t numLoops = loops.sizes.size();

  if (numLoops == loops.numParallel) {
    // No sum: an outer product is elementwise.
    LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
    rewriter.replaceOp(
        op,
        linalg.map({linalg.mapped(lhs, getMap(rewriter, numLoops, loops.lhs)),
                    linalg.mapped(rhs, getMap(rewriter, numLoops, loops.rhs))},
                   element, [](ImplicitLocOpBuilder &b, ArrayRef<Value> v) {
                     return arith::MulFOp::create(b, v[0], v[1]).getResult();
                   }));
    return success();
  }
  if (llvm::is_contained(loops.sizes, 0)) {
    // Sums of nothing.
    rewriter.replaceOp(op, makeFilled(rewriter, markOrigin(op), type.getShape(),
                                      getIdentity(Reduction::Sum, element)));
    return success();
  }
  if (!isStridedProduct(loops.sizes, loops.lhs, loops.rhs, result)) {
    lhs = sortByLoop(rewriter, loc, lhs, loops.lhs);
    rhs = sortByLoop(rewriter, loc, rhs, loops.rhs);
  }
  SmallVector<AffineMap> maps{getMap(rewriter, numLoops, loops.lhs),
                              getMap(rewriter, numLoops, loops.rhs),
                              getMap(rewriter, numLoops, result)};
  Value init = makeFilled(rewriter, loc, type.getShape(),
                          getIdentity(Reduction::Sum, sumType));
  auto contract = linalg::ContractOp::create(
      rewriter, loc, TypeRange{init.getType()}, ValueRange{lhs, rhs},
      ValueRange{init}, rewriter.getAffineMapArrayAttr(maps));
  rewriter.replaceOp(op,
                     castTensor(rewriter, loc, contract.getResult(0), element));
  return success();
}

void mpcomm::populateContractionToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerDotGeneral>(patterns.getContext());
}
