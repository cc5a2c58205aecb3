//===- HoistReverse.cpp - reversals before what computes ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel reads a tensor in reversed order as well as in its own, but the
// tensor must be in memory. So what is reversed is what is in memory already,
// and elementwise work for the reversal alone is done on reversed operands.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_HOISTREVERSEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

/// Most ops, one on another, that are moved.
static constexpr unsigned kMaxDepth = 64;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// For each dimension of `coarse` those of `fine` that it is split into;
/// nothing where `fine` is no such split.
static std::optional<SmallVector<SmallVector<int64_t>>>
findSplit(ArrayRef<int64_t> coarse, ArrayRef<int64_t> fine) {
  SmallVector<SmallVector<int64_t>> groups(coarse.size());
  size_t at = 0;
  for (auto [group, size] : llvm::zip_equal(groups, coarse)) {
    int64_t have = 1;
    do {
      if (at == fine.size())
        return std::nullopt;
      have *= fine[at];
      group.push_back(static_cast<int64_t>(at++));
    } while (have < size);
    if (have != size)
      return std::nullopt;
  }
  if (at != fine.size())
    return std::nullopt;
  return groups;
}

namespace {

/// Makes the operand of one reversal, reshaped to `shape`, reversed.
class Hoister {
public:
  explicit Hoister(ReverseOp op)
      : op(op), builder(op), shape(typeOf(op.getResult()).getShape()) {}

  /// Whether work between the reversal and memory was moved.
  bool run();

private:
  bool isMovable(Operation *maker) const;
  Value reverse(Value value, unsigned depth = 0);
  Value reverseBroadcast(BroadcastInDimOp broadcast);

  ReverseOp op;
  OpBuilder builder;
  ArrayRef<int64_t> shape;
};

} // namespace

/// Elementwise work for nobody else, or a widening, which costs nothing to do
/// again.
bool Hoister::isMovable(Operation *maker) const {
  if (!maker || maker->getBlock() != op->getBlock() ||
      !OpTrait::hasElementwiseMappableTraits(maker) ||
      maker->getNumResults() != 1 ||
      !llvm::all_of(maker->getOperandTypes(),
                    llvm::IsaPred<RankedTensorType>) ||
      !findSplit(typeOf(maker->getResult(0)).getShape(), shape))
    return false;
  return maker->hasOneUse() || isa<arith::ExtFOp>(maker);
}

Value Hoister::reverseBroadcast(BroadcastInDimOp broadcast) {
  Location loc = broadcast.getLoc();
  auto groups = findSplit(typeOf(broadcast.getResult()).getShape(), shape);
  RankedTensorType type = typeOf(broadcast.getInput());
  SmallVector<int64_t> dims, sizes, reversed;
  for (auto [size, d] : llvm::zip_equal(type.getShape(), broadcast.getDims())) {
    bool isWhole = size == typeOf(broadcast.getResult()).getDimSize(d);
    for (int64_t part : (*groups)[d]) {
      if (!isWhole && part != (*groups)[d].front())
        continue;
      if (isWhole && llvm::is_contained(op.getDims(), part))
        reversed.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(part);
      sizes.push_back(isWhole ? shape[part] : size);
    }
  }
  Value input = reshapeTo(builder, loc, broadcast.getInput(), sizes);
  if (!reversed.empty())
    input = ReverseOp::create(builder, loc, input, reversed);
  return BroadcastInDimOp::create(builder, loc, type.clone(shape), input, dims);
}

Value Hoister::reverse(Value value, unsigned depth) {
  Operation *maker = value.getDefiningOp();
  RankedTensorType type = typeOf(value).clone(shape);
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)))
    return arith::ConstantOp::create(
        builder, value.getLoc(),
        DenseElementsAttr::get(type, splat.getSplatValue<Attribute>()));
  if (depth < kMaxDepth && isMovable(maker)) {
    SmallVector<Value> operands;
    for (Value operand : maker->getOperands())
      operands.push_back(reverse(operand, depth + 1));
    Operation *own = builder.clone(*maker);
    own->setOperands(operands);
    own->getResult(0).setType(type);
    return own->getResult(0);
  }
  if (auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(maker))
    if (findSplit(typeOf(value).getShape(), shape))
      return reverseBroadcast(broadcast);
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(maker))
    if (depth < kMaxDepth && isMovable(reshape.getInput().getDefiningOp()))
      return reverse(reshape.getInput(), depth + 1);
  value = reshapeTo(builder, value.getLoc(), value, shape);
  return ReverseOp::create(builder, op.getLoc(), value, op.getDims());
}

bool Hoister::run() {
  Value input = op.getInput();
  while (auto reshape = input.getDefiningOp<ReshapeOp>())
    input = reshape.getInput();
  if (!isMovable(input.getDefiningOp()) &&
      !input.getDefiningOp<BroadcastInDimOp>())
    return false;
  // The reshape between reads what it read for nobody else.
  for (Value value = op.getInput(); value != input;
       value = value.getDefiningOp()->getOperand(0))
    if (!value.hasOneUse() && !isa<arith::ExtFOp>(input.getDefiningOp()))
      return false;
  Value result = reverse(op.getInput());
  op.getResult().replaceAllUsesWith(result);
  op.erase();
  return true;
}

/// Erases what was computed for a reversal only.
static void eraseDead(Operation *op) {
  llvm::SmallSetVector<Operation *, 8> maybeDead;
  maybeDead.insert(op);
  while (!maybeDead.empty()) {
    Operation *dead = maybeDead.pop_back_val();
    if (!isOpTriviallyDead(dead))
      continue;
    for (Value operand : dead->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        maybeDead.insert(maker);
    dead->erase();
  }
}

namespace {

struct HoistReverse : public mpcomm::impl::HoistReversePassBase<HoistReverse> {
  void runOnOperation() override {
    getOperation().walk([](func::FuncOp function) {
      SmallVector<ReverseOp> ops;
      function.walk([&](ReverseOp op) { ops.push_back(op); });
      for (ReverseOp op : ops) {
        Operation *last = op;
        if (Operation *maker = op.getInput().getDefiningOp())
          last = maker;
        if (Hoister(op).run())
          eraseDead(last);
      }
    });
  }
};

} // namespace
