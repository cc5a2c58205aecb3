//===- AverageMomentum.cpp - momentum instead of gradients ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the sum that makes the momentum from an update to its gradient: what
// ranks then average is linear in the gradients of all steps, so that what
// compression loses is sent later, and once (Tang et al., "1-bit Adam", ICML
// 2021). Of AdamW the rest of the update is linear in it only with a variance
// that does not follow.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"
#include <cmath>

namespace mpcomm {
#define GEN_PASS_DEF_AVERAGEMOMENTUMPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-average-momentum"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Float arithmetic on tensors of one shape, and with numbers.
struct Arithmetic {
  ImplicitLocOpBuilder &b;

  Value number(Value like, double value) {
    auto type = cast<RankedTensorType>(like.getType());
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(
               type, Attribute(b.getFloatAttr(type.getElementType(), value))));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value scale(double factor, Value x) { return mul(x, number(x, factor)); }
  /// 1 - `base`^`exponent`, of a base in [0, 1).
  Value oneMinusPower(double base, Value exponent) {
    if (base <= 0)
      return number(exponent, 1);
    Value power = math::ExpOp::create(b, scale(std::log(base), exponent));
    return sub(number(exponent, 1), power);
  }
};

class AverageMomentum
    : public mpcomm::impl::AverageMomentumPassBase<AverageMomentum> {
public:
  using AverageMomentumPassBase::AverageMomentumPassBase;
  void runOnOperation() override;

private:
  LogicalResult check(Operation *update, Value param, Value grad);
  FailureOr<int64_t> rewriteTraced(func::FuncOp step);
  template <typename Update> FailureOr<int64_t> rewriteAll(func::FuncOp step);
};

} // namespace

/// The update's body, whose arguments are its operands.
static ImplicitLocOpBuilder startBody(UpdateOp update) {
  auto *body = new Block();
  update.getBody().push_back(body);
  SmallVector<Location> locations(update->getNumOperands(), update.getLoc());
  body->addArguments(update->getOperandTypes(), locations);
  return ImplicitLocOpBuilder::atBlockBegin(update.getLoc(), body);
}

/// A scalar for all elements of `type`.
static Value forAll(ImplicitLocOpBuilder &b, Value scalar,
                    RankedTensorType type) {
  scalar = castFloat(b, b.getLoc(), scalar, type.getElementType());
  return BroadcastInDimOp::create(b, type, scalar, ArrayRef<int64_t>());
}

static bool hasMomentum(SgdUpdateOp op) { return !!op.getMomentumBuffer(); }
static bool hasMomentum(AdamwUpdateOp) { return true; }

/// The momentum of this step, by the rank's own gradient.
static Value getMomentum(Arithmetic &s, SgdUpdateOp op) {
  return s.add(
      s.scale(op.getMomentum()->convertToDouble(), op.getMomentumBuffer()),
      op.getGrad());
}
static Value getMomentum(Arithmetic &s, AdamwUpdateOp op) {
  double beta1 = op.getBeta1().convertToDouble();
  return s.add(s.scale(beta1, op.getExpAvg()),
               s.scale(1 - beta1, op.getGrad()));
}

static UpdateOp createUpdate(ImplicitLocOpBuilder &b, SgdUpdateOp op,
                             Value averaged) {
  auto update =
      UpdateOp::create(b, op->getResultTypes(), op.getParam(), averaged,
                       ValueRange{op.getMomentumBuffer(), op.getLr()},
                       b.getStringAttr("SGD with averaged momentum"));
  ImplicitLocOpBuilder inner = startBody(update);
  Arithmetic s{inner};
  Block *body = inner.getBlock();
  Value param = body->getArgument(0), next = body->getArgument(1);
  auto type = cast<RankedTensorType>(param.getType());
  double momentum = op.getMomentum()->convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  if (decay != 0)
    next = s.add(next, s.scale(decay, param));
  Value change = next;
  if (op.getNesterov()) {
    Value gradient = s.sub(next, s.scale(momentum, body->getArgument(2)));
    change = s.add(gradient, s.scale(momentum, next));
  }
  change = s.mul(forAll(inner, body->getArgument(3), type), change);
  YieldOp::create(inner, ValueRange{s.sub(param, change), next});
  return update;
}

static UpdateOp createUpdate(ImplicitLocOpBuilder &b, AdamwUpdateOp op,
                             Value averaged) {
  auto update = UpdateOp::create(
      b, op->getResultTypes(), op.getParam(), averaged,
      ValueRange{op.getExpAvg(), op.getExpAvgSq(), op.getStep(), op.getLr()},
      b.getStringAttr("Adam with frozen variance"));
  ImplicitLocOpBuilder inner = startBody(update);
  Arithmetic s{inner};
  Block *body = inner.getBlock();
  Value param = body->getArgument(0), momentum = body->getArgument(1);
  Value variance = body->getArgument(3);
  auto type = cast<RankedTensorType>(param.getType());
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();

  // As those of AdamW, factors for all elements are computed in f64.
  auto widen = [&](Value scalar) {
    return castFloat(inner, op.getLoc(), scalar, inner.getF64Type());
  };
  Value step = widen(body->getArgument(4)), lr = widen(body->getArgument(5));
  Value one = s.number(step, 1);
  Value before = arith::MaximumFOp::create(inner, s.sub(step, one), one);
  Value correction = s.oneMinusPower(beta2, step);
  Value growth = s.div(correction, s.oneMinusPower(beta2, before));
  Value rate = s.div(lr, s.oneMinusPower(beta1, step));
  Value unbias = s.div(one, math::SqrtOp::create(inner, correction));

  // The first step of all has nothing to keep: it is one of AdamW.
  Value isFirst =
      arith::CmpFOp::create(inner, arith::CmpFPredicate::OLE, step, one);
  isFirst = BroadcastInDimOp::create(inner, type.clone(inner.getI1Type()),
                                     isFirst, ArrayRef<int64_t>());
  Value gradient = s.scale(1 / (1 - beta1), momentum);
  Value frozen = arith::SelectOp::create(
      inner, isFirst, s.scale(1 - beta2, s.mul(gradient, gradient)),
      s.mul(variance, forAll(inner, growth, type)));
  Value root = math::SqrtOp::create(inner, frozen);
  Value denominator = s.add(s.mul(root, forAll(inner, unbias, type)),
                            s.number(root, op.getEps().convertToDouble()));
  Value change = s.mul(forAll(inner, rate, type), s.div(momentum, denominator));
  Value zero = s.number(change, 0);
  Value isUsed = arith::CmpFOp::create(inner, arith::CmpFPredicate::UGT, frozen,
                                       zero); // or no number
  change = arith::SelectOp::create(inner, isUsed, change, zero);
  // What does not move gathers no momentum, which a step of AdamW would divide
  // by the variance of one gradient.
  Value next = arith::SelectOp::create(inner, isUsed, momentum, zero);
  Value kept = param;
  if (decay != 0)
    kept = s.mul(param, forAll(inner, s.sub(one, s.scale(decay, lr)), type));
  YieldOp::create(inner, ValueRange{s.sub(kept, change), next, frozen});
  return update;
}

/// The optimizer op that hands on `gradient`, maybe cast; null if none does.
static Operation *getScaler(Value gradient) {
  Operation *maker = gradient.getDefiningOp();
  while (isa_and_present<CastOpInterface>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  return isa_and_present<OptimizerOpInterface>(maker) ? maker : nullptr;
}

/// Whether ranks can average the momentum of `update`; an error if not.
LogicalResult AverageMomentum::check(Operation *update, Value param,
                                     Value grad) {
  Type element = getElementTypeOrSelf(param.getType());
  if (element.getIntOrFloatBitWidth() < 32)
    return update->emitOpError("has a parameter of ")
           << element
           << ", expected one of 32 bits or more, in which momentum is added "
              "up";
  if (Operation *scaler = getScaler(grad)) {
    InFlightDiagnostic diagnostic =
        update->emitOpError("has a gradient that is clipped or scaled, "
                            "expected the one of the backward pass");
    diagnostic.attachNote(scaler->getLoc()) << "this op hands it on";
    return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Updates that are regions
//===----------------------------------------------------------------------===//

namespace {

/// A value as `state` * s + `gradient` * g + `parameter` * p.
struct LinearTerms {
  double state = 0, gradient = 0, parameter = 0;

  LinearTerms times(double factor) const {
    return {factor * state, factor * gradient, factor * parameter};
  }
  LinearTerms plus(const LinearTerms &other) const {
    return {state + other.state, gradient + other.gradient,
            parameter + other.parameter};
  }
};

} // namespace

static std::optional<double> getNumber(Value value) {
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
      isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  if (auto repeated = value.getDefiningOp<BroadcastInDimOp>())
    return getNumber(repeated->getOperand(0));
  return std::nullopt;
}

/// The values of an update's body that are linear, with known factors, in the
/// state that is the argument `state`, the gradient and the parameter. Linear
/// in its ops.
static llvm::DenseMap<Value, LinearTerms> findLinear(BlockArgument state) {
  Block *body = state.getOwner();
  llvm::DenseMap<Value, LinearTerms> of;
  of[body->getArgument(0)] = {0, 0, 1};
  of[body->getArgument(1)] = {0, 1, 0};
  of[state] = {1, 0, 0};
  for (Operation &op : body->without_terminator()) {
    bool isSum = isa<arith::AddFOp, arith::SubFOp>(op);
    bool isQuotient = isa<arith::DivFOp>(op);
    if (!isSum && !isQuotient && !isa<arith::MulFOp, arith::NegFOp>(op))
      continue;
    Value result = op.getResult(0), left = op.getOperand(0),
          right = op.getOperands().back();
    if (result.getType() != state.getType())
      continue;
    if (isa<arith::NegFOp>(op)) {
      if (of.contains(left))
        of[result] = of.lookup(left).times(-1);
    } else if (isSum) {
      if (of.contains(left) && of.contains(right))
        of[result] = of.lookup(left).plus(
            of.lookup(right).times(isa<arith::SubFOp>(op) ? -1 : 1));
    } else {
      if (!of.contains(left) && !isQuotient)
        std::swap(left, right);
      std::optional<double> factor = getNumber(right);
      if (of.contains(left) && factor)
        of[result] = of.lookup(left).times(isQuotient ? 1 / *factor : *factor);
    }
  }
  return of;
}

/// Whether `value` is computed of `of`, in a block.
static bool dependsOn(Value value, Value of) {
  SmallVector<Value> worklist = {value};
  llvm::DenseSet<Value> seen = {value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next == of)
      return true;
    if (Operation *def = next.getDefiningOp())
      for (Value operand : def->getOperands())
        if (seen.insert(operand).second)
          worklist.push_back(operand);
  }
  return false;
}

/// The state of which the update makes momentum, as its number, and of what;
/// nothing if there is none. Sets `another` to the number of a further one that
/// is linear in the gradient.
static std::optional<std::pair<unsigned, LinearTerms>>
findMomentum(UpdateOp update, std::optional<unsigned> &another) {
  Block &body = update.getBody().front();
  Operation *yield = body.getTerminator();
  std::optional<std::pair<unsigned, LinearTerms>> found;
  for (unsigned i = 0; i < update.getNewStates().size(); ++i) {
    auto of =
        findLinear(body.getArgument(2 + i)).lookup(yield->getOperand(1 + i));
    if (of.gradient == 0)
      continue;
    if (of.state != 0 && !found)
      found = std::pair(i, of);
    else
      another = i;
  }
  return found;
}

/// Has the body go by the momentum that it is given in place of the gradient.
/// State that it makes of the gradient otherwise stays as it is, and where that
/// is 0, an element has never had a gradient: its momentum is 0.
static void useMomentum(UpdateOp update, unsigned momentum) {
  Block &body = update.getBody().front();
  Operation *yield = body.getTerminator();
  BlockArgument gradient = body.getArgument(1);
  BlockArgument given = body.addArgument(gradient.getType(), gradient.getLoc());
  yield->getOperand(1 + momentum).replaceAllUsesWith(given);
  ImplicitLocOpBuilder b =
      ImplicitLocOpBuilder::atBlockBegin(update.getLoc(), &body);
  Arithmetic s{b};
  Value next = given;
  for (unsigned i = 0; i < update.getNewStates().size(); ++i) {
    Value value = yield->getOperand(1 + i);
    if (!dependsOn(value, gradient))
      continue;
    BlockArgument kept = body.getArgument(2 + i);
    value.replaceAllUsesWith(kept);
    if (kept.getType() != given.getType())
      continue;
    Value none = s.number(kept, 0);
    Value isUsed = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, kept,
                                         none); // or no number
    next = arith::SelectOp::create(b, isUsed, next, none);
  }
  SmallVector<Operation *> ops = llvm::map_to_vector(
      body.without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty() && op->getResult(0) != next)
      op->erase();
  llvm::SmallPtrSet<Operation *, 8> made;
  for (Value value = next; value != given;) {
    made.insert(value.getDefiningOp());
    value = value.getDefiningOp()->getOperand(1);
  }
  if (next != given)
    given.replaceAllUsesExcept(next, made);
}

/// The number of updates that are regions; failure, with an error, where one
/// has momentum and is not linear in it.
FailureOr<int64_t> AverageMomentum::rewriteTraced(func::FuncOp step) {
  int64_t count = 0;
  SmallVector<UpdateOp> updates;
  step.walk([&](UpdateOp update) { updates.push_back(update); });
  for (UpdateOp update : updates) {
    std::optional<unsigned> another;
    std::optional<std::pair<unsigned, LinearTerms>> found =
        findMomentum(update, another);
    if (!found)
      continue;
    if (another)
      return update.emitOpError("has state #")
             << *another
             << " that is linear in the gradient beside momentum, state #"
             << found->first << ", expected one such state";
    if (failed(check(update, update.getParam(), update.getGrad())))
      return failure();
    auto &[momentum, of] = *found;
    useMomentum(update, momentum);
    Block &body = update.getBody().front();
    if (!body.getArgument(1).use_empty())
      return update.emitOpError("reads the gradient beside momentum, expected "
                                "an optimizer that goes by momentum alone");
    body.getArguments().back().replaceAllUsesWith(body.getArgument(1));
    body.eraseArgument(body.getNumArguments() - 1);
    ImplicitLocOpBuilder b(update.getLoc(), update);
    Arithmetic s{b};
    Value sum = s.add(s.scale(of.state, update.getInputs()[momentum]),
                      s.scale(of.gradient, update.getGrad()));
    if (of.parameter != 0)
      sum = s.add(sum, s.scale(of.parameter, update.getParam()));
    update.getGradMutable().assign(sum);
    std::string name = update.getOptimizer().value_or("traced").str();
    update.setOptimizer(name + " with averaged momentum");
    ++count;
  }
  return count;
}

//===----------------------------------------------------------------------===//
// SGD and AdamW
//===----------------------------------------------------------------------===//

/// The number of updates of one kind; failure, with an error, where one cannot
/// be rewritten.
template <typename Update>
FailureOr<int64_t> AverageMomentum::rewriteAll(func::FuncOp step) {
  SmallVector<Update> updates;
  step.walk([&](Update op) {
    if (hasMomentum(op))
      updates.push_back(op);
  });
  for (Update op : updates) {
    if (failed(check(op, op.getParam(), op.getGrad())))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Arithmetic s{b};
    UpdateOp update = createUpdate(b, op, getMomentum(s, op));
    op->replaceAllUsesWith(update->getResults());
    op->erase();
  }
  return static_cast<int64_t>(updates.size());
}

void AverageMomentum::runOnOperation() {
  func::FuncOp step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  FailureOr<int64_t> traced = rewriteTraced(step); // the others become regions
  if (failed(traced))
    return signalPassFailure();
  FailureOr<int64_t> sgd = rewriteAll<SgdUpdateOp>(step);
  if (failed(sgd))
    return signalPassFailure();
  FailureOr<int64_t> adamw = rewriteAll<AdamwUpdateOp>(step);
  if (failed(adamw))
    return signalPassFailure();
  if (*traced + *sgd + *adamw == 0) {
    step.emitOpError("has no update with momentum, expected one by "
                     "mpcomm.adamw_update, mpcomm.sgd_update or mpcomm.update");
    return signalPassFailure();
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("AverageMomentum")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("sgd", *sgd) << remark::metric("adamw", *adamw)
      << remark::metric("traced", *traced);
}
