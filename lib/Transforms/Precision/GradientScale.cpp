//===- GradientScale.cpp - a factor on all gradients of a step ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product carries the factor if either of its operands does. Of two that
// could, the one that more gradients depend on is the gradient: a derivative of
// one layer reaches the layers before it alone. Where both reach as many, the
// product itself is scaled, unless one of them has the factor because something
// else needs it there.
//
//===----------------------------------------------------------------------===//

#include "Precision/GradientScale.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpcomm;

SmallVector<StepGradient> mpcomm::collectGradients(func::FuncOp function) {
  llvm::MapVector<Value, StepGradient> found;
  for (Operation &op : function.getFunctionBody().front()) {
    auto optimizer = dyn_cast<OptimizerOpInterface>(op);
    if (!optimizer)
      continue;
    SmallVector<unsigned> parameters;
    for (Value operand : op.getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        if (getArgumentRole(function, argument.getArgNumber()) ==
            Role::Parameter)
          parameters.push_back(argument.getArgNumber());
    SmallVector<OpOperand *> uses = optimizer.getGradientOperands();
    for (OpOperand *use : uses) {
      // What an op hands on belongs to the gradient that it takes.
      if (use->get().getDefiningOp<OptimizerOpInterface>())
        continue;
      StepGradient &gradient = found[use->get()];
      gradient.value = use->get();
      gradient.uses.push_back(use);
      if (uses.size() == 1)
        for (unsigned parameter : parameters)
          if (!llvm::is_contained(gradient.parameters, parameter))
            gradient.parameters.push_back(parameter);
    }
  }
  return llvm::map_to_vector(found, [](auto &entry) { return entry.second; });
}

/// For messages: "the gradient of 'w'".
static std::string describe(func::FuncOp function,
                            const StepGradient &gradient) {
  if (gradient.parameters.empty())
    return "a gradient";
  return ("the gradient of '" +
          getArgumentName(function, gradient.parameters.front()) + "'")
      .str();
}

namespace {

class Scaler {
public:
  Scaler(func::FuncOp function, Value scale,
         MutableArrayRef<StepGradient> gradients)
      : function(function), scale(scale), gradients(gradients),
        block(function.getFunctionBody().front()) {}

  FailureOr<int64_t> run();

private:
  void findForward();
  void findBackward();
  void place();
  void placeAbove(Operation *op);
  LogicalResult check();
  LogicalResult checkOthers(OptimizerOpInterface op, Degrees &degrees);
  LogicalResult refuse(const StepGradient &gradient, int degree,
                       const Degrees &degrees);

  /// The op of the backward pass that makes the value, or null.
  Operation *getMaker(Value value) const {
    Operation *def = value.getDefiningOp();
    return def && reached.contains(def) ? def : nullptr;
  }
  void scaleResults(Operation *op);
  void scaleUses(Value value, ArrayRef<OpOperand *> uses);
  Value multiply(OpBuilder &builder, Value value);

  func::FuncOp function;
  Value scale;
  MutableArrayRef<StepGradient> gradients;
  Block &block;
  llvm::DenseSet<Operation *> forward;
  /// Ops of the backward pass: which gradients depend on each, and the most
  /// that depend on it or on what it is computed from.
  llvm::DenseMap<Operation *, llvm::BitVector> reached;
  llvm::DenseMap<Operation *, unsigned> weight;
  llvm::DenseSet<Value> demanded;
  llvm::DenseSet<Operation *> undecided; // products to be scaled, or not
  int64_t places = 0;
};

} // namespace

/// Values that `op` or an op in its regions uses.
static void forEachOperand(Operation *op, function_ref<void(Value)> visit) {
  op->walk(
      [&](Operation *inner) { llvm::for_each(inner->getOperands(), visit); });
}

/// What the loss is computed by. Metrics, the losses after the first, may be
/// made from gradients.
void Scaler::findForward() {
  SmallVector<Value> todo;
  Operation *exit = block.getTerminator();
  for (OpOperand &use : exit->getOpOperands())
    if (getResultRole(function, use.getOperandNumber()) == Role::Loss) {
      todo.push_back(use.get());
      break;
    }
  while (!todo.empty()) {
    Operation *def = todo.pop_back_val().getDefiningOp();
    def = def ? block.findAncestorOpInBlock(*def) : nullptr;
    if (def && forward.insert(def).second)
      forEachOperand(def, [&](Value value) { todo.push_back(value); });
  }
}

void Scaler::findBackward() {
  auto reach = [&](Value value) -> llvm::BitVector * {
    Operation *def = value.getDefiningOp();
    def = def ? block.findAncestorOpInBlock(*def) : nullptr;
    if (!def || forward.contains(def) || def->hasTrait<OpTrait::ConstantLike>())
      return nullptr;
    auto [it, isNew] = reached.try_emplace(def);
    if (isNew)
      it->second.resize(gradients.size());
    return &it->second;
  };
  for (auto [i, gradient] : llvm::enumerate(gradients))
    if (llvm::BitVector *bits = reach(gradient.value))
      bits->set(i);
  for (Operation &op : llvm::reverse(block)) {
    auto it = reached.find(&op);
    if (it == reached.end())
      continue;
    llvm::BitVector own = it->second; // the map may grow
    forEachOperand(&op, [&](Value value) {
      if (llvm::BitVector *bits = reach(value))
        *bits |= own;
    });
  }
  for (Operation &op : block) {
    auto it = reached.find(&op);
    if (it == reached.end())
      continue;
    unsigned most = it->second.count();
    forEachOperand(&op, [&](Value value) {
      if (Operation *maker = getMaker(value))
        most = std::max(most, weight.lookup(maker));
    });
    weight[&op] = most;
  }
}

/// `value` times the scale, in the value's type; the scale itself for 1.
Value Scaler::multiply(OpBuilder &builder, Value value) {
  ++places;
  Location loc = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  Value factor = scale;
  auto scalar = RankedTensorType::get({}, element);
  unsigned width = element.getIntOrFloatBitWidth();
  if (width > 32)
    factor = arith::ExtFOp::create(builder, loc, scalar, factor);
  else if (!element.isF32())
    factor = arith::TruncFOp::create(builder, loc, scalar, factor);
  if (type.getRank() != 0)
    factor = BroadcastInDimOp::create(builder, loc, type, factor,
                                      ArrayRef<int64_t>{});
  if (matchPattern(value, m_OneFloat()))
    return factor;
  return arith::MulFOp::create(builder, loc, value, factor);
}

void Scaler::scaleUses(Value value, ArrayRef<OpOperand *> uses) {
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  if (Operation *def = value.getDefiningOp())
    builder.setInsertionPointAfter(def);
  else if (Operation *def = scale.getDefiningOp())
    builder.setInsertionPointAfter(def);
  Value scaled = multiply(builder, value);
  for (OpOperand *use : uses)
    use->set(scaled);
}

void Scaler::scaleResults(Operation *op) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    if (!demanded.contains(result))
      continue;
    Value scaled = multiply(builder, result);
    result.replaceUsesWithIf(scaled, [&](OpOperand &use) {
      return use.getOwner() != scaled.getDefiningOp();
    });
    for (StepGradient &gradient : gradients)
      if (gradient.value == result)
        gradient.value = scaled;
  }
}

/// Asks for the factor on operands of `op`, or puts it on its results.
void Scaler::placeAbove(Operation *op) {
  Linearity linearity = getLinearity(op);
  if (OpOperand *seed = linearity.gradient) {
    Value value = seed->get();
    if (getMaker(value))
      demanded.insert(value);
    else if (matchPattern(value, m_Constant()))
      scaleUses(value, seed);
    else
      scaleResults(op);
    return;
  }
  SmallVector<Value> makable;
  bool all = linearity.kind != Linearity::Unknown;
  for (OpOperand *operand : linearity.operands) {
    Value value = operand->get();
    if (getMaker(value))
      makable.push_back(value);
    else if (!matchPattern(value, m_AnyZeroFloat()))
      all = false;
  }
  if (linearity.kind == Linearity::Joint && all && !makable.empty()) {
    demanded.insert_range(makable);
    return;
  }
  if (linearity.kind == Linearity::Each && !makable.empty()) {
    auto weightOf = [&](Value value) { return weight.lookup(getMaker(value)); };
    Value best = *llvm::max_element(
        makable, [&](Value a, Value b) { return weightOf(a) < weightOf(b); });
    if (llvm::count_if(makable, [&](Value value) {
          return weightOf(value) == weightOf(best);
        }) == 1)
      demanded.insert(best);
    else
      undecided.insert(op);
    return;
  }
  scaleResults(op);
}

void Scaler::place() {
  for (StepGradient &gradient : gradients)
    if (getMaker(gradient.value))
      demanded.insert(gradient.value);
    else if (!matchPattern(gradient.value, m_AnyZeroFloat()))
      scaleUses(gradient.value, gradient.uses);
  for (StepGradient &gradient : gradients)
    gradient.value = gradient.uses.front()->get();
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(block))
    if (reached.contains(&op))
      ops.push_back(&op);
  for (Operation *op : ops)
    if (llvm::any_of(op->getResults(),
                     [&](Value result) { return demanded.contains(result); }))
      placeAbove(op);
}

/// Reports a gradient of the wrong degree, with the op that lost track.
LogicalResult Scaler::refuse(const StepGradient &gradient, int degree,
                             const Degrees &degrees) {
  InFlightDiagnostic diag = function.emitOpError()
                            << "cannot scale the loss: "
                            << describe(function, gradient);
  if (degree != Degrees::kUnknown)
    return diag << " would be scaled " << degree
                << " times, expected it to be linear in the gradient of the "
                   "loss";
  diag << " is not known to be linear in the gradient of the loss";
  Value at = gradient.value;
  while (Operation *def = at.getDefiningOp()) {
    Value next;
    forEachOperand(def, [&](Value operand) {
      if (degrees.get(operand) == Degrees::kUnknown)
        next = operand;
    });
    if (next && next.getDefiningOp()) {
      at = next;
      continue;
    }
    diag.attachNote(def->getLoc())
        << "'" << def->getName() << "' is not, or takes only some of its "
        << "operands from there";
    break;
  }
  return diag;
}

/// Nothing but gradients is unscaled for an optimizer.
LogicalResult Scaler::checkOthers(OptimizerOpInterface op, Degrees &degrees) {
  SmallVector<OpOperand *> uses = op.getGradientOperands();
  for (OpOperand &operand : op->getOpOperands()) {
    int degree = degrees.get(operand.get());
    if (!llvm::is_contained(uses, &operand) && degree != 0 &&
        degree != Degrees::kAny)
      return op->emitOpError()
             << "cannot scale the loss: operand #" << operand.getOperandNumber()
             << " is made from a gradient, and not unscaled";
  }
  return success();
}

/// Follows the factor through the step.
LogicalResult Scaler::check() {
  Degrees degrees;
  degrees.set(scale, 1);
  for (Operation &op : block.without_terminator()) {
    if (auto optimizer = dyn_cast<OptimizerOpInterface>(op)) {
      if (failed(checkOthers(optimizer, degrees)))
        return failure();
      continue;
    }
    degrees.propagate(&op);
    if (undecided.contains(&op) && degrees.get(op.getResult(0)) == 0)
      scaleResults(&op);
    if (op.getNumRegions() == 0)
      continue;
    bool isScaled = false;
    forEachOperand(&op,
                   [&](Value value) { isScaled |= degrees.get(value) != 0; });
    if (isScaled)
      for (Value result : op.getResults())
        degrees.set(result, Degrees::kUnknown);
  }
  for (const StepGradient &gradient : gradients)
    if (int degree = degrees.get(gradient.value);
        degree != 1 && degree != Degrees::kAny)
      return refuse(gradient, degree, degrees);
  for (OpOperand &use : block.getTerminator()->getOpOperands())
    if (int degree = degrees.get(use.get());
        degree != 0 && degree != Degrees::kAny)
      return function.emitOpError()
             << "cannot scale the loss: "
             << describeResult(function, use.getOperandNumber())
             << " would be scaled with it";
  return success();
}

FailureOr<int64_t> Scaler::run() {
  findForward();
  findBackward();
  place();
  if (failed(check()))
    return failure();
  return places;
}

FailureOr<int64_t>
mpcomm::scaleGradients(func::FuncOp function, Value scale,
                       MutableArrayRef<StepGradient> gradients) {
  return Scaler(function, scale, gradients).run();
}
