//===- Optimizer.cpp - optimizer updates to linalg ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One elementwise generic per update. What does not depend on the element
// (bias corrections) is a 0-d generic, in f64: 1 - 0.999 loses half of f32's
// digits. It is the same for all parameters of a group, so CSE leaves one.
// An update with a region becomes the ops of the region, which other patterns
// lower and which fuse as others do.
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include <cmath>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;
using Values = ArrayRef<Value>;

namespace {

struct LowerSgdUpdate : public OpRewritePattern<SgdUpdateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SgdUpdateOp op,
                                PatternRewriter &rewriter) const override;
};

struct LowerAdamwUpdate : public OpRewritePattern<AdamwUpdateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AdamwUpdateOp op,
                                PatternRewriter &rewriter) const override;
};

} // namespace

LogicalResult LowerSgdUpdate::matchAndRewrite(SgdUpdateOp op,
                                              PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getParam().getType());
  Type element = type.getElementType();
  LinalgBuilder linalg(rewriter, markOrigin(op), type.getShape());
  bool hasBuffer = static_cast<bool>(op.getMomentumBuffer());
  double momentum =
      op.getMomentum() ? op.getMomentum()->convertToDouble() : 0.0;
  double decay = op.getWeightDecay().convertToDouble();

  SmallVector<LinalgBuilder::Operand> inputs{linalg.full(op.getParam()),
                                             linalg.full(op.getGrad()),
                                             linalg.scalar(op.getLr())};
  if (hasBuffer)
    inputs.push_back(linalg.full(op.getMomentumBuffer()));
  SmallVector<Type> elements(hasBuffer ? 2 : 1, element);
  auto body = [&](B &b, Values v) -> SmallVector<Value> {
    Scalars s{b, getComputeType(element)};
    Value param = v[0], step = v[1], lr = s.cast(v[2]);
    SmallVector<Value> results(1);
    if (decay != 0.0)
      step = s.add(step, s.scale(decay, param));
    if (hasBuffer) {
      Value buffer = s.add(s.scale(momentum, v[3]), step);
      step = op.getNesterov() ? s.add(step, s.scale(momentum, buffer)) : buffer;
      results.push_back(buffer);
    }
    results[0] = s.sub(param, s.mul(lr, step));
    return results;
  };
  rewriter.replaceOp(op, linalg.mapSeveral(inputs, elements, body));
  return success();
}

LogicalResult
LowerAdamwUpdate::matchAndRewrite(AdamwUpdateOp op,
                                  PatternRewriter &rewriter) const {
  auto type = cast<RankedTensorType>(op.getParam().getType());
  Type element = type.getElementType();
  Type compute = getComputeType(element);
  Location loc = markOrigin(op);
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double eps = op.getEps().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();

  // lr / (1 - beta1^step), 1 / sqrt(1 - beta2^step) and 1 - lr decay.
  LinalgBuilder scalar(rewriter, markOrigin(op->getLoc(), "adamw_step"), {});
  SmallVector<Value> scalars = scalar.mapSeveral(
      {scalar.full(op.getStep()), scalar.full(op.getLr())},
      {compute, compute, compute}, [&](B &b, Values v) -> SmallVector<Value> {
        Scalars s{b, b.getF64Type()};
        Value one = s.constant(1.0);
        Value step = s.cast(v[0]), lr = s.cast(v[1]);
        auto correction = [&](double beta) -> Value {
          if (beta <= 0.0) // beta^step = 0
            return one;
          Value power = math::ExpOp::create(b, s.scale(std::log(beta), step));
          return s.sub(one, power);
        };
        Value root = math::SqrtOp::create(b, correction(beta2));
        return {s.div(lr, correction(beta1)), s.div(one, root),
                s.sub(one, s.scale(decay, lr))};
      });

  LinalgBuilder linalg(rewriter, loc, type.getShape());
  auto body = [&](B &b, Values v) -> SmallVector<Value> {
    Scalars s{b, compute};
    Value param = v[0], grad = v[1];
    Value m = s.add(s.scale(beta1, v[2]), s.scale(1.0 - beta1, grad));
    Value square = s.mul(grad, grad);
    Value sq = s.add(s.scale(beta2, v[3]), s.scale(1.0 - beta2, square));
    Value root = math::SqrtOp::create(b, sq);
    Value denominator = s.add(s.mul(root, v[5]), s.constant(eps));
    Value change = s.mul(v[4], s.div(m, denominator));
    Value kept = decay == 0.0 ? param : s.mul(param, v[6]);
    return {s.sub(kept, change), m, sq};
  };
  SmallVector<LinalgBuilder::Operand> inputs{
      linalg.full(op.getParam()),  linalg.full(op.getGrad()),
      linalg.full(op.getExpAvg()), linalg.full(op.getExpAvgSq()),
      linalg.scalar(scalars[0]),   linalg.scalar(scalars[1])};
  inputs.push_back(linalg.scalar(scalars[2]));
  rewriter.replaceOp(
      op, linalg.mapSeveral(inputs, {element, element, element}, body));
  return success();
}

void mpcomm::inlineUpdates(Operation *root) {
  IRRewriter rewriter(root->getContext());
  root->walk([&](UpdateOp op) {
    Block &body = op.getBody().front();
    Location loc = markOrigin(op);
    for (Operation &inner : body)
      inner.setLoc(loc);
    Operation *yield = body.getTerminator();
    rewriter.inlineBlockBefore(&body, op, op.getOperands());
    rewriter.replaceOp(op, yield->getOperands());
    rewriter.eraseOp(yield);
  });
}

void mpcomm::populateOptimizerToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerSgdUpdate, LowerAdamwUpdate>(patterns.getContext());
}
