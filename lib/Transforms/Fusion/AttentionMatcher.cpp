//===- AttentionMatcher.cpp - the forward pass of attention ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fusion/AttentionMatcher.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace mpcomm;

/// Copies of views that passes make are a few ops long.
static constexpr int kMostOpsOfCopies = 8;
/// So are the ways from an addition to the product that scores come from.
static constexpr int kMostOpsOfScores = 32;

static bool isSameWithin(Value a, Value b, int depth) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (depth == 0 || !left || !right ||
      !isa<ReshapeOp, TransposeOp, BroadcastInDimOp, SliceOp, arith::ExtFOp,
           arith::TruncFOp, arith::ConstantOp>(left))
    return false;
  return OperationEquivalence::isEquivalentTo(
      left, right,
      [&](Value l, Value r) { return success(isSameWithin(l, r, depth - 1)); },
      /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

bool mpcomm::isSameValue(Value a, Value b) {
  return isSameWithin(a, b, kMostOpsOfCopies);
}

bool RowOperand::operator==(const RowOperand &other) const {
  return batch == other.batch && row == other.row && depth == other.depth &&
         isSameValue(value, other.value);
}

/// The constant that all elements of `value` are.
static std::optional<APFloat> getSplat(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastInDimOp>())
    value = broadcast.getInput();
  DenseFPElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  return elements.getSplatValue<APFloat>();
}

static double toDouble(APFloat value) {
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

std::optional<double> mpcomm::getFactor(Operation *op, Value &scaled) {
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op))
    return std::nullopt;
  std::optional<APFloat> number = getSplat(op->getOperand(1));
  scaled = op->getOperand(0);
  if (!number && isa<arith::MulFOp>(op)) {
    number = getSplat(op->getOperand(0));
    scaled = op->getOperand(1);
  }
  // Multiplied by no more than a finite number, and not turned round: masked
  // scores stay what they are.
  if (!number || !number->isFiniteNonZero() || number->isNegative())
    return std::nullopt;
  return isa<arith::MulFOp>(op) ? toDouble(*number) : 1 / toDouble(*number);
}

bool mpcomm::isSameFactor(double a, double b) {
  // Twice the rounding of f32: 1 / 8.0 and 0.125, 1 / sqrt(80) either way.
  constexpr double kRounding = 0x1p-22;
  return std::abs(a - b) <= kRounding * std::abs(a);
}

static bool isSplatOf(Value value, llvm::function_ref<bool(APFloat)> holds) {
  std::optional<APFloat> number = getSplat(value);
  return number && holds(*number);
}

Labels mpcomm::transposed(const Labels &labels, TransposeOp op) {
  Labels result;
  for (int64_t dim : op.getDims())
    result.push_back(labels[dim]);
  return result;
}

void mpcomm::passTransposes(RowOperand &operand) {
  while (auto op = operand.value.getDefiningOp<TransposeOp>()) {
    ArrayRef<int64_t> dims = op.getDims();
    for (int64_t &dim : operand.batch)
      dim = dims[dim];
    operand.row = dims[operand.row];
    operand.depth = dims[operand.depth];
    operand.value = op.getInput();
  }
}

std::optional<RowOperand> mpcomm::readOperand(DotGeneralOp op, bool isLhs,
                                              bool isRowFree) {
  SmallVector<int64_t> free = isLhs ? op.getLhsFreeDims() : op.getRhsFreeDims();
  ArrayRef<int64_t> contracting =
      isLhs ? op.getLhsContractingDims() : op.getRhsContractingDims();
  if (free.size() != 1 || contracting.size() != 1)
    return std::nullopt;
  RowOperand operand;
  operand.value = isLhs ? op.getLhs() : op.getRhs();
  operand.batch = llvm::to_vector(isLhs ? op.getLhsBatchingDims()
                                        : op.getRhsBatchingDims());
  operand.row = isRowFree ? free[0] : contracting[0];
  operand.depth = isRowFree ? contracting[0] : free[0];
  return operand;
}

std::optional<LabelledProduct>
AttentionMatcher::readProduct(DotGeneralOp op, bool isLhs,
                              const Labels &labels) {
  std::optional<RowOperand> other =
      readOperand(op, !isLhs, /*isRowFree=*/false);
  ArrayRef<int64_t> batching =
      isLhs ? op.getLhsBatchingDims() : op.getRhsBatchingDims();
  ArrayRef<int64_t> contracting =
      isLhs ? op.getLhsContractingDims() : op.getRhsContractingDims();
  if (!other || contracting.size() != 1 ||
      static_cast<int64_t>(batching.size()) != numBatch)
    return std::nullopt;
  LabelledProduct product;
  product.contracted = labels[contracting[0]];
  if (product.contracted < numBatch)
    return std::nullopt;
  SmallVector<int64_t> batch(numBatch);
  for (auto [own, its] : llvm::zip_equal(batching, other->batch)) {
    product.labels.push_back(labels[own]);
    batch[labels[own]] = its;
  }
  other->batch = batch;
  int64_t rest = product.contracted == keyLabel ? queryLabel : keyLabel;
  product.labels.push_back(isLhs ? rest : getDepthLabel());
  product.labels.push_back(isLhs ? getDepthLabel() : rest);
  passTransposes(*other);
  product.other = *other;
  return product;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Whether a select on `condition` leaves out what the mask does, or, in the
/// forward pass, is the mask.
bool AttentionMatcher::isMask(Value condition, const Labels &labels,
                              bool isInverted) {
  return mask && mask->isInverted == isInverted && mask->labels == labels &&
         isSameValue(mask->value, condition);
}

static bool isLowest(const APFloat &number) {
  return number.isInfinity() && number.isNegative();
}

/// Past casts that change no value: of a narrower one, -1e9 may be -inf.
static Value passExtensions(Value value) {
  while (auto wider = value.getDefiningOp<arith::ExtFOp>())
    value = wider.getIn();
  return value;
}

/// Rows whose largest score is -inf may get zeros from a select, as in
/// PyTorch's _safe_softmax.
void AttentionMatcher::readSafe() {
  probabilities = softmax;
  Value result = softmax;
  while (result.hasOneUse() &&
         isa<arith::ExtFOp, arith::TruncFOp>(*result.user_begin()))
    result = result.user_begin()->getResult(0);
  if (!result.hasOneUse())
    return;
  auto select = dyn_cast<arith::SelectOp>(*result.user_begin());
  if (!select || select.getFalseValue() != result ||
      !isSplatOf(select.getTrueValue(),
                 [](const APFloat &number) { return number.isZero(); }))
    return;
  auto broadcast = select.getCondition().getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return;
  // All dimensions but that of the softmax, in order.
  Labels others =
      llvm::to_vector(llvm::seq<int64_t>(0, softmax.getType().getRank()));
  others.erase(others.begin() + softmax.getDim());
  auto compare = broadcast.getInput().getDefiningOp<arith::CmpFOp>();
  if (!compare || broadcast.getDims() != ArrayRef(others) ||
      compare.getPredicate() != arith::CmpFPredicate::OEQ ||
      !isSplatOf(compare.getRhs(), isLowest))
    return;
  auto most = passExtensions(compare.getLhs()).getDefiningOp<ReduceOp>();
  if (!most || !most->hasOneUse() || most.getReduction() != Reduction::Max ||
      most.getDims() !=
          ArrayRef<int64_t>(static_cast<int64_t>(softmax.getDim())) ||
      passExtensions(most.getInput()) != passExtensions(softmax.getInput()))
    return;
  isSafe = true;
  probabilities = select.getResult();
  rowMaximum = most;
}

/// Whether scores have another user than the next op towards the softmax.
bool AttentionMatcher::hasOtherUsers(Value scores) const {
  auto isOfMaximum = [&](Operation *user) {
    while (isa<arith::ExtFOp, arith::TruncFOp>(user) && user->hasOneUse())
      user = *user->user_begin();
    return user == rowMaximum;
  };
  return llvm::count_if(scores.getUses(), [&](OpOperand &use) {
           return !isOfMaximum(use.getOwner());
         }) != 1;
}

/// Whether a cast or a transpose hands on scores, or probabilities.
static bool isView(Operation *op) {
  return isa<arith::ExtFOp, arith::TruncFOp, TransposeOp>(op);
}

static DotGeneralOp asProduct(Operation *op) {
  return dyn_cast<DotGeneralOp>(op);
}

/// The operand that scores come through an op from, between their product and
/// the softmax; null where there is none, or more than one.
static Value getScores(Operation *op) {
  Value scaled;
  if (isView(op))
    return op->getOperand(0);
  if (getFactor(op, scaled))
    return scaled;
  auto select = dyn_cast<arith::SelectOp>(op);
  if (select && isSplatOf(select.getFalseValue(), isLowest))
    return select.getTrueValue();
  if (select && isSplatOf(select.getTrueValue(), isLowest))
    return select.getFalseValue();
  return Value();
}

/// The product that `value` comes from as scores do; null where it comes from
/// none. Counts the ops that are read.
static DotGeneralOp findProduct(Value value, int &steps) {
  while (!value.getDefiningOp<DotGeneralOp>()) {
    Operation *op = value.getDefiningOp();
    if (!op || ++steps > kMostOpsOfScores)
      return {};
    if (isa<arith::AddFOp>(op)) {
      for (Value operand : op->getOperands())
        if (DotGeneralOp product = findProduct(operand, steps))
          return product;
      return {};
    }
    value = getScores(op);
    if (!value)
      return {};
  }
  return value.getDefiningOp<DotGeneralOp>();
}

/// Elements of a row that a product reads with `probabilities`: of values, or
/// of the gradient of the output. 0 where there is no such product.
static int64_t getDepthOfValues(Value probabilities, int views) {
  for (OpOperand &use : probabilities.getUses()) {
    Operation *user = use.getOwner();
    if (DotGeneralOp product = asProduct(user)) {
      if (auto other = readOperand(product, use.getOperandNumber() != 0,
                                   /*isRowFree=*/false))
        return other->getSize(other->depth);
    } else if (views > 0 && isView(user)) {
      if (int64_t depth = getDepthOfValues(user->getResult(0), views - 1))
        return depth;
    }
  }
  return 0;
}

/// The operand of an addition that is scores, and not a mask; null where there
/// is none. A mask may be a product, too: then scores are of rows as deep as
/// those of values, or else at least of rows.
static Value getScoresOfSum(Operation *op, Value probabilities) {
  if (!isa<arith::AddFOp>(op))
    return Value();
  Value best;
  int bestFit = 0;
  for (Value operand : op->getOperands()) {
    int steps = 0;
    DotGeneralOp product = findProduct(operand, steps);
    if (!product)
      continue;
    int fit = 1;
    std::optional<RowOperand> lhs = readOperand(product, true, true);
    if (lhs && readOperand(product, false, true))
      fit = lhs->getSize(lhs->depth) ==
                    getDepthOfValues(probabilities, kMostOpsOfCopies)
                ? 3
                : 2;
    if (fit > bestFit)
      best = operand, bestFit = fit;
  }
  return best;
}

/// From the softmax up to the product of queries and keys, and down again with
/// labels.
bool AttentionMatcher::readScores() {
  SmallVector<Operation *> chain;
  Value current = softmax.getInput();
  DotGeneralOp product;
  while (!product) {
    Operation *op = current.getDefiningOp();
    if (!op || op->getBlock() != softmax->getBlock())
      return false;
    product = dyn_cast<DotGeneralOp>(op);
    if (product)
      break;
    chain.push_back(op);
    if (Value scores = getScores(op)) {
      current = scores;
    } else if (isa<arith::SelectOp>(op)) {
      return fail("a select gives something other than -inf to what it leaves "
                  "out");
    } else if (Value summed = getScoresOfSum(op, probabilities)) {
      current = summed;
    } else {
      // Only what is close to attention is worth a reason.
      bool isNear = llvm::any_of(op->getOperands(), [](Value operand) {
        return operand.getDefiningOp<DotGeneralOp>();
      });
      return isNear &&
             fail("the scores go through " + op->getName().getStringRef());
    }
  }

  std::optional<RowOperand> lhs = readOperand(product, true, true);
  std::optional<RowOperand> rhs = readOperand(product, false, true);
  if (!lhs || !rhs)
    return false;
  numBatch = lhs->batch.size();
  scoresType = product.getType();
  Labels labels = llvm::to_vector(llvm::seq<int64_t>(0, numBatch + 2));
  Value result = product;
  for (Operation *op : llvm::reverse(chain)) {
    if (hasOtherUsers(result))
      return fail("the scores have more than one user");
    Value scaled;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      labels = transposed(labels, transpose);
    } else if (std::optional<double> factor = getFactor(op, scaled)) {
      if (bias && *factor != 1)
        return fail("the scores are scaled after a mask is added");
      scale *= *factor;
    } else if (isa<arith::AddFOp>(op)) {
      if (bias)
        return fail("more than one mask is added to the scores");
      bias.emplace();
      bias->value = op->getOperand(op->getOperand(0) == result ? 1 : 0);
      bias->labels = labels;
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      if (mask)
        return fail("there is more than one mask");
      mask.emplace();
      mask->value = select.getCondition();
      mask->labels = labels;
      mask->isInverted = select.getFalseValue() == result;
    }
    result = op->getResult(0);
  }
  if (hasOtherUsers(result))
    return fail("the scores have more than one user");
  keyLabel = labels[softmax.getDim()];
  if (keyLabel < numBatch)
    return fail("the softmax is not along the keys");
  queryLabel = 2 * numBatch + 1 - keyLabel;
  softmaxLabels = labels;
  bool isQueryLhs = queryLabel == numBatch;
  query = isQueryLhs ? *lhs : *rhs;
  key = isQueryLhs ? *rhs : *lhs;
  passTransposes(query);
  passTransposes(key);
  return true;
}

/// Puts a broadcast that makes `value` into the labels of its dimensions.
static bool passBroadcast(Value &value, Labels &labels) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return false;
  Labels own;
  for (int64_t dim : broadcast.getDims())
    own.push_back(labels[dim]);
  labels = own;
  value = broadcast.getInput();
  return true;
}

/// What the mask is broadcast from, which may differ by rows alone.
bool AttentionMatcher::readMask() {
  if (!mask)
    return true;
  Value source = mask->value;
  Labels labels = mask->labels;
  if (!isa<RankedTensorType>(source.getType()))
    return fail("the mask is a scalar");
  while (passBroadcast(source, labels)) {
  }
  auto type = cast<RankedTensorType>(source.getType());
  for (auto [label, size] : llvm::zip_equal(labels, type.getShape())) {
    if (size == 1)
      continue;
    if (label < numBatch)
      return fail("the mask differs between samples or heads");
    mask->sourceLabels.push_back(label);
  }
  mask->source = source;
  return true;
}

/// What the bias is broadcast and cast from.
bool AttentionMatcher::readBias() {
  if (!bias)
    return true;
  if (getElementTypeOrSelf(bias->value.getType()).isF64())
    return fail("a mask of f64 is added");
  Value source = bias->value;
  Labels labels = bias->labels;
  while (true) {
    if (passBroadcast(source, labels))
      continue;
    if (auto transpose = source.getDefiningOp<TransposeOp>()) {
      Labels own(labels.size());
      for (auto [label, dim] : llvm::zip_equal(labels, transpose.getDims()))
        own[dim] = label;
      labels = own;
    } else if (isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(
                   source.getDefiningOp())) {
      bias->casts.push_back(getElementTypeOrSelf(source.getType()));
    } else {
      break;
    }
    source = source.getDefiningOp()->getOperand(0);
  }
  auto type = cast<RankedTensorType>(source.getType());
  for (auto [label, size] : llvm::zip_equal(labels, type.getShape())) {
    bias->sourceLabels.emplace_back();
    if (size != 1)
      bias->sourceLabels.back() = label;
  }
  bias->source = source;
  std::reverse(bias->casts.begin(), bias->casts.end());
  return true;
}

//===----------------------------------------------------------------------===//
// Probabilities
//===----------------------------------------------------------------------===//

/// A product of probabilities: with values, or, in the backward pass, with the
/// gradient of the output.
bool AttentionMatcher::readProbabilityProduct(DotGeneralOp op, bool isLhs,
                                              const Labels &labels) {
  std::optional<LabelledProduct> product = readProduct(op, isLhs, labels);
  if (!product)
    return failUser("probabilities", op);
  RowProduct &target = product->contracted == keyLabel ? output : valueGrad;
  if (target.op)
    return failUser("probabilities", op);
  target = {op, product->labels};
  if (product->contracted == keyLabel) {
    value = product->other;
    return true;
  }
  return setGrad(product->other);
}

bool AttentionMatcher::readProbabilities(Value probabilities,
                                         const Labels &labels) {
  if (!follow())
    return false;
  for (OpOperand &use : probabilities.getUses()) {
    Operation *user = use.getOwner();
    if (user->getBlock() != softmax->getBlock())
      return failUser("probabilities", user);
    if (isa<arith::ExtFOp, arith::TruncFOp>(user)) {
      if (!readProbabilities(user->getResult(0), labels))
        return false;
    } else if (auto transpose = dyn_cast<TransposeOp>(user)) {
      if (!readProbabilities(transpose, transposed(labels, transpose)))
        return false;
    } else if (DotGeneralOp product = asProduct(user)) {
      if (!readProbabilityProduct(product, use.getOperandNumber() == 0, labels))
        return false;
    } else if (auto grad = dyn_cast<SoftmaxGradOp>(user);
               grad && !softmaxGrad && use.getOperandNumber() == 1 &&
               labels[grad.getDim()] == keyLabel) {
      softmaxGrad = grad;
      softmaxGradLabels = labels;
    } else {
      return failUser("probabilities", user);
    }
  }
  return true;
}

bool AttentionMatcher::match() {
  readSafe();
  if (!readScores() || !readMask() || !readBias())
    return false;
  if (!readProbabilities(probabilities, softmaxLabels))
    return false;
  if (!output.op)
    return false;
  Type element = scoresType.getElementType();
  if (!element.isBF16() && !element.isF16())
    return fail("its products are in " +
                std::string(element.isF32() ? "f32" : "another type") +
                ", expected bf16 or f16");
  if (output.op.getType().getElementType() != element)
    return fail("its two products have different types");
  if (value.getSize(value.depth) != query.getSize(query.depth))
    return fail("values have another depth than queries");
  return readGradient();
}
