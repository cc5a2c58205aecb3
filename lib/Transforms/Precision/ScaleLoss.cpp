//===- ScaleLoss.cpp - loss scaling, clipping and skipped steps -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients are scaled where the backward pass begins, unscaled before the
// updates, and whether an update counts is a choice between old and new state
// that the update's kernel makes. The scale is state of the step like any
// other.
//
//===----------------------------------------------------------------------===//

#include "Precision/GradientScale.h"
#include "Precision/PrecisionGraph.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>
#include <limits>

namespace mpcomm {
#define GEN_PASS_DEF_SCALELOSSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-scale-loss"

using namespace mlir;
using namespace mpcomm;

namespace {

class ScaleLoss : public mpcomm::impl::ScaleLossPassBase<ScaleLoss> {
public:
  using ScaleLossPassBase::ScaleLossPassBase;
  void runOnOperation() override;

private:
  LogicalResult chooseMode();
  LogicalResult checkOptions(func::FuncOp step);
  LogicalResult checkStep(func::FuncOp step);
  LogicalResult sinkUpdates(func::FuncOp step);
  FailureOr<int64_t> scale(func::FuncOp step);
  void prepareGradients(func::FuncOp step);
  void updateScale(func::FuncOp step);
  void skipUpdates(func::FuncOp step);

  Value addState(func::FuncOp step, StringRef name, TypedAttr initial);
  void addResult(func::FuncOp step, Value value, Role role, StringRef name);
  ImplicitLocOpBuilder atEnd(func::FuncOp step) {
    Block &block = step.getFunctionBody().front();
    return ImplicitLocOpBuilder(step.getLoc(), block.getTerminator());
  }

  LossScaling chosen = LossScaling::None; // what `mode` comes to
  SmallVector<StepGradient> gradients;
  /// The first op that needs an update, or the end.
  Operation *firstUpdate = nullptr;
  Value lossScale; // null without scaling
  Value found;     // 0-d f32, or null
  int64_t skippable = 0;
};

} // namespace

/// Turns `auto` into what the precision asks for: of the 16-bit types, f16
/// alone has too few exponents for gradients.
LogicalResult ScaleLoss::chooseMode() {
  chosen = mode;
  if (mode != LossScaling::Auto)
    return success();
  std::string type = policy;
  if (type.empty() && !policyFile.empty()) {
    llvm::Expected<PrecisionPolicy> loaded =
        loadPrecisionPolicy(policyFile, &getContext());
    if (!loaded)
      return getOperation().emitError() << llvm::toString(loaded.takeError());
    type = loaded->type;
  }
  if (auto attribute =
          getOperation()->getAttrOfType<StringAttr>(kPrecisionAttr);
      attribute && type.empty())
    type = attribute.getValue();
  chosen = type == "f16" ? LossScaling::Dynamic : LossScaling::None;
  return success();
}

LogicalResult ScaleLoss::checkOptions(func::FuncOp step) {
  auto error = [&](const Twine &what) {
    return step.emitOpError() << "cannot scale the loss: expected " << what;
  };
  // Of what is smaller than the least, f32 does not hold the inverse.
  constexpr double least = std::numeric_limits<float>::min();
  constexpr double most = std::numeric_limits<float>::max();
  if (!(initialScale >= least) || !(initialScale <= most))
    return error("a 'scale' from 2^-126 to what f32 holds");
  if (!(clipNorm >= 0) || !std::isfinite(clipNorm))
    return error("a 'clip-norm' that is not negative");
  if (chosen != LossScaling::Dynamic)
    return success();
  if (!(growth >= 1) || !std::isfinite(growth) || !(backoff > 0) ||
      !(backoff <= 1))
    return error("'growth' of at least 1, and 'backoff' in (0, 1]");
  if (interval < 1 || interval > INT32_MAX || hysteresis < 1 ||
      hysteresis > INT32_MAX)
    return error("'interval' and 'hysteresis' of at least 1, in 31 bits");
  if (!(minScale >= 0) || !(minScale <= initialScale) ||
      !(initialScale <= maxScale) || !(maxScale <= most))
    return error("0 <= 'min' <= 'scale' <= 'max', in f32");
  return success();
}

LogicalResult ScaleLoss::checkStep(func::FuncOp step) {
  if (!step.getFunctionBody().hasOneBlock())
    return step.emitOpError()
           << "has " << step.getFunctionBody().getBlocks().size()
           << " blocks, expected one";
  for (Operation &op : step.getFunctionBody().front())
    if (isa<UnscaleOp, ClipByGlobalNormOp>(op))
      return op.emitOpError("is there already, expected a step whose loss is "
                            "not scaled and whose gradients are not clipped");
  for (StringRef name : {"loss_scale", "loss_scale.good_steps",
                         "loss_scale.hysteresis", "loss_scale.skipped"})
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (chosen == LossScaling::Dynamic &&
          mpcomm::getArgumentName(step, i) == name)
        return step.emitOpError()
               << "has " << describeArgument(step, i)
               << " already, expected a step whose loss is not scaled";
  return success();
}

/// Moves updates, and what needs them, to the end: gradients come before.
LogicalResult ScaleLoss::sinkUpdates(func::FuncOp step) {
  Block &block = step.getFunctionBody().front();
  llvm::SetVector<Operation *> late;
  for (Operation &op : block.without_terminator()) {
    bool isLate = isa<OptimizerOpInterface>(op);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        isLate |= late.contains(operand.getDefiningOp());
    });
    if (isLate)
      late.insert(&op);
  }
  for (const StepGradient &gradient : gradients)
    if (Operation *def = gradient.value.getDefiningOp();
        def && late.contains(def))
      return def->emitOpError("makes a gradient from an update, expected all "
                              "gradients of a step before its updates");
  for (Operation *op : late)
    op->moveBefore(block.getTerminator());
  firstUpdate = late.empty() ? block.getTerminator() : late.front();
  return success();
}

/// An argument with a result of that name, whose value `addResult` gives.
Value ScaleLoss::addState(func::FuncOp step, StringRef name,
                          TypedAttr initial) {
  Builder builder(&getContext());
  auto type = RankedTensorType::get({}, initial.getType());
  unsigned index = step.getNumArguments();
  NamedAttrList attributes;
  attributes.set(kRoleAttr, RoleAttr::get(&getContext(), Role::LossScale));
  attributes.set(kNameAttr, builder.getStringAttr(name));
  attributes.set(kDefaultAttr, initial);
  (void)step.insertArgument(
      index, type, attributes.getDictionary(&getContext()), step.getLoc());
  return step.getArgument(index);
}

void ScaleLoss::addResult(func::FuncOp step, Value value, Role role,
                          StringRef name) {
  Builder builder(&getContext());
  unsigned index = step.getNumResults();
  NamedAttrList attributes;
  attributes.set(kRoleAttr, RoleAttr::get(&getContext(), role));
  attributes.set(kNameAttr, builder.getStringAttr(name));
  (void)step.insertResult(index, value.getType(),
                          attributes.getDictionary(&getContext()));
  Operation *exit = step.getFunctionBody().front().getTerminator();
  exit->insertOperands(index, value);
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (role == Role::LossScale && mpcomm::getArgumentName(step, i) == name)
      step.setArgAttr(i, kDonatedAttr, builder.getI64IntegerAttr(index));
}

/// The number of places at which the factor came in.
FailureOr<int64_t> ScaleLoss::scale(func::FuncOp step) {
  if (chosen == LossScaling::None)
    return 0;
  Builder builder(&getContext());
  FloatAttr initial = builder.getF32FloatAttr(initialScale);
  if (chosen == LossScaling::Dynamic) {
    lossScale = addState(step, "loss_scale", initial);
  } else {
    OpBuilder atBegin =
        OpBuilder::atBlockBegin(&step.getFunctionBody().front());
    auto type = RankedTensorType::get({}, builder.getF32Type());
    lossScale = arith::ConstantOp::create(
        atBegin, step.getLoc(), DenseElementsAttr::get(type, initial));
  }
  return scaleGradients(step, lossScale, gradients);
}

/// Unscales, checks and clips.
void ScaleLoss::prepareGradients(func::FuncOp step) {
  if (gradients.empty())
    return;
  ImplicitLocOpBuilder builder(step.getLoc(), firstUpdate);
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(
        builder,
        DenseElementsAttr::get(scalar, builder.getF32FloatAttr(value)));
  };
  auto give = [&](ValueRange values) {
    for (auto [gradient, value] : llvm::zip(gradients, values)) {
      for (OpOperand *use : gradient.uses)
        use->set(value);
      gradient.value = value;
    }
  };
  SmallVector<Value> values = llvm::map_to_vector(
      gradients, [](const StepGradient &gradient) { return gradient.value; });
  if (lossScale || checkGradients) {
    Value factor = lossScale ? lossScale : constant(1.0);
    // For the debugger, one flag a parameter, in the order of the arguments.
    SmallVector<Value> checked = values;
    SmallVector<unsigned> places;
    if (checkGradients)
      for (unsigned i = 0; i < step.getNumArguments(); ++i)
        if (getArgumentRole(step, i) == Role::Parameter)
          places.push_back(i);
    auto unscale =
        UnscaleOp::create(builder, checked, factor,
                          checkGradients ? builder.getUnitAttr() : UnitAttr());
    // 16-bit gradients would leave as f32: updates take their parameter's type.
    SmallVector<Value> unscaled;
    for (auto [before, after] : llvm::zip(values, unscale.getUnscaled())) {
      Value value = after;
      if (value.getType() != before.getType())
        value = arith::TruncFOp::create(builder, before.getType(), value);
      unscaled.push_back(value);
    }
    found = unscale.getFound();
    if (checkGradients) {
      SmallVector<Value> flags;
      auto single = RankedTensorType::get({1}, builder.getF32Type());
      for (unsigned parameter : places) {
        Value flag;
        for (auto [i, gradient] : llvm::enumerate(gradients)) {
          if (!llvm::is_contained(gradient.parameters, parameter))
            continue;
          int64_t begin = i, end = i + 1, stride = 1;
          Value own = SliceOp::create(builder, found, begin, end, stride);
          flag = flag ? arith::MaximumFOp::create(builder, flag, own) : own;
        }
        if (!flag)
          flag = arith::ConstantOp::create(
              builder,
              DenseElementsAttr::get(single, builder.getF32FloatAttr(0)));
        flags.push_back(flag);
      }
      if (!flags.empty())
        addResult(step, ConcatenateOp::create(builder, flags, /*dim=*/0),
                  Role::Output, "nonfinite");
      found = ReduceOp::create(builder, Reduction::Max, found,
                               ArrayRef<int64_t>{0});
    }
    give(unscaled);
    values = unscaled;
  }
  if (clipNorm > 0) {
    auto clip =
        ClipByGlobalNormOp::create(builder, values, /*given_norm=*/Value(),
                                   builder.getF64FloatAttr(clipNorm));
    give(clip.getClipped());
  }
}

/// The rule, and the count of skipped steps.
void ScaleLoss::updateScale(func::FuncOp step) {
  Builder b(&getContext());
  Value good = addState(step, "loss_scale.good_steps", b.getI32IntegerAttr(0));
  Value left = addState(step, "loss_scale.hysteresis",
                        b.getI32IntegerAttr(static_cast<int32_t>(hysteresis)));
  Value skipped = addState(step, "loss_scale.skipped", b.getI32IntegerAttr(0));
  ImplicitLocOpBuilder builder = atEnd(step);
  auto update = UpdateLossScaleOp::create(
      builder, lossScale, good, left, found, b.getF64FloatAttr(growth),
      b.getF64FloatAttr(backoff), b.getI64IntegerAttr(interval),
      b.getF64FloatAttr(minScale), b.getF64FloatAttr(maxScale),
      b.getI64IntegerAttr(hysteresis));
  Value more = arith::FPToSIOp::create(builder, skipped.getType(), found);
  Value total = arith::AddIOp::create(builder, skipped, more);
  addResult(step, update.getNewScale(), Role::LossScale, "loss_scale");
  addResult(step, update.getNewGood(), Role::LossScale,
            "loss_scale.good_steps");
  addResult(step, update.getNewHyst(), Role::LossScale,
            "loss_scale.hysteresis");
  addResult(step, total, Role::LossScale, "loss_scale.skipped");
}

/// Parameters and optimizer state keep their old values where `found` is set.
void ScaleLoss::skipUpdates(func::FuncOp step) {
  llvm::StringMap<unsigned> arguments;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    arguments.try_emplace(mpcomm::getArgumentName(step, i), i);
  ImplicitLocOpBuilder builder = atEnd(step);
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  Value zero = arith::ConstantOp::create(
      builder, DenseElementsAttr::get(scalar, builder.getF32FloatAttr(0)));
  Value skip =
      arith::CmpFOp::create(builder, arith::CmpFPredicate::OGT, found, zero);
  Operation *exit = step.getFunctionBody().front().getTerminator();
  for (OpOperand &use : exit->getOpOperands()) {
    unsigned index = use.getOperandNumber();
    std::optional<Role> role = getResultRole(step, index);
    if (role != Role::Parameter && role != Role::OptimizerState)
      continue;
    auto it = arguments.find(getResultName(step, index));
    if (it == arguments.end())
      continue;
    Value old = step.getArgument(it->second);
    if (use.get() == old || old.getType() != use.get().getType())
      continue;
    builder.setLoc(use.get().getLoc());
    Value condition = broadcastScalar(builder, builder.getLoc(), skip,
                                      cast<RankedTensorType>(old.getType()));
    use.set(arith::SelectOp::create(builder, condition, old, use.get()));
    ++skippable;
  }
}

void ScaleLoss::runOnOperation() {
  gradients.clear();
  lossScale = found = Value();
  skippable = 0;
  if (failed(chooseMode()))
    return signalPassFailure();
  if (chosen == LossScaling::None && clipNorm == 0 && !checkGradients)
    return markAllAnalysesPreserved();
  func::FuncOp step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  if (failed(checkOptions(step)) || failed(checkStep(step)))
    return signalPassFailure();
  gradients = collectGradients(step);
  if (gradients.empty() && chosen != LossScaling::None) {
    step.emitOpError("cannot scale the loss: it has no gradients");
    return signalPassFailure();
  }
  if (failed(sinkUpdates(step)))
    return signalPassFailure();
  FailureOr<int64_t> places = scale(step);
  if (failed(places))
    return signalPassFailure();
  prepareGradients(step);
  if (chosen == LossScaling::Dynamic && found) {
    skipUpdates(step);
    updateScale(step);
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("ScaleLoss")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("gradients", static_cast<int64_t>(gradients.size()))
      << remark::metric("places", *places)
      << remark::metric("skippable", skippable);
}
