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
    Type element = getElementTypeOrSelf(op.getParam().getType());
    if (element.getIntOrFloatBitWidth() < 32)
      return op.emitOpError("has a parameter of ")
             << element
             << ", expected one of 32 bits or more, in which momentum is "
                "added up";
    if (Operation *scaler = getScaler(op.getGrad())) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("has a gradient that is clipped or scaled, expected "
                         "the one of the backward pass");
      diagnostic.attachNote(scaler->getLoc()) << "this op hands it on";
      return failure();
    }
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
  FailureOr<int64_t> sgd = rewriteAll<SgdUpdateOp>(step);
  if (failed(sgd))
    return signalPassFailure();
  FailureOr<int64_t> adamw = rewriteAll<AdamwUpdateOp>(step);
  if (failed(adamw))
    return signalPassFailure();
  if (*sgd + *adamw == 0) {
    step.emitOpError("has no update with momentum, expected one by "
                     "mpcomm.adamw_update or mpcomm.sgd_update");
    return signalPassFailure();
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("AverageMomentum")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("sgd", *sgd) << remark::metric("adamw", *adamw);
}
