//===- LoopCasts.cpp - 16 bits in the bodies of loops ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See LoopCasts.h. Loops that change in the same way keep sharing their body; a
// body that no loop has any more is erased.
//
//===----------------------------------------------------------------------===//

#include "Precision/LoopCasts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace mpcomm;

namespace {

/// What moves into the body of one loop.
struct LoopPlan {
  SmallVector<bool> isNarrowSlice,
      isNarrowResult; // by slice, by stacked result
  bool operator<(const LoopPlan &other) const {
    return std::tie(isNarrowSlice, isNarrowResult) <
           std::tie(other.isNarrowSlice, other.isNarrowResult);
  }
};

/// A body with its casts.
struct NarrowBody {
  func::FuncOp function;
  SmallVector<bool> isNarrowCaptured; // by captured operand
  bool isChanged = false;
};

class LoopCaster {
public:
  LoopCaster(func::FuncOp step, FloatType narrow,
             function_ref<bool(Operation *)> isNarrowProduct)
      : module(step->getParentOfType<ModuleOp>()), symbols(module), step(step),
        narrow(narrow), isNarrowProduct(isNarrowProduct) {}
  int64_t run();

private:
  LoopPlan plan(ScanOp op) const;
  NarrowBody makeBody(ScanOp op, func::FuncOp body, const LoopPlan &plan);
  void narrowProducts(Block &block, NarrowBody &made);
  void rewrite(ScanOp op, const LoopPlan &plan, const NarrowBody &body);

  Type toNarrow(Value value) const {
    return cast<RankedTensorType>(value.getType()).clone(narrow);
  }
  /// The value that `value` is a widening of; null if it is none.
  Value getNarrowSource(Value value) const {
    auto widening = value.getDefiningOp<arith::ExtFOp>();
    return widening && getElementTypeOrSelf(widening.getIn()) == narrow
               ? widening.getIn()
               : Value();
  }
  /// Whether all that reads `value` rounds it.
  bool isRounded(Value value) const {
    return isF32(value) && !value.use_empty() &&
           llvm::all_of(value.getUsers(), [&](Operation *user) {
             return isa<arith::TruncFOp>(user) &&
                    getElementTypeOrSelf(user->getResult(0)) == narrow;
           });
  }
  static bool isF32(Value value) {
    return isa<RankedTensorType>(value.getType()) &&
           getElementTypeOrSelf(value).isF32();
  }
  static void replaceRoundings(Value value, Value with) {
    for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
      user->getResult(0).replaceAllUsesWith(with);
      user->erase();
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp step;
  FloatType narrow;
  function_ref<bool(Operation *)> isNarrowProduct;
  std::map<std::pair<Operation *, LoopPlan>, NarrowBody> bodies;
};

} // namespace

LoopPlan LoopCaster::plan(ScanOp op) const {
  LoopPlan plan;
  for (Value slice : op.getSlices())
    plan.isNarrowSlice.push_back(isF32(slice) && getNarrowSource(slice));
  for (Value result : op.getStacked())
    plan.isNarrowResult.push_back(isRounded(result));
  return plan;
}

/// Products take rounded operands and give rounded results, as in the step.
void LoopCaster::narrowProducts(Block &block, NarrowBody &made) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isNarrowProduct(&op) || !llvm::all_of(op.getOperands(), isF32) ||
        !llvm::all_of(op.getResults(), isF32))
      continue;
    OpBuilder builder(&op);
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get(), source = getNarrowSource(value);
      if (!source)
        source = arith::TruncFOp::create(builder, op.getLoc(), toNarrow(value),
                                         value);
      operand.set(source);
    }
    builder.setInsertionPointAfter(&op);
    for (Value result : op.getResults()) {
      Type wide = result.getType();
      result.setType(toNarrow(result));
      auto widening = arith::ExtFOp::create(builder, op.getLoc(), wide, result);
      result.replaceAllUsesExcept(widening, widening);
    }
    made.isChanged = true;
  }
}

NarrowBody LoopCaster::makeBody(ScanOp op, func::FuncOp body,
                                const LoopPlan &plan) {
  NarrowBody made;
  made.function = body.clone();
  Block &block = made.function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  unsigned first = op.getCarries().size();
  for (auto [i, isNarrow] : llvm::enumerate(plan.isNarrowSlice)) {
    BlockArgument slice = block.getArgument(first + i);
    if (!isNarrow)
      continue;
    Type wide = slice.getType();
    slice.setType(toNarrow(slice));
    auto widening = arith::ExtFOp::create(builder, slice.getLoc(), wide, slice);
    slice.replaceAllUsesExcept(widening, widening);
    made.isChanged = true;
  }
  narrowProducts(block, made);
  for (BlockArgument captured :
       block.getArguments().take_back(op.getCaptured().size())) {
    bool isNarrow = isRounded(captured);
    made.isNarrowCaptured.push_back(isNarrow);
    if (!isNarrow)
      continue;
    captured.setType(toNarrow(captured));
    replaceRoundings(captured, captured);
  }
  Operation *exit = block.getTerminator();
  builder.setInsertionPoint(exit);
  for (auto [i, isNarrow] : llvm::enumerate(plan.isNarrowResult)) {
    if (!isNarrow)
      continue;
    OpOperand &returned = exit->getOpOperand(first + i);
    Value source = getNarrowSource(returned.get());
    returned.set(source ? source
                        : arith::TruncFOp::create(builder, exit->getLoc(),
                                                  toNarrow(returned.get()),
                                                  returned.get()));
    made.isChanged = true;
  }
  made.function.setFunctionType(builder.getFunctionType(
      block.getArgumentTypes(), exit->getOperandTypes()));
  if (made.isChanged)
    symbols.insert(made.function, std::next(body->getIterator()));
  else
    made.function.erase();
  return made;
}

void LoopCaster::rewrite(ScanOp op, const LoopPlan &plan,
                         const NarrowBody &body) {
  OpBuilder builder(op);
  for (auto [slice, isNarrow] :
       llvm::zip(op.getSlicesMutable(), plan.isNarrowSlice))
    if (isNarrow)
      slice.set(getNarrowSource(slice.get()));
  for (auto [captured, isNarrow] :
       llvm::zip(op.getCapturedMutable(), body.isNarrowCaptured)) {
    if (!isNarrow)
      continue;
    Value source = getNarrowSource(captured.get());
    captured.set(source ? source
                        : arith::TruncFOp::create(builder, op.getLoc(),
                                                  toNarrow(captured.get()),
                                                  captured.get()));
  }
  for (auto [result, isNarrow] :
       llvm::zip(op.getStacked(), plan.isNarrowResult)) {
    if (!isNarrow)
      continue;
    result.setType(toNarrow(result));
    replaceRoundings(result, result);
  }
  func::FuncOp function = body.function;
  op.setBody(function.getSymName());
}

int64_t LoopCaster::run() {
  SmallVector<ScanOp> loops;
  step.walk([&](ScanOp op) { loops.push_back(op); });
  llvm::SetVector<Operation *> replaced;
  int64_t count = 0;
  for (ScanOp op : loops) {
    auto body = symbols.lookup<func::FuncOp>(op.getBody());
    if (!body)
      continue;
    LoopPlan moved = plan(op);
    auto [entry, isNew] = bodies.try_emplace({body, moved});
    if (isNew)
      entry->second = makeBody(op, body, moved);
    if (!entry->second.isChanged)
      continue;
    rewrite(op, moved, entry->second);
    replaced.insert(body);
    ++count;
  }
  for (Operation *body : replaced)
    if (SymbolTable::symbolKnownUseEmpty(body, module))
      symbols.erase(body);
  return count;
}

int64_t
mpcomm::moveCastsIntoLoops(func::FuncOp step, FloatType narrow,
                           function_ref<bool(Operation *)> isNarrowProduct) {
  return LoopCaster(step, narrow, isNarrowProduct).run();
}
