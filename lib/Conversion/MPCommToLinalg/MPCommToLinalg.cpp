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
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mpcomm/Conversion/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_CONVERTMPCOMMTOLINALGPASS
#include "mpcomm/Conversion/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "convert-mpcomm-to-linalg"

using namespace mlir;
using namespace mpcomm;

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
  populateEmbeddingToLinalgPatterns(patterns);
  populateOptimizerToLinalgPatterns(patterns);
  populateBatchNormToLinalgPatterns(patterns);
  populateSlidingWindowToMPRTPatterns(patterns);
  populateScalingToLinalgPatterns(patterns);
  populateDropoutToLinalgPatterns(patterns);
  populateAttentionToLinalgPatterns(patterns);
}

/// Compute ops: those that say what they cost.
static bool isCompute(Operation *op) {
  return isa_and_nonnull<MPCommDialect>(op->getDialect()) &&
         isa<CostOpInterface>(op);
}

static bool isElementwiseOnTensors(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
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
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *op) {
      return !isCompute(op) && !isElementwiseOnTensors(op);
    });
    if (failed(applyPartialConversion(getOperation(), target, lower)))
      return signalPassFailure();
    (void)applyPatternsGreedily(getOperation(), fold);
  }

  FrozenRewritePatternSet lower, fold;
};

} // namespace
