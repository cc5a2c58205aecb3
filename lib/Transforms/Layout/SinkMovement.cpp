//===- SinkMovement.cpp - transposes and reshapes after what computes -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elementwise work, sums and reversals of a transposed tensor are done in the
// order of the tensor itself, and the result is transposed, until a product
// reads it by other dimensions, or a second transpose undoes the first. So do
// reshapes that merge dimensions or only concern dimensions of size 1: what
// computes on one tensor does so in one shape. Movement goes only from operands
// to results, so this ends.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_SINKMOVEMENTPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return typeOf(value).getShape();
}

static bool isElementwise(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType()) &&
         llvm::all_of(op->getOperandTypes(), [&](Type type) {
           auto tensor = dyn_cast<RankedTensorType>(type);
           return tensor && tensor.getShape() == shapeOf(op->getResult(0));
         });
}

static bool isSplat(Value value) {
  return matchPattern(value, m_Constant<SplatElementsAttr>(nullptr));
}

/// What is one value, or one row of values, in many places.
static bool isRepeated(Value value) {
  return isSplat(value) || value.getDefiningOp<BroadcastInDimOp>();
}

/// Whether a product made the value, but for elementwise work on it alone: the
/// product writes in any order.
static bool isOfProduct(Value value) {
  // Bounded, so that the time is linear in long chains.
  constexpr int maxOps = 32;
  Operation *op = value.getDefiningOp();
  for (int i = 0; i < maxOps && op && value.hasOneUse();
       ++i, op = value.getDefiningOp()) {
    if (isa<DotGeneralOp>(op))
      return true;
    if (!isElementwise(op))
      return false;
    Value only;
    for (Value operand : op->getOperands()) {
      if (isRepeated(operand))
        continue;
      if (only)
        return false;
      only = operand;
    }
    if (!only)
      return false;
    value = only;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// One movement
//===----------------------------------------------------------------------===//

namespace {

/// A transpose, or a reshape that merges dimensions: which dimensions of what
/// is moved are dimension i of the result. What is moved is `value` in the
/// shape `source`: a reshape that leaves out a first dimension of size 1, and
/// splits others, is one that splits, and one that leaves out.
struct Movement {
  Value value;
  SmallVector<int64_t> source, result; // shapes
  SmallVector<SmallVector<int64_t>> groups;
  bool isTranspose = false;

  static std::optional<Movement> get(Value value);

  bool isLike(const Movement &other) const {
    return isTranspose == other.isTranspose && groups == other.groups &&
           source == other.source;
  }
  Value getSource(OpBuilder &builder) const {
    return reshapeTo(builder, value.getLoc(), value, source);
  }
  /// The same movement of another value.
  Value apply(OpBuilder &builder, Location loc, Value value) const {
    if (!isTranspose)
      return reshapeTo(builder, loc, value, result);
    SmallVector<int64_t> dims;
    for (ArrayRef<int64_t> group : groups)
      dims.push_back(group.front());
    return TransposeOp::create(builder, loc, value, dims);
  }
  /// A value in the shape of the source that moves to `value`; null where that
  /// is not for nothing.
  Value undo(OpBuilder &builder, Value value) const;
  bool canUndo(Value value) const;
  std::optional<SmallVector<int64_t>>
  undoDims(BroadcastInDimOp op, SmallVectorImpl<int64_t> &) const;
};

} // namespace

/// Dimensions of `from` that each of `to` is made of; nothing where one of
/// `from` is split.
static std::optional<SmallVector<SmallVector<int64_t>>>
findMerged(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<SmallVector<int64_t>> groups(to.size());
  size_t at = 0;
  for (auto [i, size] : llvm::enumerate(to)) {
    int64_t merged = 1;
    while (at < from.size() && merged != size && size != 1) {
      merged *= from[at];
      groups[i].push_back(static_cast<int64_t>(at++));
    }
    if (merged != size)
      return std::nullopt;
  }
  for (; at < from.size(); ++at) {
    if (from[at] != 1 || to.empty())
      return std::nullopt;
    groups.back().push_back(static_cast<int64_t>(at));
  }
  return groups;
}

std::optional<Movement> Movement::get(Value value) {
  Movement movement;
  if (auto transpose = value.getDefiningOp<TransposeOp>()) {
    movement.isTranspose = true;
    for (int64_t d : transpose.getDims())
      movement.groups.push_back({d});
    movement.value = transpose.getInput();
    if (isOfProduct(movement.value))
      return std::nullopt;
    movement.source = llvm::to_vector(shapeOf(movement.value));
  } else if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    movement.value = reshape.getInput();
    movement.source = llvm::to_vector(shapeOf(movement.value));
    auto groups = findMerged(movement.source, shapeOf(value));
    if (!groups && !movement.source.empty() && movement.source.front() == 1 &&
        !shapeOf(value).empty() && shapeOf(value).front() != 1) {
      movement.source.assign(1, 1);
      llvm::append_range(movement.source, shapeOf(value));
      groups = findMerged(movement.source, shapeOf(value));
    }
    if (!groups)
      return std::nullopt;
    movement.groups = std::move(*groups);
  } else {
    return std::nullopt;
  }
  movement.result = llvm::to_vector(shapeOf(value));
  return movement;
}

/// Where the dimensions of what `op` broadcasts are in the source, and their
/// shape; nothing where they are in another order.
std::optional<SmallVector<int64_t>>
Movement::undoDims(BroadcastInDimOp op, SmallVectorImpl<int64_t> &shape) const {
  SmallVector<int64_t> dims;
  for (auto [size, dim] : llvm::zip_equal(shapeOf(op.getInput()), op.getDims()))
    for (int64_t d : groups[dim]) {
      bool isWhole = size == result[dim];
      if (!isWhole && d != groups[dim].front())
        continue;
      dims.push_back(d);
      shape.push_back(isWhole ? source[d] : size);
    }
  if (!llvm::is_sorted(dims))
    return std::nullopt;
  return dims;
}

bool Movement::canUndo(Value value) const {
  if (isSplat(value))
    return true;
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    SmallVector<int64_t> shape;
    return undoDims(broadcast, shape).has_value();
  }
  std::optional<Movement> other = get(value);
  return other && isLike(*other);
}

Value Movement::undo(OpBuilder &builder, Value value) const {
  RankedTensorType type = typeOf(value).clone(source);
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)))
    return arith::ConstantOp::create(
        builder, value.getLoc(),
        DenseElementsAttr::get(type, splat.getSplatValue<Attribute>()));
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    SmallVector<int64_t> shape;
    SmallVector<int64_t> dims = *undoDims(broadcast, shape);
    Value input =
        reshapeTo(builder, value.getLoc(), broadcast.getInput(), shape);
    return BroadcastInDimOp::create(builder, value.getLoc(), type, input, dims);
  }
  return get(value)->getSource(builder);
}

//===----------------------------------------------------------------------===//
// Movement after what reads it
//===----------------------------------------------------------------------===//

namespace {

/// Elementwise work.
struct SinkThroughElementwise : public RewritePattern {
  explicit SinkThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct SinkThroughReduce : public OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override;
};

struct SinkThroughReverse : public OpRewritePattern<ReverseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReverseOp op,
                                PatternRewriter &rewriter) const override;
};

/// A reshape of each part of what a transpose moves as one.
struct SinkTransposeThroughReshape : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override;
};

/// A product of merged rows has rows that are not merged.
struct SinkReshapeThroughDot : public OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DotGeneralOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult
SinkThroughElementwise::matchAndRewrite(Operation *op,
                                        PatternRewriter &rewriter) const {
  if (!isElementwise(op))
    return rewriter.notifyMatchFailure(op, "not elementwise");
  std::optional<Movement> movement;
  for (Value operand : op->getOperands())
    if (!movement && !isRepeated(operand))
      movement = Movement::get(operand);
  if (!movement)
    return rewriter.notifyMatchFailure(op, "reads nothing that is moved");
  for (Value operand : op->getOperands())
    if (!movement->canUndo(operand))
      return rewriter.notifyMatchFailure(op, "an operand is moved otherwise");
  auto isComputed = [](Operation *user) {
    return isElementwise(user) || isa<ReduceOp, ReverseOp, ReshapeOp>(user);
  };
  // What only an update reads stays in the shape of the update.
  auto isOfGraph = [&](Operation *user) {
    return isComputed(user) || isa<DotGeneralOp>(user);
  };
  if (!movement->isTranspose && llvm::none_of(op->getUsers(), isOfGraph))
    return rewriter.notifyMatchFailure(op, "nothing is computed of it");
  // A transpose should not move more bytes after a widening.
  if (movement->isTranspose && isa<arith::ExtFOp, arith::ExtSIOp>(op) &&
      !llvm::all_of(op->getUsers(), isComputed))
    return rewriter.notifyMatchFailure(op, "would move what is wider");
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(movement->undo(rewriter, operand));
  Operation *own = rewriter.clone(*op);
  own->setOperands(operands);
  own->getResult(0).setType(typeOf(op->getResult(0)).clone(movement->source));
  rewriter.replaceOp(
      op, movement->apply(rewriter, op->getLoc(), own->getResult(0)));
  return success();
}

LogicalResult
SinkThroughReduce::matchAndRewrite(ReduceOp op,
                                   PatternRewriter &rewriter) const {
  std::optional<Movement> movement = Movement::get(op.getInput());
  if (!movement)
    return rewriter.notifyMatchFailure(op, "operand is not moved");
  SmallVector<int64_t> dims, order;
  for (auto [i, group] : llvm::enumerate(movement->groups)) {
    bool isReduced = llvm::is_contained(op.getDims(), static_cast<int64_t>(i));
    llvm::append_range(isReduced ? dims : order, group);
  }
  if (dims.empty())
    return rewriter.notifyMatchFailure(op, "reduces dimensions of size 1");
  llvm::sort(dims);
  Value value = ReduceOp::create(rewriter, op.getLoc(), op.getReduction(),
                                 movement->getSource(rewriter), dims);
  // Where each dimension that is left has gone.
  SmallVector<int64_t> sorted(order);
  llvm::sort(sorted);
  for (int64_t &d : order)
    d = llvm::find(sorted, d) - sorted.begin();
  if (movement->isTranspose && !llvm::is_sorted(order))
    value = TransposeOp::create(rewriter, op.getLoc(), value, order);
  rewriter.replaceOp(
      op, reshapeTo(rewriter, op.getLoc(), value, shapeOf(op.getResult())));
  return success();
}

LogicalResult
SinkThroughReverse::matchAndRewrite(ReverseOp op,
                                    PatternRewriter &rewriter) const {
  std::optional<Movement> movement = Movement::get(op.getInput());
  if (!movement)
    return rewriter.notifyMatchFailure(op, "operand is not moved");
  SmallVector<int64_t> dims;
  for (int64_t d : op.getDims())
    llvm::append_range(dims, movement->groups[d]);
  llvm::sort(dims);
  Value own = ReverseOp::create(rewriter, op.getLoc(),
                                movement->getSource(rewriter), dims);
  rewriter.replaceOp(op, movement->apply(rewriter, op.getLoc(), own));
  return success();
}

LogicalResult
SinkTransposeThroughReshape::matchAndRewrite(ReshapeOp op,
                                             PatternRewriter &rewriter) const {
  auto transpose = op.getInput().getDefiningOp<TransposeOp>();
  if (!transpose || isOfProduct(transpose.getInput()))
    return rewriter.notifyMatchFailure(op, "operand is not transposed");
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getResult());
  // Parts of both shapes with as many elements: the first dimension of the
  // source, the shape before, the shape after.
  struct Part {
    int64_t first, firstAfter;
    SmallVector<int64_t> after;
  };
  SmallVector<Part> parts;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Part part{-1, static_cast<int64_t>(j), {}};
    int64_t before = 1, after = 1, last = -1;
    auto takeBefore = [&] {
      int64_t d = transpose.getDims()[i];
      if (from[i++] == 1)
        return true;
      before *= from[i - 1];
      bool follows = last < 0 || d == last + 1;
      last = d;
      part.first = part.first < 0 ? d : part.first;
      return follows;
    };
    auto takeAfter = [&] {
      after *= to[j];
      part.after.push_back(to[j++]);
    };
    bool isOne = i == from.size() || takeBefore();
    if (j < to.size())
      takeAfter();
    while (isOne && before != after) {
      if (before < after && i < from.size())
        isOne = takeBefore();
      else if (after < before && j < to.size())
        takeAfter();
      else
        return rewriter.notifyMatchFailure(op, "has no elements");
    }
    if (!isOne)
      return rewriter.notifyMatchFailure(op, "merges what was apart");
    if (part.first < 0) // dimensions of size 1 at the end
      part.first = parts.empty() ? 0 : parts.back().first;
    parts.push_back(std::move(part));
  }
  // Dimensions of size 1 first, then parts in the order of the source.
  SmallVector<size_t> order =
      llvm::to_vector(llvm::seq<size_t>(0, parts.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return parts[a].first < parts[b].first;
  });
  SmallVector<int64_t> shape, dims(to.size());
  for (bool isUnit : {true, false})
    for (size_t part : order)
      for (auto [k, size] : llvm::enumerate(parts[part].after))
        if ((size == 1) == isUnit) {
          dims[parts[part].firstAfter + k] = static_cast<int64_t>(shape.size());
          shape.push_back(size);
        }
  Value value = reshapeTo(rewriter, op.getLoc(), transpose.getInput(), shape);
  rewriter.replaceOpWithNewOp<TransposeOp>(op, value, dims);
  return success();
}

LogicalResult
SinkReshapeThroughDot::matchAndRewrite(DotGeneralOp op,
                                       PatternRewriter &rewriter) const {
  std::optional<Movement> movement = Movement::get(op.getLhs());
  if (!movement || movement->isTranspose || !op.getLhsBatchingDims().empty())
    return rewriter.notifyMatchFailure(op, "has no merged rows");
  // Rows come first, and what is summed over stays merged.
  SmallVector<int64_t> rows = op.getLhsFreeDims(), shape, contracted;
  if (rows.empty() || rows.back() != static_cast<int64_t>(rows.size()) - 1)
    return rewriter.notifyMatchFailure(op, "rows are not first");
  int64_t left = 0;
  for (auto [i, group] : llvm::enumerate(movement->groups)) {
    if (i < rows.size())
      for (int64_t d : group)
        shape.push_back(movement->source[d]);
    else
      shape.push_back(movement->result[i]);
    if (i + 1 == rows.size())
      left = static_cast<int64_t>(shape.size()) - rows.size();
  }
  if (ArrayRef(shape) == ArrayRef(movement->result))
    return rewriter.notifyMatchFailure(op, "has no merged rows");
  for (int64_t d : op.getLhsContractingDims())
    contracted.push_back(d + left);
  Value lhs = reshapeTo(rewriter, op.getLoc(), movement->value, shape);
  Value own = DotGeneralOp::create(rewriter, op.getLoc(), lhs, op.getRhs(),
                                   ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                   contracted, op.getRhsContractingDims());
  rewriter.replaceOp(
      op, reshapeTo(rewriter, op.getLoc(), own, shapeOf(op.getResult())));
  return success();
}

namespace {

struct SinkMovement : public mpcomm::impl::SinkMovementPassBase<SinkMovement> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<SinkThroughElementwise, SinkThroughReduce, SinkThroughReverse,
            SinkTransposeThroughReshape, SinkReshapeThroughDot>(context);
    ReshapeOp::getCanonicalizationPatterns(set, context);
    TransposeOp::getCanonicalizationPatterns(set, context);
    DotGeneralOp::getCanonicalizationPatterns(set, context);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getBody().hasOneBlock())
        (void)applyPatternsGreedily(function, patterns);
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
