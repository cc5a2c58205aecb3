//===- GPUColumns.cpp - what a kernel asks of one column ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loss compares each column with the row's target. What comes of that in one
// column is computed for the row, or for the one chunk that has the column, and
// all others do without: with thousands of classes, the comparisons would take
// more instructions than the rest.
//
//===----------------------------------------------------------------------===//

#include "Kernels/GPU/GPUEmitterImpl.h"
#include "Kernels/GPU/GPUReduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace mpcomm::kernels {

/// Whether a value of the body of `op` may differ from column to column.
static bool dependsOnColumn(const KernelModel &model, linalg::LinalgOp op,
                            Value value, llvm::DenseMap<Value, bool> &known) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != op.getBlock())
      return false;
    OpOperand *operand = op.getMatchingOpOperand(argument);
    if (auto access = model.accesses.find(operand);
        access != model.accesses.end())
      return model.alongColumn(access->second);
    auto result = model.results.find(operand->get());
    return result != model.results.end() &&
           result->second.kind == ResultKind::Element;
  }
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Operation *inner = value.getDefiningOp();
  if (inner->getBlock() != op.getBlock())
    return false;
  if (auto index = dyn_cast<linalg::IndexOp>(inner))
    return model.loops.find(op)->second[index.getDim()] == model.column();
  bool depends = isa<tensor::ExtractOp>(inner) ||
                 llvm::any_of(inner->getOperands(), [&](Value operand) {
                   return dependsOnColumn(model, op, operand, known);
                 });
  known[value] = depends;
  return depends;
}

static bool dependsOnColumn(const KernelModel &model, linalg::LinalgOp op,
                            Value value) {
  llvm::DenseMap<Value, bool> known;
  return dependsOnColumn(model, op, value, known);
}

/// What `compare` compares the column with, a value of the row; null if it does
/// something else.
static Value placeOf(const KernelModel &model, const Evaluator &eval,
                     linalg::LinalgOp op, arith::CmpIOp compare) {
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq)
    return {};
  Value place = compare.getRhs(), column = compare.getLhs();
  if (!eval.isColumnIndex(op, column))
    std::swap(place, column);
  if (!eval.isColumnIndex(op, column) || dependsOnColumn(model, op, place))
    return {};
  return place;
}

/// `place`, a value of the row, as an index.
static Value toIndex(OpBuilder &b, Location loc, Value place) {
  if (place.getType().isIndex())
    return place;
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), place);
}

/// A sum of `select(column == place, value, 0)` over a row is the value at that
/// place, if there is such a column: gives the place, or null.
static Value matchPicked(const KernelModel &model, const Evaluator &eval,
                         const KernelResult &result) {
  auto select = result.term.getDefiningOp<arith::SelectOp>();
  if (result.kind != ResultKind::RowReduce || !select ||
      !isa<arith::AddFOp>(result.combiner) || model.columns() == 0)
    return {};
  OpOperand &init = *result.op.getDpsInitOperand(result.index);
  auto zero = dyn_cast_or_null<FloatAttr>(matchUniformTensor(init.get()));
  if (!zero || !zero.getValue().isPosZero() ||
      !matchPattern(select.getFalseValue(), m_PosZeroFloat()))
    return {};
  return placeOf(model, eval, result.op,
                 select.getCondition().getDefiningOp<arith::CmpIOp>());
}

/// The same; null, too, if other threads of the row may have replaced the value
/// when it is read.
Value GPUEmitter::pickedPlace(Value tensor) const {
  Value place = matchPicked(model, eval, model.results.find(tensor)->second);
  bool stores = llvm::any_of(model.stores, [&](const Store &store) {
    return model.results.find(store.value)->second.kind == ResultKind::Element;
  });
  if (!place || !stores)
    return place;
  // Elements are stored in the last pass: a sum that is added up before keeps
  // the threads of a row together.
  bool meet = llvm::any_of(model.order, [&](Value value) {
    const KernelResult &other = model.results.find(value)->second;
    int pass = schedule.passes.pass.lookup(value);
    return other.kind == ResultKind::RowReduce &&
           pass >= schedule.passes.pass.lookup(tensor) &&
           pass < schedule.passes.lastPass() &&
           !matchPicked(model, eval, other);
  });
  return meet ? place : Value();
}

/// Takes such a sum, which is one of the present pass, from its place.
void GPUEmitter::pickColumn(Value tensor, Value place,
                            MutableArrayRef<GPURow> rows) {
  const KernelResult &result = model.results.find(tensor)->second;
  auto select = result.term.getDefiningOp<arith::SelectOp>();
  Value zero =
      eval.body(result.op, select.getFalseValue(), rows[0].row, nullptr);
  for (GPURow &row : rows) {
    Value column =
        toIndex(eval.code, loc, eval.body(result.op, place, row.row, nullptr));
    Value exists = isLess(eval.code, loc, column, model.columns());
    Chunk chunk;
    chunk.start = selectValid(eval.code, loc, exists, column, number(0));
    chunk.width = chunk.active = 1;
    Value value = eval.body(result.op, select.getTrueValue(), row.row, &chunk);
    if (lanesOf(value))
      value = vector::ExtractOp::create(eval.code, loc, value, 0);
    value = selectValid(eval.code, loc, exists, value, zero);
    row.row.values[tensor] =
        combine(eval.code, loc, result.combiner, zero, value);
  }
  if (schedule.group > 1 && schedule.group <= kWarp)
    NVVM::SyncWarpOp::create(
        eval.code, loc, arith::ConstantIntOp::create(eval.code, loc, -1, 32));
}

//===----------------------------------------------------------------------===//
// Rare cases
//===----------------------------------------------------------------------===//

/// Collects them from what elements are computed of.
void GPUEmitter::findRareCases() {
  SmallVector<Value> open;
  llvm::SmallDenseSet<Value> seen;
  auto visit = [&](Value value) {
    auto known = model.results.find(value);
    if (known != model.results.end() &&
        known->second.kind == ResultKind::Element && seen.insert(value).second)
      open.push_back(value);
  };
  for (const Store &store : model.stores)
    visit(store.value);
  llvm::SmallDenseSet<Operation *> done;
  bool hasColumn = false;
  while (!open.empty()) {
    linalg::LinalgOp op = model.results.find(open.pop_back_val())->second.op;
    for (Value operand : op->getOperands())
      visit(operand);
    if (!done.insert(op).second)
      continue;
    for (Operation &inner : *op.getBlock()) {
      auto compare = dyn_cast<arith::CmpIOp>(inner);
      if (!compare)
        continue;
      Value place = placeOf(model, eval, op, compare);
      bool isOfRow = compare.getPredicate() == arith::CmpIPredicate::ne &&
                     !dependsOnColumn(model, op, compare.getResult());
      if (place || isOfRow)
        rareCases.push_back({op, compare, place});
      hasColumn |= place != nullptr;
    }
  }
  // Those of rows alone are not worth a branch.
  if (!hasColumn || schedule.vector == 1)
    rareCases.clear();
}

/// What is stored of a piece, as it is in memory: one value a store of
/// elements.
SmallVector<Value> GPUEmitter::elementsOf(GPURow &row, Piece &piece) {
  SmallVector<Value> elements;
  for (const Store &store : model.stores) {
    if (model.results.find(store.value)->second.kind != ResultKind::Element)
      continue;
    Value value = eval.lanes(eval.result(store.value, row.row, &piece.chunk),
                             row.row, piece.chunk);
    elements.push_back(
        toMemory(eval.code, loc, value, eval.elementOf(store.access.argument)));
  }
  return elements;
}

/// The same, as if there were no rare cases, and once more in a branch for a
/// chunk that has one.
SmallVector<Value> GPUEmitter::usualElementsOf(GPURow &row, Piece &piece) {
  if (rareCases.empty())
    return elementsOf(row, piece);
  Value isRare;
  auto addCase = [&](Value condition) {
    isRare = isRare ? arith::OrIOp::create(eval.code, loc, isRare, condition)
                    : condition;
  };
  Type i32 = eval.code.getI32Type();
  for (RareCase &one : rareCases) {
    if (!one.place) {
      Value isUsual = eval.body(one.op, one.compare, row.row, nullptr);
      addCase(arith::XOrIOp::create(
          eval.row, loc, isUsual,
          arith::ConstantIntOp::create(eval.row, loc, 1, 1)));
      continue;
    }
    // Of 32 bits alone: a chunk more may be taken for one that has the place.
    Value place =
        toIndex(eval.row, loc, eval.body(one.op, one.place, row.row, nullptr));
    place = arith::IndexCastOp::create(eval.row, loc, i32, place);
    Value start =
        arith::IndexCastOp::create(eval.code, loc, i32, piece.chunk.start);
    Value within = arith::SubIOp::create(eval.code, loc, place, start);
    addCase(arith::CmpIOp::create(
        eval.code, loc, arith::CmpIPredicate::ult, within,
        arith::ConstantIntOp::create(eval.code, loc, schedule.vector, 32)));
  }
  Chunk known = piece.chunk;
  for (RareCase &one : rareCases)
    eval.assumed[one.compare] = !one.place;
  SmallVector<Value> usual = elementsOf(row, piece);
  eval.assumed.clear();
  known.loads = piece.chunk.loads;
  piece.chunk = known;
  auto branch = scf::IfOp::create(eval.code, loc, TypeRange(ValueRange(usual)),
                                  isRare, /*withElseRegion=*/true);
  OpBuilder after = eval.code, rowCode = eval.row;
  // What is of the row stays before the branch, or before the loop.
  if (rowCode.getInsertionBlock() == after.getInsertionBlock())
    eval.row.setInsertionPoint(branch);
  eval.code.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(eval.code, loc, elementsOf(row, piece));
  eval.code.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(eval.code, loc, usual);
  eval.code = after;
  eval.row = rowCode;
  piece.chunk = known;
  return llvm::to_vector(ValueRange(branch.getResults()));
}

} // namespace mpcomm::kernels
