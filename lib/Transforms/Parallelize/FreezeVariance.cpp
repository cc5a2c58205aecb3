//===- FreezeVariance.cpp - momentum instead of gradients -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_FREEZEVARIANCEPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-freeze-variance"

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

struct FreezeVariance : mpcomm::impl::FreezeVariancePassBase<FreezeVariance> {
  using FreezeVariancePassBase::FreezeVariancePassBase;
  void runOnOperation() override;
};

} // namespace

/// The region of the update: parameter, momentum of the step, the momentum and
/// the variance before it, number of the step, and learning rate.
static void buildBody(AdamwUpdateOp adamw, UpdateOp update) {
  SmallVector<Location> locations(update->getNumOperands(), adamw.getLoc());
  Block *body = new Block();
  update.getBody().push_back(body);
  body->addArguments(update->getOperandTypes(), locations);
  auto b = ImplicitLocOpBuilder::atBlockBegin(adamw.getLoc(), body);
  Arithmetic s{b};
  Value param = body->getArgument(0), momentum = body->getArgument(1);
  Value variance = body->getArgument(3);
  auto type = cast<RankedTensorType>(param.getType());
  double beta1 = adamw.getBeta1().convertToDouble();
  double beta2 = adamw.getBeta2().convertToDouble();
  double decay = adamw.getWeightDecay().convertToDouble();

  // As those of AdamW, factors for all elements are computed in f64.
  auto wide = RankedTensorType::get({}, b.getF64Type());
  auto widen = [&](Value scalar) -> Value {
    if (scalar.getType() == wide)
      return scalar;
    return arith::ExtFOp::create(b, wide, scalar);
  };
  auto forAll = [&](Value scalar) -> Value {
    auto element = type.clone(ArrayRef<int64_t>());
    if (scalar.getType() != element)
      scalar = arith::TruncFOp::create(b, element, scalar);
    return BroadcastInDimOp::create(b, type, scalar, ArrayRef<int64_t>());
  };
  Value step = widen(body->getArgument(4)), lr = widen(body->getArgument(5));
  Value one = s.number(step, 1);
  // Nothing was before the first step, and stays nothing.
  Value before = arith::MaximumFOp::create(b, s.sub(step, one), one);
  Value correction = s.oneMinusPower(beta2, step);
  Value growth = s.div(correction, s.oneMinusPower(beta2, before));
  Value rate = s.div(lr, s.oneMinusPower(beta1, step));
  Value unbias = s.div(one, math::SqrtOp::create(b, correction));

  Value frozen = s.mul(variance, forAll(growth));
  Value root = math::SqrtOp::create(b, frozen);
  Value denominator = s.add(s.mul(root, forAll(unbias)),
                            s.number(root, adamw.getEps().convertToDouble()));
  Value change = s.mul(forAll(rate), s.div(momentum, denominator));
  Value zero = s.number(change, 0);
  Value isUsed = arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, frozen,
                                       zero); // or no number
  change = arith::SelectOp::create(b, isUsed, change, zero);
  Value kept = param;
  if (decay != 0)
    kept = s.mul(param, forAll(s.sub(one, s.scale(decay, lr))));
  YieldOp::create(b, ValueRange{s.sub(kept, change), momentum, frozen});
}

void FreezeVariance::runOnOperation() {
  func::FuncOp step = getTrainStep(getOperation());
  if (!step)
    return signalPassFailure();
  SmallVector<AdamwUpdateOp> updates;
  step.walk([&](AdamwUpdateOp op) { updates.push_back(op); });
  if (updates.empty()) {
    step.emitOpError("has no mpcomm.adamw_update, expected one, whose variance "
                     "can stay as it is");
    return signalPassFailure();
  }
  for (AdamwUpdateOp op : updates) {
    if (auto maker = op.getGrad().getDefiningOp<OptimizerOpInterface>()) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("has a gradient that is clipped or scaled, expected "
                         "the one of the backward pass");
      diagnostic.attachNote(maker.getLoc()) << "this op hands it on";
      return signalPassFailure();
    }
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Arithmetic s{b};
    double beta1 = op.getBeta1().convertToDouble();
    Value momentum =
        s.add(s.scale(beta1, op.getExpAvg()), s.scale(1 - beta1, op.getGrad()));
    auto update = UpdateOp::create(
        b, op->getResultTypes(), op.getParam(), momentum,
        ValueRange{op.getExpAvg(), op.getExpAvgSq(), op.getStep(), op.getLr()},
        b.getStringAttr("1-bit Adam"));
    buildBody(op, update);
    op->replaceAllUsesWith(update->getResults());
    op->erase();
  }
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("FreezeVariance")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("updates", updates.size());
}
