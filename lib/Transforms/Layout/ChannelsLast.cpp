//===- ChannelsLast.cpp - activations with the channels last --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk in program order. An op that moves to the other layout leaves a
// transpose back to the old one after it for whoever still wants that; ops
// that come later and can work in the new layout look through it. What nobody
// wanted is erased at the end.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_CHANNELSLASTPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-channels-last"

using namespace mlir;
using namespace mpcomm;

/// Dimension i of the new layout is dimension kToLast[i] of the old, and back.
static constexpr int64_t kToLast[] = {0, 2, 3, 1};
static constexpr int64_t kToFirst[] = {0, 3, 1, 2};

static RankedTensorType permuted(Type type, ArrayRef<int64_t> dims) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape;
  for (int64_t d : dims)
    shape.push_back(tensor.getDimSize(d));
  return RankedTensorType::get(shape, tensor.getElementType());
}

static bool isActivation(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 4 && tensor.hasStaticShape();
}

/// Whether the dimensions that have more than one element keep their order.
static bool movesUnits(Type type, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> moved;
  for (int64_t d : dims)
    if (cast<RankedTensorType>(type).getDimSize(d) != 1)
      moved.push_back(d);
  return llvm::is_sorted(moved);
}

/// The value with its dimensions permuted: an operand of a transpose, or a
/// reshape, where that is all.
static Value transpose(OpBuilder &builder, Location loc, Value value,
                       ArrayRef<int64_t> dims) {
  SmallVector<int64_t> order(dims);
  if (auto before = value.getDefiningOp<TransposeOp>()) {
    for (int64_t &d : order)
      d = before.getDims()[d];
    value = before.getInput();
  }
  if (llvm::equal(order, llvm::seq<int64_t>(0, order.size())))
    return value;
  RankedTensorType type = permuted(value.getType(), order);
  if (movesUnits(value.getType(), order))
    return ReshapeOp::create(builder, loc, type, value);
  return TransposeOp::create(builder, loc, type, value, order);
}

namespace {

/// Rewrites one block.
class Layout {
public:
  explicit Layout(Block &block) : block(block), builder(block.getParentOp()) {}

  void run();
  /// Ops that have moved, and transposes of activations that are left.
  int64_t moved = 0, transposes = 0;

private:
  bool hasLast(Value value) const;
  Value getLast(Value value, Operation *user);
  void move(Operation *op, ArrayRef<unsigned> operands,
            ArrayRef<unsigned> results);
  bool moveImages(Operation *op);
  bool moveElementwise(Operation *op);
  void moveReduce(ReduceOp op);
  void moveTranspose(TransposeOp op);

  Block &block;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> last;
  SmallVector<Operation *> backward; // transposes to the old layout
};

} // namespace

/// Whether the value is there with its channels last.
bool Layout::hasLast(Value value) const {
  auto before = value.getDefiningOp<TransposeOp>();
  return last.contains(value) ||
         (before && before.getDims() == ArrayRef(kToFirst));
}

/// The value with its channels last, ahead of `user`.
Value Layout::getLast(Value value, Operation *user) {
  Value &result = last[value];
  if (result)
    return result;
  builder.setInsertionPoint(user);
  Location loc = value.getLoc();
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat()) {
    auto type = permuted(value.getType(), kToLast);
    return result = arith::ConstantOp::create(
               builder, loc,
               DenseElementsAttr::get(type,
                                      constant.getSplatValue<Attribute>()));
  }
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    SmallVector<int64_t> dims;
    for (int64_t d : broadcast.getDims())
      dims.push_back(llvm::find(kToLast, d) - kToLast);
    if (llvm::is_sorted(dims))
      return result = BroadcastInDimOp::create(
                 builder, loc, permuted(value.getType(), kToLast),
                 broadcast.getInput(), dims);
  }
  return result = transpose(builder, loc, value, kToLast);
}

/// Replaces `op` by a copy that reads `operands` and makes `results` with their
/// channels last.
void Layout::move(Operation *op, ArrayRef<unsigned> operands,
                  ArrayRef<unsigned> results) {
  for (unsigned i : operands)
    (void)getLast(op->getOperand(i), op);
  builder.setInsertionPoint(op);
  Operation *copy = builder.clone(*op);
  for (unsigned i : operands)
    copy->setOperand(i, last.lookup(op->getOperand(i)));
  if (auto images = dyn_cast<FeatureLayoutOpInterface>(copy))
    images.setFeaturesLast();
  else if (auto concat = dyn_cast<ConcatenateOp>(copy))
    concat.setDim(llvm::find(kToLast, int64_t(concat.getDim())) - kToLast);
  builder.setInsertionPointAfter(copy);
  for (auto [i, result] : llvm::enumerate(copy->getResults())) {
    Value replacement = result;
    if (llvm::is_contained(results, i)) {
      result.setType(permuted(result.getType(), kToLast));
      auto back =
          TransposeOp::create(builder, op->getLoc(), op->getResult(i).getType(),
                              result, ArrayRef(kToFirst));
      backward.push_back(back);
      replacement = back;
      last[replacement] = result;
    }
    op->getResult(i).replaceAllUsesWith(replacement);
  }
  for (Value result : op->getResults())
    last.erase(result);
  op->erase();
  ++moved;
}

/// Moves ops that are the reason for all this.
bool Layout::moveImages(Operation *op) {
  auto images = dyn_cast<FeatureLayoutOpInterface>(op);
  if (!images || !images.hasFeaturesSecond())
    return false;
  move(op, images.getImageOperands(), images.getImageResults());
  return true;
}

/// Moves an op that works element by element, or joins activations, where one
/// of its operands is there with its channels last.
bool Layout::moveElementwise(Operation *op) {
  bool elementwise = OpTrait::hasElementwiseMappableTraits(op) ||
                     isa<GeluOp, GeluGradOp, ConcatenateOp>(op);
  if (!elementwise || op->getNumResults() != 1 ||
      !isActivation(op->getResult(0).getType()))
    return false;
  SmallVector<unsigned> operands;
  bool any = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<ShapedType>(operand.get().getType()))
      continue;
    if (!isActivation(operand.get().getType()))
      return false;
    operands.push_back(operand.getOperandNumber());
    any |= hasLast(operand.get());
  }
  if (any)
    move(op, operands, {0});
  return any;
}

/// A reduction that keeps the order of the dimensions that stay.
void Layout::moveReduce(ReduceOp op) {
  if (!isActivation(op.getInput().getType()) || !hasLast(op.getInput()))
    return;
  SmallVector<int64_t> dims, kept;
  for (int64_t d = 0; d < 4; ++d) {
    bool reduced = llvm::is_contained(op.getDims(), kToLast[d]);
    (reduced ? dims : kept).push_back(reduced ? d : kToLast[d]);
  }
  if (!llvm::is_sorted(kept))
    return;
  Value input = getLast(op.getInput(), op);
  op.getInputMutable().assign(input);
  op.setDims(dims);
  ++moved;
}

/// A transpose of what is there in both layouts.
void Layout::moveTranspose(TransposeOp op) {
  if (llvm::is_contained(backward, op.getOperation()) ||
      !isActivation(op.getInput().getType()) || !last.contains(op.getInput()))
    return;
  SmallVector<int64_t> dims;
  for (int64_t d : op.getDims())
    dims.push_back(llvm::find(kToLast, d) - kToLast);
  builder.setInsertionPoint(op);
  Value result =
      transpose(builder, op.getLoc(), last.lookup(op.getInput()), dims);
  op.getResult().replaceAllUsesWith(result);
  op.erase();
}

void Layout::run() {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (moveImages(&op) || moveElementwise(&op))
      continue;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      moveReduce(reduce);
    else if (auto moving = dyn_cast<TransposeOp>(op))
      moveTranspose(moving);
  }
  // What was only there for ops that have moved, last first.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<TransposeOp, BroadcastInDimOp, ReshapeOp, arith::ConstantOp>(op) &&
        op.use_empty())
      op.erase();
  for (auto op : llvm::make_early_inc_range(block.getOps<TransposeOp>())) {
    if (movesUnits(op.getInput().getType(), op.getDims())) {
      builder.setInsertionPoint(op);
      op.getResult().replaceAllUsesWith(ReshapeOp::create(
          builder, op.getLoc(), op.getResult().getType(), op.getInput()));
      op.erase();
      continue;
    }
    transposes += isActivation(op.getResult().getType());
  }
}

namespace {

struct ChannelsLast : public mpcomm::impl::ChannelsLastPassBase<ChannelsLast> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock())
        continue;
      Layout layout(function.getBody().front());
      layout.run();
      remark::analysis(function.getLoc(),
                       remark::RemarkOpts::name("ChannelsLast")
                           .category(DEBUG_TYPE)
                           .function(function.getName()))
          << remark::metric("moved", layout.moved)
          << remark::metric("transposes", layout.transposes);
    }
  }
};

} // namespace
