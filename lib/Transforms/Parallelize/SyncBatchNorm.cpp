//===- SyncBatchNorm.cpp - batch norms over the batch of all ranks --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With mean m_r and variance v_r of rank r, all ranks having as many samples,
//   m = mean over r of m_r,   v = mean over r of v_r + (m_r - m)^2
// are those of all samples; squares are of differences, which do not cancel.
// The gradient's two means, of dy and of dy * xhat, are linear in the rank's:
// the gradient that the rank's own give is corrected by their distance from the
// global ones. That the sums of dy and dy * xhat are averaged is nothing new:
// they are the gradients of beta and gamma.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_SYNCBATCHNORMPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-sync-batch-norm"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Statistics of all ranks, and how many numbers of a rank are in them.
struct Statistics {
  Value mean, variance;
  double count;
};

class SyncBatchNorm
    : public mpcomm::impl::SyncBatchNormPassBase<SyncBatchNorm> {
public:
  using SyncBatchNormPassBase::SyncBatchNormPassBase;
  void runOnOperation() override;

private:
  FailureOr<int64_t> countRanks();
  Value average(ImplicitLocOpBuilder &b, Value value);
  void rewriteTraining(BatchNormTrainingOp op);
  void rewriteGrad(BatchNormGradOp op);
  void correctUnbiased(Value variance, double count);

  int64_t ranks = 0;
  /// By the global mean, which gradients read.
  llvm::DenseMap<Value, Statistics> synced;
  int64_t forward = 0, backward = 0, bytes = 0;
};

} // namespace

static Value makeSplat(ImplicitLocOpBuilder &b, Value like, double value) {
  auto type = cast<RankedTensorType>(like.getType());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(type,
                                b.getFloatAttr(type.getElementType(), value)));
}

/// The value before it was stored in fewer bits.
static Value getExact(Value value) {
  while (isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

FailureOr<int64_t> SyncBatchNorm::countRanks() {
  auto meshOp = dyn_cast_or_null<MeshOp>(
      SymbolTable::lookupSymbolIn(getOperation(), mesh));
  std::optional<int64_t> size =
      meshOp ? meshOp.getAxisSize(axis) : std::nullopt;
  if (!size) {
    getOperation().emitError()
        << "there is no mesh @" << mesh << " with an axis '" << axis
        << "', expected it where batch norms meet";
    return failure();
  }
  return *size;
}

/// The mean over the ranks of a result of the op that `b` is after: the
/// one that is there already, of a gradient, if it travels as it is.
Value SyncBatchNorm::average(ImplicitLocOpBuilder &b, Value value) {
  auto axes = b.getStrArrayAttr({StringRef(axis)});
  for (Operation *user : value.getUsers()) {
    auto known = dyn_cast<AllReduceOp>(user);
    if (!known || known.getInputs().size() != 1 || known.getMesh() != mesh ||
        known.getAxes() != axes || known.getReduction() != Reduction::Mean ||
        known.getWire())
      continue;
    if (&*b.getInsertionPoint() == known)
      b.setInsertionPointAfter(known);
    else
      known->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    return known.getResult(0);
  }
  bytes += mpcomm::detail::countBytes(value.getType());
  return AllReduceOp::create(
             b, value, FlatSymbolRefAttr::get(b.getContext(), mesh), axes,
             ReductionAttr::get(b.getContext(), Reduction::Mean), TypeAttr(),
             TypeAttr())
      .getResult(0);
}

/// Running variances are of samples: n / (n - 1) times the batch's. The factor
/// is in the program as a number, for the n of a rank.
void SyncBatchNorm::correctUnbiased(Value variance, double count) {
  double all = count * static_cast<double>(ranks);
  if (count <= 1)
    return;
  for (Operation *user : variance.getUsers()) {
    auto scale = dyn_cast<arith::MulFOp>(user);
    DenseFPElementsAttr factor;
    if (!scale || !matchPattern(scale.getRhs(), m_Constant(&factor)) ||
        !factor.isSplat())
      continue;
    auto number = factor.getSplatValue<APFloat>();
    APFloat expected(count / (count - 1));
    bool inexact;
    expected.convert(number.getSemantics(), APFloat::rmNearestTiesToEven,
                     &inexact);
    if (number != expected)
      continue;
    ImplicitLocOpBuilder b(scale.getLoc(), scale);
    scale.getRhsMutable().assign(makeSplat(b, scale.getRhs(), all / (all - 1)));
  }
}

void SyncBatchNorm::rewriteTraining(BatchNormTrainingOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  Value mean = average(b, op.getMean());
  Value apart = arith::SubFOp::create(b, op.getMean(), mean);
  Value spread = arith::MulFOp::create(b, apart, apart);
  Value total = arith::AddFOp::create(b, op.getVariance(), spread);
  Value variance = average(b, total);
  Value result = BatchNormInferenceOp::create(
      b, op.getResult().getType(), op.getInput(), op.getGamma(), op.getBeta(),
      mean, variance, op.getEpsAttr(), op.getFeatureDimAttr());
  op.getMean().replaceUsesWithIf(mean, [&](OpOperand &use) {
    return use.getOwner() != mean.getDefiningOp() &&
           use.getOwner() != apart.getDefiningOp();
  });
  op.getVariance().replaceAllUsesExcept(variance, total.getDefiningOp());
  op.getResult().replaceAllUsesWith(result);
  auto type = cast<RankedTensorType>(op.getInput().getType());
  double count = static_cast<double>(type.getNumElements()) /
                 static_cast<double>(type.getDimSize(op.getFeatureDim()));
  correctUnbiased(variance, count);
  synced[mean] = {mean, variance, count};
  ++forward;
}

void SyncBatchNorm::rewriteGrad(BatchNormGradOp op) {
  auto found = synced.find(getExact(op.getMean()));
  if (found == synced.end())
    return;
  const Statistics &all = found->second;
  ImplicitLocOpBuilder b(op.getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  Value root = math::SqrtOp::create(
      b, arith::AddFOp::create(
             b, all.variance,
             makeSplat(b, all.variance, op.getEps().convertToDouble())));
  Value scaled = arith::DivFOp::create(b, op.getGamma(), root);
  Value factor =
      arith::DivFOp::create(b, scaled, makeSplat(b, scaled, all.count));
  // What the rank's own sum is too large by, as a factor of xhat or of 1.
  auto excess = [&](Value own) -> Value {
    Value apart = arith::SubFOp::create(b, own, average(b, own));
    return arith::MulFOp::create(b, apart, factor);
  };
  Value ofGamma = excess(op.getGammaGrad()), ofBeta = excess(op.getBetaGrad());
  Value excessive = BatchNormInferenceOp::create(
      b, op.getInputGrad().getType(), op.getInput(), ofGamma, ofBeta, all.mean,
      all.variance, op.getEpsAttr(), op.getFeatureDimAttr());
  Value dx = arith::AddFOp::create(b, op.getInputGrad(), excessive);
  op.getInputGrad().replaceAllUsesExcept(dx, dx.getDefiningOp());
  ++backward;
}

void SyncBatchNorm::runOnOperation() {
  synced.clear();
  forward = backward = bytes = 0;
  FailureOr<int64_t> size = countRanks();
  if (failed(size))
    return signalPassFailure();
  ranks = *size;
  auto step = getOperation().lookupSymbol<func::FuncOp>(kTrainStep);
  if (ranks == 1 || !step || step.isExternal())
    return;
  SmallVector<BatchNormTrainingOp> norms;
  SmallVector<BatchNormGradOp> grads;
  for (Operation &op : step.getFunctionBody().front()) {
    if (auto norm = dyn_cast<BatchNormTrainingOp>(op))
      norms.push_back(norm);
    if (auto grad = dyn_cast<BatchNormGradOp>(op))
      grads.push_back(grad);
  }
  for (BatchNormTrainingOp norm : norms)
    rewriteTraining(norm);
  for (BatchNormGradOp grad : grads)
    rewriteGrad(grad);
  remark::analysis(step.getLoc(), remark::RemarkOpts::name("SyncBatchNorm")
                                      .category(DEBUG_TYPE)
                                      .function(step.getName()))
      << remark::metric("Forward", forward)
      << remark::metric("Backward", backward) << remark::metric("Bytes", bytes);
}
