//===- FuseAttention.cpp - the pass mpcomm-fuse-attention -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What AttentionMatcher has read becomes two ops. They want rows of heads,
// [B, S, H, D]: where the step has them in another order, whichever needs the
// fewest transposes is taken: samples and heads as they are, exchanged, both
// together as samples of one head, or one of them alone as heads of one sample.
//
//===----------------------------------------------------------------------===//

#include "Fusion/AttentionMatcher.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_FUSEATTENTIONPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-fuse-attention"

using namespace mlir;
using namespace mpcomm;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isIdentity(ArrayRef<int64_t> dims) {
  return llvm::equal(dims, llvm::seq<int64_t>(0, dims.size()));
}

static Value transpose(OpBuilder &builder, Value value,
                       ArrayRef<int64_t> dims) {
  if (isIdentity(dims))
    return value;
  return TransposeOp::create(builder, value.getLoc(), value, dims);
}

//===----------------------------------------------------------------------===//
// The order of dimensions
//===----------------------------------------------------------------------===//

namespace {

/// Which labels are samples and heads; all of them samples of one head where
/// `isFlat`. Without a label for samples there is one.
struct RowForm {
  bool isFlat = true;
  std::optional<int64_t> sample;
  int64_t head = 0;

  SmallVector<int64_t> getDims(const RowOperand &operand) const {
    SmallVector<int64_t> dims;
    if (isFlat)
      dims = operand.batch;
    else if (sample)
      dims.push_back(operand.batch[*sample]);
    dims.push_back(operand.row);
    if (!isFlat)
      dims.push_back(operand.batch[head]);
    dims.push_back(operand.depth);
    return dims;
  }

  RankedTensorType getRowsType(const RowOperand &operand) const {
    SmallVector<int64_t> shape;
    for (int64_t dim : getDims(operand))
      shape.push_back(operand.getSize(dim));
    if (isFlat) {
      int64_t samples = 1;
      for (int64_t size : ArrayRef(shape).drop_back(2))
        samples *= size;
      shape = {samples, shape[shape.size() - 2], 1, shape.back()};
    } else if (!sample) {
      shape.insert(shape.begin(), 1);
    }
    return typeOf(operand.value).clone(shape);
  }

  /// [B, S, H, D] of the operand.
  Value getRows(OpBuilder &builder, const RowOperand &operand) const {
    Value value = transpose(builder, operand.value, getDims(operand));
    return reshapeTo(builder, value.getLoc(), value,
                     getRowsType(operand).getShape());
  }
};

class AttentionFuser {
public:
  explicit AttentionFuser(AttentionMatcher &found)
      : found(found), form(chooseForm()) {}

  /// Whether the bias would have to be repeated for samples or heads.
  bool repeatsBias() const { return form.isFlat && isBiasOfSomeBatch(); }
  /// Whether kernels of GPUs take it.
  bool hasKernel() const {
    return mprt::isAttentionSupported(form.getRowsType(found.query),
                                      form.getRowsType(found.key));
  }
  /// Replaces the ops and erases what only they needed.
  AttentionOp run();

private:
  RowForm chooseForm() const;
  void takeFactor(RowOperand &operand, RowProduct &gradient);
  Value getMask(OpBuilder &builder) const;
  bool isBiasOfSomeBatch() const;
  SmallVector<int64_t> getScoresLabels() const;
  Value getBias(OpBuilder &builder) const;
  void replaceBiasGrads(OpBuilder &builder, Value biasGrad) const;
  void replace(OpBuilder &builder, RowProduct product, Value rows,
               int64_t rowLabel) const;
  void eraseDead(ArrayRef<Operation *> ops) const;

  AttentionMatcher &found;
  RowForm form;
};

} // namespace

RowForm AttentionFuser::chooseForm() const {
  SmallVector<RowForm> forms;
  if (found.getNumBatch() == 2)
    forms = {{false, 0, 1}, {false, 1, 0}};
  forms.push_back({true, {}, 0});
  if (found.getNumBatch() == 1)
    forms.push_back({false, {}, 0});
  auto countTransposes = [&](const RowForm &form) {
    // Never rather a bias for each sample and head.
    int64_t count = form.isFlat && isBiasOfSomeBatch() ? 4 : 0;
    for (const RowOperand *operand :
         {&found.query, &found.key, &found.value, &found.grad})
      if (operand->value)
        count += !isIdentity(form.getDims(*operand));
    return count;
  };
  return *llvm::min_element(forms, [&](const RowForm &a, const RowForm &b) {
    return countTransposes(a) < countTransposes(b);
  });
}

/// The product of rows, in the order in which the step wants it.
void AttentionFuser::replace(OpBuilder &builder, RowProduct product, Value rows,
                             int64_t rowLabel) const {
  if (!product.op)
    return;
  Labels labels;
  if (form.isFlat) {
    SmallVector<int64_t> shape;
    for (int64_t label = 0; label < found.getNumBatch(); ++label) {
      labels.push_back(label);
      shape.push_back(found.query.getSize(found.query.batch[label]));
    }
    labels.append({rowLabel, found.getDepthLabel()});
    shape.append({typeOf(rows).getDimSize(1), typeOf(rows).getDimSize(3)});
    rows = reshapeTo(builder, rows.getLoc(), rows, shape);
  } else if (form.sample) {
    labels = {*form.sample, rowLabel, form.head, found.getDepthLabel()};
  } else {
    labels = {rowLabel, form.head, found.getDepthLabel()};
    rows = reshapeTo(builder, rows.getLoc(), rows,
                     typeOf(rows).getShape().drop_front());
  }
  SmallVector<int64_t> dims;
  for (int64_t label : product.labels)
    dims.push_back(llvm::find(labels, label) - labels.begin());
  // Transposes of the product compose with that one.
  Value old = product.op.getResult();
  for (Operation *user : llvm::make_early_inc_range(old.getUsers()))
    if (auto moved = dyn_cast<TransposeOp>(user)) {
      SmallVector<int64_t> composed;
      for (int64_t dim : moved.getDims())
        composed.push_back(dims[dim]);
      OpBuilder at(moved);
      moved.getResult().replaceAllUsesWith(transpose(at, rows, composed));
      moved.erase();
    }
  if (!old.use_empty())
    old.replaceAllUsesWith(transpose(builder, rows, dims));
}

//===----------------------------------------------------------------------===//
// Scale and mask
//===----------------------------------------------------------------------===//

/// An op that only moves the elements of its one operand.
static bool isMove(Operation *op) {
  auto move = dyn_cast_or_null<MovementOpInterface>(op);
  return move && move.isOneToOne();
}

/// Makes a factor of the queries or keys one of the scores, if their gradient
/// is multiplied by it too, or nobody computes it. They are then read where
/// they are, and no kernel has to multiply them.
void AttentionFuser::takeFactor(RowOperand &operand, RowProduct &gradient) {
  SmallVector<Operation *> moves;
  Value value = operand.value, scaled;
  while (isMove(value.getDefiningOp())) {
    moves.push_back(value.getDefiningOp());
    value = moves.back()->getOperand(0);
  }
  std::optional<double> factor = getFactor(value.getDefiningOp(), scaled);
  if (!factor)
    return;
  if (gradient.op) {
    Value current = gradient.op.getResult(), input;
    while (current.hasOneUse() && isMove(*current.user_begin()))
      current = (*current.user_begin())->getResult(0);
    if (!current.hasOneUse())
      return;
    Operation *user = *current.user_begin();
    std::optional<double> again = getFactor(user, input);
    if (!again || input != current || !isSameFactor(*factor, *again))
      return;
    user->getResult(0).replaceAllUsesWith(current);
    user->erase();
  }
  found.scale *= *factor;
  OpBuilder builder(found.output.op);
  for (Operation *op : llvm::reverse(moves)) {
    IRMapping mapping;
    mapping.map(op->getOperand(0), scaled);
    scaled = builder.clone(*op, mapping)->getResult(0);
  }
  operand.value = scaled;
}

/// The mask as rows of the query by rows of the key; null where there is none.
Value AttentionFuser::getMask(OpBuilder &builder) const {
  if (!found.mask)
    return Value();
  const AttentionMask &mask = *found.mask;
  Location loc = mask.source.getLoc();
  int64_t rows = found.query.getSize(found.query.row),
          columns = found.key.getSize(found.key.row);
  // Both rows, in one order or the other, or fewer.
  SmallVector<int64_t> shape, dims;
  for (int64_t label : mask.sourceLabels) {
    bool isRow = label == found.getQueryLabel();
    shape.push_back(isRow ? rows : columns);
    dims.push_back(isRow ? 0 : 1);
  }
  Value value = reshapeTo(builder, loc, mask.source, shape);
  if (dims.size() == 2)
    value = transpose(builder, value, dims);
  else
    value = BroadcastInDimOp::create(
        builder, loc,
        RankedTensorType::get({rows, columns}, builder.getI1Type()), value,
        dims);
  if (!mask.isInverted)
    return value;
  auto ones = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(typeOf(value), builder.getBoolAttr(true)));
  return arith::XOrIOp::create(builder, loc, value, ones);
}

/// Whether the bias differs along some batching dimensions but not along all.
bool AttentionFuser::isBiasOfSomeBatch() const {
  if (!found.bias)
    return false;
  bool isAny = false, isAll = true;
  for (int64_t label = 0; label < found.getNumBatch(); ++label) {
    bool is = llvm::is_contained(found.bias->sourceLabels,
                                 std::optional<int64_t>(label));
    isAny |= is;
    isAll &= is || found.query.getSize(found.query.batch[label]) == 1;
  }
  return isAny && !isAll;
}

/// The labels of scores in the order of the op's.
SmallVector<int64_t> AttentionFuser::getScoresLabels() const {
  SmallVector<int64_t> order;
  if (form.isFlat)
    llvm::append_range(order, llvm::seq<int64_t>(0, found.getNumBatch()));
  else if (form.sample)
    order = {*form.sample, form.head};
  else
    order = {form.head};
  order.append({found.getQueryLabel(), found.getKeyLabel()});
  return order;
}

/// The bias as the op wants it, [B, H, Sq, Sk] or ones; null where there is
/// none.
Value AttentionFuser::getBias(OpBuilder &builder) const {
  if (!found.bias)
    return Value();
  const AttentionBias &bias = *found.bias;
  Location loc = bias.source.getLoc();
  SmallVector<int64_t> order = getScoresLabels();
  // A last cast to a wider type, the op makes itself.
  Value value = bias.source;
  ArrayRef<Type> casts = bias.casts;
  auto widthOf = [](Type type) { return type.getIntOrFloatBitWidth(); };
  while (!casts.empty()) {
    Type from = casts.size() == 1 ? typeOf(value).getElementType()
                                  : casts[casts.size() - 2];
    if (widthOf(from) < 16 || widthOf(from) > widthOf(casts.back()))
      break;
    casts = casts.drop_back();
  }
  for (Type type : casts)
    value = castFloat(builder, loc, value, type);
  SmallVector<int64_t> present, sizes, dims, shape;
  for (auto [label, size] :
       llvm::zip_equal(bias.sourceLabels, typeOf(value).getShape()))
    if (label) {
      present.push_back(*label);
      sizes.push_back(size);
    }
  for (int64_t label : order) {
    auto place = llvm::find(present, label);
    if (place != present.end())
      dims.push_back(place - present.begin());
    shape.push_back(place == present.end() ? 1 : sizes[dims.back()]);
  }
  value = transpose(builder, reshapeTo(builder, loc, value, sizes), dims);
  ArrayRef<int64_t> batch = ArrayRef(shape).drop_back(2);
  SmallVector<int64_t> whole;
  if (form.isFlat)
    whole = {llvm::product_of(batch), 1};
  else
    whole = {form.sample ? batch[0] : 1, batch.back()};
  llvm::append_range(whole, ArrayRef(shape).take_back(2));
  return reshapeTo(builder, loc, value, whole);
}

/// Makes what the step makes of gradients of scores from the bias's gradient.
void AttentionFuser::replaceBiasGrads(OpBuilder &builder,
                                      Value biasGrad) const {
  SmallVector<int64_t> present, sizes;
  for (int64_t label : getScoresLabels())
    if (llvm::is_contained(found.bias->sourceLabels,
                           std::optional<int64_t>(label))) {
      present.push_back(label);
      sizes.push_back(found.scoresType.getDimSize(label));
    }
  Location loc = biasGrad.getLoc();
  biasGrad = reshapeTo(builder, loc, biasGrad, sizes);
  for (const BiasGradient &read : found.biasGrads) {
    SmallVector<int64_t> dims;
    for (int64_t label : read.labels)
      if (auto place = llvm::find(present, label); place != present.end())
        dims.push_back(place - present.begin());
    Value value = transpose(builder, biasGrad, dims);
    if (read.factor != 1) {
      RankedTensorType type = typeOf(value);
      auto factor = arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(
              type, builder.getFloatAttr(type.getElementType(), read.factor)));
      value = arith::MulFOp::create(builder, loc, value, factor);
    }
    RankedTensorType type = typeOf(read.value);
    value = castFloat(builder, loc, value, type.getElementType());
    Value old = read.value;
    old.replaceAllUsesWith(reshapeTo(builder, loc, value, type.getShape()));
  }
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

void AttentionFuser::eraseDead(ArrayRef<Operation *> ops) const {
  llvm::SetVector<Operation *> work;
  for (Operation *op : ops)
    if (op)
      work.insert(op);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (!isOpTriviallyDead(op))
      continue;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      if (Operation *maker = operand.getDefiningOp())
        work.insert(maker);
  }
}

AttentionOp AttentionFuser::run() {
  takeFactor(found.query, found.queryGrad);
  takeFactor(found.key, found.keyGrad);
  OpBuilder builder(found.output.op);
  Value query = form.getRows(builder, found.query),
        key = form.getRows(builder, found.key),
        value = form.getRows(builder, found.value), mask = getMask(builder),
        bias = getBias(builder);
  FloatAttr scale = builder.getF64FloatAttr(found.scale);
  UnitAttr safe = found.isSafe ? builder.getUnitAttr() : UnitAttr();
  auto attention = AttentionOp::create(builder, found.output.op.getLoc(), query,
                                       key, value, mask, bias, scale, safe);
  replace(builder, found.output, attention.getResult(), found.getQueryLabel());
  SmallVector<Operation *> makers;
  if (found.hasGradient()) {
    builder.setInsertionPoint(found.firstOfGradient);
    Value grad = form.getRows(builder, found.grad);
    auto gradient = AttentionGradOp::create(
        builder, found.firstOfGradient->getLoc(), grad, query, key, value,
        attention.getResult(), attention.getLse(), mask, bias, scale, safe,
        found.biasGrads.empty() ? UnitAttr() : builder.getUnitAttr());
    replace(builder, found.queryGrad, gradient.getQueryGrad(),
            found.getQueryLabel());
    replace(builder, found.keyGrad, gradient.getKeyGrad(), found.getKeyLabel());
    replace(builder, found.valueGrad, gradient.getValueGrad(),
            found.getKeyLabel());
    for (const BiasGradient &read : found.biasGrads)
      makers.push_back(read.value.getDefiningOp());
    if (!makers.empty())
      replaceBiasGrads(builder, gradient.getBiasGrad());
  }
  eraseDead({found.output.op, found.valueGrad.op, found.queryGrad.op,
             found.keyGrad.op});
  eraseDead(makers);
  return attention;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct FuseAttention
    : public mpcomm::impl::FuseAttentionPassBase<FuseAttention> {
  using FuseAttentionPassBase::FuseAttentionPassBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock())
        continue;
      SmallVector<SoftmaxOp> ops(
          function.getBody().front().getOps<SoftmaxOp>());
      for (SoftmaxOp op : ops)
        fuse(function, op);
    }
  }

private:
  void fuse(func::FuncOp function, SoftmaxOp op);
  /// Why what was found is not fused; empty where it is.
  StringRef getObjection(const AttentionFuser &fuser) const;
};

} // namespace

StringRef FuseAttention::getObjection(const AttentionFuser &fuser) const {
  if (numerics == Numerics::Exact)
    return "it would round less, which numerics=exact does not allow";
  if (shapes == AttentionShapes::Kernels && !fuser.hasKernel())
    return "no kernel takes its shape";
  if (fuser.repeatsBias())
    return "the mask that is added would have to be repeated for samples or "
           "heads";
  return "";
}

void FuseAttention::fuse(func::FuncOp function, SoftmaxOp op) {
  Location loc = op.getLoc();
  auto named = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(function.getName());
  };
  AttentionMatcher found(op);
  auto miss = [&](StringRef reason) {
    if (!reason.empty())
      remark::missed(loc, named("AttentionNotFused"))
          << remark::reason("{0}", reason);
    return !reason.empty();
  };
  if (!found.match()) {
    miss(found.reason);
    return;
  }
  AttentionFuser fuser(found);
  if (miss(getObjection(fuser)))
    return;
  int64_t bytes = mpcomm::detail::countBytes(found.scoresType);
  bool hasGradient = found.hasGradient();
  bool isBiasTrained = !found.biasGrads.empty();
  AttentionOp attention = fuser.run();
  ArrayRef<int64_t> shape = attention.getQuery().getType().getShape();
  remark::passed(loc, named("FusedAttention"))
      << remark::metric("samples", shape[0]) << remark::metric("rows", shape[1])
      << remark::metric("columns", attention.getKey().getType().getDimSize(1))
      << remark::metric("heads", shape[2]) << remark::metric("depth", shape[3])
      << remark::metric("masked", attention.getMask() ? 1 : 0)
      << remark::metric("biased", attention.getBias() ? 1 : 0)
      << remark::metric("gradient", hasGradient ? 1 : 0)
      << remark::metric("scoresBytes", bytes)
      << remark::metric("trainedBias", isBiasTrained ? 1 : 0);
}
