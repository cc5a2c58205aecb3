//===- MPCommToLinalg.cpp - the pass convert-mpcomm-to-linalg -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mpcomm/Analysis/KernelGroups/OpNests.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Dialect/MPComm/Utils/F8Products.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm {
#define GEN_PASS_DEF_CONVERTMPCOMMTOLINALGPASS
#include "mpcomm/Conversion/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "convert-mpcomm-to-linalg"

using namespace mlir;
using namespace mpcomm;

/// Compute ops: those that say what they cost.
static bool isCompute(Operation *op) {
  return isa_and_nonnull<MPCommDialect>(op->getDialect()) &&
         isa<CostOpInterface>(op);
}

static bool isElementwiseOnTensors(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
}

void mpcomm::populateMPCommToLinalgPatterns(RewritePatternSet &patterns,
                                            int64_t rowsAtATime) {
  populateElementwiseToLinalgPatterns(patterns);
  populateMovementToLinalgPatterns(patterns);
  populateContractionToLinalgPatterns(patterns);
  populateReductionToLinalgPatterns(patterns, rowsAtATime);
  populateSoftmaxToLinalgPatterns(patterns);
  populateLayerNormToLinalgPatterns(patterns);
  populateActivationToLinalgPatterns(patterns);
  populateLossToLinalgPatterns(patterns);
  populateGatherToLinalgPatterns(patterns);
  populateOptimizerToLinalgPatterns(patterns);
  populateBatchNormToLinalgPatterns(patterns);
  populateSlidingWindowToMPRTPatterns(patterns);
  populateScalingToLinalgPatterns(patterns);
  populateDropoutToLinalgPatterns(patterns);
  populateRngToLinalgPatterns(patterns);
  populateTopKToLinalgPatterns(patterns);
  populateCumulativeToLinalgPatterns(patterns);
  populateAttentionToLinalgPatterns(patterns);
}

/// Lowers the compute ops of `root`, and folds the movement between them. The
/// ops of an update are lowered in its place.
static LogicalResult lowerAndFold(Operation *root,
                                  const FrozenRewritePatternSet &lower,
                                  const FrozenRewritePatternSet &fold) {
  inlineUpdates(root);
  ConversionTarget target(*root->getContext());
  target.markUnknownOpDynamicallyLegal([](Operation *op) {
    return !isCompute(op) && !isElementwiseOnTensors(op);
  });
  if (failed(applyPartialConversion(root, target, lower)))
    return failure();
  (void)applyPatternsGreedily(root, fold);
  return success();
}

namespace {

/// Lowers single ops as the pass does, and the two after it.
class LinalgLowering : public OpLoweringInterface {
public:
  explicit LinalgLowering(Dialect *dialect) : OpLoweringInterface(dialect) {}

protected:
  LogicalResult lower(ModuleOp module, bool fusesAttention) const override {
    std::call_once(isMade, [&] { makePatterns(module.getContext()); });
    if (failed(
            lowerAndFold(module, fusesAttention ? fusing : lowerings, folds)))
      return failure();
    (void)applyPatternsGreedily(module, canonicalization);
    IRRewriter rewriter(module.getContext());
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
    return success();
  }

private:
  void makePatterns(MLIRContext *context) const {
    RewritePatternSet lower(context), fuse(context), fold(context),
        canonical(context);
    populateMPCommToLinalgPatterns(lower);
    populateMPCommToLinalgPatterns(fuse, kRowsAtATimeOnGPU);
    populateAttentionToMPRTPatterns(fuse);
    populateFoldMovementPatterns(fold);
    for (Dialect *dialect : context->getLoadedDialects())
      dialect->getCanonicalizationPatterns(canonical);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      op.getCanonicalizationPatterns(canonical, context);
    lowerings = FrozenRewritePatternSet(std::move(lower));
    fusing = FrozenRewritePatternSet(std::move(fuse));
    folds = FrozenRewritePatternSet(std::move(fold));
    canonicalization = FrozenRewritePatternSet(std::move(canonical));
  }

  mutable std::once_flag isMade;
  mutable FrozenRewritePatternSet lowerings, fusing, folds, canonicalization;
};

} // namespace

void mpcomm::registerOpLowering(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MPCommDialect *dialect) {
    context->loadDialect<arith::ArithDialect, func::FuncDialect,
                         linalg::LinalgDialect, math::MathDialect,
                         mprt::MPRTDialect, tensor::TensorDialect>();
    dialect->addInterfaces<LinalgLowering>();
  });
}

namespace {

struct ConvertMPCommToLinalg
    : public mpcomm::impl::ConvertMPCommToLinalgPassBase<
          ConvertMPCommToLinalg> {
  using ConvertMPCommToLinalgPassBase::ConvertMPCommToLinalgPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (device != "host" && device != "cuda")
      return emitError(UnknownLoc::get(context))
             << "cannot convert for device '" << device
             << "': expected host or cuda";
    if (rowsAtATime < 1)
      return emitError(UnknownLoc::get(context))
             << "cannot add " << rowsAtATime.getValue()
             << " rows at a time, expected at least 1";
    RewritePatternSet lowerings(context), folds(context);
    populateMPCommToLinalgPatterns(lowerings, rowsAtATime);
    if (device == "cuda")
      populateAttentionToMPRTPatterns(lowerings);
    populateFoldMovementPatterns(folds);
    lower = FrozenRewritePatternSet(std::move(lowerings));
    fold = FrozenRewritePatternSet(std::move(folds));
    return success();
  }

  void runOnOperation() override {
    if (failed(lowerAndFold(getOperation(), lower, fold)))
      return signalPassFailure();
    // After folds, which would take the transposes back.
    if (multiplyF8 && multipliesF8(getOperation()))
      readNarrowOperands(getOperation());
    if (!multiplyF8 && isa<ModuleOp>(getOperation()))
      getOperation()->removeAttr(kMultiplyF8Attr);
  }

  FrozenRewritePatternSet lower, fold;
};

} // namespace
