//===- ExplainCommunication.cpp - what is exposed, and why ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A remark for each collective of a simulated step.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Scheduling/Simulator.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_EXPLAINCOMMUNICATIONPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-explain-communication"

using namespace mlir;
using namespace mpcomm;

/// The op that a reason speaks of, for people: its name and where it is from.
static std::string describe(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "'" << op->getName() << "'";
  forEachPlace(op->getLoc(), [&, isFirst = true](StringRef place) mutable {
    if (isFirst)
      os << " at " << place;
    isFirst = false;
  });
  return text;
}

namespace {

struct ExplainCommunication
    : mpcomm::impl::ExplainCommunicationPassBase<ExplainCommunication> {
  using ExplainCommunicationPassBase::ExplainCommunicationPassBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      bool communicates = function
                              ->walk([](CollectiveOpInterface) {
                                return WalkResult::interrupt();
                              })
                              .wasInterrupted();
      if (communicates)
        explain(function, *model);
    });
  }

private:
  void explain(FunctionOpInterface function, const CostModel &model) {
    auto named = [&](StringRef name) {
      return remark::RemarkOpts::name(name)
          .category(DEBUG_TYPE)
          .function(function.getName());
    };
    auto summary = remark::analysis(function.getLoc(), named("Step"));
    if (!summary)
      return; // nobody listens
    std::string why;
    std::optional<StepModel> step = getStepModel(function, model, why);
    SimResult result;
    if (step) {
      result = simulate(step->buildSimProblem(model));
      why = result.error;
    }
    if (!why.empty()) {
      summary << remark::reason("not simulated: {0}", why);
      return;
    }
    const SimClassResult &rank = result.classes.front();
    for (auto [collective, times] :
         llvm::zip_equal(step->getCollectives(), rank.collectives))
      explain(collective, times, *step, named("Communication"));
    summary << remark::metric("step_us", toMicros(result.seconds))
            << remark::metric("compute_us", toMicros(rank.compute))
            << remark::metric("exposed_us", toMicros(rank.exposed))
            << remark::metric("bound_us", toMicros(result.lowerBound))
            << remark::metric("peak_bytes", rank.peakBytes);
  }

  void explain(const StepCollective &collective,
               const SimCollectiveResult &times, const StepModel &step,
               remark::RemarkOpts options) {
    CollectiveOpInterface op = collective.op;
    std::string detail;
    if (times.reasonIndex >= 0) {
      if (times.reason == SimReason::StreamOrder)
        detail = describe(step.getCollectives()[times.reasonIndex].op);
      else
        detail = describe(step.getInstructions()[times.reasonIndex].op);
    }
    auto remark = remark::analysis(op->getLoc(), options);
    remark << remark::metric("kind",
                             stringifyCollectiveKind(op.getCollectiveKind()))
           << remark::metric("bytes", collective.bytes)
           << remark::metric("tensors", collective.tensors)
           << remark::metric("algorithm",
                             stringifyCollectiveAlgorithm(collective.algorithm))
           << remark::metric("predicted_us", toMicros(collective.getSeconds()))
           << remark::metric("hidden_us", toMicros(times.hidden))
           << remark::metric("exposed_us", toMicros(times.exposed))
           << remark::metric("reason", StringRef(toString(times.reason)));
    if (!detail.empty())
      remark << remark::metric("detail", detail);
  }
};

} // namespace
