//===- MPCommCanonicalization.cpp - folders and canonicalisations ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

/// The splat that `operand` is, with the shape of `type`; null otherwise.
static Attribute resplat(Attribute operand, Type type) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(operand);
  return splat ? DenseElementsAttr::get(cast<ShapedType>(type),
                                        splat.getSplatValue<Attribute>())
               : DenseElementsAttr();
}

/// Whether `value` is there before `user`, as it need not be in a graph region.
static bool isBefore(Value value, Operation *user) {
  Operation *def = value.getDefiningOp();
  return !def || def->getBlock() != user->getBlock() ||
         def->isBeforeInBlock(user);
}

/// The `Op` that makes `value`, if it is before `user`, and its operand
/// before it. In a graph region (a module's body) values may depend on
/// themselves; following only edges that go forward keeps folding from turning
/// in circles.
template <typename Op> static Op producerBefore(Operation *user, Value value) {
  auto producer = value.getDefiningOp<Op>();
  if (!producer || !isBefore(value, user) ||
      !isBefore(producer.getInput(), producer))
    return Op();
  return producer;
}

/// The operand of an op that turned out to do nothing; for the same reason not
/// if that is the op's own result.
static OpFoldResult identity(Operation *op, Value input) {
  return input == op->getResult(0) ? OpFoldResult() : OpFoldResult(input);
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getDims(), llvm::seq<int64_t>(0, getDims().size())))
    return identity(*this, getInput());
  return resplat(adaptor.getInput(), getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return identity(*this, getInput());
  if (auto producer = producerBefore<ReshapeOp>(*this, getInput())) {
    getInputMutable().assign(producer.getInput());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}

OpFoldResult BroadcastInDimOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return identity(*this, getInput());
  if (auto producer = producerBefore<BroadcastInDimOp>(*this, getInput())) {
    SmallVector<int64_t> dims;
    for (int64_t d : producer.getDims())
      dims.push_back(getDims()[d]);
    setDims(dims);
    getInputMutable().assign(producer.getInput());
    return getResult();
  }
  return resplat(adaptor.getInput(), getType());
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDims().empty() ? identity(*this, getInput()) : OpFoldResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return identity(*this, getInput());
  return resplat(adaptor.getInput(), getType());
}

OpFoldResult ReverseOp::fold(FoldAdaptor adaptor) {
  auto type = cast<ShapedType>(getType());
  if (llvm::all_of(getDims(),
                   [&](int64_t d) { return type.getDimSize(d) == 1; }))
    return identity(*this, getInput());
  auto producer = producerBefore<ReverseOp>(*this, getInput());
  if (producer && producer.getDims() == getDims())
    return producer.getInput();
  return resplat(adaptor.getInput(), getType());
}

OpFoldResult ConcatenateOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? identity(*this, getInputs().front())
                                 : OpFoldResult();
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? identity(*this, getInput())
                                           : OpFoldResult();
}

/// A single element is in order.
LogicalResult TopKOp::fold(FoldAdaptor,
                           SmallVectorImpl<OpFoldResult> &results) {
  auto indices = cast<RankedTensorType>(getIndices().getType());
  if (getInput().getType().getDimSize(getDim()) != 1 ||
      getInput() == getValues())
    return failure();
  results.push_back(getInput());
  results.push_back(DenseElementsAttr::get(
      indices, APInt::getZero(indices.getElementTypeBitWidth())));
  return success();
}

OpFoldResult CumulativeOp::fold(FoldAdaptor) {
  return getInput().getType().getDimSize(getDim()) == 1
             ? identity(*this, getInput())
             : OpFoldResult();
}

namespace {

/// transpose(transpose(x)) is one transpose.
struct ComposeTransposes : public OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto producer = producerBefore<TransposeOp>(op, op.getInput());
    if (!producer)
      return rewriter.notifyMatchFailure(op, "operand is not a transpose");
    SmallVector<int64_t> dims;
    for (int64_t d : op.getDims())
      dims.push_back(producer.getDims()[d]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(),
                                             producer.getInput(), dims);
    return success();
  }
};

/// A contraction reads a transposed operand as well as a plain one, so
/// dot_general(transpose(x)) contracts another dimension of x. Only where the
/// free dimensions keep their order does the result stay the same.
struct FoldTransposeIntoDot : public OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<int64_t> batch[2] = {llvm::to_vector(op.getLhsBatchingDims()),
                                     llvm::to_vector(op.getRhsBatchingDims())};
    SmallVector<int64_t> contract[2] = {
        llvm::to_vector(op.getLhsContractingDims()),
        llvm::to_vector(op.getRhsContractingDims())};
    SmallVector<int64_t> free[2] = {op.getLhsFreeDims(), op.getRhsFreeDims()};
    Value operands[2] = {op.getLhs(), op.getRhs()};
    bool changed = false;
    for (int side : {0, 1}) {
      auto transpose = producerBefore<TransposeOp>(op, operands[side]);
      if (!transpose)
        continue;
      ArrayRef<int64_t> dims = transpose.getDims();
      auto map = [&](ArrayRef<int64_t> list) {
        return llvm::map_to_vector(list, [&](int64_t d) { return dims[d]; });
      };
      if (!llvm::is_sorted(map(free[side])))
        continue;
      batch[side] = map(batch[side]);
      contract[side] = map(contract[side]);
      operands[side] = transpose.getInput();
      changed = true;
    }
    if (!changed)
      return rewriter.notifyMatchFailure(op, "no transpose to fold");
    rewriter.replaceOpWithNewOp<DotGeneralOp>(op, op.getType(), operands[0],
                                              operands[1], batch[0], batch[1],
                                              contract[0], contract[1]);
    return success();
  }
};

} // namespace

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<ComposeTransposes>(context);
}

void DotGeneralOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                               MLIRContext *context) {
  patterns.add<FoldTransposeIntoDot>(context);
}
