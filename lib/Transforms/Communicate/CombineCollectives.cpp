//===- CombineCollectives.cpp - collectives in buckets --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buckets of collectives that may share one, function by function.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockCombiner.h"
#include "Communicate/JointPlanning.h"
#include "Communicate/Model.h"
#include "mpcomm/Analysis/StepSignature.h"

namespace mpcomm {
#define GEN_PASS_DEF_COMBINECOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

namespace {
struct CombineCollectives
    : mpcomm::impl::CombineCollectivesPassBase<CombineCollectives> {
  using CombineCollectivesPassBase::CombineCollectivesPassBase;

  void runOnOperation() override {
    BucketLimits limits;
    auto orUnlimited = [](int64_t bytes) {
      return bytes > 0 ? bytes : BucketingProblem::unlimited;
    };
    for (auto *option : {&maxBucketBytes, &firstBucketBytes, &memoryBytes,
                         &peakBytes, &splitBytes})
      if (*option < 0) {
        emitError(getOperation().getLoc())
            << "expects sizes of at least 0 bytes, got " << option->getArgStr()
            << "=" << option->getValue();
        return signalPassFailure();
      }
    limits.capBytes = orUnlimited(maxBucketBytes);
    limits.firstBytes = firstBucketBytes;
    limits.memoryBytes = orUnlimited(memoryBytes);
    limits.splitBytes = splitBytes;
    limits.decomposes = decompose && numerics != Numerics::Exact;
    if (!compress.empty()) {
      std::optional<std::vector<WireFormat>> formats =
          WireFormat::getAll(&getContext(), compress);
      if (!formats) {
        emitError(getOperation().getLoc())
            << "cannot compress to '" << compress.getValue() << "', expected "
            << WireFormat::kNames;
        return signalPassFailure();
      }
      limits.compressions = std::move(*formats);
      limits.compressMinBytes = compressMinBytes;
    }

    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      combine(function, *model, limits);
    });
  }

private:
  void combine(FunctionOpInterface function, const CostModel &model,
               const BucketLimits &limits) {
    CombineOptions options{policy, limits, numerics, function.getName(),
                           reorder};
    bool hasCandidates = function
                             ->walk([](BucketableOpInterface) {
                               return WalkResult::interrupt();
                             })
                             .wasInterrupted();
    std::optional<StepModel> step;
    std::string why;
    if (hasCandidates) {
      step = getStepModel(function, model, why);
      if (!step)
        remark::missed(function.getLoc(), options.remarkNamed("NoModel"))
            << remark::reason("{0}", why);
    }
    limitPeak(function, step, options);
    if (step && reorder && policy == BucketPolicy::Solved &&
        chooseOrder(function, *step, model, options)) {
      step = getStepModel(function, model, why);
      limitPeak(function, step, options);
    }
    CombineStatistics statistics;
    for (Block &block : function.getFunctionBody())
      BlockCombiner(block, options, &model, step ? &*step : nullptr, statistics)
          .run();
    if (!statistics.before)
      return;
    remark::analysis(function.getLoc(),
                     options.remarkNamed("CombineCollectives"))
        << remark::metric("before", statistics.before)
        << remark::metric("after", statistics.after);
  }

  /// All tensors of a bucket are there before it starts, where alone each would
  /// be gone before the next is made.
  void limitPeak(FunctionOpInterface function,
                 const std::optional<StepModel> &step,
                 CombineOptions &options) {
    if (!step || peakBytes == 0)
      return;
    int64_t left = peakBytes - step->getPeakBytes();
    // No less than a part of a tensor that may be split.
    options.limits.peakBytes = std::max<int64_t>(
        {left, static_cast<int64_t>(llvm::alignTo(splitBytes, 64)), 1});
    remark::analysis(function.getLoc(), options.remarkNamed("BucketMemory"))
        << remark::metric("peak_bytes", step->getPeakBytes())
        << remark::metric("limit_bytes", int64_t(peakBytes))
        << remark::metric("bucket_bytes", options.limits.peakBytes);
  }

  /// True if the block now has another order.
  bool chooseOrder(FunctionOpInterface function, const StepModel &step,
                   const CostModel &model, const CombineOptions &options) {
    Region &body = function.getFunctionBody();
    SmallVector<BucketCandidate> candidates;
    if (body.hasOneBlock()) {
      CombineStatistics unused;
      candidates = BlockCombiner(body.front(), options, &model, &step, unused)
                       .getOnlyRun();
    }
    if (candidates.empty())
      return false;
    std::string why;
    std::optional<JointPlan> plan = mpcomm::chooseOrder(
        step, model, candidates, options.limits, maxNodes, why);
    if (!plan) {
      remark::missed(function.getLoc(), options.remarkNamed("OrderKept"))
          << remark::reason("{0}", why);
      return false;
    }
    remark::analysis(function.getLoc(), options.remarkNamed("Order"))
        << remark::metric("predicted_us", toMicros(plan->seconds))
        << remark::metric("first_us", toMicros(plan->firstSeconds))
        << remark::metric("bound_us", toMicros(plan->lowerBound))
        << remark::metric("order_bound_us", toMicros(plan->orderBound))
        << remark::metric("compute_us", toMicros(step.getComputeSeconds()))
        << remark::metric("tried", plan->tried)
        << remark::metric("reordered", plan->isReordered);
    return plan->isReordered;
  }
};
} // namespace
