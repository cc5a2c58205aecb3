//===- StepModelLayout.cpp - what is read and written where it lies -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds what nobody moves (docs/Design/CostModel.md, "Windows"): reshapes,
// slices of which all readers take strides, transposes that go into products,
// and parts of a concatenation that are made in their places.
//
// A window has borders: dimensions that lie apart from the one before, so that
// no reshape can join the two. They are numbers of dimensions.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;

using Borders = SmallVector<int64_t, 2>;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether an op gives its operand another shape or name: it costs nothing, and
/// takes one tensor to one tensor.
static bool isReshape(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getNumRegions() != 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()) ||
      !isa<RankedTensorType>(op->getOperand(0).getType()))
    return false;
  return cost.getFlops() == 0 && cost.getBytesRead() == 0 &&
         cost.getBytesWritten() == 0;
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Whether an op reads and writes tensors that lie in larger ones.
bool StepBuilder::takesStrides(Operation *op) const {
  return isa<DotGeneralOp, AttentionOp, AttentionGradOp, SliceOp>(op) ||
         hasNests(step.getPosition(op));
}

/// Adds that dimension `dim` of `shape` lies apart from the one before, if
/// there are any elements before.
static void addBorder(ArrayRef<int64_t> shape, size_t dim, Borders &borders) {
  if (dim < shape.size() && llvm::product_of(shape.take_front(dim)) != 1)
    borders.push_back(static_cast<int64_t>(dim));
}

/// The borders of a slice of what lies in one piece.
static Borders getBorders(SliceOp op) {
  Borders borders;
  ArrayRef<int64_t> from = getShape(op.getInput()), to = getShape(op);
  for (auto [d, stride] : llvm::enumerate(op.getStrides())) {
    if (from[d] != to[d])
      addBorder(to, d, borders);
    if (stride != 1 && to[d] > 1)
      addBorder(to, d + 1, borders);
  }
  return borders;
}

/// The borders in another shape of the same elements; nothing where it has a
/// dimension across one.
static std::optional<Borders> reshapeBorders(ArrayRef<int64_t> borders,
                                             ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> to) {
  Borders moved;
  for (int64_t border : borders) {
    int64_t before = llvm::product_of(from.take_front(border)), product = 1;
    size_t dim = 0;
    while (dim < to.size() && product < before)
      product *= to[dim++];
    if (product != before)
      return std::nullopt;
    addBorder(to, dim, moved);
  }
  return moved;
}

/// Whether all that reads a value, but for `writer`, can read it as a window.
/// What `writer` writes is no slice of its own.
bool StepBuilder::canLieApart(Value value, ArrayRef<int64_t> borders,
                              Operation *writer) const {
  SmallVector<std::pair<Value, Borders>> views{{value, Borders(borders)}};
  while (!views.empty()) {
    auto [view, apart] = views.pop_back_val();
    for (Operation *user : view.getUsers()) {
      if (user == writer)
        continue;
      int op = step.getPosition(user);
      if (op < 0 || op >= numOps)
        return false;
      if (!isReshape(user)) {
        if (!takesStrides(user) || (writer && isa<SliceOp>(user)))
          return false;
        continue;
      }
      Value result = user->getResult(0);
      auto moved = reshapeBorders(apart, getShape(view), getShape(result));
      if (!moved)
        return false;
      views.emplace_back(result, std::move(*moved));
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Transposes
//===----------------------------------------------------------------------===//

namespace {
/// The loops of products, with the transposes that went into them.
class Products {
public:
  bool takes(TransposeOp op);

private:
  ProductLoops get(DotGeneralOp op) const {
    auto found = known.find(op);
    return found == known.end() ? ProductLoops(op) : found->second;
  }
  static bool isOne(const ProductLoops &loops) {
    return loops.sizes.size() > loops.numParallel &&
           isStridedProduct(loops.sizes, loops.lhs, loops.rhs, loops.result);
  }

  llvm::DenseMap<Operation *, ProductLoops> known;
};
} // namespace

/// The product of which elementwise work makes `value` for one user, or that
/// makes it; null where there is none.
static DotGeneralOp getProduct(Value value) {
  if (auto product = value.getDefiningOp<DotGeneralOp>())
    return product;
  Operation *work = value.getDefiningOp();
  if (!work || !work->hasOneUse() || work->getNumResults() != 1 ||
      !OpTrait::hasElementwiseMappableTraits(work))
    return {};
  Value only; // the operand that is neither repeated nor a constant
  for (Value operand : work->getOperands()) {
    if (operand.getDefiningOp<BroadcastInDimOp>() ||
        matchPattern(operand, m_Constant<SplatElementsAttr>(nullptr)))
      continue;
    if (only)
      return {};
    only = operand;
  }
  return only ? only.getDefiningOp<DotGeneralOp>() : DotGeneralOp();
}

/// Whether the product that makes the operand, for this op alone, or all users,
/// which are products, do without the transpose.
bool Products::takes(TransposeOp op) {
  std::vector<std::pair<Operation *, ProductLoops>> changed;
  DotGeneralOp product = getProduct(op.getInput());
  if (product && product->hasOneUse()) {
    ProductLoops loops = get(product);
    SmallVector<int64_t> result;
    for (int64_t dim : op.getDims())
      result.push_back(loops.result[dim]);
    loops.result = std::move(result);
    if (isOne(loops)) {
      known.insert_or_assign(product, std::move(loops));
      return true;
    }
  }
  Value result = op.getResult();
  for (Operation *user : result.getUsers()) {
    auto reader = dyn_cast<DotGeneralOp>(user);
    if (!reader)
      return false;
    ProductLoops loops = get(reader);
    auto move = [&](Value operand, SmallVector<int64_t> &own) {
      if (operand != result)
        return;
      SmallVector<int64_t> moved(own.size());
      for (auto [i, dim] : llvm::enumerate(op.getDims()))
        moved[dim] = own[i];
      own = std::move(moved);
    };
    move(reader.getLhs(), loops.lhs);
    move(reader.getRhs(), loops.rhs);
    if (!isOne(loops))
      return false;
    changed.emplace_back(reader, std::move(loops));
  }
  for (auto &[reader, loops] : changed)
    known.insert_or_assign(reader, std::move(loops));
  return !changed.empty();
}

void StepBuilder::findViews() {
  Products products;
  llvm::DenseMap<int, Borders> bordersOf; // of views
  root.resize(values.size());
  for (size_t value = 0; value < values.size(); ++value)
    root[value] = static_cast<int>(value);
  isView.assign(ops.size(), false);
  for (int op = 0; op < numOps; ++op) {
    auto slice = dyn_cast<SliceOp>(ops[op]);
    auto transpose = dyn_cast<TransposeOp>(ops[op]);
    if (!slice && !transpose && !isReshape(ops[op]))
      continue;
    Value input = ops[op]->getOperand(0), result = ops[op]->getResult(0);
    int from = getNumber(input);
    // A graph region may have uses before definitions.
    if (from < 0 || from >= step.firstResult[op])
      continue;
    Borders borders = bordersOf.lookup(from);
    if (slice) {
      llvm::append_range(borders, getBorders(slice));
      if (slice.getType().getNumElements() == 0 ||
          !canLieApart(result, borders, /*writer=*/nullptr))
        continue;
    } else if (transpose) {
      // Who reads it, or makes it, is a product: no reshape comes across a
      // border.
      if (!products.takes(transpose))
        continue;
      borders.clear();
    } else if (!borders.empty()) {
      auto moved = reshapeBorders(borders, getShape(input), getShape(result));
      borders = moved ? std::move(*moved) : Borders();
    }
    isView[op] = true;
    root[step.firstResult[op]] = root[from];
    if (!borders.empty())
      bordersOf[step.firstResult[op]] = std::move(borders);
  }
}

//===----------------------------------------------------------------------===//
// Concatenations
//===----------------------------------------------------------------------===//

bool StepBuilder::isMadeInPlace(ConcatenateOp op, Value part) const {
  Borders borders;
  addBorder(getShape(part), op.getDim(), borders);
  Operation *def = part.getDefiningOp();
  while (def && isReshape(def)) {
    Value input = def->getOperand(0);
    auto moved = reshapeBorders(borders, getShape(part), getShape(input));
    if (!moved)
      return false;
    borders = std::move(*moved);
    part = input;
    def = part.getDefiningOp();
  }
  return def && step.getPosition(def) >= 0 && takesStrides(def) &&
         !isa<SliceOp>(def) && canLieApart(part, borders, op);
}

void StepBuilder::findPieces() {
  // The one concatenation that a value is for.
  constexpr int several = -1;
  llvm::DenseMap<int, int> wholeOf;
  auto forEachInput = [&](llvm::function_ref<void(int, Value, int)> visit) {
    for (int op = 0; op < numOps; ++op)
      if (auto concatenate = dyn_cast<ConcatenateOp>(ops[op]))
        for (Value input : concatenate.getInputs())
          visit(op, input, getNumber(input));
  };
  forEachInput([&](int op, Value, int value) {
    if (value < 0)
      return;
    int &whole = wholeOf.try_emplace(root[value], op).first->second;
    if (whole != op)
      whole = several;
  });
  forEachInput([&](int op, Value input, int value) {
    if (value >= 0 && value < step.firstResult[op] &&
        wholeOf.lookup(root[value]) == op &&
        isMadeInPlace(cast<ConcatenateOp>(ops[op]), input)) {
      placed[op].push_back(root[value]);
      wholeOf[root[value]] = several; // there is one place
      return;
    }
    copied[op].push_back(countBytes(input.getType()));
  });
}
