//===- NarrowProducts.cpp - products that read 8 bits ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A contraction of two tensors that were widened from 8 bits can read the 8
// bits. Tensor cores of Ada and Hopper want both operands along what is summed
// (cuBLASLt, "Using FP8"): one that lies otherwise is transposed first, which
// moves 2 bytes an element where widening to 16 bits moves 3.
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpcomm;

namespace {
/// What an operand of a contraction is widened from.
struct Source {
  Value narrow;
  Operation *widening = nullptr;
  /// Views and transposes from it to the operand, the last first.
  SmallVector<Operation *> path;
};
} // namespace

static std::optional<Source> findSource(Value operand) {
  Source source;
  Operation *op = operand.getDefiningOp();
  while (isa_and_nonnull<linalg::TransposeOp, tensor::CollapseShapeOp,
                         tensor::ExpandShapeOp>(op)) {
    source.path.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  if (!op || !isWidening(op) || !isF8OfTensorCores(op->getOperand(0).getType()))
    return std::nullopt;
  auto widening = cast<linalg::GenericOp>(op);
  if (!llvm::all_of(widening.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return std::nullopt;
  source.narrow = widening.getDpsInputs().front();
  source.widening = op;
  return source;
}

/// The operand, in 8 bits.
static Value moveNarrow(OpBuilder &builder, const Source &source) {
  Value value = source.narrow;
  Type element = getElementTypeOrSelf(value);
  for (Operation *op : llvm::reverse(source.path)) {
    if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
      value = transposeTensor(builder, op->getLoc(), value,
                              transpose.getPermutation());
      continue;
    }
    Operation *view = builder.clone(*op);
    view->setOperand(0, value);
    view->getResult(0).setType(
        cast<RankedTensorType>(op->getResult(0).getType()).clone(element));
    value = view->getResult(0);
  }
  return value;
}

/// `wide`: gets what widened and moved the operands before.
static void readNarrow(linalg::ContractOp op,
                       llvm::SetVector<Operation *> &wide) {
  if (!op.hasPureTensorSemantics())
    return;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  if (!result.hasStaticShape())
    return;
  std::optional<Source> sources[2];
  SmallVector<int64_t> lists[3];
  for (auto [list, map] : llvm::zip_equal(lists, op.getIndexingMapsArray()))
    for (AffineExpr expr : map.getResults())
      list.push_back(cast<AffineDimExpr>(expr).getPosition());
  OperandLoops loops = {lists[0], lists[1]};
  auto numParallel = static_cast<int64_t>(op.getNumParallelLoops());
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  // As dot_general has them: parallel loops first.
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  bool isOrdered = llvm::all_of(ArrayRef(kinds).take_front(numParallel),
                                [](utils::IteratorType kind) {
                                  return kind == utils::IteratorType::parallel;
                                });
  if (!isOrdered || llvm::is_contained(sizes, ShapedType::kDynamic))
    return;
  for (unsigned side : {0u, 1u})
    if (!(sources[side] = findSource(op.getInputs()[side])))
      return;
  std::optional<OperandLoops> sorted = orderForTensorCoresOfF8(
      sizes, numParallel, loops, lists[2], sources[0]->narrow.getType(),
      sources[1]->narrow.getType(), result);
  if (!sorted)
    return;
  OpBuilder builder(op);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<Value, 2> inputs;
  for (unsigned side : {0u, 1u}) {
    Value value = moveNarrow(builder, *sources[side]);
    if ((*sorted)[side] != loops[side])
      value = sortByLoop(builder, op.getLoc(), value, loops[side]);
    inputs.push_back(value);
    SmallVector<AffineExpr> exprs;
    for (int64_t loop : loops[side])
      exprs.push_back(builder.getAffineDimExpr(static_cast<unsigned>(loop)));
    maps[side] =
        AffineMap::get(op.getNumLoops(), 0, exprs, builder.getContext());
  }
  auto narrow = linalg::ContractOp::create(
      builder, op.getLoc(), op->getResultTypes(), inputs, op.getOutputs(),
      builder.getAffineMapArrayAttr(maps));
  for (const std::optional<Source> &source : sources) {
    wide.insert(source->path.begin(), source->path.end());
    wide.insert(source->widening);
  }
  op->replaceAllUsesWith(narrow->getResults());
  op->erase();
}

void mpcomm::readNarrowOperands(Operation *root) {
  SmallVector<linalg::ContractOp> ops;
  root->walk([&](linalg::ContractOp op) { ops.push_back(op); });
  llvm::SetVector<Operation *> wide;
  for (linalg::ContractOp op : ops)
    readNarrow(op, wide);
  // One may be what another one reads.
  while (wide.remove_if([](Operation *op) {
    bool isUnused = isOpTriviallyDead(op);
    if (isUnused)
      op->erase();
    return isUnused;
  })) {
  }
}
