//===- ScheduleOverlap.cpp - an order that hides communication ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the overlap problem of a function, asks the scheduler, and puts the
// block into the order found.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "Communicate/OverlapPlanning.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_SCHEDULEOVERLAPPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-schedule-overlap"

using namespace mlir;
using namespace mpcomm;

namespace {

struct ScheduleOverlap
    : mpcomm::impl::ScheduleOverlapPassBase<ScheduleOverlap> {
  using ScheduleOverlapPassBase::ScheduleOverlapPassBase;

  void runOnOperation() override {
    if (memoryBytes < 0) {
      emitError(getOperation().getLoc())
          << "expects memory-bytes of at least 0, got "
          << memoryBytes.getValue();
      return signalPassFailure();
    }
    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      bool hasAsync =
          function->walk([](AsyncOp) { return WalkResult::interrupt(); })
              .wasInterrupted();
      if (hasAsync)
        schedule(function, *model);
    });
  }

private:
  void schedule(FunctionOpInterface function, const CostModel &model) {
    auto named = [&](StringRef name) {
      return remark::RemarkOpts::name(name)
          .category(DEBUG_TYPE)
          .function(function.getName());
    };
    auto leaveAlone = [&](StringRef why) {
      remark::missed(function.getLoc(), named("LeftAlone"))
          << remark::reason("{0}", why);
    };
    // Ranks that run other functions rely on the order of this one.
    bool isStage =
        function
            ->walk([](Operation *op) {
              auto collective = dyn_cast<CollectiveOpInterface>(op);
              return collective && mpcomm::detail::isMessage(
                                       collective.getCollectiveKind())
                         ? WalkResult::interrupt()
                         : WalkResult::advance();
            })
            .wasInterrupted();
    if (isStage)
      return leaveAlone("sends and receives are in the order of a schedule");
    std::string why;
    std::optional<StepModel> step = getStepModel(function, model, why);
    if (!step)
      return leaveAlone(why);
    std::optional<OverlapGraph> graph =
        OverlapGraph::get(*step, model, maxNodes, why);
    if (!graph)
      return leaveAlone(why);
    OverlapProblem &problem = graph->problem;
    if (memoryBytes > 0)
      problem.memoryBound = memoryBytes;
    OverlapOptions options;
    options.reorderCompute = reorderCompute;
    // A search step simulates: bound the nodes that the whole search visits.
    constexpr size_t nodesOfSearch = 100000;
    options.searchSteps = static_cast<int>(std::min<size_t>(
        searchSteps,
        nodesOfSearch / std::max<size_t>(problem.nodes.size(), 1)));
    OverlapSchedule found = scheduleList(problem, options);
    int64_t inputPeak = found.inputPeakBytes;
    std::string wrong = found.error;
    if (wrong.empty() && memoryBytes <= 0)
      graph->apply(found);
    else if (wrong.empty() &&
             !applyBounded(*graph, found, function, model, options))
      wrong = "no order found keeps the memory bound";
    if (!wrong.empty() && memoryBytes > 0 && inputPeak > memoryBytes)
      emitWarning(function.getLoc())
          << "@" << function.getName() << " takes " << inputPeak
          << " bytes at its peak, expected at most the "
          << memoryBytes.getValue()
          << " of memory-bytes: no order of it that was found keeps to that";
    if (!wrong.empty())
      return leaveAlone(wrong);
    remark::analysis(function.getLoc(), named("ScheduleOverlap"))
        << remark::metric("predicted_us", toMicros(found.seconds))
        << remark::metric("input_us", toMicros(found.inputSeconds))
        << remark::metric("unbounded_us", toMicros(found.unboundedSeconds))
        << remark::metric("memory_cost_us",
                          toMicros(found.seconds - found.unboundedSeconds))
        << remark::metric("bound_us", toMicros(problem.lowerBound()))
        << remark::metric("peak_bytes", found.peakBytes)
        << remark::metric("unbounded_peak_bytes", found.unboundedPeakBytes)
        << remark::metric("input_peak_bytes", found.inputPeakBytes);
  }

  /// Another order may fuse other ops, whose operands then live longer than
  /// the problem says. So the block is read anew, and where it takes too much,
  /// scheduled anew: with as much less, then with computation where it is.
  /// False, with the block as it was, where no try keeps the bound.
  bool applyBounded(OverlapGraph &graph, OverlapSchedule &found,
                    FunctionOpInterface function, const CostModel &model,
                    OverlapOptions options) {
    auto isKept = [&] {
      if (!found.error.empty())
        return false;
      graph.apply(found);
      std::string why;
      std::optional<StepModel> step = getStepModel(function, model, why);
      if (step)
        found.peakBytes = step->getPeakBytes();
      if (found.peakBytes <= memoryBytes)
        return true;
      graph.undo();
      return false;
    };
    if (isKept())
      return true;
    double unbounded = found.unboundedSeconds;
    int64_t bytes = found.unboundedPeakBytes;
    auto scheduleAnew = [&](int64_t bound) {
      graph.problem.memoryBound = bound;
      found = scheduleList(graph.problem, options);
      found.unboundedSeconds = unbounded;
      found.unboundedPeakBytes = bytes;
      return isKept();
    };
    if (scheduleAnew(2 * memoryBytes - found.peakBytes))
      return true;
    options.reorderCompute = false;
    return scheduleAnew(memoryBytes);
  }
};

} // namespace
