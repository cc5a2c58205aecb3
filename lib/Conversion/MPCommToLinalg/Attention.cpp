//===- Attention.cpp - attention to a kernel's call, or written out -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention is an mprt.attention where a device has a kernel for it. Elsewhere
// it is what it stands for, as a front end would write it: scores and
// probabilities pass between products in the operands' type, and everything
// between them is computed in the type of sums. The gradient makes the
// probabilities again; where the forward pass is beside it, what both make
// is one after CSE.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpcomm;

using Dims = ArrayRef<int64_t>;

/// Samples and heads of [B, S, H, D], and of scores, [B, H, Sq, Sk].
static constexpr int64_t kRowsBatch[] = {0, 2}, kScoresBatch[] = {0, 1};

namespace {

/// Writes attention out, for attention and for its gradient.
template <typename Op> class Writer {
public:
  Writer(Op op, PatternRewriter &rewriter)
      : op(op), builder(op.getLoc(), rewriter),
        element(op.getQuery().getType().getElementType()),
        sumType(mpcomm::detail::getSumType(element)) {}

  /// A product over one dimension of each operand.
  Value product(Value lhs, Dims lhsBatch, int64_t lhsDim, Value rhs,
                Dims rhsBatch, int64_t rhsDim) {
    return DotGeneralOp::create(builder, lhs, rhs, lhsBatch, rhsBatch,
                                Dims(lhsDim), Dims(rhsDim));
  }

  /// The product over the depth of two tensors of rows, in the type of sums.
  Value scoresOf(Value queries, Value keys) {
    return cast(product(queries, kRowsBatch, 3, keys, kRowsBatch, 3), sumType);
  }

  /// The product of scores, over dimension `dim` of them, with rows:
  /// [B, S, H, D].
  Value rowsOf(Value scores, int64_t dim, Value rows) {
    Value result =
        product(cast(scores, element), kScoresBatch, dim, rows, kRowsBatch, 1);
    return TransposeOp::create(builder, result, Dims{0, 2, 1, 3});
  }

  /// Scaled, with the bias, and masked, in the type of sums.
  Value scores() {
    Value scores = scaled(scoresOf(op.getQuery(), op.getKey()));
    if (Value bias = op.getBias())
      scores = arith::AddFOp::create(
          builder, scores,
          BroadcastInDimOp::create(builder, scores.getType(),
                                   cast(bias, sumType), Dims{0, 1, 2, 3}));
    return kept(scores, lowest(::cast<RankedTensorType>(scores.getType())));
  }

  /// `scores` where the mask keeps them, else `others`.
  Value kept(Value scores, Value others) {
    if (!op.getMask())
      return scores;
    auto type = ::cast<RankedTensorType>(scores.getType());
    Value mask = BroadcastInDimOp::create(
        builder, type.clone(builder.getI1Type()), op.getMask(), Dims{2, 3});
    return arith::SelectOp::create(builder, mask, scores, others);
  }

  Value scaled(Value scores) {
    auto type = ::cast<RankedTensorType>(scores.getType());
    Value factor = splat(
        type, builder.getFloatAttr(sumType, op.getScale().convertToDouble()));
    return arith::MulFOp::create(builder, scores, factor);
  }

  Value probabilities(Value scores) {
    auto type = ::cast<RankedTensorType>(scores.getType());
    Value result =
        SoftmaxOp::create(builder, type, scores, builder.getI64IntegerAttr(3));
    if (!op.getSafe())
      return result;
    Value isNone =
        BroadcastInDimOp::create(builder, type.clone(builder.getI1Type()),
                                 keepsNothing(maximum(scores)), Dims{0, 1, 2});
    return arith::SelectOp::create(builder, isNone, zeros(type), result);
  }

  /// The logarithm of each row's sum of exponentials; with a bias in two parts.
  /// Of a row that nothing is kept of, where -inf - -inf is NaN, it is -inf. It
  /// is put there last, so that what softmax computes too is the same.
  Value lse(Value scores) {
    auto type = ::cast<RankedTensorType>(scores.getType());
    Value most = maximum(scores);
    Value below = arith::SubFOp::create(
        builder, scores,
        BroadcastInDimOp::create(builder, type, most, Dims{0, 1, 2}));
    Value sum = ReduceOp::create(builder, Reduction::Sum,
                                 math::ExpOp::create(builder, below), Dims(3));
    Value log = math::LogOp::create(builder, sum);
    log = arith::SelectOp::create(builder, keepsNothing(most), most, log);
    if (!op.getBias())
      return arith::AddFOp::create(builder, most, log);
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = 1;
    Value parts[] = {reshapeTo(builder, builder.getLoc(), most, shape),
                     reshapeTo(builder, builder.getLoc(), log, shape)};
    return ConcatenateOp::create(builder, parts, 3);
  }

  Value cast(Value value, Type type) {
    return castFloat(builder, builder.getLoc(), value, type);
  }

  Value zeros(RankedTensorType type) {
    return splat(type, builder.getFloatAttr(sumType, 0));
  }

private:
  Value maximum(Value scores) {
    return ReduceOp::create(builder, Reduction::Max, scores, Dims(3));
  }

  /// Of each row, by its largest score.
  Value keepsNothing(Value most) {
    return arith::CmpFOp::create(
        builder, arith::CmpFPredicate::OEQ, most,
        lowest(::cast<RankedTensorType>(most.getType())));
  }

  Value lowest(RankedTensorType type) {
    auto format = ::cast<FloatType>(sumType);
    return splat(type, builder.getFloatAttr(
                           format, APFloat::getInf(format.getFloatSemantics(),
                                                   /*Negative=*/true)));
  }

  Value splat(RankedTensorType type, Attribute number) {
    return arith::ConstantOp::create(builder,
                                     DenseElementsAttr::get(type, number));
  }

  Op op;

public:
  ImplicitLocOpBuilder builder;

private:
  Type element, sumType;
};

struct WriteAttention : public OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Writer<AttentionOp> writer(op, rewriter);
    Value scores = writer.scores();
    Value result =
        writer.rowsOf(writer.probabilities(scores), 3, op.getValue());
    rewriter.replaceOp(op, {result, writer.lse(scores)});
    return success();
  }
};

struct WriteAttentionGrad : public OpRewritePattern<AttentionGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionGradOp op,
                                PatternRewriter &rewriter) const override {
    Writer<AttentionGradOp> writer(op, rewriter);
    Value probabilities = writer.probabilities(writer.scores());
    Value grad = writer.scoresOf(op.getGrad(), op.getValue());
    Value ofBiased =
        SoftmaxGradOp::create(writer.builder, grad.getType(), grad,
                              probabilities, rewriter.getI64IntegerAttr(3));
    Value scores = writer.scaled(ofBiased);
    SmallVector<Value> results{writer.rowsOf(scores, 3, op.getKey()),
                               writer.rowsOf(scores, 2, op.getQuery()),
                               writer.rowsOf(probabilities, 2, op.getGrad())};
    if (Value biasGrad = op.getBiasGrad()) {
      // Without `safe`, rows that the mask excludes as a whole are NaN.
      auto type = ::cast<RankedTensorType>(ofBiased.getType());
      Value kept =
          op.getSafe() ? ofBiased : writer.kept(ofBiased, writer.zeros(type));
      results.push_back(sumTo(writer.builder, biasGrad.getType(), kept));
    }
    rewriter.replaceOp(op, results);
    return success();
  }

private:
  /// The sum over the dimensions of which `type` has one element.
  static Value sumTo(ImplicitLocOpBuilder &builder, Type type, Value scores) {
    ArrayRef<int64_t> shape = ::cast<RankedTensorType>(type).getShape();
    SmallVector<int64_t> dims;
    for (auto [dim, size] :
         llvm::enumerate(::cast<RankedTensorType>(scores.getType()).getShape()))
      if (size != shape[dim])
        dims.push_back(static_cast<int64_t>(dim));
    if (!dims.empty())
      scores = ReduceOp::create(builder, Reduction::Sum, scores, dims);
    return reshapeTo(builder, builder.getLoc(), scores, shape);
  }
};

/// Whether `value` is computed from constants alone, and so the same in each
/// step. Linear in the ops that make it.
bool isFixed(Value value) {
  llvm::SetVector<Value> work;
  work.insert(value);
  for (unsigned i = 0; i < work.size(); ++i) {
    Operation *maker = work[i].getDefiningOp();
    if (!maker || !isMemoryEffectFree(maker))
      return false;
    maker->walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (!maker->isAncestor(operand.getParentBlock()->getParentOp()))
          work.insert(operand);
    });
  }
  return true;
}

/// Either op, where a GPU's kernels take it.
template <typename Op> struct CallAttention : public OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!mprt::isAttentionSupported(op.getQuery().getType(),
                                    op.getKey().getType()))
      return rewriter.notifyMatchFailure(op, "no kernel takes it");
    if (Value bias = op.getBias()) {
      Type element = getElementTypeOrSelf(bias.getType());
      if (!element.isF32() && !element.isBF16() && !element.isF16())
        return rewriter.notifyMatchFailure(op, "no kernel takes its bias");
      if (op->getNumResults() > 3 &&
          !mprt::isBiasGradSupported(op.getQuery().getType(),
                                     op.getKey().getType(),
                                     ::cast<ShapedType>(bias.getType())))
        return rewriter.notifyMatchFailure(op, "no kernel sums up its bias's "
                                               "gradient");
    }
    SmallVector<Value> outputs;
    for (Type result : op->getResultTypes()) {
      auto type = ::cast<RankedTensorType>(result);
      outputs.push_back(tensor::EmptyOp::create(
          rewriter, op.getLoc(), type.getShape(), type.getElementType()));
    }
    auto call = rewriter.replaceOpWithNewOp<mprt::AttentionOp>(
        op, op->getResultTypes(), op->getName().stripDialect(), op.getScale(),
        op.getSafe(), op->getOperands(), outputs);
    if (Value mask = call.getMask(); mask && isFixed(mask))
      call->setAttr(mprt::kFixedMaskAttr, rewriter.getUnitAttr());
    return success();
  }
};

} // namespace

void mpcomm::populateAttentionToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<WriteAttention, WriteAttentionGrad>(patterns.getContext());
}

void mpcomm::populateAttentionToMPRTPatterns(RewritePatternSet &patterns) {
  patterns.add<CallAttention<AttentionOp>, CallAttention<AttentionGradOp>>(
      patterns.getContext(), /*benefit=*/2);
}
