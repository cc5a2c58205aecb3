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
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

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

/// A share of 1, for remarks.
static std::string toShare(double share) {
  return llvm::formatv("{0:F3}", share).str();
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
    // Programs that meet are simulated together.
    llvm::DenseSet<Operation *> mapped;
    for (auto program : getOperation().getOps<ProgramOp>()) {
      for (Attribute name : program.getFunctions())
        mapped.insert(SymbolTable::lookupNearestSymbolFrom(
            program, cast<FlatSymbolRefAttr>(name)));
      explain(program, *model);
    }
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      predict(function, *model);
      bool communicates = function
                              ->walk([](CollectiveOpInterface) {
                                return WalkResult::interrupt();
                              })
                              .wasInterrupted();
      if (communicates && !mapped.contains(function))
        explain(function, *model);
    });
  }

private:
  /// Reports the kernels that mpcomm-form-kernels will make of a function.
  static void predict(FunctionOpInterface function, const CostModel &model) {
    auto predicted = remark::analysis(function->getLoc(),
                                      remark::RemarkOpts::name("Predicted")
                                          .category("mpcomm-form-kernels")
                                          .function(function.getName()));
    if (!predicted)
      return; // nobody listens
    std::string why;
    std::optional<StepModel> step = getStepModel(function, model, why);
    if (!step) {
      predicted << remark::reason("not modelled: {0}", why);
      return;
    }
    predicted << remark::metric("Function", function.getName())
              << remark::metric("Launches", step->getNumKernels())
              << remark::metric("Bytes", step->getKernelBytes())
              << remark::metric("ArenaBytes", step->getArenaBytes());
  }

  /// Explains an mpcomm.program, or a function that all ranks run.
  void explain(Operation *symbol, const CostModel &model) {
    StringRef name = SymbolTable::getSymbolName(symbol).getValue();
    auto summary = remark::analysis(
        symbol->getLoc(),
        remark::RemarkOpts::name("Step").category(DEBUG_TYPE).function(name));
    if (!summary)
      return; // nobody listens
    std::string why;
    std::optional<ProgramModel> program = getProgramModel(symbol, model, why);
    SimResult result;
    if (program) {
      result = simulate(program->buildSimProblem(model));
      why = result.error;
    }
    if (!why.empty()) {
      summary << remark::reason("not simulated: {0}", why);
      return;
    }
    summary << remark::metric("step_us", toMicros(result.seconds));
    if (isa<FunctionOpInterface>(symbol)) {
      explainCollectives(program->getStep(0), result.classes.front());
      explainRank(summary, result.classes.front());
    } else {
      explainRanks(*program, result);
      if (auto figures = getPipelineFigures(*program, result))
        summary << remark::metric("bubble", toShare(figures->bubble));
    }
    summary << remark::metric("bound_us", toMicros(result.lowerBound));
  }

  static void explainRank(mlir::remark::detail::InFlightRemark &remark,
                          const SimClassResult &rank) {
    remark << remark::metric("compute_us",
                             toMicros(rank.compute + rank.slowdown))
           << remark::metric("exposed_us", toMicros(rank.exposed))
           << remark::metric("peak_bytes", rank.peakBytes);
  }

  /// A remark for each function of a program: places that run one are equal.
  void explainRanks(const ProgramModel &program, const SimResult &result) {
    llvm::DenseSet<Operation *> done;
    for (auto [i, rank] : llvm::enumerate(result.classes)) {
      FunctionOpInterface function = program.getRankClasses()[i].function;
      if (!done.insert(function).second)
        continue;
      auto summary = remark::analysis(function.getLoc(),
                                      remark::RemarkOpts::name("Rank")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()));
      explainRank(summary, rank);
      explainCollectives(program.getStep(i), rank);
    }
  }

  void explainCollectives(const StepModel &step, const SimClassResult &rank) {
    auto options = remark::RemarkOpts::name("Communication")
                       .category(DEBUG_TYPE)
                       .function(step.getFunction().getName());
    for (auto [collective, times] :
         llvm::zip_equal(step.getCollectives(), rank.collectives))
      explain(collective, times, step, options);
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
