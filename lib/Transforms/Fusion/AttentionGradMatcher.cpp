//===- AttentionGradMatcher.cpp - the backward pass of attention ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fusion/AttentionMatcher.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpcomm;

/// The gradient of the output, or another copy of it.
bool AttentionMatcher::setGrad(const RowOperand &found) {
  if (grad.value && !(grad == found))
    return fail("the backward pass reads two gradients of the output");
  if (!grad.value)
    grad = found;
  return true;
}

bool AttentionMatcher::readScoresGradientProduct(DotGeneralOp op, bool isLhs,
                                                 const Labels &labels,
                                                 double factor) {
  std::optional<LabelledProduct> product = readProduct(op, isLhs, labels);
  if (!product)
    return failUser("gradients of scores", op);
  if (!isSameFactor(scale, factor))
    return fail("the backward pass scales by another number than the forward "
                "pass");
  bool ofQuery = product->contracted == keyLabel;
  RowProduct &target = ofQuery ? queryGrad : keyGrad;
  if (target.op || !(product->other == (ofQuery ? key : query)))
    return failUser("gradients of scores", op);
  target = {op, product->labels};
  return true;
}

/// Whether `user` puts zeros where the mask of the forward pass leaves out,
/// where there are zeros already.
bool AttentionMatcher::isZeroedByMask(Operation *user, Value current,
                                      const Labels &labels) {
  auto select = dyn_cast<arith::SelectOp>(user);
  if (!select)
    return false;
  bool isInverted = select.getFalseValue() == current;
  Value other = isInverted ? select.getTrueValue() : select.getFalseValue();
  if (auto broadcast = other.getDefiningOp<BroadcastInDimOp>())
    other = broadcast.getInput();
  return matchPattern(other, m_AnyZeroFloat()) &&
         isMask(select.getCondition(), labels, isInverted);
}

/// Whether the bias differs along a dimension of the scores.
bool AttentionMatcher::isOfBias(int64_t label) const {
  return scoresType.getDimSize(label) == 1 ||
         llvm::is_contained(bias->sourceLabels, std::optional<int64_t>(label));
}

/// Whether a sum that leaves `labels` is over what the bias lacks, and no more.
bool AttentionMatcher::isSumForBias(const Labels &labels) const {
  return llvm::all_of(llvm::seq<int64_t>(0, numBatch + 2), [&](int64_t label) {
    return scoresType.getDimSize(label) == 1 ||
           llvm::is_contained(labels, label) == isOfBias(label);
  });
}

/// A reader of gradients of scores, or of a sum of them, that is neither a
/// product nor part of the scores: it makes the gradient of the bias, or reads
/// it.
bool AttentionMatcher::readBiasGradient(Value current, const Labels &labels,
                                        double factor, Operation *user) {
  if (!isOfBias(queryLabel) || !isOfBias(keyLabel))
    return fail("the mask that is added needs a gradient, and is the same for "
                "all rows or for all columns");
  auto reduce = dyn_cast<ReduceOp>(user);
  if (isSumForBias(labels)) {
    // Its other readers, unless they are products, get the same.
    if (llvm::none_of(biasGrads, [&](const BiasGradient &known) {
          return known.value == current;
        }))
      biasGrads.push_back({current, labels, factor});
    return true;
  }
  if (!reduce || reduce.getReduction() != Reduction::Sum)
    return fail("the mask that is added needs a gradient: the gradients of "
                "scores have another user, " +
                user->getName().getStringRef());
  Labels rest;
  for (auto [dim, label] : llvm::enumerate(labels))
    if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(dim)))
      rest.push_back(label);
    else if (scoresType.getDimSize(label) != 1 && isOfBias(label))
      return fail("the mask that is added needs a gradient, and the gradients "
                  "of scores are summed over more than it is the same for");
  if (!isSumForBias(rest))
    return readScoresGradient(reduce, rest, factor);
  biasGrads.push_back({reduce, rest, factor});
  return true;
}

/// From the softmax's gradient down to the products with keys and queries, and
/// to the gradient of the bias. Of a sum, `labels` are fewer.
bool AttentionMatcher::readScoresGradient(Value current, const Labels &labels,
                                          double factor) {
  if (!follow())
    return false;
  bool isWhole = static_cast<int64_t>(labels.size()) == numBatch + 2;
  for (OpOperand &use : current.getUses()) {
    Operation *user = use.getOwner();
    Value scaled;
    if (user->getBlock() != softmax->getBlock())
      return failUser("gradients of scores", user);
    if (isa<arith::ExtFOp, arith::TruncFOp>(user)) {
      if (!readScoresGradient(user->getResult(0), labels, factor))
        return false;
    } else if (auto transpose = dyn_cast<TransposeOp>(user)) {
      if (!readScoresGradient(transpose, transposed(labels, transpose), factor))
        return false;
    } else if (std::optional<double> number = getFactor(user, scaled);
               number && scaled == current) {
      if (!readScoresGradient(user->getResult(0), labels, factor * *number))
        return false;
    } else if (isWhole && isZeroedByMask(user, current, labels)) {
      if (!readScoresGradient(user->getResult(0), labels, factor))
        return false;
    } else if (auto product = dyn_cast<DotGeneralOp>(user);
               product && isWhole) {
      if (!readScoresGradientProduct(product, use.getOperandNumber() == 0,
                                     labels, factor))
        return false;
    } else if (bias) {
      if (!readBiasGradient(current, labels, factor, user))
        return false;
    } else if (isa<arith::SelectOp>(user)) {
      return fail("the backward pass has another mask than the forward pass");
    } else {
      return failUser("gradients of scores", user);
    }
  }
  return true;
}

/// The other operand of a product over the depth of `known`, which is its lhs
/// or rhs, and the labels of its result.
static std::optional<RowOperand> readOther(DotGeneralOp op, bool isKnownLhs,
                                           const RowOperand &known,
                                           int64_t knownLabel,
                                           int64_t otherLabel, Labels &labels) {
  std::optional<RowOperand> own =
      readOperand(op, isKnownLhs, /*isRowFree=*/true);
  std::optional<RowOperand> other =
      readOperand(op, !isKnownLhs, /*isRowFree=*/true);
  if (!own || !other || own->batch.size() != known.batch.size())
    return std::nullopt;
  passTransposes(*own);
  passTransposes(*other);
  if (own->row != known.row || own->depth != known.depth ||
      !isSameValue(own->value, known.value))
    return std::nullopt;
  labels.clear();
  SmallVector<int64_t> batch(known.batch.size());
  for (auto [mine, theirs] : llvm::zip_equal(own->batch, other->batch)) {
    // Of one tensor all dimensions are named, a batching one by a batching one.
    int64_t label = llvm::find(known.batch, mine) - known.batch.begin();
    labels.push_back(label);
    batch[label] = theirs;
  }
  other->batch = batch;
  labels.push_back(isKnownLhs ? knownLabel : otherLabel);
  labels.push_back(isKnownLhs ? otherLabel : knownLabel);
  return other;
}

/// What the probabilities' other users are part of: all of a backward pass, or
/// there are none.
bool AttentionMatcher::readGradient() {
  if (!softmaxGrad && !valueGrad.op)
    return true;
  DotGeneralOp product;
  if (softmaxGrad) {
    // Up to the product of the output's gradient and the values.
    SmallVector<TransposeOp> transposes;
    Value current = softmaxGrad.getGrad();
    while (!product) {
      Operation *op = current.getDefiningOp();
      if (!op || op->getBlock() != softmax->getBlock() || !current.hasOneUse())
        return fail("the gradient of the probabilities is not that of a "
                    "product with the values alone");
      product = dyn_cast<DotGeneralOp>(op);
      if (product)
        break;
      if (auto transpose = dyn_cast<TransposeOp>(op))
        transposes.push_back(transpose);
      else if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
        return fail("the gradient of the probabilities goes through " +
                    op->getName().getStringRef());
      current = op->getOperand(0);
    }
    Labels labels;
    std::optional<RowOperand> found = readOther(
        product, /*isKnownLhs=*/false, value, keyLabel, queryLabel, labels);
    if (!found)
      found = readOther(product, /*isKnownLhs=*/true, value, keyLabel,
                        queryLabel, labels);
    if (!found)
      return fail("the gradient of the probabilities is not that of a product "
                  "with the values");
    for (TransposeOp transpose : llvm::reverse(transposes))
      labels = transposed(labels, transpose);
    if (labels != softmaxGradLabels)
      return fail("the gradient of the probabilities has other dimensions");
    if (!setGrad(*found) ||
        !readScoresGradient(softmaxGrad, softmaxGradLabels, 1))
      return false;
  }
  for (DotGeneralOp op : {product, valueGrad.op, queryGrad.op, keyGrad.op}) {
    if (!op)
      continue;
    if (op.getType().getElementType() != scoresType.getElementType())
      return fail("the backward pass has products of another type");
    if (!firstOfGradient || op->isBeforeInBlock(firstOfGradient))
      firstOfGradient = op;
  }
  if (firstOfGradient->isBeforeInBlock(output.op))
    return fail("the backward pass begins before the forward pass ends");
  // The gradient that is kept may be a copy that is made later.
  Operation *maker = grad.value.getDefiningOp();
  if (maker && maker->getBlock() == softmax->getBlock() &&
      !maker->isBeforeInBlock(firstOfGradient))
    return fail("the backward pass reads the gradient of the output out of "
                "order");
  return true;
}
