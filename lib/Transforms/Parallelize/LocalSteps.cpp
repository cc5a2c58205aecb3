//===- LocalSteps.cpp - steps that ranks take alone before they meet ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Local SGD (Stich, "Local SGD Converges Fast and Communicates Little", ICLR
// 2019) and DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication
// Training of Language Models", 2023, algorithm 1): a rank updates parameters
// several times by its own gradients; how far that took it from where all ranks
// began is the gradient of an outer optimizer.
//
// The whole step becomes a function that is called for all steps but the last;
// that one stays where it is, so that what is reduced after it can be reduced
// under it. That the outer gradients, the loss and buffers are means over ranks
// is left to the pass that makes ranks.
//
//===----------------------------------------------------------------------===//

#include "Communicate/GradientState.h"
#include "Parallelize/MicroBatch.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_LOCALSTEPSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-local-steps"

using namespace mlir;
using namespace mpcomm;

static constexpr int64_t kMostSteps = 1 << 12;
/// Of a seed: micro-batches add their number, which has at most so many bits.
static constexpr int kMicroBatchBits = 20;

namespace {

/// State that one step hands to the next: an argument, and the result that
/// takes its place.
struct HandedOn {
  BlockArgument before;
  unsigned result;
};

class LocalSteps : public mpcomm::impl::LocalStepsPassBase<LocalSteps> {
public:
  using LocalStepsPassBase::LocalStepsPassBase;
  void runOnOperation() override;

private:
  LogicalResult checkOptions();
  LogicalResult findRoles();
  LogicalResult findState(unsigned result, Role role);
  void markUpdates();
  func::FuncOp createStep();
  void callSteps(func::FuncOp function);
  void averageLosses();
  LogicalResult updateOuter(const HandedOn &state, GradientState &outer);
  void renewCopies();

  func::FuncOp step;
  Block *body = nullptr;
  SmallVector<BlockArgument> batches, seeds;
  SmallVector<HandedOn> states;
  /// By number of a loss among the results: those of the steps that are called.
  llvm::MapVector<unsigned, SmallVector<Value>> losses;
  int64_t parameters = 0, bytes = 0;
};

} // namespace

LogicalResult LocalSteps::checkOptions() {
  if (steps < 1 || steps > kMostSteps)
    return getOperation().emitError()
           << "expected a number of local steps in [1, " << kMostSteps
           << "], got " << int64_t(steps);
  if (!(static_cast<float>(outerLR) > 0 &&
        outerLR <= std::numeric_limits<float>::max()))
    return getOperation().emitError()
           << "expected a positive outer learning rate, got "
           << double(outerLR);
  if (!(outerMomentum >= 0 && outerMomentum < 1))
    return getOperation().emitError()
           << "expected an outer momentum in [0, 1), got "
           << double(outerMomentum);
  return success();
}

/// Result number `result` is state: what takes the place of an argument.
LogicalResult LocalSteps::findState(unsigned result, Role role) {
  Value value = body->getTerminator()->getOperand(result);
  BlockArgument before = getDonor(step, result);
  if (!before)
    return step.emitOpError()
           << "computes " << describeResult(step, result)
           << ", expected an argument that donates its buffer to it, to hand "
              "it to the next local step";
  if (before.getType() != value.getType())
    return step.emitOpError()
           << "computes " << describeResult(step, result) << " of type "
           << value.getType() << ", expected that of "
           << describeArgument(step, before.getArgNumber())
           << ", which it takes the place of";
  if (role == Role::LossScale)
    return step.emitOpError()
           << "has a scale of the loss, " << describeResult(step, result)
           << ", expected none: ranks that overflow alone would no longer have "
              "one scale";
  states.push_back({before, result});
  return success();
}

/// What each argument and result is to a local step.
LogicalResult LocalSteps::findRoles() {
  if (!step.getFunctionBody().hasOneBlock() ||
      !isa<func::ReturnOp>(step.getFunctionBody().front().getTerminator()))
    return step.emitOpError("expects a body of one block that returns");
  body = &step.getFunctionBody().front();
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    std::optional<Role> role = getResultRole(step, i);
    if (role && isStateRole(*role)) {
      if (failed(findState(i, *role)))
        return failure();
      continue;
    }
    auto type = dyn_cast<RankedTensorType>(step.getResultTypes()[i]);
    if (role != Role::Loss || !type || !isa<FloatType>(type.getElementType()))
      return step.emitOpError()
             << "makes " << describeResult(step, i)
             << ", expected a loss of floats or state: of these there is one "
                "for all local steps";
    losses[i];
  }
  for (BlockArgument argument : body->getArguments()) {
    std::optional<Role> role = getArgumentRole(step, argument.getArgNumber());
    bool isHanded = llvm::any_of(states, [&](const HandedOn &state) {
      return state.before == argument;
    });
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (role == Role::Rng && !isHanded) {
      if (!type || !type.hasStaticShape() ||
          !type.getElementType().isSignlessInteger() ||
          type.getElementTypeBitWidth() < 32)
        return step.emitOpError()
               << "has " << describeArgument(step, argument.getArgNumber())
               << " of type " << argument.getType()
               << ", expected integers of 32 bits or more of static shape, of "
                  "which each local step has its own";
      seeds.push_back(argument);
    }
    if (role != Role::Batch)
      continue;
    if (!type || !type.hasStaticShape() || type.getRank() == 0 ||
        type.getDimSize(0) > std::numeric_limits<int32_t>::max() / steps)
      return step.emitOpError()
             << "has " << describeArgument(step, argument.getArgNumber())
             << " of type " << argument.getType()
             << ", expected samples along a first dimension that can be "
             << int64_t(steps) << " times as long";
    batches.push_back(argument);
  }
  if (batches.empty())
    return step.emitOpError("has no argument of role batch to cut into those "
                            "of local steps");
  return success();
}

/// A rank's own gradients are what its own steps go by.
void LocalSteps::markUpdates() {
  UnitAttr mark = UnitAttr::get(&getContext());
  getOperation().walk([&](Operation *op) {
    if (isGradientUpdate(op))
      op->setAttr(kLocalUpdateAttr, mark);
  });
}

/// A function with the arguments and results of the step.
func::FuncOp LocalSteps::createStep() {
  auto function = func::FuncOp::create(step.getLoc(),
                                       (step.getName() + ".local_step").str(),
                                       step.getFunctionType());
  function.setPrivate();
  SymbolTable(getOperation()).insert(function, Block::iterator(step));
  SignatureEditor editor(function);
  Builder builder(&getContext());
  for (const HandedOn &state : states)
    editor.setArgument(state.before.getArgNumber(), kDonatedAttr,
                       builder.getI64IntegerAttr(state.result));
  editor.apply();
  Block *block = function.addEntryBlock();
  IRMapping mapping;
  mapping.map(body->getArguments(), block->getArguments());
  OpBuilder inside = OpBuilder::atBlockBegin(block);
  for (Operation &op : *body)
    inside.clone(op, mapping);
  return function;
}

/// The steps but the last, and what the last takes instead of the arguments.
void LocalSteps::callSteps(func::FuncOp function) {
  for (BlockArgument batch : batches) {
    auto type = cast<RankedTensorType>(batch.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[0] *= steps;
    batch.setType(type.clone(shape));
  }
  step.setFunctionType(FunctionType::get(
      &getContext(), body->getArgumentTypes(), step.getResultTypes()));
  Operation *first = &body->front();
  OpBuilder builder(first);
  SmallVector<Value> operands;
  for (int64_t i = 0; i < steps; ++i) {
    SmallVector<Value> next(body->getArguments());
    for (BlockArgument batch : batches)
      next[batch.getArgNumber()] = sliceMicroBatch(builder, batch, i, steps);
    for (BlockArgument seed : seeds)
      next[seed.getArgNumber()] =
          seedMicroBatch(builder, seed, i << kMicroBatchBits);
    if (i > 0)
      for (const HandedOn &state : states)
        next[state.before.getArgNumber()] =
            operands[state.before.getArgNumber()];
    operands = std::move(next);
    if (i + 1 == steps)
      break;
    auto call =
        func::CallOp::create(builder, step.getLoc(), function, operands);
    for (const HandedOn &state : states)
      operands[state.before.getArgNumber()] = call.getResult(state.result);
    for (auto &[result, values] : losses)
      values.push_back(call.getResult(result));
  }
  // The last one, in place.
  for (auto [argument, value] : llvm::zip(body->getArguments(), operands))
    if (argument != value)
      argument.replaceUsesWithIf(value, [&](OpOperand &use) {
        Operation *user = body->findAncestorOpInBlock(*use.getOwner());
        return user == first || first->isBeforeInBlock(user);
      });
}

/// The mean over the steps, in f32 or wider.
void LocalSteps::averageLosses() {
  Operation *exit = body->getTerminator();
  OpBuilder builder(exit);
  for (auto &[result, values] : losses) {
    Value last = exit->getOperand(result);
    Location loc = last.getLoc();
    auto type = cast<RankedTensorType>(last.getType());
    Type element = mpcomm::detail::getSumType(type.getElementType());
    values.push_back(last);
    Value total;
    for (Value value : values) {
      value = castFloat(builder, loc, value, element);
      total = total ? arith::AddFOp::create(builder, loc, total, value)
                    : Value(value);
    }
    auto share = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            type.clone(element),
            builder.getFloatAttr(element, 1.0 / static_cast<double>(steps))));
    Value mean = arith::MulFOp::create(builder, loc, total, share);
    exit->setOperand(result,
                     castFloat(builder, loc, mean, type.getElementType()));
  }
}

/// Has the outer optimizer update a parameter by how far the steps took it.
LogicalResult LocalSteps::updateOuter(const HandedOn &state,
                                      GradientState &outer) {
  Operation *exit = body->getTerminator();
  Value after = exit->getOperand(state.result);
  auto type = dyn_cast<RankedTensorType>(after.getType());
  if (getResultRole(step, state.result) != Role::Parameter ||
      after == state.before || !type || !isa<FloatType>(type.getElementType()))
    return success();
  if (outerMomentum > 0 && !type.getElementType().isF32())
    return step.emitOpError()
           << "has a parameter, " << describeResult(step, state.result)
           << ", of type " << type
           << ", expected f32, in which an outer momentum is kept";
  OpBuilder builder(exit);
  Location loc = after.getLoc();
  Value gradient = arith::SubFOp::create(builder, loc, state.before, after);
  Value lr = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(RankedTensorType::get({}, builder.getF32Type()),
                             builder.getF32FloatAttr(outerLR)));
  BlockArgument buffer;
  SmallVector<Type> results = {type};
  FloatAttr momentum;
  if (outerMomentum > 0) {
    FailureOr<BlockArgument> added =
        outer.add(state.before, ".outer_momentum", type.getShape());
    if (failed(added))
      return failure();
    buffer = *added;
    results.push_back(type);
    momentum = builder.getF64FloatAttr(outerMomentum);
  }
  auto update = SgdUpdateOp::create(
      builder, loc, results, state.before, gradient, lr, buffer, momentum,
      builder.getF64FloatAttr(0), buffer ? builder.getUnitAttr() : UnitAttr());
  exit->setOperand(state.result, update.getNewParam());
  if (buffer)
    outer.setNext(buffer, update.getNewMomentumBuffer());
  ++parameters;
  bytes += mpcomm::detail::countBytes(type);
  return success();
}

/// State that is a parameter in another type takes that of the outer optimizer.
void LocalSteps::renewCopies() {
  Operation *exit = body->getTerminator();
  llvm::StringMap<Value> parameters;
  for (const HandedOn &state : states)
    if (getResultRole(step, state.result) == Role::Parameter)
      parameters[mpcomm::getArgumentName(step, state.before.getArgNumber())] =
          exit->getOperand(state.result);
  OpBuilder builder(exit);
  for (const HandedOn &state : states) {
    auto name = step.getArgAttrOfType<StringAttr>(state.before.getArgNumber(),
                                                  kCopyOfAttr);
    Value parameter = name ? parameters.lookup(name.getValue()) : Value();
    if (parameter)
      exit->setOperand(state.result,
                       castFloat(builder, parameter.getLoc(), parameter,
                                 getElementTypeOrSelf(state.before.getType())));
  }
}

void LocalSteps::runOnOperation() {
  batches.clear();
  seeds.clear();
  states.clear();
  losses.clear();
  parameters = bytes = 0;
  if (failed(checkOptions()))
    return signalPassFailure();
  step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  if (steps == 1)
    return markAllAnalysesPreserved();
  if (failed(findRoles()))
    return signalPassFailure();
  markUpdates();
  callSteps(createStep());
  averageLosses();
  GradientState outer(step);
  for (const HandedOn &state : states)
    if (failed(updateOuter(state, outer)))
      return signalPassFailure();
  renewCopies();
  outer.apply();
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("LocalSteps")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("steps", int64_t(steps))
      << remark::metric("parameters", parameters)
      << remark::metric("bytes", bytes);
}
